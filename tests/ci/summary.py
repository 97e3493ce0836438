"""Print what the stages of a CI run recorded; the exit status says whether the run is green.

``python -m tests.ci.summary RECORD``: RECORD is the file that ``tests.ci.stage`` wrote.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

UNSTABLE_MAX = 3
"""Unstable tests above this number make the run red: so many are not chance."""


def summarize(outcomes: Iterable[dict[str, Any]]) -> tuple[list[str], bool]:
    """Return the last lines of a run's output, and whether it is green."""
    lines: list[str] = []
    green, unstable = True, 0
    for outcome in outcomes:
        for node, text in outcome["unstable"].items():
            unstable += 1
            lines += [f"unstable: {node}", *(f"    {line}" for line in text.splitlines()[-25:])]
        lines += [f"failed: {node}" for node in outcome["failed"]]
        if outcome["status"] != 0:
            green = False
            lines.append(f"red: pytest {' '.join(outcome['arguments'])}: exit {outcome['status']}")
    if unstable > UNSTABLE_MAX:
        green = False
        lines.append(f"red: {unstable} unstable tests, at most {UNSTABLE_MAX} are allowed")
    lines.append(f"ci: {'green' if green else 'red'}, {unstable} unstable")
    return lines, green


def main(record: str) -> int:
    path = Path(record)
    outcomes = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    lines, green = summarize(outcomes)
    print("\n".join(lines))
    return 0 if green else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
