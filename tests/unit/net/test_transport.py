"""A connection over in-memory transports: framing, joined writes, bounds and the end."""

import asyncio
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import MisuseError, PeerError
from engine.net.network import LoopNetwork
from engine.net.transport import (
    CLOSE_TIMEOUT_S,
    HIGH_WATER_BYTES,
    LITTLE_BYTES,
    Connection,
    FrameLimitError,
    SlowPeerError,
)


class Wire(asyncio.Transport):
    """A transport that keeps the written bytes, as a kernel with room for ``room`` bytes would."""

    def __init__(self, room: int = 1 << 40) -> None:
        super().__init__()
        self.room = room
        self.writes: list[bytes] = []
        self.ended = ""

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return max(0, sum(map(len, self.writes)) - self.room)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert high == HIGH_WATER_BYTES

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"


class Frames(Connection):
    """Takes length-prefixed frames and notes what the hooks see."""

    def __init__(self, frame_max: int = 1000, **bounds: int) -> None:
        super().__init__(frame_max, **bounds)
        self.frames: list[bytes] = []
        self.buffers: list[bytes] = []
        self.batches = 0
        self.ends: list[Exception | None] = []
        self.refuse = b""

    def received(self, buf: bytes, pos: int, end: int) -> int:
        self.buffers.append(buf)
        while end - pos >= 4:
            stop = pos + 4 + int.from_bytes(buf[pos : pos + 4], "big")
            if stop > end:
                break
            self.frames.append(buf[pos + 4 : stop])
            if self.refuse and self.frames[-1] == self.refuse:
                raise PeerError("refused")
            pos = stop
        return pos

    def batch_done(self) -> None:
        self.batches += 1

    def closed(self, error: Exception | None) -> None:
        self.ends.append(error)


def frame(body: bytes) -> bytes:
    return pack(">I", len(body)) + body


def connected(**options: Any) -> tuple[Frames, Wire]:
    wire = Wire(options.pop("room", 1 << 40))
    connection = Frames(**options)
    connection.connection_made(wire)
    return connection, wire


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=30), max_size=8), st.lists(st.integers(1, 40), max_size=30))
def test_frames_arrive_whole_however_they_are_cut(bodies: list[bytes], sizes: list[int]) -> None:
    async def run() -> None:
        connection, _ = connected()
        stream = b"".join(map(frame, bodies))
        pos = 0
        for size in [*sizes, len(stream)]:
            if stream[pos : pos + size]:
                connection.data_received(stream[pos : pos + size])
            pos += size
        assert connection.frames == bodies

    asyncio.run(run())


async def test_only_a_straddling_frame_is_joined() -> None:
    connection, _ = connected()
    first, second = frame(b"a") + frame(b"b" * 20)[:9], frame(b"b" * 20)[9:] + frame(b"c")
    connection.data_received(first)
    connection.data_received(second)
    assert connection.frames == [b"a", b"b" * 20, b"c"]
    assert connection.buffers[0] is first
    assert connection.buffers[1] == frame(b"b" * 20)
    assert connection.buffers[2] is second
    assert connection.batches == 2


async def test_a_frame_above_the_limit_ends_the_connection_at_its_length_field() -> None:
    connection, wire = connected(frame_max=10)
    connection.data_received(frame(b"ok") + b"\x00\x00")
    assert wire.ended == ""
    connection.data_received(b"\x00\x0b")
    assert wire.ended == "closed"
    connection.connection_lost(None)
    assert isinstance(connection.ends[0], FrameLimitError)
    assert connection.frames == [b"ok"]


async def test_a_peer_s_fault_closes_after_what_was_queued_has_left() -> None:
    connection, wire = connected()
    connection.refuse = b"bad"
    connection.send(b"goodbye")
    connection.data_received(frame(b"good") + frame(b"bad") + frame(b"never seen"))
    assert connection.frames == [b"good", b"bad"]
    assert (wire.writes, wire.ended) == ([b"goodbye"], "closed")
    connection.data_received(frame(b"late"))
    assert len(connection.frames) == 2
    connection.connection_lost(None)
    assert str(connection.ends[0]) == "refused"


async def test_a_frame_left_over_is_our_own_fault() -> None:
    connection, _ = connected()
    connection.received = lambda buf, pos, end: pos  # type: ignore[method-assign]
    connection.data_received(frame(b"a")[:2])
    with pytest.raises(MisuseError):
        connection.data_received(frame(b"a")[2:])


