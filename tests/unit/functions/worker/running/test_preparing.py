"""The code of an instance is in a folder of its own, whatever the user calls the file, and is removed behind it."""

from pathlib import Path

import pytest

from engine.base.disk.files import ThreadLane
from engine.functions.definitions import functions_pb2 as pb
from engine.functions.worker.running import preparing
from engine.functions.worker.running.function_tokens import LIFETIME_S, RENEWED_EVERY_S
from engine.functions.worker.running.preparing import Preparation
from tests.support.functions.several_workers import details
from tests.support.waiting import until


async def urls() -> str:
    return "pulsar://a:1"


class Fetched:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, url: str, target: Path) -> None:
        self.asked.append(url)
        target.write_text("code")


def assignment(package: str, file_name: str = "f.py") -> pb.Assignment:
    metadata = pb.FunctionMetaData(
        functionDetails=details("f"),
        packageLocation=pb.PackageLocationMetaData(packagePath=package, originalFileName=file_name),
    )
    return pb.Assignment(instance=pb.Instance(functionMetaData=metadata, instanceId=0))


@pytest.mark.parametrize(
    ("file_name", "stored"),
    [
        ("f.py", "f.py"),
        ("../../f.py", "f.py"),
        ("/etc/x.whl", "x.whl"),
        ("..", "function.py"),
        ("", "function.py"),
    ],
)
async def test_the_code_stays_in_its_folder_and_goes_with_the_instance(
    tmp_path: Path, file_name: str, stored: str
) -> None:
    lane = ThreadLane("test")
    try:
        prepare = Preparation(tmp_path / "here", lane, Fetched(), urls, {"cluster": "c"})
        async with prepare(assignment("function://public/default/f@1", file_name)) as spec:
            assert spec.package is not None
            assert spec.package.name == stored
            assert spec.package.resolve().is_relative_to(tmp_path / "here")
            assert spec.package.read_text() == "code"
            assert not spec.folder.exists()
            assert (spec.service_url, spec.cluster) == ("pulsar://a:1", "c")
        assert list((tmp_path / "here").iterdir()) == []
    finally:
        lane.close()


async def test_a_built_in_connector_has_no_code(tmp_path: Path) -> None:
    lane = ThreadLane("test")
    fetched = Fetched()
    try:
        async with Preparation(tmp_path, lane, fetched, urls)(assignment("builtin://x")) as spec:
            assert spec.package is None
        assert fetched.asked == []
    finally:
        lane.close()


async def test_files_of_an_earlier_process_are_removed(tmp_path: Path) -> None:
    lane = ThreadLane("test")
    left = tmp_path / "here"
    (left / "a").mkdir(parents=True)
    (left / "a" / "code.py").write_text("x")
    try:
        await Preparation(left, lane, Fetched(), urls).clear()
        assert not left.exists()
    finally:
        lane.close()


class Tokens:
    """Issues numbered tokens."""

    def __init__(self) -> None:
        self.issued = 0

    def issue(self, metadata: pb.FunctionMetaData) -> str:
        self.issued += 1
        return f"token-{self.issued}"


async def test_the_token_is_in_a_private_file_beside_the_code(tmp_path: Path) -> None:
    lane = ThreadLane("test")
    try:
        prepare = Preparation(tmp_path / "here", lane, Fetched(), urls, tokens=Tokens())  # type: ignore[arg-type]
        async with prepare(assignment("function://public/default/f@1")) as spec:
            assert spec.token_file is not None
            assert spec.token_file.read_text().startswith("token-")
            assert spec.token_file.stat().st_mode & 0o777 == 0o600
        assert not spec.token_file.exists()
    finally:
        lane.close()


async def test_a_running_instance_has_a_new_token_long_before_the_last_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert RENEWED_EVERY_S * 2 < LIFETIME_S
    monkeypatch.setattr(preparing, "RENEWED_EVERY_S", 0.01)
    lane = ThreadLane("test")
    try:
        prepare = Preparation(tmp_path / "here", lane, Fetched(), urls, tokens=Tokens())  # type: ignore[arg-type]
        async with prepare(assignment("function://public/default/f@1")) as spec:
            path = spec.token_file
            assert path is not None
            first = path.read_text()
            await until(lambda: path.read_text() != first)
            assert path.stat().st_mode & 0o777 == 0o600
    finally:
        lane.close()
