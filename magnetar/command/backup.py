"""``magnetar backup TARGET``: back an instance or a cluster up, or check a backup."""

import os
from pathlib import Path
from typing import Any

import click

from engine.backup.backup_manifest import BackupManifest
from engine.programs import cluster_backups
from magnetar.command.operation import data_dir_option, failures, place_of, report
from magnetar.command.output import emit, json_option
from magnetar.operate.backup import back_up


@click.command(
    help="""Back up metadata, messages, subscriptions and the console's database into the new folder TARGET.

    The instance, or the cluster of MAGNETAR_METADATA_URL, may run meanwhile. Every message whose receipt was sent
    before the backup began is in it. The folder has secrets: it is for your user alone.
    """
)
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--verify", is_flag=True, help="Check the backup in TARGET instead; write nothing.")
@click.option(
    "--objects",
    is_flag=True,
    help="With --verify: also find the objects of ledgers that are only in tiered storage.",
)
@click.option("--without-database", is_flag=True, help="Leave the console's database out.")
@data_dir_option
@json_option
def command(
    target: Path,
    verify: bool,
    objects: bool,
    without_database: bool,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    if objects and not verify:
        raise click.UsageError("--objects checks a backup: give --verify with it")
    with failures():
        if verify:
            settings = cluster_backups.load(os.environ, Path.cwd()) if objects else None
            manifest = cluster_backups.check(target, settings)
        else:
            manifest = back_up(place_of(data_dir), target, report, database=not without_database)
    checked = {"objects": sum(manifest.moved.values())} if objects else {}
    note = (
        "\n  each of the ledgers that are not in the backup was found in its bucket"
        if objects
        else ""
    )
    emit({**document(manifest), **checked}, as_json, lambda: text_of(manifest, target) + note)


def document(manifest: BackupManifest) -> dict[str, Any]:
    """Return the manifest without the sums of files."""
    shown = manifest.document()
    del shown["files"]
    return shown


def text_of(manifest: BackupManifest, folder: Path) -> str:
    """Return the manifest as text for people."""
    counts = manifest.counts
    lines = [
        f"{folder} is complete and every checksum is right",
        f"  {counts.topics} topics, {counts.cursors} subscriptions, {counts.entries} entries in {counts.ledgers}"
        f" ledgers ({counts.entry_bytes:,} bytes), {counts.nodes} nodes of metadata",
        *(f"  {name}: {holds}" for name, holds in manifest.others.items() if "/" not in name),
        *(f"  note: {note}" for note in manifest.notes),
        *(f"  not in the backup: {name}" for name in manifest.missing),
        *(
            f"  not in the backup: {count} ledgers that are only in {bucket}; a restore needs that bucket"
            for bucket, count in sorted(manifest.moved.items())
        ),
    ]
    if manifest.secrets:
        lines.append(f"  keep secret: {len(manifest.secrets)} files with passwords, keys or tokens")
    return "\n".join(lines)
