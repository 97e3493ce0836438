"""What the sides of a connection report, in order of arrival. A run of frames is one event. Pure."""

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from engine.base.errors import PeerError
from engine.base.ids import Position
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import SendRun
from engine.wire.varints import read_varint, varint

_HEAD = Struct(">II")
_INT64_END = 1 << 63


@dataclass(slots=True)
class Sends:
    """SENDs of one or several producers (``run.owners``), checksums verified.

    ``command`` is set when the run is one SEND with fields beyond message count and highest sequence id (chunk, marker,
    transaction, message id), or with a highest sequence id below its sequence id.
    """

    run: SendRun
    command: pb.CommandSend | None = None


@dataclass(slots=True)
class CorruptSend:
    """A SEND whose checksum does not match; it was skipped. ``sequence_id``: the one a SEND_ERROR must carry."""

    producer_id: int
    sequence_id: int


@dataclass(slots=True)
class Acks:
    """Individual acknowledgements of whole entries by one consumer, no answer asked for."""

    consumer_id: int
    positions: list[Position]


@dataclass(slots=True)
class Command:
    """Any other command, allowed in the connection's state, its required fields present."""

    command: pb.BaseCommand


@dataclass(slots=True)
class Violation:
    """The other side broke the protocol: close the connection. The last event of a peer."""

    error: PeerError


Event = Sends | CorruptSend | Acks | Command | Violation
"""What a broker's side reports."""


class Receipt(NamedTuple):
    """``position`` is NOWHERE for a message that was not stored: a duplicate, or dropped by a limit."""

    producer_id: int
    sequence_id: int
    position: Position


class Delivered(NamedTuple):
    """One MESSAGE. Bits set in ``ack_set``: due messages of the batch; empty: all. ``entry``: what a client sent behind
    its SEND's command, see ``batches.unpack_entry``. ``epoch``: the consumer's when it was given, if it has any."""

    consumer_id: int
    position: Position
    redelivery_count: int
    ack_set: list[int]
    entry: bytes
    epoch: int | None = None


@dataclass(slots=True)
class _Frames:
    """Whole frames of one kind, one behind the other up to ``end``, each from ``starts[i]`` of ``buf`` on.

    They are parsed only when somebody ``read``s them, which raises PeerError when one is malformed.
    """

    buf: bytes
    starts: list[int]
    end: int

    @property
    def count(self) -> int:
        return len(self.starts)

    def parsed(self) -> "list[tuple[pb.BaseCommand, int, int]]":
        """Each command, and where its payload begins and ends."""
        stops = [*self.starts[1:], self.end]
        found = []
        for start, stop in zip(self.starts, stops, strict=True):
            first, behind = frames.command_span(self.buf, start, stop)
            found.append((commands.parse(self.buf, first, behind), behind, stop))
        return found


class Receipts(_Frames):
    """SEND_RECEIPTs of any producers of the connection."""

    def read(self) -> list[Receipt]:
        found: list[Receipt] = []
        buf, parse = self.buf, pb.CommandSendReceipt.FromString
        for start, stop in zip(self.starts, [*self.starts[1:], self.end], strict=True):
            size = stop - start - 12
            try:
                # Where each length in the frame is one byte, the body alone is parsed, in half the time.
                if size > 127 or buf[start + 11] != size or buf[start + 7] != size + 4:
                    raise DecodeError
                one = parse(buf[start + 12 : stop])
                if not one.IsInitialized():
                    raise DecodeError
            except DecodeError:
                first, behind = frames.command_span(buf, start, stop)
                one = commands.parse(buf, first, behind).send_receipt
            place = one.message_id
            ledger_id, entry_id = place.ledgerId, place.entryId
            position = (
                _position(place) if (ledger_id | entry_id) >> 63 else Position(ledger_id, entry_id)
            )
            found.append(Receipt(one.producer_id, one.sequence_id, position))
        return found


class Messages(_Frames):
    """MESSAGEs for any consumers of the connection."""

    def read(self) -> list[Delivered]:
        """Frames that differ from the one before by their entry id alone are not parsed anew."""
        buf = self.buf
        found: list[Delivered] = []
        known, known_size, entry_at, tail = b"", -1, 0, b""
        consumer_id = ledger_id = count = 0
        epoch: int | None = None
        make, unpack = tuple.__new__, _HEAD.unpack_from
        for start, stop in zip(self.starts, [*self.starts[1:], self.end], strict=True):
            size = unpack(buf, start)[1]
            behind = start + 8 + size
            if size == known_size and buf[start + 8 : start + entry_at] == known:
                entry_id, after = read_varint(buf, start + entry_at, behind)
                if after > 0 and entry_id < _INT64_END and buf[after:behind] == tail:
                    position = make(Position, (ledger_id, entry_id))
                    words: list[int] = []
                    one = (consumer_id, position, count, words, buf[behind:stop], epoch)
                    found.append(make(Delivered, one))
                    continue
            first, behind = frames.command_span(buf, start, stop)
            message = commands.parse(buf, first, behind).message
            place = message.message_id
            position, count = _position(place), message.redelivery_count
            consumer_id, ledger_id = message.consumer_id, position.ledger_id
            words = list(message.ack_set)
            epoch = message.consumer_epoch if message.HasField("consumer_epoch") else None
            found.append(Delivered(consumer_id, position, count, words, buf[behind:stop], epoch))
            known_size = -1
            if not words and position.entry_id >= 0:
                inner = b"\x08" + varint(ledger_id) + b"\x10"
                ids = place.ByteSize()
                body = b"\x08" + varint(consumer_id) + b"\x12" + varint(ids) + inner
                known = b"\x08\x09\x4a" + varint(message.ByteSize()) + body
                entry_at = 8 + len(known)
                after = entry_at + len(varint(position.entry_id))
                if buf[start + 8 : start + entry_at] == known:
                    known_size, tail = behind - start - 8, buf[start + after : behind]
        return found


def _position(one: pb.MessageIdData) -> Position:
    """-1 is 2**64 - 1 on the wire."""
    if one.ledgerId >> 63:
        return commands.NOWHERE
    return Position(one.ledgerId, -1 if one.entryId >> 63 else one.entryId)


Told = Receipts | Messages | Command | Violation
"""What a client's side reports."""
