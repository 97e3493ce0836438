"""``python -m engine <program>``: one server of the engine as a process, drained on SIGTERM and SIGINT."""

import sys

PROGRAMS = ("broker", "metadata", "metadata copy")


def main(arguments: list[str]) -> int:
    """Run the program named by the first argument and return its exit status; 2 for wrong usage.

    Only the modules of that program are imported: the metadata server has a third of the broker's.
    """
    if arguments == ["broker"]:
        from engine.programs.broker import BROKER
        from engine.programs.program import run

        return run(BROKER)
    if arguments[:2] == ["metadata", "copy"]:
        from engine.programs.metadata_copy import main as copy

        return copy(arguments[2:])
    if arguments[:1] == ["metadata"]:
        from engine.programs.metadata import main as metadata

        return metadata(arguments[1:])
    print(f"usage: python -m engine <program>; programs: {', '.join(PROGRAMS)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
