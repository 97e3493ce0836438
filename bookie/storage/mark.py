"""The mark file: where the replay of the journal starts, and the manifest that goes with it
(docs/formats/journal.md)."""

from struct import Struct
from typing import NamedTuple

from bookie.storage.errors import DamagedError
from bookie.storage.index.manifest import Place
from bookie.storage.journal.journal_format import Mark
from engine.base.crc32c import crc32c
from engine.base.disk.files import Disk

MARK_NAME = "lastMark"
MAGIC = b"MGMARK02"
_FILE = Struct(">8sQQQQQ")
_CRC = Struct(">I")


class Checkpoint(NamedTuple):
    """A durable state: everything before ``mark`` is in synced entry logs, a flushed index and a synced manifest."""

    mark: Mark
    manifest: Place

    def encode(self) -> bytes:
        head = _FILE.pack(MAGIC, *self.mark, *self.manifest)
        return head + _CRC.pack(crc32c(head))


def decode_checkpoint(data: bytes) -> Checkpoint | None:
    """Return the checkpoint, or None when the data is damaged."""
    if len(data) != _FILE.size + _CRC.size or data[:8] != MAGIC:
        return None
    if _CRC.unpack_from(data, _FILE.size)[0] != crc32c(data[: _FILE.size]):
        return None
    _, file_id, offset, sequence, number, size = _FILE.unpack_from(data)
    return Checkpoint(Mark(file_id, offset, sequence), Place(number, size))


def write_mark(disk: Disk, directory: str, checkpoint: Checkpoint) -> None:
    """Replace the mark atomically and durably."""
    path = f"{directory}/{MARK_NAME}"
    file = disk.open(f"{path}.new", create=True)
    try:
        data = checkpoint.encode()
        file.pwritev([data], 0)
        file.truncate(len(data))
        file.fdatasync()
    finally:
        file.close()
    disk.rename(f"{path}.new", path)
    disk.sync_dir(directory)


def read_mark(disk: Disk, directory: str) -> Checkpoint:
    """Read the mark file. Raises DamagedError when it is missing or does not verify."""
    path = f"{directory}/{MARK_NAME}"
    try:
        file = disk.open(path)
    except FileNotFoundError as error:
        raise DamagedError(f"{path} is missing: where to replay from is not known") from error
    checkpoint = decode_checkpoint(file.pread(file.size(), 0))
    file.close()
    if checkpoint is None:
        raise DamagedError(f"{path} does not verify: where to replay from is not known")
    return checkpoint
