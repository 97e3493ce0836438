"""``magnetar restore SOURCE``: restore a backup into an empty instance or an empty cluster."""

import shlex
from pathlib import Path

import click

from gateway.standalone.plan import COUNT_MAX
from magnetar.command.backup import document
from magnetar.command.operation import data_dir_option, failures, place_of, report
from magnetar.command.output import emit, json_option
from magnetar.operate.restore import restore


@click.command(
    help="""Restore the backup in SOURCE into an empty instance, and compare the result with it.

    With MAGNETAR_METADATA_URL it is restored into that cluster: its metadata store and bookies run, and no broker and
    no gateway. An interrupted restore is continued by the same command; until then no broker starts.
    """
)
@click.argument("source", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--bookies",
    type=click.IntRange(1, COUNT_MAX),
    help="Number of the instance's bookies; the default is the backup's, at most 3.",
)
@click.option("--without-database", is_flag=True, help="Leave the console's database out.")
@click.option(
    "--without-objects",
    is_flag=True,
    help="Restore also while objects of tiered storage that the backup names are missing.",
)
@data_dir_option
@json_option
def command(
    source: Path,
    bookies: int | None,
    without_database: bool,
    without_objects: bool,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    place = place_of(data_dir)
    with failures():
        manifest, number = restore(
            place,
            source,
            report,
            bookies=bookies or 0,
            database=not without_database,
            objects=not without_objects,
        )
    counts = manifest.counts
    where = "the cluster" if place.cluster else str(place.data_dir)
    options = f"--bookies {number}{' --secure' if (place.data_dir / 'secure').is_dir() else ''}"
    folder = "" if data_dir is None else f"MAGNETAR_DATA_DIR={shlex.quote(str(place.data_dir))} "
    more = "" if place.cluster else f"\n  start it with: {folder}magnetar run {options}"
    emit(
        {**document(manifest), "restored_bookies": number},
        as_json,
        lambda: (
            f"{where} is as the backup: {counts.topics} topics, {counts.entries} entries in {counts.ledgers} ledgers"
            f" were read back and compared{more}"
        ),
    )
