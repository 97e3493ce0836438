"""``magnetar <command>``. The module of a command is imported when the command is called."""

from importlib import import_module
from typing import NamedTuple

import click

from magnetar import __version__
from magnetar.command.exits import Exit


class CommandEntry(NamedTuple):
    """A command of the list: where it is, and its line of help."""

    module: str
    help: str


COMMANDS: dict[str, CommandEntry] = {}
"""All commands by name, in the order of ``--help``. A module has ``command``, a click.Command."""


class Commands(click.Group):
    """The group of COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None for an unknown name."""
        listed = COMMANDS.get(cmd_name)
        if listed is None:
            return None
        command = import_module(f"magnetar.command.{listed.module}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list without an import of the commands' modules."""
        rows = [(name, listed.help) for name, listed in COMMANDS.items()]
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
    except click.ClickException as error:
        error.show()
        raise SystemExit(error.exit_code) from None
    raise SystemExit(status if isinstance(status, int) else 0)
