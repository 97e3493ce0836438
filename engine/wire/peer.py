"""The two sides of a Pulsar connection without I/O: they receive bytes and return events. Pure."""

from struct import Struct
from typing import Generic, TypeVar

from engine.base.crc32c import crc32c
from engine.base.errors import PeerError
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.events import (
    Acks,
    ClientEvent,
    Command,
    CorruptSend,
    Event,
    Messages,
    Receipts,
    Sends,
    Violation,
)
from engine.wire.kernels import (
    BAD_CHECKSUM,
    CHECKSUM_MAGIC,
    SendRun,
    batch_sizes,
    take_acks,
    take_sends,
)
from engine.wire.states import (
    RECEIVED,
    SENT,
    SERVING,
    CommandType,
    State,
    after_broker_command,
    after_received,
)
from engine.wire.varints import varint

_SEND_START = b"\x08\x06\x32"
_ACK_START = b"\x08\x0a\x52"
_START_AT = 8
_TYPES_OF_RUNS: dict[bytes, type[Receipts] | type[Messages]] = {
    b"\x08\x07\x3a": Receipts,
    b"\x08\x09\x4a": Messages,
}
_SIZES = Struct(">II")
E = TypeVar("E")
_MAGIC = Struct(">HI")
_ENTRY_BYTES_MIN = 4  # a metadata size


class Side(Generic[E]):
    """The common part of both sides: cut frames, check them against the connection's state, report runs of a kind as
    one event.

    ``frame_max`` bounds a frame's length field. After a Violation nothing more is reported; ``failed`` is its error.
    Call ``take`` (over a caller's buffer) or ``receive`` (which keeps incomplete frames), not both.
    """

    def __init__(self, frame_max: int = frames.FRAME_BYTES_MAX) -> None:
        self.frame_max = frame_max
        self.state = State.START
        self.failed: PeerError | None = None
        self._incomplete = b""

    def receive(self, data: bytes) -> list[E | Violation]:
        """Return the events of the frames that ``data`` completes."""
        buf = self._incomplete + data if self._incomplete else data
        events: list[E | Violation] = []
        pos, before = 0, -1
        while pos != before:
            before = pos
            pos, new_events = self.take(buf, pos, len(buf))
            events += new_events
        self._incomplete = buf[pos:]
        return events

    def take(self, buf: bytes, pos: int, end: int) -> tuple[int, list[E | Violation]]:
        """Return (position behind the frames that were read, their events). Runs keep a reference to ``buf``.

        Stops at the first incomplete frame, and behind each step of the handshake: the state after the answer to
        CONNECT decides whether the frames that a client sent directly behind CONNECT are allowed. So the caller repeats
        the call until the position does not change.
        """
        events: list[E | Violation] = []
        if self.failed is not None:
            return end, events
        try:
            while pos < end:
                behind = pos
                if self.state in SERVING:
                    behind = self._take_run(buf, pos, end, events)
                if behind == pos:
                    behind = self._take_one(buf, pos, end, events)
                if behind == pos:
                    break
                pos = behind
                if self.state not in SERVING:
                    break
        except PeerError as error:
            self.failed = error
            events.append(Violation(error))
            pos = end
        return pos, events

    def _take_run(self, buf: bytes, pos: int, end: int, events: list[E | Violation]) -> int:
        """Return the position behind the run at ``pos`` that can be read at once; ``pos`` when there is none."""
        raise NotImplementedError

    def _take_one(self, buf: bytes, pos: int, end: int, events: list[E | Violation]) -> int:
        """Parse the frame at ``pos`` with protobuf and return the position behind it; ``pos`` when it is incomplete.
        Raises PeerError."""
        stop = frames.frame_end(buf, pos, end, self.frame_max)
        if stop < 0:
            return pos
        start, command_stop = frames.command_span(buf, pos, stop)
        command = commands.parse(buf, start, command_stop)
        events.append(self._event(command, buf, command_stop, stop))
        return stop

    def _event(self, command: pb.BaseCommand, buf: bytes, start: int, stop: int) -> E:
        """Return the event of one command and the payload behind it. Raises PeerError when the state does not allow
        it."""
        raise NotImplementedError


