"""``python -m engine <program>``: one server of the engine as a process, drained on SIGTERM and SIGINT, or a command
that ends by itself."""

import sys

PROGRAMS = ("broker", "proxy", "functions-worker", "metadata", "metadata copy")
COMMANDS = (
    *("initialize-cluster-metadata", "initialize-namespace"),
    *("initialize-transaction-coordinator-metadata", "delete-cluster-metadata"),
)
KEY_COMMANDS = ("tokens", "certificates")
BOOKIE_COMMANDS = ("bookies",)


def main(arguments: list[str]) -> int:
    """Run the program named by the first argument and return its exit status; 2 for wrong usage.

    Only the modules of that program are imported: the metadata server has a third of the broker's.
    """
    if arguments == ["broker"]:
        from engine.programs.broker import BROKER
        from engine.programs.program import run

        return run(BROKER)
    if arguments == ["functions-worker"]:
        from engine.programs.functions_worker import FUNCTIONS_WORKER
        from engine.programs.program import run

        return run(FUNCTIONS_WORKER)
    if arguments == ["proxy"]:
        from engine.programs.proxy import main as proxy

        return proxy()
    if arguments[:2] == ["metadata", "copy"]:
        from engine.programs.metadata_copy import main as copy

        return copy(arguments[2:])
    if arguments[:1] == ["metadata"]:
        from engine.programs.metadata import main as metadata

        return metadata(arguments[1:])
    if arguments[:1] == ["tokens"]:
        from engine.programs.commands.token_commands import main as tokens

        return tokens(arguments[1:])
    if arguments[:1] == ["bookies"]:
        from engine.programs.commands.bookies import main as bookies

        return bookies(arguments[1:])
    if arguments[:1] == ["certificates"]:
        from engine.programs.commands.certificates import main as certificates

        return certificates(arguments[1:])
    if arguments and arguments[0] in COMMANDS:
        from engine.programs.commands import cluster_metadata

        return cluster_metadata.COMMANDS[arguments[0]](arguments[1:])
    names = f"programs: {', '.join(PROGRAMS)}; commands: {', '.join((*COMMANDS, *KEY_COMMANDS, *BOOKIE_COMMANDS))}"
    print(f"usage: python -m engine <program>; {names}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
