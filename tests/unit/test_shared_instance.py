"""The instance that test files share: damage fails the file that caused it, and no other file receives the instance."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.support.import_graph import ROOT
from tests.support.instances.shared import (
    FILES,
    SPARK_FILES,
    SharedInstance,
    SharersTogether,
)

COMPLAINT = "2026-11-26T00:34:41.217Z WARNING engine.managed.trimming {}\n"


class Stub:
    """An instance without processes."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.log = data_dir / "logs" / "broker-1.log"
        self.log.parent.mkdir(parents=True)
        self.log.write_text("")
        self.pids = {"broker-1": 10, "spark": 0}
        self.is_stopped = False
        self.does_not_run = ""

    def healthy(self) -> bool:
        return True

    def control(self, verb: str) -> dict[str, Any]:
        assert verb == "status"
        return {"children": [{"name": name, "pid": pid} for name, pid in self.pids.items()]}

    def wait_running(self, name: str) -> None:
        if name == self.does_not_run:
            raise TimeoutError(name)

    def logs(self) -> str:
        return self.log.read_text()

    def complain(self, text: str) -> None:
        with self.log.open("a") as log:
            log.write(COMPLAINT.format(text))

    def stop(self) -> None:
        self.is_stopped = True


@pytest.fixture
def started() -> list[Stub]:
    return []


@pytest.fixture
def shared(tmp_path: Path, started: list[Stub]) -> Iterator[SharedInstance]:
    def start() -> Any:
        started.append(Stub(tmp_path / str(len(started))))
        return started[-1]

    made = SharedInstance(start)
    yield made
    made.close()
    assert all(stub.is_stopped for stub in started)


def test_files_share_one_instance_in_turn(shared: SharedInstance, started: list[Stub]) -> None:
    for pid in (0, 7):
        with shared.used() as instance:
            assert cast(Any, instance) is started[0]
            started[0].pids["spark"] = pid  # spark starts and ends by itself
    assert len(started) == 1


def test_a_complaint_fails_the_file_that_provoked_it_and_no_later_one(
    shared: SharedInstance, started: list[Stub]
) -> None:
    with pytest.raises(AssertionError, match="rolled"), shared.used():
        started[0].complain("rolled")
    with shared.used(["meant"]):
        started[0].complain("as meant")
    with shared.used():
        pass
    assert len(started) == 1


def test_a_part_that_ended_fails_its_file_and_the_next_file_receives_a_new_instance(
    shared: SharedInstance, started: list[Stub]
) -> None:
    with pytest.raises(AssertionError, match="ended or started anew"), shared.used():
        started[0].pids["broker-1"] = 11
    assert started[0].is_stopped
    with shared.used(spoiled=True) as instance:
        assert cast(Any, instance) is started[1]
    with shared.used() as instance:
        assert cast(Any, instance) is started[2]


def test_after_a_file_that_kills_parts_all_parts_must_run_again(
    shared: SharedInstance, started: list[Stub]
) -> None:
    with shared.harmed():
        started[0].pids["broker-1"] = 11
    with pytest.raises(TimeoutError, match="broker-1"), shared.harmed():
        started[0].does_not_run = "broker-1"
    assert started[0].is_stopped
    with shared.harmed() as instance:
        assert cast(Any, instance) is started[1]


def test_the_files_that_share_the_instance_are_listed_and_exist() -> None:
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if "unit" not in path.parts]
    for fixture, files in FILES.items():
        uses = f"{fixture}: SharedInstance"
        assert {str(path.relative_to(ROOT)) for path in tests if uses in path.read_text()} == set(
            files
        )


def test_browser_tests_of_the_instance_with_traffic_have_a_folder_of_their_own() -> None:
    files = list((ROOT / "tests" / "e2e").rglob("test_*.py"))
    uses = {path for path in files if "life: Life" in path.read_text()}
    assert uses == {path for path in files if path.parent.name == "life"}
    scheduler = SharersTogether.__new__(SharersTogether)
    assert {scheduler._split_scope(f"{path.relative_to(ROOT)}::test") for path in uses} == {"life"}
    assert {scheduler._split_scope(f"{file}::test") for file in SPARK_FILES} == {"spark"}
    assert all((ROOT / file).exists() for file in SPARK_FILES)
    assert scheduler._split_scope("tests/e2e/lists/test_tenants.py::test") == "instance"


def test_files_that_share_the_instance_run_in_one_process() -> None:
    scheduler = SharersTogether.__new__(SharersTogether)
    for fixture, files in FILES.items():
        assert {scheduler._split_scope(f"{file}::test[a::b]") for file in files} == {fixture}
    other = "tests/crash/test_replicas.py"
    assert scheduler._split_scope(f"{other}::test") == other