async def test_sends_of_one_turn_of_the_loop_leave_in_one_write() -> None:
    connection, wire = connected()
    connection.send(b"a")
    connection.send_parts([b"b", memoryview(b"c")])
    assert wire.writes == []
    assert connection.buffered_bytes == 3
    await asyncio.sleep(0)
    assert wire.writes == [b"abc"]
    connection.send(b"d")
    connection.flush()
    await asyncio.sleep(0)
    assert wire.writes == [b"abc", b"d"]


async def test_a_large_amount_leaves_at_once() -> None:
    connection, wire = connected()
    connection.send(bytes(HIGH_WATER_BYTES + 1))
    assert len(wire.writes) == 1


async def test_a_peer_that_does_not_read_is_disconnected_at_the_bound() -> None:
    connection, wire = connected(room=100, buffered_bytes_max=1000)
    connection.send(bytes(1100))
    connection.flush()
    assert wire.ended == ""
    connection.send(b"x")
    connection.flush()
    assert wire.ended == "aborted"
    connection.connection_lost(None)
    assert isinstance(connection.ends[0], SlowPeerError)
    connection.send(b"nothing happens")
    connection.flush()
    assert len(wire.writes) == 2


async def test_paused_follows_the_transport_and_writable_is_called_at_its_end() -> None:
    connection, _ = connected()
    paused: list[bool] = []
    connection.writable = lambda: paused.append(connection.paused)  # type: ignore[method-assign]
    connection.pause_writing()
    assert connection.paused
    connection.resume_writing()
    assert paused == [False]


async def test_a_connection_closed_before_it_is_made_is_aborted_once_it_is() -> None:
    connection, wire = Frames(), Wire()
    connection.send(b"early")
    connection.close()
    connection.connection_made(wire)
    assert (wire.writes, wire.ended) == ([], "aborted")


async def test_bytes_sent_early_leave_once_the_connection_is_made() -> None:
    connection, wire = Frames(), Wire()
    connection.send(b"early")
    await asyncio.sleep(0)
    connection.connection_made(wire)
    assert wire.writes == [b"early"]


async def test_a_close_that_takes_too_long_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    timers: list[tuple[float, Any]] = []
    real = loop.call_later

    def call_later(delay: float, callback: Any, *args: Any) -> asyncio.TimerHandle:
        timers.append((delay, callback))
        return real(delay, callback, *args)

    monkeypatch.setattr(loop, "call_later", call_later)
    connection, wire = connected()
    connection.close()
    ((delay, abort),) = timers
    assert delay == CLOSE_TIMEOUT_S
    abort()
    assert wire.ended == "aborted"
    connection.connection_lost(None)
    assert connection.ends == [None]


class Pieces(Frames):
    """Keeps how much each read of the socket brought."""

    def __init__(self) -> None:
        super().__init__(frame_max=1 << 21)
        self.pieces: list[int] = []

    def data_received(self, data: bytes) -> None:
        self.pieces.append(len(data))
        super().data_received(data)


async def test_a_connection_with_limited_reads_is_read_in_small_pieces() -> None:
    arrived: list[Pieces] = []

    def accept() -> Pieces:
        arrived.append(Pieces())
        return arrived[-1]

    server = await LoopNetwork().listen("127.0.0.1", 0, accept)
    transport, _ = await LoopNetwork().connect("127.0.0.1", server.port, asyncio.Protocol)
    async with asyncio.timeout(30):
        while not arrived:
            await asyncio.sleep(0)
        (connection,) = arrived
        connection.limit_reads()
        transport.write(frame(bytes(1 << 20)))
        while not connection.frames:
            await asyncio.sleep(0)
    assert sum(connection.pieces) == len(frame(bytes(1 << 20)))
    assert max(connection.pieces) <= LITTLE_BYTES
    transport.close()
    connection.close()
    server.close()
    await server.wait_closed()


async def test_writing_finds_that_the_peer_of_a_held_connection_has_left() -> None:
    arrived: list[Frames] = []

    def accept() -> Frames:
        arrived.append(Frames())
        return arrived[-1]

    server = await LoopNetwork().listen("127.0.0.1", 0, accept)
    transport, _ = await LoopNetwork().connect("127.0.0.1", server.port, asyncio.Protocol)
    async with asyncio.timeout(30):
        while not arrived:
            await asyncio.sleep(0)
        (connection,) = arrived
        connection.hold("test")
        transport.write(frame(b"not read"))
        transport.close()
        while not connection.ends:
            connection.send(b"anything")
            connection.flush()
            await asyncio.sleep(0)
    assert isinstance(connection.ends[0], OSError)
    assert connection.frames == []
    server.close()
    await server.wait_closed()
