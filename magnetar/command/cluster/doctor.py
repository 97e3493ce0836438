"""``magnetar doctor``: check a cluster and this machine."""

import os
from pathlib import Path

import click

from magnetar.command.connecting.options import ClusterAddress, connection_options
from magnetar.command.exits import CommandFailed, Exit
from magnetar.command.output import json_option


@click.command(name="doctor", short_help="Check a cluster and this machine.")
@click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Data folder of an instance here."
)
@click.option("--all", "-a", "show_all", is_flag=True, help="Show what is well, too.")
@json_option
@connection_options
def command(
    connection: ClusterAddress, data_dir: Path | None, show_all: bool, as_json: bool
) -> int:
    """Check each part, and name what is wrong and what to do.

    Ends with 0 when all is well, 1 when there is a problem or a check could not be made. It takes at most ten seconds,
    whatever does not answer. For a cluster of other machines it checks what can be seen by its URLs.

    Example: magnetar doctor
    """
    from magnetar.command.checks.examination import examine
    from magnetar.command.connecting.client import run

    folder = data_dir.absolute() if data_dir is not None else _data_folder()
    work = examine(connection, folder, show_all=show_all, as_json=as_json)
    is_bad = run(work, connection)
    return int(Exit.FAILED if is_bad else Exit.DONE)


def _data_folder() -> Path:
    """Return the folder that `magnetar run` uses here. Raises CommandFailed for settings that cannot be read."""
    from engine.base.settings import SettingsError
    from gateway.standalone.settings import PROGRAM

    try:
        return PROGRAM.load(os.environ, Path.cwd(), {}).instance.data_dir.absolute()
    except SettingsError as error:
        raise CommandFailed(str(error), Exit.SETTINGS, "Correct it, or use --data-dir") from error
