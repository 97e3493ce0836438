"""Backups of an instance or a cluster: metadata, ledgers, the console's database, and the instance's files."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from engine.backup.backup_manifest import MANIFEST, BackupManifest, Counts
from engine.backup.errors import BackupError
from engine.backup.part_files import FileSum
from engine.base.clock import SystemClock
from engine.base.disk.files import SystemDisk
from engine.programs import cluster_backups
from gateway.database.copies import copy_sqlite, dump_postgresql, tool_missing
from gateway.standalone.data_folder import (
    CONSOLE,
    DataFolderError,
    StoredFile,
    refusal,
    stored_files,
)
from magnetar import __version__
from magnetar.operate.place import OperatedPlace, keep_private

MARK = "backup-incomplete"
"""File of a folder in which a backup is being written."""
DUMP = "console.pgdump"
SHOW_S = 2.0
Report = Callable[[str], None]


def back_up(
    place: OperatedPlace, target: Path, report: Report, *, database: bool = True
) -> BackupManifest:
    """Write a backup into the new folder ``target`` and return its manifest.

    Until it is complete the folder is named ``<target>.partial``; one that was left by a killed backup is replaced.
    Raises BackupError, DataFolderError, DatabaseCopyError, SettingsError, MagnetarError, OSError; nothing is left
    then.
    """
    keep_private()
    target = target.absolute()
    if target.exists():
        raise BackupError(f"{target} exists: choose another name")
    if not place.cluster and (problem := refusal(place.data_dir)):
        raise DataFolderError(problem)
    if database and (problem := tool_missing(place.database, "pg_dump")):
        raise BackupError(problem)
    partial = target.with_name(f"{target.name}.partial")
    _begin(partial)
    try:
        with place.readable() as environ:
            settings = cluster_backups.load(environ, place.directory)
            manifest = cluster_backups.save(settings, partial, __version__, shown(report))
        others = _copy_files(place, partial, database=database)
        notes = () if database else ("without the console's database",)
        cluster_backups.seal(partial, manifest.with_files(others, notes))
        (partial / MARK).unlink()
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    SystemDisk().sync_dir(str(target.parent))
    return cluster_backups.check(target)


def _begin(partial: Path) -> None:
    """Make the folder of an incomplete backup. Raises BackupError when it holds something else."""
    if partial.exists():
        if not ((partial / MARK).exists() or (partial / MANIFEST).exists()):
            raise BackupError(f"{partial} exists and is no incomplete backup: remove it")
        shutil.rmtree(partial)
    partial.mkdir(parents=True, mode=0o700)
    (partial / MARK).touch(0o600)


def _copy_files(
    place: OperatedPlace, folder: Path, *, database: bool
) -> dict[str, tuple[FileSum, str, bool]]:
    """Copy the files beside metadata and ledgers; return of each its sum, what it holds, and whether it is secret."""
    copied: dict[str, tuple[FileSum, str, bool]] = {}
    for file in stored_files(place.data_dir):
        is_database = file.path == CONSOLE
        if (is_database and (place.database.database_url or not database)) or (
            place.cluster and not is_database
        ):
            continue
        if _copy(place.data_dir / file.path, folder / file.path, file):
            copied[file.path] = (
                cluster_backups.file_sum(folder / file.path),
                file.holds,
                file.secret,
            )
    if database and place.database.database_url:
        dump_postgresql(place.database, folder / DUMP)
        copied[DUMP] = cluster_backups.file_sum(folder / DUMP), "the console's database", True
    return copied


def _copy(source: Path, target: Path, file: StoredFile) -> bool:
    """Copy a file durably; return False when it does not exist any more."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if file.sqlite:
        copy_sqlite(source, target)
        return True
    try:
        copy_durably(source, target)
    except FileNotFoundError:
        return False  # a result of an analysis that was removed meanwhile
    return True


def copy_durably(source: Path, target: Path) -> None:
    """Copy a file, for this user alone, and sync it and its folder. Raises OSError."""
    shutil.copyfile(source, target)
    target.chmod(0o600)
    with target.open("rb") as copy:
        os.fsync(copy.fileno())
    SystemDisk().sync_dir(str(target.parent))


def shown(report: Report) -> Callable[[Counts], None]:
    """Return a callback that reports the progress every few seconds, where people can see it."""
    clock = SystemClock()
    last_s = clock.monotonic_s()

    def progress(counts: Counts) -> None:
        nonlocal last_s
        if sys.stderr.isatty() and clock.monotonic_s() - last_s > SHOW_S:
            last_s = clock.monotonic_s()
            report(
                f"{counts.topics} topics, {counts.ledgers} ledgers, {counts.entry_bytes >> 20} MiB"
            )

    return progress
