"""A CI stage runs failed tests once more; the summary says which were unstable and whether the run is green."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.ci.stage import RERUNS_MAX, TESTS_FAILED, run_stage
from tests.ci.summary import UNSTABLE_MAX, summarize
from tests.support.import_graph import ROOT

PASSES_AT_ITS_SECOND_RUN = """
from pathlib import Path
seen = Path(__file__).with_name("seen")

def test_passes(): pass

def test_unstable():
    first = not seen.exists()
    seen.touch()
    assert not first, "only the first run fails"
"""
FAILS = "def test_broken(): assert False, 'always'"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty project of its own the working directory."""
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # a start takes a third of the time
    return tmp_path


NEEDS_THE_ONE_BEFORE = """
from pathlib import Path
made = []
seen = Path(__file__).with_name("seen")

def test_makes(): made.append(1)

def test_uses():
    first = not seen.exists()
    seen.touch()
    assert made and not first
"""


class Runs:
    """Runs of pytest with given results: the stage's first, then those of files."""

    def __init__(self, *results: tuple[int, dict[str, str]]) -> None:
        self._results = list(results)
        self.arguments: list[Sequence[str]] = []

    def __call__(self, arguments: Sequence[str], path: Path) -> int:
        self.arguments.append(arguments)
        status, failures = self._results.pop(0)
        path.write_text(json.dumps(failures))
        return status


def failures_of(*nodes: str) -> dict[str, str]:
    return dict.fromkeys(nodes, "call: x")


def test_a_test_that_passes_when_run_again_is_unstable_and_does_not_fail_the_stage(
    project: Path,
) -> None:
    (project / "test_it.py").write_text(PASSES_AT_ITS_SECOND_RUN)
    outcome = run_stage(["-q", "."])
    assert (outcome.status, list(outcome.failed)) == (0, [])
    (text,) = outcome.unstable.values()
    assert "only the first run fails" in text


def test_a_test_that_fails_twice_fails_the_stage(project: Path) -> None:
    (project / "test_it.py").write_text(PASSES_AT_ITS_SECOND_RUN)
    (project / "test_other.py").write_text(FAILS)
    outcome = run_stage(["-q", "-p", "xdist", "-n", "2", "."])
    assert outcome.status == TESTS_FAILED
    assert [node.rpartition("::")[2] for node in outcome.failed] == ["test_broken"]
    assert [node.rpartition("::")[2] for node in outcome.unstable] == ["test_unstable"]


def test_a_test_that_needs_the_one_before_it_is_run_again_with_it(project: Path) -> None:
    (project / "test_it.py").write_text(NEEDS_THE_ONE_BEFORE)
    outcome = run_stage(["-q", "."])
    assert outcome.status == 0
    assert [node.rpartition("::")[2] for node in outcome.unstable] == ["test_uses"]


def test_a_run_that_did_not_end_is_never_repaired_by_second_runs(project: Path) -> None:
    (project / "test_it.py").write_text("import nothing_of_that_name")
    outcome = run_stage(["-q", "."])
    assert outcome.status not in (0, TESTS_FAILED)
    assert outcome.unstable == {}


@pytest.mark.parametrize("status", [2, 3, 4, 5, -9])
def test_errors_of_the_run_itself_are_kept(status: int) -> None:
    runs = Runs((status, failures_of("tests/unit/a.py::test")))
    assert run_stage(["-q", "tests/unit"], runs).status == status
    assert len(runs.arguments) == 1


@pytest.mark.parametrize("again", [(2, {}), (1, {}), (-9, {})])
def test_a_second_run_that_did_not_end_repairs_nothing(again: tuple[int, dict[str, str]]) -> None:
    first = failures_of("tests/unit/a.py::test")
    outcome = run_stage(["-q", "tests/unit"], Runs((TESTS_FAILED, first), again))
    assert (outcome.status, list(outcome.failed)) == (TESTS_FAILED, list(first))


def test_more_failures_than_chance_explains_are_not_run_again() -> None:
    failures = failures_of(*(f"tests/unit/a.py::test[{i}]" for i in range(RERUNS_MAX + 1)))
    outcome = run_stage(["-q", "tests/unit"], Runs((TESTS_FAILED, failures)))
    assert outcome.status == TESTS_FAILED
    assert list(outcome.failed) == list(failures)


def test_second_runs_keep_the_options_and_run_a_file_once_in_one_process() -> None:
    first = failures_of("a.py::one", "a.py::two", "b.py::one")
    runs = Runs((TESTS_FAILED, first), (TESTS_FAILED, failures_of("a.py::two")), (0, {}))
    outcome = run_stage(["-q", "-n", "2", "-m", "not long", "tests/unit", "tests/ci"], runs)
    options = ["-q", "-n", "2", "-m", "not long", "-n", "0"]
    assert runs.arguments[1:] == [[*options, "a.py"], [*options, "b.py"]]
    assert list(outcome.failed) == ["a.py::two"]
    assert list(outcome.unstable) == ["a.py::one", "b.py::one"]


def outcome_of(**fields: Any) -> dict[str, Any]:
    return {"arguments": ["tests/unit"], "status": 0, "failed": [], "unstable": {}} | fields


def test_the_summary_shows_unstable_tests_with_their_first_failure_and_stays_green() -> None:
    lines, green = summarize([outcome_of(unstable={"a::b": "call: assert 1 == 2"})])
    assert green
    assert lines == ["unstable: a::b", "    call: assert 1 == 2", "ci: green, 1 unstable"]


def test_more_unstable_tests_than_allowed_make_the_run_red() -> None:
    unstable = {f"a::{i}": "call: x" for i in range(UNSTABLE_MAX)}
    outcomes = [outcome_of(unstable=unstable), outcome_of(unstable={"b::c": "call: x"})]
    assert summarize(outcomes[:1])[1]
    assert not summarize(outcomes)[1]


def test_a_stage_that_failed_makes_the_run_red() -> None:
    lines, green = summarize([outcome_of(), outcome_of(status=1, failed=["a::b"])])
    assert not green
    assert "failed: a::b" in lines
