"""Events that the sides of a connection report, in order of arrival. A run of frames is one event. Pure."""

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from google.protobuf.message import DecodeError

from engine.base.errors import PeerError
from engine.base.ids import Position
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.kernels import SendRun
from engine.wire.varints import LOW14, SHORT14, read_varint, varint

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
    """A SEND whose checksum does not match, which was skipped. ``sequence_id``: the one that its SEND_ERROR must
    have."""

    producer_id: int
    sequence_id: int


@dataclass(slots=True)
class Acks:
    """Individual acknowledgements of complete entries by one consumer, without a request for an answer."""

    consumer_id: int
    positions: list[Position]


@dataclass(slots=True)
class Command:
    """A command of any other kind. It is allowed in the connection's state and has its required fields."""

    command: pb.BaseCommand


@dataclass(slots=True)
class Violation:
    """A breach of the protocol by the other side; the connection must be closed. The last event of a peer."""

    error: PeerError


Event = Sends | CorruptSend | Acks | Command | Violation
"""Events of a broker's side."""


class Receipt(NamedTuple):
    """A receipt. ``position`` is NOWHERE for a message that was not stored: a duplicate, or one that an Apache Pulsar
    broker dropped by a limit."""

    producer_id: int
    sequence_id: int
    position: Position
    highest_sequence_id: int = 0
    """Highest sequence id of a batch, 0 where the receipt has none."""
    run_length: int = 1
    """Number of receipts that this one stands for. The others have the same sequence id, and highest sequence ids that
    follow each other, as those of a replicator have; their positions are in the same ledger."""


class Delivered(NamedTuple):
    """One MESSAGE. Bits set in ``ack_set``: due messages of the batch; empty: all are due. ``entry``: the bytes that a
    client sent behind its SEND's command, see ``batches.unpack_entry``. ``epoch``: the consumer's epoch at the
    delivery, if it has any."""

    consumer_id: int
    position: Position
    redelivery_count: int
    ack_set: list[int]
    entry: bytes
    epoch: int | None = None


@dataclass(slots=True)
class _Frames:
    """Complete frames of one kind, each beginning at ``starts[i]`` of ``buf``; the last one ends at ``end``.

    They are parsed only by ``read``, which raises PeerError when one is malformed.
    """

    buf: bytes
    starts: list[int]
    end: int

    @property
    def count(self) -> int:
        return len(self.starts)

    def parsed(self) -> "list[tuple[pb.BaseCommand, int, int]]":
        """Return each command, and where its payload begins and ends."""
        stops = [*self.starts[1:], self.end]
        parsed = []
        for start, stop in zip(self.starts, stops, strict=True):
            first, behind = frames.command_span(self.buf, start, stop)
            parsed.append((commands.parse(self.buf, first, behind), behind, stop))
        return parsed


