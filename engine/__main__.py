"""``python -m engine <program>``: one server of the engine as a process, drained on SIGTERM and SIGINT."""

import sys
from typing import Any

from engine.programs.broker import BROKER
from engine.programs.program import EngineProgram, run

PROGRAMS: dict[str, EngineProgram[Any]] = {"broker": BROKER}


def main(arguments: list[str]) -> int:
    """Run the program named by the only argument and return its exit status; 2 for wrong usage, see ``run``."""
    program = PROGRAMS.get(arguments[0]) if len(arguments) == 1 else None
    if program is None:
        print(
            f"usage: python -m engine <program>; programs: {', '.join(PROGRAMS)}", file=sys.stderr
        )
        return 2
    return run(program)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
