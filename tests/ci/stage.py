"""Run one pytest stage; run each test that failed once more, alone, and record those that then pass as unstable.

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


def run_alone(node: str, options: Sequence[str]) -> bool:
    """Run one test in a process of its own; return whether it passed."""
    one_process = ["-n", "0"] if "-n" in options else []
    command = [sys.executable, "-m", "pytest", *options, *one_process, node]
    return subprocess.run(command).returncode == 0


def options_of(arguments: Sequence[str]) -> list[str]:
    """Return pytest's arguments without the paths of what to collect."""
    return [argument for argument in arguments if not Path(argument).exists()]


def run_stage(
    arguments: Sequence[str],
    run: Callable[[Sequence[str], Path], int] = run_pytest,
    again: Callable[[str, Sequence[str]], bool] = run_alone,
) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "failures.json"
        status = run(arguments, path)
        first: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    # Without a complete run (collection error, crash, interrupt) it is unknown which tests would have failed.
    if status != TESTS_FAILED or not first or len(first) > RERUNS_MAX:
        return Outcome(arguments, status, list(first))
    unstable: dict[str, str] = {}
    for node, text in first.items():
        print(f"\nci: {node} failed, running it once more, alone", flush=True)
        if again(node, options_of(arguments)):
            unstable[node] = text
    failed = [node for node in first if node not in unstable]
    return Outcome(arguments, TESTS_FAILED if failed else 0, failed, unstable)


def main(record: str, *arguments: str) -> int:
    outcome = run_stage(arguments)
    with Path(record).open("a") as lines:
        lines.write(json.dumps(asdict(outcome)) + "\n")
    return outcome.status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
