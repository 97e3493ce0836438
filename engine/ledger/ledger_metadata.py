"""Ledger metadata as BookKeeper stores it: written in version 3, read in versions 1 to 3. Pure.

A header line ``BookieMetadataFormatVersion TAB n LF``, then by version: 3 a varint length and the message
LedgerMetadataFormat in protobuf binary, 2 the same message as protobuf text, 1 lines of text. The binary is written
by hand, because other clients compare and parse the bytes and so depend on the order and presence of fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import NamedTuple

from engine.ledger.digest import DigestType
from engine.ledger.errors import MetadataFormatError
from engine.metadata.protobuf.protobinary import (
    put_bytes,
    put_int,
    take_fields,
    take_varint,
    varint,
)
from engine.metadata.protobuf.prototext import parse_text

HEADER = b"BookieMetadataFormatVersion\t"
IN_RECOVERY_V1 = -102


class LedgerState(IntEnum):
    """States of a ledger; a ledger's state only moves forward."""

    OPEN = 1
    IN_RECOVERY = 2
    CLOSED = 3


class Segment(NamedTuple):
    """Entries from ``first`` to before the next segment's first; ``bookies`` are the ids in ensemble order."""

    first: int
    bookies: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LedgerMetadata:
    """Immutable metadata of a ledger at one stored version. ``last_entry`` and ``length`` are -1 and 0 unless the state
    is CLOSED."""

    ensemble_size: int
    write_quorum: int
    ack_quorum: int
    segments: tuple[Segment, ...]
    state: LedgerState = LedgerState.OPEN
    last_entry: int = -1
    length: int = 0
    digest: DigestType | None = DigestType.CRC32C
    password: bytes | None = b""
    ctime_ms: int | None = None
    custom: Mapping[str, bytes] = field(default_factory=dict)
    ctoken: int = 0
    version: int = field(default=-1, compare=False)
    """Version of the metadata store's node that it was read from or written to; -1 when unknown."""

    def check(self) -> "LedgerMetadata":
        """Return self if it is consistent. Raises MetadataFormatError naming the broken rule."""
        e, w, a = self.ensemble_size, self.write_quorum, self.ack_quorum
        if not e >= w >= a >= 1:
            raise MetadataFormatError(f"quorums must be E >= WQ >= AQ >= 1, not {e}/{w}/{a}")
        if not self.segments or self.segments[0].first != 0:
            raise MetadataFormatError("segment: the first one must start at entry 0")
        last = -1
        for segment in self.segments:
            if segment.first <= last:
                raise MetadataFormatError(f"segment: {segment.first} does not follow {last}")
            last = segment.first
            if len(segment.bookies) != e or len(set(segment.bookies)) != e:
                raise MetadataFormatError(f"segment {last}: needs {e} distinct bookies")
        if self.state is not LedgerState.CLOSED and self.last_entry != -1:
            raise MetadataFormatError("lastEntryId: set on a ledger that is not closed")
        return self

    def check_follows(self, before: "LedgerMetadata") -> None:
        """Raise MetadataFormatError unless a ledger stored as ``before`` may become this (I5, I6)."""
        if self.state < before.state:
            raise MetadataFormatError(f"state: {before.state.name} cannot become {self.state.name}")
        if before.state is LedgerState.CLOSED:
            same = (self.last_entry, self.length) == (before.last_entry, before.length)
            firsts = [segment.first for segment in before.segments]
            if not same or [segment.first for segment in self.segments] != firsts:
                raise MetadataFormatError("lastEntryId: a closed ledger's end and segments stay")
        else:
            firsts = [segment.first for segment in before.segments[:-1]]
            if [segment.first for segment in self.segments[: len(firsts)]] != firsts:
                raise MetadataFormatError(
                    "segment: only the last one of an open ledger may begin elsewhere"
                )
        fixed = ("ensemble_size", "write_quorum", "ack_quorum", "digest", "password")
        for name in fixed:
            if getattr(self, name) != getattr(before, name):
                raise MetadataFormatError(f"{name}: stays as the ledger was created")

    def segment_index(self, entry_id: int) -> int:
        """Return the index of the segment that covers an entry."""
        for i in range(len(self.segments) - 1, -1, -1):
            if self.segments[i].first <= entry_id:
                return i
        raise ValueError(f"entry id {entry_id} is negative")

    def bookies(self, entry_id: int) -> tuple[str, ...]:
        """Return the ensemble of an entry."""
        return self.segments[self.segment_index(entry_id)].bookies

    def recovering(self) -> "LedgerMetadata":
        return replace(self, state=LedgerState.IN_RECOVERY, ctoken=0)

    def closed(self, last_entry: int, length: int) -> "LedgerMetadata":
        return replace(
            self, state=LedgerState.CLOSED, last_entry=last_entry, length=length, ctoken=0
        )

    def with_members(self, first: int, bookies: tuple[str, ...]) -> "LedgerMetadata":
        """Return metadata whose segment that starts at ``first`` lies on ``bookies``."""
        segments = tuple(
            Segment(first, bookies) if segment.first == first else segment
            for segment in self.segments
        )
        return replace(self, segments=segments, ctoken=0).check()

    def with_ensemble(self, first: int, bookies: tuple[str, ...]) -> "LedgerMetadata":
        """Return metadata whose entries from ``first`` on lie on ``bookies``. The last segment is replaced when it
        starts at ``first``; otherwise a segment is appended."""
        segments = self.segments
        if segments[-1].first == first:
            segments = segments[:-1]
        return replace(self, segments=(*segments, Segment(first, bookies)), ctoken=0).check()


