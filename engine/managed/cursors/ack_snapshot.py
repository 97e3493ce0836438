"""A cursor's acknowledgements at one moment, and how they become bytes without holding up everything else. Pure.

Taking the snapshot copies lists; encoding it is a generator that stops after every thousand ranges or batches, for its
caller to let others run in between. The bytes are a PositionInfo; see docs/formats/managed-ledger.md.
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
"""More acknowledged ranges than this are stored as bit sets per ledger where that is shorter."""


class LedgerAcks(NamedTuple):
    """Acknowledged intervals ``starts[i] <= ordinal < stops[i]`` within one ledger, whose entry 0 is ``base``."""

    ledger_id: int
    base: int
    starts: list[int]
    stops: list[int]


class LedgerBatches(NamedTuple):
    """Batches of one ledger, whose entry 0 is ``base``: their ordinals, and bits not acknowledged."""

    ledger_id: int
    base: int
    ordinals: list[int]
    bits: list[int]


@dataclass(slots=True)
class AckSnapshot:
    """What ``CursorState`` says, in the columns that it is encoded from."""

    mark_delete: Position
    ledgers: list[LedgerAcks]
    batches: list[LedgerBatches]
    properties: dict[str, int]
    change: bytes = b""

    @classmethod
    def of(
        cls, acks: AckState, line: LedgerLine, properties: dict[str, int], change: bytes = b""
    ) -> "AckSnapshot":
        starts, stops = acks.holes.columns()
        ledgers = []
        i = 0
        while i < len(starts):
            ledger, base = line.find(starts[i])
            end = base + ledger.entries
            j = bisect_left(starts, end, i)
            found = LedgerAcks(ledger.ledger_id, base, starts[i:j], stops[i:j])
            i = j
            if found.stops[-1] > end:  # goes on in the next ledger
                found.stops[-1] = end
                i = j - 1
                starts[i] = end
            ledgers.append(found)
        batches = _batches(acks.batches, line)
        return cls(line.before(acks.mark), ledgers, batches, dict(properties), change)

    @property
    def range_count(self) -> int:
        return sum(len(one.starts) for one in self.ledgers)

    @property
    def batch_count(self) -> int:
        return sum(len(one.ordinals) for one in self.batches)

    @property
    def last(self) -> Position | None:
        """The last acknowledged entry behind the mark."""
        if not self.ledgers:
            return None
        end = self.ledgers[-1]
        return Position(end.ledger_id, end.stops[-1] - 1 - end.base)

    def state(self) -> CursorState:
        """The same with a pair of positions per range: for small ones."""
        ranges = [
            (Position(ledger_id, start - base), Position(ledger_id, stop - 1 - base))
            for ledger_id, base, starts, stops in self.ledgers
            for start, stop in zip(starts, stops, strict=True)
        ]
        batches = {
            Position(ledger_id, ordinal - base): each
            for ledger_id, base, ordinals, bits in self.batches
            for ordinal, each in zip(ordinals, bits, strict=True)
        }
        return CursorState(self.mark_delete, ranges, batches, dict(self.properties), self.change)

    def encode(self) -> bytes:
        """As PositionInfo, at once."""
        return at_once(self.encoding())

    def encoding(self) -> Generator[None, None, bytes]:
        """The same in short steps; the last one puts it all together, 4 ms for 80,000 words."""
        at = self.mark_delete
        head = pb.PositionInfo(ledgerId=at.ledger_id, entryId=at.entry_id).SerializeToString()
        rest = pb.PositionInfo()
        put_common(rest, self.properties, {}, self.change)
        for batches in self.batches:
            yield from _put_batches(rest, batches)
        if self.range_count > RANGES_AS_RANGES_MAX and self._bits_are_shorter():
            for ledger in self.ledgers:
                values = yield from _words(ledger)
                rest.individualDeletedMessageRanges.add(key=ledger.ledger_id, values=values)
            return head + rest.SerializePartialToString()
        ranges: list[bytes] = []
        for ledger in self.ledgers:
            yield from _put_ranges(ranges, ledger)
        return head + b"".join(ranges) + rest.SerializePartialToString()

    def _bits_are_shorter(self) -> bool:
        """By 10 bytes a word and 16 a range."""
        words = sum((one.stops[-1] - one.base + 63) // 64 for one in self.ledgers)
        return words * 10 <= self.range_count * 16


def _batches(batches: dict[int, int], line: LedgerLine) -> list[LedgerBatches]:
    ordinals = sorted(batches)
    found = []
    i = 0
    while i < len(ordinals):
        ledger, base = line.find(ordinals[i])
        j = bisect_left(ordinals, base + ledger.entries, i + 1)
        own = ordinals[i:j]
        found.append(LedgerBatches(ledger.ledger_id, base, own, [batches[each] for each in own]))
        i = j
    return found


def _put_batches(info: pb.PositionInfo, batches: LedgerBatches) -> Generator[None, None, None]:
    ledger_id, base, ordinals, bits = batches
    for at in range(0, len(ordinals), STEP):
        for ordinal, each in zip(ordinals[at : at + STEP], bits[at : at + STEP], strict=True):
            put_batch(info, Position(ledger_id, ordinal - base), each)
        yield


def _words(ledger: LedgerAcks) -> Generator[None, None, tuple[int, ...]]:
    """Acknowledged entries as bits, bit i of word j = entry 64 j + i."""
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
    """Field 3 of PositionInfo: a MessageRange per interval, lower endpoint exclusive. By hand: the generated classes
    take five times as long."""
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
    """What stands before either entry id of a MessageRange."""
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
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
