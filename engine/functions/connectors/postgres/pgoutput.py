"""Messages of PostgreSQL's plugin ``pgoutput``, version 1, as values. Pure.

All integers are big-endian, names end with a zero byte. After a byte for the kind of a message come:

=== ======================================================================================================
B   commit LSN (8), commit time (8, µs since 2000), transaction (4)
C   flags (1), commit LSN (8), LSN behind the commit (8), commit time (8)
R   relation (4), schema, table, replica identity (1), count (2), then of each column: flags (1; 1 = in the
    replica identity), name, type's OID (4), type modifier (4)
I   relation (4), ``N``, row
U   relation (4), optionally ``K`` or ``O`` and the row before, ``N``, row
D   relation (4), ``K`` (columns of the replica identity alone) or ``O``, row before
T   count (4), options (1), relations (4 each)
=== ======================================================================================================

A row is a count (2), and of each column ``n`` (null), ``u`` (unchanged and not sent) or ``t`` with length (4) and
text. Kinds Y (type), O (origin) and M (message) are skipped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Final

from engine.base.errors import PeerError

EPOCH_MS: Final = 946_684_800_000
"""Milliseconds of 2000-01-01 since 1970, PostgreSQL's epoch."""
KEY_ALONE, WHOLE_ROW = b"K", b"O"
SKIPPED = frozenset(b"YOM")
_BEGIN = Struct(">QqI")
_COMMIT = Struct(">BQQq")
_COLUMN_TYPE = Struct(">Ii")
_INT16 = Struct(">h")
_INT32 = Struct(">I")


class PgoutputError(PeerError):
    """A message of the server has not the form of pgoutput."""


class Unchanged:
    """The type of ``UNCHANGED``: a large value that an update left alone, and that the server did not send."""


UNCHANGED: Final = Unchanged()
Cell = bytes | Unchanged | None
Row = Sequence[Cell]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation. ``identity``: whether it is part of the table's replica identity."""

    name: str
    type_oid: int
    identity: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is from here on. ``replica_identity``: d (primary key), f (whole row), i (an index), n (none)."""

    relation_id: int
    schema: str
    table: str
    replica_identity: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """The begin of a transaction, which is sent when it is committed. ``lsn``: the place of its commit."""

    lsn: int
    at_ms: int
    transaction: int


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a transaction. ``end_lsn``: the place behind its commit, from which the log may be sent again."""

    end_lsn: int


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row that was inserted (I), updated (U) or deleted (D). ``before`` has null in columns outside of the replica
    identity unless ``before_is_whole``."""

    kind: str
    relation_id: int
    before: Row | None
    after: Row | None
    before_is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Truncation:
    """Tables that lost all rows at once."""

    relation_ids: tuple[int, ...]


Event = Relation | Begin | Commit | RowChange | Truncation


def parse(data: bytes) -> Event | None:
    """Return a message, None for a kind that is skipped. Raises PgoutputError."""
    if not data:
        raise PgoutputError("pgoutput: an empty message")
    if data[0] in SKIPPED:
        return None
    try:
        return _parse(chr(data[0]), _Reader(data, 1))
    except (IndexError, UnicodeDecodeError, ValueError) as error:
        raise PgoutputError(f"pgoutput: a broken message of kind {data[:1]!r}: {error}") from error


def _parse(kind: str, reader: "_Reader") -> Event:
    if kind == "B":
        lsn, at_us, transaction = reader.unpack(_BEGIN)
        return Begin(lsn, EPOCH_MS + at_us // 1000, transaction)
    if kind == "C":
        return Commit(reader.unpack(_COMMIT)[2])
    if kind == "R":
        return _relation(reader)
    if kind == "T":
        (count,) = reader.unpack(_INT32)
        reader.byte()
        return Truncation(tuple(reader.unpack(_INT32)[0] for _ in range(count)))
    if kind not in "IUD":
        raise PgoutputError(f"pgoutput: a message of the unknown kind {kind!r}")
    (relation_id,) = reader.unpack(_INT32)
    before: Row | None = None
    mark = reader.byte()
    whole = mark == WHOLE_ROW
    if mark in (KEY_ALONE, WHOLE_ROW) and kind != "I":
        before = reader.row()
        mark = b"N" if kind == "D" else reader.byte()
    elif kind == "D":
        raise ValueError(f"mark {mark!r}")
    if mark != b"N":
        raise ValueError(f"mark {mark!r}")
    return RowChange(kind, relation_id, before, None if kind == "D" else reader.row(), whole)


def _relation(reader: "_Reader") -> Relation:
    (relation_id,) = reader.unpack(_INT32)
    # The server leaves out the name of its own schema.
    schema, table = reader.name() or "pg_catalog", reader.name()
    identity = reader.byte().decode("ascii")
    columns = []
    for _ in range(reader.count()):
        flags = reader.byte()[0]
        name = reader.name()
        type_oid, _ = reader.unpack(_COLUMN_TYPE)
        columns.append(Column(name, type_oid, bool(flags & 1)))
    return Relation(relation_id, schema, table, identity, tuple(columns))


class _Reader:
    """A place in a message. Methods raise ValueError or IndexError where the message ends too early."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def unpack(self, form: Struct) -> tuple[int, ...]:
        end = self._at + form.size
        if end > len(self._data):
            raise ValueError("it is cut off")
        values = form.unpack_from(self._data, self._at)
        self._at = end
        return values

    def byte(self) -> bytes:
        return self.bytes(1)

    def bytes(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise ValueError("it is cut off")
        data = self._data[self._at : end]
        self._at = end
        return data

    def count(self) -> int:
        (count,) = self.unpack(_INT16)
        if count < 0:
            raise ValueError(f"a count of {count}")
        return count

    def name(self) -> str:
        end = self._data.index(b"\0", self._at)
        name = self._data[self._at : end].decode()
        self._at = end + 1
        return name

    def row(self) -> Row:
        cells: list[Cell] = []
        for _ in range(self.count()):
            mark = self.byte()
            if mark == b"n":
                cells.append(None)
            elif mark == b"u":
                cells.append(UNCHANGED)
            elif mark == b"t":
                cells.append(self.bytes(self.unpack(_INT32)[0]))
            else:
                raise ValueError(f"a value of kind {mark!r}")
        return cells


def lsn_text(lsn: int) -> str:
    """Return a place of the log as PostgreSQL writes it, such as ``16/B374D848``."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def parse_lsn(text: str) -> int:
    """Return the place of ``lsn_text``. Raises ValueError."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)