class Receipts(_Frames):
    """SEND_RECEIPTs of any producers of the connection."""

    def read(self) -> list[Receipt]:
        """Parse the frames. Those that ``Receipt.run_length`` is about are compared with the first one, all at once."""
        receipts: list[Receipt] = []
        buf, parse = self.buf, pb.CommandSendReceipt.FromString
        starts = [*self.starts, self.end]
        i, last = 0, len(starts) - 1
        while i < last:
            start, stop = starts[i], starts[i + 1]
            size = stop - start - 12
            try:
                # When each length in the frame is one byte, only the body is parsed, which takes half the time.
                if size > 127 or buf[start + 11] != size or buf[start + 7] != size + 4:
                    raise DecodeError
                receipt = parse(buf[start + 12 : stop])
                if not receipt.IsInitialized():
                    raise DecodeError
            except DecodeError:
                first, behind = frames.command_span(buf, start, stop)
                receipt = commands.parse(buf, first, behind).send_receipt
            place = receipt.message_id
            ledger_id, entry_id = place.ledgerId, place.entryId
            position = (
                _position(place) if (ledger_id | entry_id) >> 63 else Position(ledger_id, entry_id)
            )
            highest = receipt.highest_sequence_id
            count = 1
            if highest and i + 1 < last:
                count = self._alike(start, stop, last - i, receipt)
            receipts.append(
                Receipt(receipt.producer_id, receipt.sequence_id, position, highest, count)
            )
            i += count
        return receipts

    def _alike(self, start: int, stop: int, count: int, first: pb.CommandSendReceipt) -> int:
        """Return how many of the next ``count`` frames ``first``, which is at ``start`` to ``stop``, may stand for."""
        buf, size = self.buf, stop - start
        sequence = b"\x08" + varint(first.producer_id) + b"\x10" + varint(first.sequence_id)
        highest = first.highest_sequence_id
        field = b"\x20" + varint(highest)
        id_at = start + 12 + len(sequence)
        # Apache's brokers send the fields in the order of their numbers.
        if buf[stop - len(field) : stop] == field:
            highest_at = stop - len(field) + 1
        elif buf[id_at : id_at + len(field)] == field:
            highest_at = id_at + 1
            id_at += len(field)
        else:
            return 1
        entry_at = id_at + 4 + len(varint(first.message_id.ledgerId))
        id_stop = id_at + 2 + buf[id_at + 1]
        if buf[start + 12 : start + 12 + len(sequence)] != sequence or id_stop > stop:
            return 1
        # Two bytes of the number are those of a table, as far as the other ones do not change.
        low, numbers = highest & 16383, SHORT14 if highest < 16384 else LOW14
        count = min(count, (128 if highest < 128 else 16384) - low)
        while count > 1:
            end = start + count * size
            if end <= self.end:
                expected = bytearray(buf[start:stop] * count)
                rising = b"".join(numbers[low : low + count])
                width = len(rising) // count
                for k in range(width):
                    expected[highest_at - start + k :: size] = rising[k::width]
                for at in range(entry_at, id_stop):
                    expected[at - start :: size] = buf[at:end:size]
                if expected == buf[start:end]:
                    return count
            count >>= 1
        return 1


class Messages(_Frames):
    """MESSAGEs for any consumers of the connection."""

    def read(self) -> list[Delivered]:
        """Parse the frames. One that differs from the frame before by its entry id alone is not parsed by protobuf."""
        buf = self.buf
        deliveries: list[Delivered] = []
        prefix, prefix_size, entry_at, tail = b"", -1, 0, b""
        consumer_id = ledger_id = count = 0
        epoch: int | None = None
        make, unpack = tuple.__new__, _HEAD.unpack_from
        for start, stop in zip(self.starts, [*self.starts[1:], self.end], strict=True):
            size = unpack(buf, start)[1]
            behind = start + 8 + size
            if size == prefix_size and buf[start + 8 : start + entry_at] == prefix:
                entry_id, after = read_varint(buf, start + entry_at, behind)
                if after > 0 and entry_id < _INT64_END and buf[after:behind] == tail:
                    position = make(Position, (ledger_id, entry_id))
                    words: list[int] = []
                    fields = (consumer_id, position, count, words, buf[behind:stop], epoch)
                    deliveries.append(make(Delivered, fields))
                    continue
            first, behind = frames.command_span(buf, start, stop)
            message = commands.parse(buf, first, behind).message
            place = message.message_id
            position, count = _position(place), message.redelivery_count
            consumer_id, ledger_id = message.consumer_id, position.ledger_id
            words = list(message.ack_set)
            epoch = message.consumer_epoch if message.HasField("consumer_epoch") else None
            deliveries.append(
                Delivered(consumer_id, position, count, words, buf[behind:stop], epoch)
            )
            prefix_size = -1
            if not words and position.entry_id >= 0:
                inner = b"\x08" + varint(ledger_id) + b"\x10"
                ids = place.ByteSize()
                body = b"\x08" + varint(consumer_id) + b"\x12" + varint(ids) + inner
                prefix = b"\x08\x09\x4a" + varint(message.ByteSize()) + body
                entry_at = 8 + len(prefix)
                after = entry_at + len(varint(position.entry_id))
                if buf[start + 8 : start + entry_at] == prefix:
                    prefix_size, tail = behind - start - 8, buf[start + after : behind]
        return deliveries


def _position(message_id: pb.MessageIdData) -> Position:
    """Return the position of a message id, which has 2**64 - 1 for -1."""
    if message_id.ledgerId >> 63:
        return commands.NOWHERE
    return Position(message_id.ledgerId, -1 if message_id.entryId >> 63 else message_id.entryId)


ClientEvent = Receipts | Messages | Command | Violation
"""Events of a client's side."""
