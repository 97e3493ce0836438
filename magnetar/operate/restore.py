"""The restore of a backup into an empty instance or an empty cluster."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from engine.backup.backup_manifest import BackupManifest
from engine.backup.errors import RestoreError
from engine.base.disk.files import SystemDisk
from engine.programs import cluster_backups
from gateway.database.copies import restore_postgresql, tool_missing
from gateway.standalone.data_folder import (
    CONSOLE,
    RESTORING,
    held,
    refusal,
    unfinished_restore,
    used_paths,
    write_mark,
)
from gateway.standalone.storage import storage
from magnetar.operate.backup import DUMP, Report, copy_durably
from magnetar.operate.place import OperatedPlace, keep_private


def restore(
    place: OperatedPlace,
    source: Path,
    report: Report,
    *,
    bookies: int = 0,
    database: bool = True,
    objects: bool = True,
) -> tuple[BackupManifest, int]:
    """Check the backup, restore it, compare the result with it; return its manifest and the number of bookies.

    ``bookies``: number of an instance's bookies; 0: as many as the backup's cluster had, at most 3. ``objects``:
    require the objects of ledgers that are only in tiered storage. Raises RestoreError, BackupError, DataFolderError,
    DatabaseCopyError, MagnetarError, OSError. What an interrupted restore leaves says so, and the same call continues
    it.
    """
    keep_private()
    report("checking the backup")
    manifest = cluster_backups.check(source)
    names = set(manifest.others)
    if database:
        _check_database(place, names)
    number = bookies or max(1, min(manifest.bookies, 3))
    with _target(place, manifest, number) as environ:
        settings = cluster_backups.load(environ, place.directory)
        report("restoring metadata and ledgers, then comparing them with the backup")
        cluster_backups.restore(settings, source, lambda work, count: None, objects=objects)
        for name in sorted(names):
            if name == DUMP:
                if database:
                    restore_postgresql(place.database, source / name)
            elif name == CONSOLE:
                if database:
                    _return_file(source / name, place.data_dir / name)
            elif not place.cluster:
                _return_file(source / name, place.data_dir / name)
    return manifest, number


def _check_database(place: OperatedPlace, names: set[str]) -> None:
    """Raise RestoreError when the console's database cannot be restored, before anything is written."""
    kind = "SQLite" if CONSOLE in names else "PostgreSQL" if DUMP in names else ""
    own = "PostgreSQL" if place.database.database_url else "SQLite"
    if kind and kind != own:
        raise RestoreError(
            f"the backup has the console's database from {kind}, and the settings name {own}: set or unset"
            " MAGNETAR_DATABASE_URL, or give --without-database"
        )
    if kind == "PostgreSQL" and (problem := tool_missing(place.database, "pg_restore")):
        raise RestoreError(problem)
    if place.cluster and kind == "SQLite" and (place.data_dir / CONSOLE).exists():
        raise RestoreError(
            f"{place.data_dir / CONSOLE} exists: stop the gateways and move it away, or give --without-database"
        )


@contextmanager
def _target(
    place: OperatedPlace, manifest: BackupManifest, bookies: int
) -> Iterator[Mapping[str, str]]:
    """Yield the variables of a target that may be written; an instance is marked as incomplete meanwhile."""
    if place.cluster:
        yield place.environ
        return
    data = place.data_dir
    with held(data):
        begun = unfinished_restore(data)
        if begun not in ("", manifest.backup_id):
            raise RestoreError(f"{refusal(data)}; this is backup {manifest.backup_id}")
        if not begun and (used := used_paths(data)):
            names = ", ".join(path.name for path in used[:8])
            raise RestoreError(f"{data} is not empty: it has {names}; nothing was changed")
        write_mark(data, manifest.backup_id)
        with storage(place.options(bookies)) as variables:
            yield {**place.environ, **variables}
        (data / RESTORING).unlink()
        SystemDisk().sync_dir(str(data))


def _return_file(source: Path, target: Path) -> None:
    """Copy a file of the backup to its place; a reader finds all of it or nothing."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = target.with_name(f"{target.name}.restored")
    copy_durably(source, draft)
    shutil.move(draft, target)
    SystemDisk().sync_dir(str(target.parent))