def encode(metadata: LedgerMetadata) -> bytes:
    """Encode metadata in version 3. Raises MetadataFormatError."""
    message = encode_message(metadata)
    return HEADER + b"3\n" + varint(len(message)) + message


def encode_message(metadata: LedgerMetadata, *, secrets: bool = True) -> bytes:
    """Encode metadata as the bare message LedgerMetadataFormat; without ``secrets`` the password and the creator's
    token are left out. Raises MetadataFormatError."""
    metadata.check()
    out = bytearray()
    put_int(out, 1, metadata.write_quorum)
    put_int(out, 2, metadata.ensemble_size)
    put_int(out, 3, metadata.length)
    put_int(out, 4, metadata.last_entry)
    put_int(out, 5, metadata.state)
    for segment in metadata.segments:
        body = bytearray()
        for bookie in segment.bookies:
            put_bytes(body, 1, bookie.encode())
        put_int(body, 2, segment.first)
        put_bytes(out, 6, bytes(body))
    if metadata.digest is not None:  # digest type and password are both present or both missing
        put_int(out, 7, metadata.digest)
        if secrets:
            put_bytes(out, 8, metadata.password or b"")
    put_int(out, 9, metadata.ack_quorum)
    if metadata.ctime_ms is not None:
        put_int(out, 10, metadata.ctime_ms)
    for key, value in metadata.custom.items():
        body = bytearray()
        put_bytes(body, 1, key.encode())
        put_bytes(body, 2, value)
        put_bytes(out, 11, bytes(body))
    if secrets:
        put_int(out, 12, metadata.ctoken)
    return bytes(out)


def decode(data: bytes) -> LedgerMetadata:
    """Decode metadata of version 1, 2 or 3. Raises MetadataFormatError."""
    line, newline, body = data.partition(b"\n")
    version = line.removeprefix(HEADER)
    if not newline or line == version or version not in (b"1", b"2", b"3"):
        raise MetadataFormatError(f"header: {data[:40]!r} is not of version 1 to 3")
    try:
        if version == b"1":
            return _decode_lines(body.decode()).check()
        if version == b"2":
            return _from_fields(parse_text(body.decode(), nested=("segment", "customMetadata")))
        size, start = take_varint(body, 0)
        if start + size != len(body):
            raise MetadataFormatError(f"body: {len(body) - start} bytes instead of {size}")
    except (ValueError, IndexError, KeyError) as e:
        raise MetadataFormatError(f"body: {e}") from e
    return decode_message(body[start:])


