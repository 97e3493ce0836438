"""Run one pytest stage; run the files of failed tests once more, alone, and record tests that then pass as unstable.

``python -m tests.ci.stage RECORD PYTEST_ARGUMENTS``: RECORD is the file to which the stage adds its outcome, one JSON
object a line, read by ``tests.ci.summary``. The exit status is 0 when every test passed at its first or second run.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.ci.recorder import FAILURES_FILE

TESTS_FAILED = 1
"""Exit status of pytest when tests ran and some failed. Any other but 0 is an error of the run itself."""

RERUNS_MAX = 12
"""More failures in one stage than chance explains: none of them is run again."""


@dataclass(frozen=True)
class Outcome:
    """Result of one stage: tests that failed twice, and unstable ones with their first failure."""

    arguments: Sequence[str]
    status: int
    failed: Sequence[str] = ()
    unstable: dict[str, str] = field(default_factory=dict)


def run_pytest(arguments: Sequence[str], failures: Path) -> int:
    command = [sys.executable, "-m", "pytest", "-p", "tests.ci.recorder", *arguments]
    return subprocess.run(command, env={**os.environ, FAILURES_FILE: str(failures)}).returncode


def options_of(arguments: Sequence[str]) -> list[str]:
    """Return pytest's arguments without the paths of what to collect, for one process."""
    options = [argument for argument in arguments if not Path(argument).exists()]
    return [*options, "-n", "0"] if "-n" in options else options


def recorded(
    run: Callable[[Sequence[str], Path], int], arguments: Sequence[str]
) -> tuple[int, dict[str, str]]:
    """Return the status of a run, and its failed tests with the first failure of each."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "failures.json"
        status = run(arguments, path)
        return status, json.loads(path.read_text()) if path.exists() else {}


def run_stage(
    arguments: Sequence[str], run: Callable[[Sequence[str], Path], int] = run_pytest
) -> Outcome:
    status, first = recorded(run, arguments)
    # Without a complete run (collection error, crash, interrupt) it is unknown which tests would have failed.
    if status != TESTS_FAILED or not first or len(first) > RERUNS_MAX:
        return Outcome(arguments, status, list(first))
    failed: list[str] = []
    # Tests of a file may use what those before them made, so that the whole file is run.
    for file in dict.fromkeys(node.partition("::")[0] for node in first):
        print(f"\nci: tests of {file} failed, running it once more, alone", flush=True)
        again, second = recorded(run, [*options_of(arguments), file])
        of_file = [node for node in first if node.partition("::")[0] == file]
        complete = again == 0 or (again == TESTS_FAILED and len(second) > 0)
        failed += [node for node in of_file if not complete or node in second]
    unstable = {node: text for node, text in first.items() if node not in failed}
    return Outcome(arguments, TESTS_FAILED if failed else 0, failed, unstable)


def main(record: str, *arguments: str) -> int:
    outcome = run_stage(arguments)
    with Path(record).open("a") as lines:
        lines.write(json.dumps(asdict(outcome)) + "\n")
    return outcome.status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
