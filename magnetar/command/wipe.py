"""``magnetar wipe``: remove what an instance or a bookie has stored."""

import os
from pathlib import Path

import click

from magnetar.command.exits import CommandFailed
from magnetar.command.operation import data_dir_option, failures, place_of
from magnetar.operate.wipe import PlannedRemoval, wipe_bookie, wipe_instance


@click.command(
    help="""Remove everything that an instance keeps in its data folder. It must not run.

    With --bookie: remove the directories of a stopped bookie, by its settings, and its cookie in the metadata store.
    """
)
@click.option("--bookie", is_flag=True, help="Remove a bookie's data and its cookie.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@data_dir_option
def command(bookie: bool, yes: bool, data_dir: Path | None) -> None:
    def confirm(removal: PlannedRemoval) -> bool:
        click.echo("This removes, and nothing brings it back:")
        for name in (*removal.files, *removal.nodes):
            click.echo(f"  {name}")
        for loss in removal.losses:
            click.echo(f"  {loss}")
        return yes or click.confirm("Remove it?", default=False)

    with failures():
        removal = (
            wipe_bookie(os.environ, Path.cwd(), confirm)
            if bookie
            else wipe_instance(place_of(data_dir), confirm)
        )
    if removal is None:
        raise CommandFailed("nothing was removed")
    count = len(removal.files) + len(removal.nodes)
    click.echo(
        f"removed {count} files, folders and nodes" if count else "there is nothing to remove"
    )
