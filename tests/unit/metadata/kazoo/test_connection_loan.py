"""A connection of kazoo's on the event loop, over real sockets: who sends, reads and handles an error, and when."""

import asyncio
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from struct import pack
from typing import Any

import pytest
from kazoo.protocol.connection import WATCH_XID
from kazoo.protocol.serialization import GetData

from engine.metadata.kazoo.connection_loan import ConnectionLoan
from engine.metadata.kazoo.kazoo_handler import AheadSocket, LoopHandler, Wake
from tests.support.waiting import until


class FakeKazoo:
    """kazoo's client and its connection: what the loan calls of them, noted with the thread that calls."""

    def __init__(self) -> None:
        self.handler = LoopHandler()
        self.calls: list[tuple[str, object]] = []
        self.threads: set[int] = set()
        self.failure: Exception | None = None
        self._stopped = threading.Event()
        self._connection = self
        self._xid = 0
        self._queue: deque[tuple[Any, Any]] = deque()
        self._pending: deque[tuple[Any, Any, int]] = deque()

    def _note(self, name: str, value: object) -> None:
        self.threads.add(threading.get_ident())
        self.calls.append((name, value))
        if self.failure is not None:
            raise self.failure

    def _read_response(self, header: Any, frame: bytes, offset: int) -> None:
        self._note("answer", (header.xid, header.zxid, header.err, frame[offset:]))

    def _read_watch_event(self, frame: bytes, offset: int) -> None:
        self._note("event", frame[offset:])

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        self._queue.popleft()
        self._note("special", None)


class Lent:
    """A connection that a thread has lent to the loop."""

    def __init__(self) -> None:
        here, self.there = socket.socketpair()
        self.there.setblocking(False)
        self.kazoo = FakeKazoo()
        self.arrived = 0
        self.socket = AheadSocket(here)
        self.wake = Wake()
        self.loan = ConnectionLoan(self.kazoo, self._arrive)
        self.outcome: list[BaseException | None] = []
        self._thread = threading.Thread(target=self._lend)

    def _arrive(self) -> None:
        self.arrived += 1

    def _lend(self) -> None:
        try:
            self.loan.lend(self.socket, self.wake)
            self.outcome.append(None)
        except BaseException as error:
            self.outcome.append(error)

    async def begin(self) -> None:
        self._thread.start()
        await until(lambda: self.wake.on_request is not None)

    def request(self, path: str) -> None:
        self.kazoo._queue.append((GetData(path, None), path))
        self.wake.send(b"\0")

    def answer(self, xid: int, body: bytes = b"") -> bytes:
        frame = pack(">iqi", xid, 7, 0) + body
        return pack(">i", len(frame)) + frame

    async def received(self) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self.there, 1 << 16)

    async def returned(self) -> BaseException | None:
        await until(lambda: bool(self.outcome))
        return self.outcome[0]

    def close(self) -> None:
        self.kazoo._stopped.set()
        self.loan._give_back()
        self._thread.join(30)
        for closed in (self.socket, self.there, self.wake):
            closed.close()


@pytest.fixture
async def lent() -> AsyncIterator[Lent]:
    made = Lent()
    yield made
    made.close()


async def test_requests_of_one_turn_leave_in_one_write_with_those_of_the_time_before(
    lent: Lent,
) -> None:
    lent.request("/a")
    await lent.begin()
    lent.request("/b")
    lent.request("/c")
    await asyncio.sleep(0)
    data = b""
    while data.count(b"/") < 3:
        data += await lent.received()
    sizes = []
    while data:
        size = int.from_bytes(data[:4], "big")
        xid, kind = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
        sizes.append((xid, kind, data[16:18]))
        data = data[4 + size :]
    assert sizes == [(1, 4, b"/a"), (2, 4, b"/b"), (3, 4, b"/c")]
    assert [xid for _, _, xid in lent.kazoo._pending] == [1, 2, 3]
    assert lent.wake.pending() == 0


async def test_answers_and_events_are_handled_on_the_loop_once_they_are_complete(
    lent: Lent,
) -> None:
    await lent.begin()
    data = lent.answer(1, b"one") + lent.answer(WATCH_XID, b"event") + lent.answer(2, b"two")
    lent.there.send(data[:-1])
    await until(lambda: len(lent.kazoo.calls) == 2)
    assert lent.kazoo.calls == [("answer", (1, 7, 0, b"one")), ("event", b"event")]
    lent.there.send(data[-1:])
    await until(lambda: len(lent.kazoo.calls) == 3)
    assert lent.kazoo.threads == {threading.get_ident()}
    assert lent.arrived >= 2
    assert not lent.outcome


async def test_a_long_answer_is_read_as_a_whole(lent: Lent) -> None:
    await lent.begin()
    body = bytes(range(256)) * 12_000
    await asyncio.get_running_loop().sock_sendall(lent.there, lent.answer(1, body))
    await until(lambda: bool(lent.kazoo.calls))
    assert lent.kazoo.calls == [("answer", (1, 7, 0, body))]


async def test_requests_wait_until_a_slow_server_reads(lent: Lent) -> None:
    await lent.begin()
    for _ in range(64):
        lent.request("/" + "a" * (1 << 16))
    total = 64 * (4 + 8 + 4 + 1 + (1 << 16) + 1)
    received = 0
    while received < total:
        received += len(await lent.received())
    assert received == total


def at_the_end_of_the_stream(lent: Lent) -> None:
    lent.there.close()


def when_the_client_is_stopped(lent: Lent) -> None:
    lent.kazoo._stopped.set()
    threading.Thread(target=lent.wake.send, args=[b"\0"]).start()


@pytest.mark.parametrize("end", [at_the_end_of_the_stream, when_the_client_is_stopped])
async def test_the_thread_has_the_connection_back(lent: Lent, end: Callable[[Lent], None]) -> None:
    await lent.begin()
    end(lent)
    assert await lent.returned() is None
    assert lent.wake.on_request is None
    # A connection is lent once: the thread goes on by itself.
    lent.loan.lend(lent.socket, lent.wake)


async def test_an_error_of_an_answer_is_raised_on_the_thread(lent: Lent) -> None:
    await lent.begin()
    lent.kazoo.failure = RuntimeError("xids do not match")
    lent.there.send(lent.answer(1))
    assert await lent.returned() is lent.kazoo.failure


async def test_a_request_that_kazoo_treats_in_its_own_way_is_left_to_it(lent: Lent) -> None:
    await lent.begin()
    lent.kazoo._queue.append((object(), None))
    lent.kazoo.failure = RuntimeError("dropped")
    lent.wake.send(b"\0")
    assert await lent.returned() is lent.kazoo.failure
    assert lent.kazoo.calls == [("special", None)]