class Peer(Side[Event]):
    """The broker's side, with runs of SENDs and of ACKs."""

    def sent_connected(self) -> None:
        """Record that CONNECTED is sent: all requests are allowed from now on."""
        self.state = SENT[self.state, CommandType.CONNECTED]

    def sent_challenge(self) -> None:
        """Record that AUTH_CHALLENGE is sent."""
        self.state = SENT[self.state, CommandType.AUTH_CHALLENGE]

    def _take_run(self, buf: bytes, pos: int, end: int, events: list[Event]) -> int:
        start = buf[pos + _START_AT : pos + _START_AT + 3]
        if start == _SEND_START:
            pos, why, run = take_sends(buf, pos, end, self.frame_max)
            if run is not None:
                events.append(Sends(run))
            if why == BAD_CHECKSUM:
                pos = self._take_one(buf, pos, end, events)
        elif start == _ACK_START:
            pos, _, consumer_id, positions = take_acks(buf, pos, end)
            if positions:
                events.append(Acks(consumer_id, positions))
        return pos

    def _event(self, command: pb.BaseCommand, buf: bytes, start: int, stop: int) -> Event:
        self.state = after_received(self.state, command.type)
        if command.HasField("send"):
            return _send_event(buf, command.send, start, stop)
        return Command(command)


class ClientPeer(Side[ClientEvent]):
    """The client's side, with runs of SEND_RECEIPTs and of MESSAGEs."""

    def sent_connect(self) -> None:
        """Record that CONNECT is sent."""
        self.state = RECEIVED[self.state, CommandType.CONNECT]

    def sent_auth_response(self) -> None:
        """Record that AUTH_RESPONSE is sent."""
        self.state = RECEIVED[self.state, CommandType.AUTH_RESPONSE]

    def _take_run(self, buf: bytes, pos: int, end: int, events: list[ClientEvent]) -> int:
        kind = buf[pos + _START_AT : pos + _START_AT + 3]
        run_type = _TYPES_OF_RUNS.get(kind)
        if run_type is None:
            return pos
        starts: list[int] = []
        add, unpack = starts.append, _SIZES.unpack_from
        while buf[pos + _START_AT : pos + _START_AT + 3] == kind:
            total, size = unpack(buf, pos)
            stop = pos + 4 + total
            if stop > end or size + 4 > total:
                break  # the slow path reports what is wrong with it
            add(pos)
            pos = stop
        if starts:
            events.append(run_type(buf, starts, pos))
        return pos

    def _event(self, command: pb.BaseCommand, buf: bytes, start: int, stop: int) -> ClientEvent:
        self.state = after_broker_command(self.state, command.type)
        return Command(command)


def _send_event(buf: bytes, send: pb.CommandSend, start: int, stop: int) -> Event:
    """Return the event that a kernel's run of one SEND would give, with the command in addition."""
    if stop - start < _ENTRY_BYTES_MIN:
        raise frames.FrameError(f"SEND with {stop - start} bytes behind its command")
    sequence_id = max(send.sequence_id, send.highest_sequence_id)
    if stop - start >= _MAGIC.size:
        magic, checksum = _MAGIC.unpack_from(buf, start)
        if magic == CHECKSUM_MAGIC and crc32c(memoryview(buf)[start + 6 : stop]) != checksum:
            return CorruptSend(send.producer_id, sequence_id)
    head = b"\x08" + varint(send.producer_id) + b"\x10" + varint(send.sequence_id)
    if send.HasField("highest_sequence_id"):
        head += b"\x20" + varint(send.highest_sequence_id)
    span = [start, stop]
    run = SendRun(buf, span, stop - start, [head], batch_sizes(buf, span), send.producer_id)
    return Sends(run, send)
