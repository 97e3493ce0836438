"""``magnetar <command>``. The module of a command is imported when the command is called."""

from importlib import import_module
from typing import NamedTuple

import click

from magnetar import __version__
from magnetar.command.exits import CommandFailed, Exit


class CommandEntry(NamedTuple):
    """A command of the list: where it is, and its line of help."""

    module: str
    help: str
    attribute: str = "command"
    """Name of the click.Command in the module."""
    hidden: bool = False
    """True: not in the list of ``--help``."""


COMMANDS: dict[str, CommandEntry] = {
    "dev": CommandEntry("programs", "Start an instance for development.", "dev"),
    "run": CommandEntry("programs", "Start an instance with any of its parts.", "run"),
    "console": CommandEntry("console", "Start the console in front of any Apache Pulsar."),
    "status": CommandEntry("programs", "List the processes of the running instance.", "status"),
    "start": CommandEntry("programs", "Start a process of the instance that is down.", "start"),
    "stop": CommandEntry("programs", "Stop a process of the instance; it stays down.", "stop"),
    "kill": CommandEntry("programs", "Kill a process of the instance, as a crash would.", "kill"),
    "produce": CommandEntry("cluster.produce", "Publish messages to a topic."),
    "consume": CommandEntry("cluster.consume", "Print messages of a topic."),
    "tail": CommandEntry("cluster.tail", "Print the messages that arrive from now on."),
    "topics": CommandEntry("cluster.topics", "List, create, delete and examine topics."),
    "subscriptions": CommandEntry(
        "cluster.subscriptions", "List, create, delete and move subscriptions."
    ),
    "tiers": CommandEntry(
        "cluster.tiers", "Show and move ledgers between bookies and tiered storage."
    ),
    "functions": CommandEntry(
        "functions.local_run", "Deploy, start, stop and examine functions.", "functions"
    ),
    "sources": CommandEntry(
        "functions.components", "Deploy, start, stop and examine sources.", "sources"
    ),
    "sinks": CommandEntry(
        "functions.components", "Deploy, start, stop and examine sinks.", "sinks"
    ),
    "packages": CommandEntry("functions.packages", "Store, fetch and delete code of functions."),
    "clients": CommandEntry("cluster.clients", "List, count and disconnect connected clients."),
    "copies": CommandEntry("changing.copies", "Copy, move and redrive messages between topics."),
    "changes": CommandEntry("changing.changes", "Confirm, stop and retry changes of many objects."),
    "definitions": CommandEntry(
        "changing.definitions", "Export, compare and apply definitions as a file."
    ),
    "transactions": CommandEntry("changing.transactions", "List open transactions, and abort one."),
    "analyses": CommandEntry("cluster.analyses", "Run analyses of topics, and show their results."),
    "doctor": CommandEntry("cluster.doctor", "Check a cluster and this machine."),
    "demo": CommandEntry("cluster.demo", "Publish example messages, or traffic for a while."),
    "bench": CommandEntry("cluster.bench", "Measure rates and latencies of a cluster."),
    "broker": CommandEntry("programs", "Run a broker.", "broker"),
    "bookie": CommandEntry("programs", "Run a bookie.", "bookie"),
    "bookies": CommandEntry("programs", "Repair and decommission bookies.", "bookies"),
    "metadata": CommandEntry("programs", "Run a metadata server, or copy a store.", "metadata"),
    "gateway": CommandEntry(
        "programs", "Run a gateway: console, REST and WebSocket endpoints.", "gateway"
    ),
    "worker": CommandEntry("programs", "Run a worker of analyses.", "worker"),
    "proxy": CommandEntry("programs", "Run a proxy in front of brokers.", "proxy"),
    "functions-worker": CommandEntry(
        "programs", "Run a worker of functions, sources and sinks.", "functions_worker"
    ),
    "init": CommandEntry("programs", "Write the metadata of a new cluster.", "init"),
    "certificates": CommandEntry("programs", "Make certificates for TLS.", "certificates"),
    "tokens": CommandEntry("programs", "Make and check tokens.", "tokens"),
    "backup": CommandEntry("backup", "Back up an instance or a cluster, or check a backup."),
    "restore": CommandEntry("restore", "Restore a backup into an empty instance or cluster."),
    "wipe": CommandEntry("wipe", "Remove what an instance or a bookie has stored."),
    "completion": CommandEntry("cluster.completion", "Print the completion script of a shell."),
    "support": CommandEntry("support", "Collect logs and facts for support, without secrets."),
    "manage": CommandEntry("programs", "Run a command of the gateway's Django.", "manage"),
    **{
        name: CommandEntry("programs", "As in `init`.", name.replace("-", "_"), hidden=True)
        for name in (
            "initialize-cluster-metadata",
            "initialize-namespace",
            "initialize-transaction-coordinator-metadata",
            "delete-cluster-metadata",
        )
    },
}
"""All commands by name, in the order of ``--help``."""


class Commands(click.Group):
    """The group of COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of COMMANDS."""
        return [name for name, listed in COMMANDS.items() if not listed.hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            return None
        module = import_module(f"magnetar.command.{listed.module}")
        command = getattr(module, listed.attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list without an import of the commands' modules."""
        rows = [(name, COMMANDS[name].help) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="magnetar")
def group() -> None:
    """Pulsar-compatible messaging: start it, publish and consume, operate it."""


def main() -> None:
    """Run the command line and exit."""
    try:
        status = group.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("magnetar: interrupted", err=True)
        raise SystemExit(int(Exit.INTERRUPTED)) from None
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "magnetar"
        text = error.format_message().rstrip(".")
        CommandFailed(text, Exit.USAGE, f"See {path} --help").show()
        raise SystemExit(int(Exit.USAGE)) from None
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    raise SystemExit(status if isinstance(status, int) else 0)
