"""The broker's side of a Pulsar connection without I/O: bytes in, events out. Pure."""

from struct import Struct

from crc32c import crc32c

from engine.base.errors import PeerError
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.events import Acks, Command, CorruptSend, Event, Sends, Violation
from engine.wire.kernels import BAD_CHECKSUM, CHECKSUM_MAGIC, SendRun, take_acks, take_sends
from engine.wire.states import SENT, CommandType, State, after_received
from engine.wire.varints import varint

_SEND_START = b"\x08\x06\x32"
_ACK_START = b"\x08\x0a\x52"
_START_AT = 8
_MAGIC = Struct(">HI")
_ENTRY_BYTES_MIN = 4  # a metadata size


class Peer:
    """Cuts frames, checks them against the connection's state, reports runs of SENDs and ACKs as one event each.

    ``frame_max`` bounds a frame's length field. After a Violation nothing more is reported: ``failed`` is its error.
    Drive it with ``take`` (over a caller's buffer) or ``receive`` (keeps what is not whole), not both.
    """

    def __init__(self, frame_max: int = frames.FRAME_BYTES_MAX) -> None:
        self.frame_max = frame_max
        self.state = State.START
        self.failed: PeerError | None = None
        self._rest = b""

    def receive(self, data: bytes) -> list[Event]:
        """Events of the frames that ``data`` completes."""
        buf = self._rest + data if self._rest else data
        events: list[Event] = []
        pos, before = 0, -1
        while pos != before:
            before = pos
            pos, found = self.take(buf, pos, len(buf))
            events += found
        self._rest = buf[pos:]
        return events

    def take(self, buf: bytes, pos: int, end: int) -> tuple[int, list[Event]]:
        """(position behind the frames taken, their events). ``buf`` is kept by SendRuns.

        Stops at the first frame that is not whole, and behind each step of the handshake: what a client sent right
        behind its CONNECT is judged by the state that the answer to CONNECT makes. So call again until nothing moves.
        """
        events: list[Event] = []
        if self.failed is not None:
            return end, events
        try:
            while pos < end:
                taken = self._take_run(buf, pos, end, events)
                if taken == pos:
                    taken = self._take_one(buf, pos, end, events)
                if taken == pos:
                    break
                pos = taken
                if self.state is not State.CONNECTED:
                    break
        except PeerError as error:
            self.failed = error
            events.append(Violation(error))
            pos = end
        return pos, events

    def sent_connected(self) -> None:
        """CONNECTED goes out: everything is allowed from now on."""
        self.state = SENT[self.state, CommandType.CONNECTED]

    def sent_challenge(self) -> None:
        """AUTH_CHALLENGE goes out."""
        self.state = SENT[self.state, CommandType.AUTH_CHALLENGE]

    def _take_run(self, buf: bytes, pos: int, end: int, events: list[Event]) -> int:
        """Position behind the run of SENDs or ACKs at ``pos`` that the kernels can take; ``pos`` when there is none."""
        if self.state is not State.CONNECTED:
            return pos
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

    def _take_one(self, buf: bytes, pos: int, end: int, events: list[Event]) -> int:
        """Position behind the frame at ``pos``, by way of protobuf; ``pos`` when it is not whole. Raises PeerError."""
        stop = frames.whole_frame(buf, pos, end, self.frame_max)
        if stop < 0:
            return pos
        start, command_stop = frames.command_span(buf, pos, stop)
        command = commands.parse(buf, start, command_stop)
        self.state = after_received(self.state, command.type)
        if command.HasField("send"):
            events.append(_send_event(buf, command.send, command_stop, stop))
        else:
            events.append(Command(command))
        return stop


def _send_event(buf: bytes, send: pb.CommandSend, start: int, stop: int) -> Event:
    """The same event that a kernel's run of one would give, with the command beside it."""
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
    counts = [send.num_messages] if send.num_messages > 1 else None
    run = SendRun(buf, [start, stop], stop - start, [head], counts, send.producer_id)
    return Sends(run, send)
