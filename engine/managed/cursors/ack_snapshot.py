"""A cursor's acknowledgements at one moment, and their encoding in steps that do not block the event loop. Pure.

Taking the snapshot copies lists. Encoding it is a generator that yields after every thousand ranges or batches, so that
its caller can let other tasks run in between. The bytes are a PositionInfo; see docs/formats/managed-ledger.md.
"""

import struct
from bisect import bisect_left
from collections.abc import Generator
from dataclasses import dataclass
from typing import NamedTuple

from engine.base.ids import Position
from engine.base.tasks import at_once
from engine.managed.ack_state import STEP, AckState
from engine.managed.positions import LedgerLine
from engine.managed.stored.records import CursorState, put_batch, put_common
from engine.wire import mledger_pb2 as pb

RANGES_AS_RANGES_MAX = 1000
"""Acknowledged ranges above which they are stored as one bit set per ledger, where that is shorter."""


class LedgerAcks(NamedTuple):
    """Acknowledged intervals ``starts[i] <= ordinal < stops[i]`` within one ledger, whose entry 0 is ``base``."""

    ledger_id: int
    base: int
    starts: list[int]
    stops: list[int]


class LedgerBatches(NamedTuple):
    """Partly acknowledged batches of one ledger, whose entry 0 is ``base``: their ordinals, and the bits of
    unacknowledged messages."""

    ledger_id: int
    base: int
    ordinals: list[int]
    bits: list[int]