def decode_message(message: bytes) -> LedgerMetadata:
    """Decode a bare message LedgerMetadataFormat. Raises MetadataFormatError."""
    try:
        return _from_fields(_binary_fields(message))
    except (ValueError, IndexError, KeyError) as e:
        raise MetadataFormatError(f"body: {e}") from e


Fields = dict[str, list[object]]
_NAMES = {
    1: "quorumSize", 2: "ensembleSize", 3: "length", 4: "lastEntryId", 5: "state", 6: "segment",
    7: "digestType", 8: "password", 9: "ackQuorumSize", 10: "ctime", 11: "customMetadata", 12: "cToken",
}  # fmt: skip


def _binary_fields(body: bytes) -> Fields:
    fields: Fields = {}
    for number, value in take_fields(body):
        name = _NAMES.get(number)
        if name == "segment" and isinstance(value, bytes):
            inner: Fields = {"ensembleMember": [], "firstEntryId": []}
            for n, v in take_fields(value):
                inner["ensembleMember" if n == 1 else "firstEntryId"].append(v)
            fields.setdefault(name, []).append(inner)
        elif name == "customMetadata" and isinstance(value, bytes):
            inner = {"key": [], "value": []}
            for n, v in take_fields(value):
                inner["key" if n == 1 else "value"].append(v)
            fields.setdefault(name, []).append(inner)
        elif name is not None:
            fields.setdefault(name, []).append(value)
    return fields


def _from_fields(fields: Fields) -> LedgerMetadata:
    write_quorum = _int(fields, "quorumSize")
    state = LedgerState(_enum(fields["state"][-1], LedgerState))
    segments = []
    for inner in _messages(fields, "segment"):
        bookies = tuple(_text(member) for member in inner["ensembleMember"])
        segments.append(Segment(_int(inner, "firstEntryId"), bookies))
    custom = {}
    for inner in _messages(fields, "customMetadata"):
        custom[_text(inner["key"][-1])] = _bytes(inner["value"][-1])
    digest = fields.get("digestType")
    closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        ensemble_size=_int(fields, "ensembleSize"),
        write_quorum=write_quorum,
        ack_quorum=_int(fields, "ackQuorumSize") if "ackQuorumSize" in fields else write_quorum,
        segments=tuple(segments),
        state=state,
        last_entry=_int(fields, "lastEntryId") if closed else -1,
        length=_int(fields, "length") if closed else 0,
        digest=None if digest is None else DigestType(_enum(digest[-1], DigestType)),
        password=_bytes(fields["password"][-1]) if "password" in fields else None,
        ctime_ms=_int(fields, "ctime") if "ctime" in fields else None,
        custom=custom,
        ctoken=_int(fields, "cToken") if "cToken" in fields else 0,
    ).check()


def _decode_lines(body: str) -> LedgerMetadata:
    lines = body.splitlines()
    quorum, ensemble, length = int(lines[0]), int(lines[1]), int(lines[2])
    state, last_entry = LedgerState.OPEN, -1
    segments = []
    for line in lines[3:]:
        parts = line.split("\t")
        if len(parts) == 2 and parts[1] == "CLOSED":
            last_entry = int(parts[0])
            state = LedgerState.CLOSED
            if last_entry == IN_RECOVERY_V1:
                state, last_entry = LedgerState.IN_RECOVERY, -1
        else:
            segments.append(Segment(int(parts[0]), tuple(parts[1:])))
    closed = state is LedgerState.CLOSED
    return LedgerMetadata(
        ensemble,
        quorum,
        quorum,
        tuple(segments),
        state,
        last_entry,
        length if closed else 0,
        digest=None,
        password=None,
    )


def _messages(fields: Fields, name: str) -> list[Fields]:
    messages = []
    for inner in fields.get(name, []):
        if not isinstance(inner, dict):
            raise ValueError(f"{name} is no message")
        messages.append(inner)
    return messages


def _int(fields: Fields, name: str) -> int:
    value = fields[name][-1]
    if not isinstance(value, int):
        raise ValueError(f"{name} is not a number")
    return value


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("bytes expected")
    return value


def _enum(value: object, kind: type[IntEnum]) -> int:
    return kind[value].value if isinstance(value, str) else int(value)  # type: ignore[call-overload]
