"""The manifest: what must outlive the index (docs/formats/manifest.md).

An append-only file of ledger states (fences, tombstones, master keys) and of how far each entry log counts. The index
can be rebuilt from it and the entry logs without forgetting a fence, a deletion, or a loss. Synchronous; flush lane.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from bookie.storage.errors import DamagedError
from bookie.storage.index.index import LedgerRecord, decode_ledger
from engine.base.crc32c import crc32c
from engine.base.disk.files import Disk, File

FILE_MAGIC = b"MGMANIF1"
VERSION = 1
REWRITE_BYTES = 4 << 20
"""Growth at which a manifest is rewritten, in addition to the size it had when it was begun."""
_FILE = Struct(">8sIQ")
_CRC = Struct(">I")
_HEAD = Struct(">BHI")  # kind, bytes of the body, checksum
_LEDGER = Struct(">Q")
_LOG = Struct(">IQ")
HEADER_BYTES = _FILE.size + _CRC.size


class _Kind(IntEnum):
    LEDGER = 1
    LOG = 2
    LIMBO = 3


class Place(NamedTuple):
    """A manifest's number and its synced size in bytes. Records behind that count as long as they verify."""

    number: int
    size: int


class ManifestState(NamedTuple):
    """The content of a manifest: ledgers by id, end of the data in each log (0: removed), whether entries may be
    missing."""

    ledgers: dict[int, LedgerRecord]
    ends: dict[int, int]
    limbo: bool
    size: int
    """Bytes that verify."""


def manifest_name(number: int) -> str:
    return f"manifest-{number:08x}"


def manifest_numbers(disk: Disk, directory: str) -> list[int]:
    """Return the numbers of a directory's manifests, ascending."""
    names = [name for name in disk.listdir(directory) if name.startswith("manifest-")]
    return sorted(int(name[9:], 16) for name in names)


def encode_header(number: int) -> bytes:
    head = _FILE.pack(FILE_MAGIC, VERSION, number)
    return head + _CRC.pack(crc32c(head))


def _record(kind: _Kind, body: bytes) -> bytes:
    crc = crc32c(body, crc32c(bytes((kind,))))
    return _HEAD.pack(kind, len(body), crc) + body


def encode_ledger(record: LedgerRecord) -> bytes:
    return _record(_Kind.LEDGER, _LEDGER.pack(record.ledger_id) + record.encode())


def encode_forgotten(ledger_id: int) -> bytes:
    return _record(_Kind.LEDGER, _LEDGER.pack(ledger_id))


def encode_end(log_id: int, end: int) -> bytes:
    """Encode where a log's data ends. ``end`` 0: the log is about to be removed."""
    return _record(_Kind.LOG, _LOG.pack(log_id, end))


def encode_limbo() -> bytes:
    return _record(_Kind.LIMBO, b"")


def decode(data: bytes, number: int) -> ManifestState:
    """Decode up to the first record that does not verify. Raises DamagedError when the header does not verify."""
    if len(data) < HEADER_BYTES or data[:HEADER_BYTES] != encode_header(number):
        raise DamagedError(f"header of {manifest_name(number)} does not verify")
    ledgers: dict[int, LedgerRecord] = {}
    ends: dict[int, int] = {}
    limbo = False
    pos = HEADER_BYTES
    for kind, body, stop in _records(data, pos):
        try:
            if kind == _Kind.LEDGER:
                [ledger_id] = _LEDGER.unpack_from(body)
                if len(body) > _LEDGER.size:
                    ledgers[ledger_id] = decode_ledger(ledger_id, body[_LEDGER.size :])
                else:
                    ledgers.pop(ledger_id, None)
            elif kind == _Kind.LOG:
                log_id, end = _LOG.unpack(body)
                ends[log_id] = end
            elif kind == _Kind.LIMBO:
                limbo = True
            else:
                break
        except StructError:
            break
        pos = stop
    return ManifestState(ledgers, ends, limbo, pos)


def _records(data: bytes, pos: int) -> Iterator[tuple[int, bytes, int]]:
    """Yield kind, body and end of each record, up to the first that does not verify."""
    while pos + _HEAD.size <= len(data):
        kind, size, crc = _HEAD.unpack_from(data, pos)
        stop = pos + _HEAD.size + size
        body = data[pos + _HEAD.size : stop]
        if stop > len(data) or crc32c(body, crc32c(bytes((kind,)))) != crc:
            return
        yield kind, body, stop
        pos = stop


def read_manifest(disk: Disk, directory: str, place: Place) -> ManifestState:
    """Read a manifest. Raises DamagedError when it is missing or does not verify up to its synced size."""
    path = f"{directory}/{manifest_name(place.number)}"
    try:
        file = disk.open(path)
    except FileNotFoundError as error:
        raise DamagedError(f"{path} is missing") from error
    try:
        state = decode(file.pread(file.size(), 0), place.number)
    finally:
        file.close()
    if state.size < place.size:
        raise DamagedError(f"{path} is damaged at {state.size}, {place.size} bytes were synced")
    return state


class Manifest:
    """A writer of manifests. ``place`` counts only after the mark file names it."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._numbers = manifest_numbers(disk, directory)
        self._file: File | None = None
        self._size = 0
        self._rewrite_at = 0
        self.number = max(self._numbers, default=0)

    @property
    def place(self) -> Place:
        return Place(self.number, self._size)

    @property
    def wants_rewrite(self) -> bool:
        """True when it has grown, is not begun, or a write failed."""
        return self._file is None or self._size > self._rewrite_at

    def append(self, records: Iterable[bytes]) -> None:
        """Append records; durable after ``sync``. Does nothing when a rewrite is due, which writes the full state."""
        data = b"".join(records)
        if self._file is None or not data:
            return
        try:
            self._size += self._file.pwritev([data], self._size)
        except BaseException:
            self.close()
            raise

    def sync(self) -> None:
        """Make appended records durable. Raises OSError; the file is then closed and never synced again."""
        if self._file is None:
            return
        try:
            self._file.fdatasync()
        except BaseException:
            self.close()
            raise

    def rewrite(self, records: Iterable[bytes]) -> None:
        """Begin the next manifest with ``records``, durably. The previous one stays until ``remove_old``."""
        self.close()
        number = max([self.number, *self._numbers]) + 1
        path = f"{self._directory}/{manifest_name(number)}"
        file = self._disk.open(path, create=True)
        self._numbers.append(number)
        try:
            data = encode_header(number) + b"".join(records)
            size = file.pwritev([data], 0)
            file.truncate(size)
            file.fdatasync()
            self._disk.sync_dir(self._directory)
        except BaseException:
            file.close()
            raise
        self._file, self.number, self._size = file, number, size
        self._rewrite_at = 2 * size + REWRITE_BYTES

    def remove_old(self) -> None:
        """Remove the previous manifests. Called when the mark file names this one."""
        previous = [number for number in self._numbers if number != self.number]
        for number in previous:
            self._disk.remove(f"{self._directory}/{manifest_name(number)}")
        if previous:
            self._numbers = [self.number]
            self._disk.sync_dir(self._directory)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