@dataclass(slots=True)
class AckSnapshot:
    """The content of a ``CursorState``, in the columns that it is encoded from."""

    mark_delete: Position
    ledgers: list[LedgerAcks]
    batches: list[LedgerBatches]
    properties: dict[str, int]
    change: bytes = b""

    @classmethod
    def of(
        cls, acks: AckState, line: LedgerLine, properties: dict[str, int], change: bytes = b""
    ) -> "AckSnapshot":
        """Copy the acknowledgements, split at the ends of ledgers."""
        starts, stops = acks.holes.columns()
        ledgers = []
        i = 0
        while i < len(starts):
            ledger, base = line.find(starts[i])
            end = base + ledger.entries
            j = bisect_left(starts, end, i)
            acks_of_ledger = LedgerAcks(ledger.ledger_id, base, starts[i:j], stops[i:j])
            i = j
            if acks_of_ledger.stops[-1] > end:  # the interval continues in the next ledger
                acks_of_ledger.stops[-1] = end
                i = j - 1
                starts[i] = end
            ledgers.append(acks_of_ledger)
        batches = _batches(acks.batches, line)
        return cls(line.before(acks.mark), ledgers, batches, dict(properties), change)

    @property
    def range_count(self) -> int:
        return sum(len(ledger.starts) for ledger in self.ledgers)

    @property
    def batch_count(self) -> int:
        return sum(len(ledger.ordinals) for ledger in self.batches)

    @property
    def last(self) -> Position | None:
        """The last acknowledged entry behind the mark."""
        if not self.ledgers:
            return None
        end = self.ledgers[-1]
        return Position(end.ledger_id, end.stops[-1] - 1 - end.base)

    def state(self) -> CursorState:
        """Return the same with a pair of positions per range; only for small states."""
        ranges = [
            (Position(ledger_id, start - base), Position(ledger_id, stop - 1 - base))
            for ledger_id, base, starts, stops in self.ledgers
            for start, stop in zip(starts, stops, strict=True)
        ]
        batches = {
            Position(ledger_id, ordinal - base): unacknowledged
            for ledger_id, base, ordinals, bits in self.batches
            for ordinal, unacknowledged in zip(ordinals, bits, strict=True)
        }
        return CursorState(self.mark_delete, ranges, batches, dict(self.properties), self.change)

    def encode(self) -> bytes:
        """Encode as PositionInfo, at once."""
        return at_once(self.encoding())

    def encoding(self) -> Generator[None, None, bytes]:
        """Encode as PositionInfo, yielding between short steps. The last step joins the parts: 4 ms for 80,000
        words."""
        at = self.mark_delete
        head = pb.PositionInfo(ledgerId=at.ledger_id, entryId=at.entry_id).SerializeToString()
        fields = pb.PositionInfo()
        put_common(fields, self.properties, {}, self.change)
        for batches in self.batches:
            yield from _put_batches(fields, batches)
        if self.range_count > RANGES_AS_RANGES_MAX and self._bits_are_shorter():
            for ledger in self.ledgers:
                values = yield from _words(ledger)
                fields.individualDeletedMessageRanges.add(key=ledger.ledger_id, values=values)
            return head + fields.SerializePartialToString()
        ranges: list[bytes] = []
        for ledger in self.ledgers:
            yield from _put_ranges(ranges, ledger)
        return head + b"".join(ranges) + fields.SerializePartialToString()

    def _bits_are_shorter(self) -> bool:
        """Compare both forms, at 10 bytes a word and 16 a range."""
        words = sum((ledger.stops[-1] - ledger.base + 63) // 64 for ledger in self.ledgers)
        return words * 10 <= self.range_count * 16


def _batches(batches: dict[int, int], line: LedgerLine) -> list[LedgerBatches]:
    ordinals = sorted(batches)
    by_ledger = []
    i = 0
    while i < len(ordinals):
        ledger, base = line.find(ordinals[i])
        j = bisect_left(ordinals, base + ledger.entries, i + 1)
        of_ledger = ordinals[i:j]
        bits = [batches[ordinal] for ordinal in of_ledger]
        by_ledger.append(LedgerBatches(ledger.ledger_id, base, of_ledger, bits))
        i = j
    return by_ledger


def _put_batches(info: pb.PositionInfo, batches: LedgerBatches) -> Generator[None, None, None]:
    """Add the batches, yielding between short steps."""
    ledger_id, base, ordinals, bits = batches
    for at in range(0, len(ordinals), STEP):
        rows = zip(ordinals[at : at + STEP], bits[at : at + STEP], strict=True)
        for ordinal, unacknowledged in rows:
            put_batch(info, Position(ledger_id, ordinal - base), unacknowledged)
        yield


def _words(ledger: LedgerAcks) -> Generator[None, None, tuple[int, ...]]:
    """Return the acknowledged entries as 64-bit words, yielding between short steps. Bit i of word j is entry 64 j +
    i."""
    _, base, starts, stops = ledger
    words = (stops[-1] - base + 63) // 64
    raw = bytearray(8 * words)
    for at in range(0, len(starts), STEP):
        for start, stop in zip(starts[at : at + STEP], stops[at : at + STEP], strict=True):
            first = start - base
            if stop - start == 1:
                raw[first >> 3] |= 1 << (first & 7)
            else:
                _set_bits(raw, first, stop - 1 - base)
        yield
    return struct.unpack(f"<{words}q", raw)


def _set_bits(raw: bytearray, first: int, last: int) -> None:
    low, high = first >> 3, last >> 3
    if low == high:
        raw[low] |= (0xFF << (first & 7)) & (0xFF >> (7 - (last & 7)))
        return
    raw[low] |= (0xFF << (first & 7)) & 0xFF
    raw[low + 1 : high] = b"\xff" * (high - low - 1)
    raw[high] |= 0xFF >> (7 - (last & 7))


def _put_ranges(out: list[bytes], ledger: LedgerAcks) -> Generator[None, None, None]:
    """Append field 3 of PositionInfo to ``out``: a MessageRange per interval, lower endpoint exclusive. Encoded by
    hand, because the generated classes take five times as long."""
    ledger_id, base, starts, stops = ledger
    position = b"\x08" + _varint(ledger_id) + b"\x10"
    frames: dict[tuple[int, int], tuple[bytes, bytes]] = {}  # by the lengths of both entry ids
    for at in range(0, len(starts), STEP):
        for start, stop in zip(starts[at : at + STEP], stops[at : at + STEP], strict=True):
            lower, upper = _varint(start - base - 1), _varint(stop - base - 1)
            key = (len(lower), len(upper))
            frame = frames.get(key)
            if frame is None:
                frame = frames[key] = _range_frame(position, *key)
            out.append(frame[0] + lower + frame[1] + upper)
        yield


def _range_frame(position: bytes, lower: int, upper: int) -> tuple[bytes, bytes]:
    """Return the bytes before the first and before the second entry id of a MessageRange."""
    low, high = len(position) + lower, len(position) + upper
    return (
        b"\x1a" + _varint(low + high + 4) + b"\x0a" + _varint(low) + position,
        b"\x12" + _varint(high) + position,
    )


def _varint(value: int) -> bytes:
    if 0 <= value < 0x80:
        return bytes((value,))
    if 0 <= value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
