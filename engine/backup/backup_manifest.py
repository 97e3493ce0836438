"""The manifest of a backup: written last, so that a folder without it is no backup (K2)."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from engine.backup.errors import BackupError, DamagedBackupError
from engine.backup.part_files import FileSum
from engine.base.disk.files import Disk, Lane

FORMAT = 1
MANIFEST = "manifest.json"
_DRAFT = f"{MANIFEST}.new"


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of what a backup has. ``entry_bytes``: payloads of all entries."""

    nodes: int = 0
    topics: int = 0
    cursors: int = 0
    schemas: int = 0
    ledgers: int = 0
    entries: int = 0
    entry_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BackupManifest:
    """Facts about a backup, and the size and SHA-256 of its files.

    ``backup_id`` is random. ``began_ms`` and ``ended_ms`` are times since the epoch. ``instance_id`` and ``bookies``
    are those of the cluster that was read. ``parts`` are files of records. ``missing`` names ledgers that the cluster
    itself had lost. ``moved`` has the number of ledgers that are only in tiered storage, by bucket: a backup has their
    names, and their objects stay there. ``others`` has, for each other file, what it holds; ``secrets``
    names files that must stay secret.
    """

    backup_id: str
    release: str
    began_ms: int
    ended_ms: int
    instance_id: str
    bookies: int
    counts: Counts
    parts: int
    files: Mapping[str, FileSum]
    missing: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    moved: Mapping[str, int] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """Return the manifest as JSON's types."""
        files = {name: known._asdict() for name, known in sorted(self.files.items())}
        return {"format": FORMAT, **asdict(self), "files": files}

    def with_files(
        self, others: Mapping[str, tuple[FileSum, str, bool]], notes: tuple[str, ...] = ()
    ) -> "BackupManifest":
        """Return the manifest with further files: of each its sum, what it holds, and whether it is secret."""
        return replace(
            self,
            files={**self.files, **{name: row[0] for name, row in others.items()}},
            others={name: row[1] for name, row in others.items()},
            secrets=(*self.secrets, *(name for name, row in others.items() if row[2])),
            notes=notes,
        )


def encode(manifest: BackupManifest) -> bytes:
    """Return the file: JSON, with a SHA-256 of the rest in ``checksum``."""
    document = manifest.document()
    return json.dumps({**document, "checksum": _checksum(document)}, indent=1).encode() + b"\n"


def decode(data: bytes) -> BackupManifest:
    """Decode the file. Raises DamagedBackupError."""
    try:
        document = json.loads(data)
        if document["format"] != FORMAT:
            raise DamagedBackupError(
                f"{MANIFEST} has format {document['format']}, and this release reads {FORMAT}: restore it with release"
                f" {document.get('release')}"
            )
        if document.pop("checksum") != _checksum(document):
            raise DamagedBackupError(f"{MANIFEST} is damaged: its checksum is not that of its text")
        document.pop("format")
        for name in (*document["files"], *document["others"]):
            if name.startswith("/") or ".." in name.split("/"):
                raise DamagedBackupError(f"{MANIFEST} names a file outside of the backup: {name}")
        return BackupManifest(
            **{
                **document,
                "counts": Counts(**document["counts"]),
                "files": {name: FileSum(**known) for name, known in document["files"].items()},
                "missing": tuple(document["missing"]),
                "secrets": tuple(document["secrets"]),
                "notes": tuple(document["notes"]),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedBackupError(f"{MANIFEST} cannot be read: {error!r}") from error


def _checksum(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


async def write_manifest(disk: Disk, lane: Lane, folder: str, manifest: BackupManifest) -> None:
    """Make the folder a backup: everything else in it must be synced. Raises OSError."""
    data = encode(manifest)

    def write() -> None:
        file = disk.open(f"{folder}/{_DRAFT}", create=True)
        try:
            file.truncate(0)
            file.pwritev([data], 0)
            file.fdatasync()
        finally:
            file.close()
        disk.sync_dir(folder)  # the names of the other files, before the one that vouches for them
        disk.rename(f"{folder}/{_DRAFT}", f"{folder}/{MANIFEST}")
        disk.sync_dir(folder)

    await lane.run(write)


async def read_manifest(disk: Disk, lane: Lane, folder: str) -> BackupManifest:
    """Read the manifest of a folder. Raises BackupError."""

    def read() -> bytes:
        file = disk.open(f"{folder}/{MANIFEST}")
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    try:
        return decode(await lane.run(partial(read)))
    except FileNotFoundError as error:
        raise BackupError(
            f"{folder} is no backup: it has no {MANIFEST}, which is written when a backup is complete"
        ) from error
    except OSError as error:
        raise BackupError(f"{folder}/{MANIFEST} cannot be read: {error.strerror}") from error
