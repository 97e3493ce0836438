"""One WebSocket as every server serves it: handshake, order, limits, close codes, and holding back both ways."""

import asyncio
import gc
import logging
import struct
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from websockets.frames import Frame, Opcode

from gateway.http.refusal import refuse
from gateway.http.socket_port import SocketPort, port_of
from gateway.servers import websocket
from gateway.servers.websocket import _size_of
from tests.support.net.socket_pair import SocketPair
from tests.support.waiting import until

MASK = b"\1\2\3\4"


def frame(opcode: Opcode, payload: bytes, fin: bool = True) -> bytes:
    return Frame(opcode, payload, fin).serialize(mask=True)


def header(opcode: Opcode, length: int) -> bytes:
    """Return the header of a masked frame that announces ``length`` bytes."""
    return struct.pack("!BBQ", 0x80 | opcode, 0x80 | 127, length) + MASK


class Endpoint:
    """An application that accepts and then does nothing: the test drives its port."""

    def __init__(self) -> None:
        self.scope: dict[str, Any] = {}
        self.accepted = asyncio.Event()
        self.code: int | None = None
        self.received: list[list[str]] = []

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        self.scope = scope
        await receive()
        await send({"type": "websocket.accept"})
        self.port.listen(self.received.append)
        self.accepted.set()
        self.code = (await receive())["code"]

    @property
    def port(self) -> SocketPort:
        return port_of(self.scope)


@pytest.fixture
async def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
async def pair(endpoint: Endpoint) -> AsyncIterator[SocketPair]:
    made = await SocketPair(endpoint, "/ws/a%2Fb?x=1").opened()
    yield made
    await made.hang_up()


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def answered(application: Any) -> tuple[int, str]:
    """Return the status and the page of a handshake."""
    pair = await SocketPair(application, "/").opened()
    await pair.hang_up()
    assert pair.response is not None
    return pair.response.status_code, bytes(pair.response.body).decode()


async def test_the_scope_has_the_path_as_it_was_sent(pair: SocketPair, endpoint: Endpoint) -> None:
    assert endpoint.scope["path"] == "/ws/a/b"
    assert endpoint.scope["raw_path"] == b"/ws/a%2Fb"
    assert endpoint.scope["query_string"] == b"x=1"
    assert (b"host", b"127.0.0.1:8080") in endpoint.scope["headers"]


async def test_compression_is_never_negotiated(endpoint: Endpoint) -> None:
    offer = {"Sec-WebSocket-Extensions": "permessage-deflate"}
    pair = await SocketPair(endpoint, "/", offer).opened()
    assert pair.response is not None
    assert "Sec-WebSocket-Extensions" not in pair.response.headers
    compressed = bytearray(frame(Opcode.TEXT, b"\xaa\x56\x4a"))
    compressed[0] |= 0x40
    pair.send_raw(bytes(compressed))
    assert pair.closed() == (1002, "reserved bits must be 0")
    await pair.hang_up()


async def test_texts_of_one_read_are_delivered_together_in_order(
    pair: SocketPair, endpoint: Endpoint
) -> None:
    pair.send("a", "b", "ü")
    assert endpoint.received == [["a", "b", "ü"]]


async def test_frames_of_one_turn_leave_in_one_write(pair: SocketPair, endpoint: Endpoint) -> None:
    before = pair.transport.writes
    for number in range(10):
        endpoint.port.send_text(str(number))
    assert [await pair.receive() for _ in range(10)] == [str(number) for number in range(10)]
    assert pair.transport.writes == before + 1


async def test_messages_sent_before_closing_arrive(pair: SocketPair, endpoint: Endpoint) -> None:
    endpoint.port.send_text("last")
    endpoint.port.close(4000, "x" * 200)
    endpoint.port.send_text("too late")
    assert await pair.receive() == "last"
    assert pair.closed() == (4000, "x" * 123)
    await settled()
    assert endpoint.code == 4000
    assert pair.texts.empty()


async def test_fragments_become_one_message(pair: SocketPair, endpoint: Endpoint) -> None:
    text = "häß".encode()
    pair.send_raw(frame(Opcode.TEXT, text[:2], fin=False) + frame(Opcode.PING, b"p"))
    pair.send_raw(frame(Opcode.CONT, b"", fin=False) + frame(Opcode.CONT, text[2:]))
    assert endpoint.received == [["häß"]]
    assert [f.data for f in pair.frames if f.opcode is Opcode.PONG] == [b"p"]


@pytest.mark.parametrize(
    ("sent", "size"),
    [
        (header(Opcode.TEXT, (1 << 20) + 1), (1 << 20) + 1),
        (header(Opcode.BINARY, 1 << 30), 1 << 30),
        (
            frame(Opcode.TEXT, b"x" * (1 << 20), fin=False) + header(Opcode.CONT, 1 << 19),
            (1 << 20) + (1 << 19),
        ),
    ],
    ids=["text", "binary", "fragments"],  # what is sent differs by its random mask
)
async def test_a_message_above_a_mebibyte_is_refused_by_what_it_announces(
    pair: SocketPair, endpoint: Endpoint, sent: bytes, size: int
) -> None:
    pair.send_raw(sent)
    reason = f"Resulting message size [{size}] is too large for configured max of [1048576]"
    assert pair.closed() == (1009, reason)
    await settled()
    assert endpoint.code == 1009
    assert endpoint.received == []


async def test_a_message_of_exactly_a_mebibyte_is_taken(
    pair: SocketPair, endpoint: Endpoint
) -> None:
    pair.send("x" * (1 << 20))
    assert len(endpoint.received[0][0]) == 1 << 20


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(Opcode.TEXT, b"\xff\xfe"), 1007),
        (frame(Opcode.TEXT, b"\xc3", fin=False) + frame(Opcode.CONT, b"("), 1007),
        (frame(Opcode.CONT, b"of nothing"), 1002),
        (Frame(Opcode.TEXT, b"not masked").serialize(mask=False), 1002),
        (b"\x83\x80" + MASK, 1002),
        (header(Opcode.PING, 126) + b"x" * 126, 1002),
        (frame(Opcode.TEXT, b"a", fin=False) + frame(Opcode.TEXT, b"b"), 1002),
    ],
    ids=["utf-8", "utf-8 in parts", "continued", "bare", "opcode", "long ping", "interleaved"],
)
async def test_invalid_frames_close_with_their_code(
    pair: SocketPair, endpoint: Endpoint, sent: bytes, code: int
) -> None:
    pair.send("before")
    pair.send_raw(sent + frame(Opcode.TEXT, b"after"))
    assert pair.closed()[0] == code
    await settled()
    assert endpoint.code == code
    assert endpoint.received == [["before"]]


async def test_a_closing_client_is_answered_and_its_code_is_reported(
    pair: SocketPair, endpoint: Endpoint
) -> None:
    pair.client.send_close(4001, "enough")
    pair.push()
    assert pair.closed() == (4001, "enough")
    await settled()
    assert endpoint.code == 4001
    assert pair.transport.is_closing()


async def test_texts_before_a_close_are_delivered_first(
    pair: SocketPair, endpoint: Endpoint
) -> None:
    pair.client.send_text(b"last")
    pair.client.send_close(1000)
    pair.push()
    assert endpoint.received == [["last"]]
    await settled()
    assert endpoint.code == 1000


@pytest.mark.parametrize("closes", [False, True])
async def test_an_endpoint_may_answer_texts_received_with_a_close(
    pair: SocketPair,
    endpoint: Endpoint,
    caplog: pytest.LogCaptureFixture,
    closes: bool,
) -> None:
    def answer(texts: list[str]) -> None:
        endpoint.port.send_text("answer")
        if closes:
            endpoint.port.close(1011)

    endpoint.port.listen(answer)
    pair.client.send_text(b"last")
    pair.client.send_close(4001)
    pair.push()
    await settled()
    assert not caplog.records
    assert endpoint.code == 1011 if closes else 4001
    assert pair.closed()[0] == 4001


async def test_an_endpoint_may_hang_up(pair: SocketPair, endpoint: Endpoint) -> None:
    endpoint.port.send_text("last")
    endpoint.port.abort()
    assert await pair.receive() == "last"
    await settled()
    assert endpoint.code == 1006
    assert pair.client.close_rcvd is None


async def test_a_lost_client_is_1006(pair: SocketPair, endpoint: Endpoint) -> None:
    pair.transport.abort()
    await settled()
    assert endpoint.code == 1006
    endpoint.port.send_text("sent after the end")


async def test_a_client_that_does_not_read_is_seen_and_waited_for(
    pair: SocketPair, endpoint: Endpoint
) -> None:
    pair.reads = False
    while endpoint.port.writable:
        endpoint.port.send_text("x" * 10_000)
    assert websocket.UNSENT_BYTES_HIGH < endpoint.port.buffered_bytes() < 1_200_000
    waiting = asyncio.create_task(endpoint.port.drained())
    await settled()
    assert not waiting.done()
    pair.reads = True
    pair.transport.drain()
    await asyncio.wait_for(waiting, 60)
    assert endpoint.port.buffered_bytes() == 0


def questions(count: int) -> bytes:
    return frame(Opcode.TEXT, b'{"type":"isEndOfTopic"}') * count


@pytest.mark.parametrize("sent", [frame(Opcode.PING, b"x" * 125) * 100, questions(100)])
async def test_a_client_that_reads_no_answers_is_not_read(
    pair: SocketPair, endpoint: Endpoint, sent: bytes
) -> None:
    """Bound the unread answers, those of the protocol and those of an endpoint that ignores backpressure."""

    def answer(texts: list[str]) -> None:
        for _ in texts:
            endpoint.port.send_text("x" * 200)

    endpoint.port.listen(answer)
    pair.reads = False
    for _ in range(1000):
        pair.send_raw(sent)
    assert not pair.transport.reading
    assert endpoint.port.buffered_bytes() < websocket.UNSENT_BYTES_HIGH + websocket.FLUSH_BYTES
    pair.reads = True
    while pair._unsent or pair.transport.get_write_buffer_size():
        pair.transport.drain()
        await settled()
    assert pair.transport.reading
    assert not pair.transport.is_closing()


async def test_reading_resumes_only_when_every_reason_to_pause_is_gone(
    pair: SocketPair, endpoint: Endpoint
) -> None:
    pair.reads = False
    while endpoint.port.writable:
        endpoint.port.send_text("x" * 100_000)
    endpoint.port.pause_reading()
    pair.reads = True
    pair.transport.drain()
    assert not pair.transport.reading
    endpoint.port.resume_reading()
    assert pair.transport.reading


async def test_a_client_that_must_read_and_does_not_is_given_up(
    pair: SocketPair, endpoint: Endpoint
) -> None:
    pair.reads = False
    while endpoint.port.writable:
        endpoint.port.send_text("x" * 100_000)
    pair.connection.beat()
    del pair.transport._waiting[:1000]
    pair.connection.beat()
    assert not pair.transport.is_closing(), "it reads, if slowly"
    pair.connection.beat()
    assert pair.transport.is_closing()


async def test_a_sender_that_waits_for_a_slow_client_is_woken_by_its_end(
    pair: SocketPair, endpoint: Endpoint
) -> None:
    pair.reads = False
    while endpoint.port.writable:
        endpoint.port.send_text("x" * 100_000)
    waiting = asyncio.create_task(endpoint.port.drained())
    await settled()
    pair.transport.abort()
    await asyncio.wait_for(waiting, 60)


async def test_an_endpoint_holds_its_client_back(pair: SocketPair, endpoint: Endpoint) -> None:
    endpoint.port.pause_reading()
    pair.send("a")
    await settled()
    assert endpoint.received == []
    endpoint.port.resume_reading()
    await settled()
    assert endpoint.received == [["a"]]


@pytest.mark.parametrize(("count", "size"), [(200, 0), (8, 400_000)])
async def test_without_a_listener_only_so_many_messages_wait(count: int, size: int) -> None:
    """Bound the waiting messages by their number and by their size."""
    sent = [f"{number} {'x' * size}" for number in range(count)]
    go = asyncio.Event()
    received: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await go.wait()
        while (event := await receive())["type"] == "websocket.receive":
            received.append(event["text"])

    pair = await SocketPair(application, "/").opened()
    for text in sent:
        pair.send(text)
    assert not pair.transport.reading
    assert sum(map(_size_of, pair.connection._inbox)) < 2 << 20
    go.set()
    for _ in range(20):
        await settled()
    assert received == sent
    await pair.hang_up()


async def test_a_failing_listener_closes_with_1011(
    pair: SocketPair, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(texts: list[str]) -> None:
        raise RuntimeError("broken")

    endpoint.port.listen(fail)
    with caplog.at_level(logging.ERROR):
        pair.send("x")
    assert pair.closed()[0] == 1011
    assert "broken" in caplog.text


async def test_a_refusal_is_a_page_with_its_status() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await refuse(send, 409, "Producer <busy>")

    status, page = await answered(application)
    assert status == 409
    assert "<title>Error 409 Producer &lt;busy&gt;</title>" in page


async def _closes(receive: Any, send: Any) -> None:
    await send({"type": "websocket.close", "code": 4000})


async def _returns(receive: Any, send: Any) -> None:
    return


async def _fails(receive: Any, send: Any) -> None:
    raise RuntimeError("broken")


@pytest.mark.parametrize(("act", "status"), [(_closes, 403), (_returns, 503), (_fails, 500)])
async def test_an_application_that_does_not_accept_refuses(
    act: Callable[..., Any], status: int
) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await act(receive, send)

    assert (await answered(application))[0] == status


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("Sec-WebSocket-Key", "short", 400),
        ("Sec-WebSocket-Version", "12", 400),
        ("Connection", "keep-alive", 426),
    ],
)
async def test_a_malformed_handshake_never_reaches_the_application(
    endpoint: Endpoint, name: str, value: str, status: int
) -> None:
    pair = await SocketPair(endpoint, "/", {name: value}).opened()
    assert pair.response is not None
    assert pair.response.status_code == status
    assert not endpoint.scope
    await pair.hang_up()


async def test_frames_before_the_answer_wait_for_it() -> None:
    go = asyncio.Event()
    endpoint = Endpoint()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await endpoint(scope, receive, send)

    pair = SocketPair(application, "/")
    pair.send_raw(frame(Opcode.PING, b"p") + frame(Opcode.TEXT, b"early"))
    assert pair.response is None
    go.set()
    await pair.opened()
    await settled()
    assert endpoint.received == [["early"]]
    assert [f.data for f in pair.frames if f.opcode is Opcode.PONG] == [b"p"]
    await pair.hang_up()


async def test_more_than_a_little_before_the_answer_is_too_much() -> None:
    go = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()

    pair = SocketPair(application, "/")
    pair.send_raw(frame(Opcode.BINARY, b"x" * websocket.EARLY_BYTES_MAX))
    assert pair.transport.is_closing()
    go.set()
    await pair.sockets.close()


async def test_a_silent_peer_is_pinged_then_given_up(pair: SocketPair, endpoint: Endpoint) -> None:
    pair.connection.beat()
    assert pair.frames[-1].opcode is Opcode.PING
    pair.connection.beat()
    assert not pair.transport.is_closing()  # the client answered the ping
    pair.reads = False
    pair.connection.beat()
    pair.connection.beat()
    assert pair.transport.is_closing()
    await settled()
    assert endpoint.code == 1006


async def test_a_client_silent_during_the_handshake_is_pinged_first() -> None:
    go = asyncio.Event()
    endpoint = Endpoint()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await go.wait()
        await endpoint(scope, receive, send)

    pair = SocketPair(application, "/")
    await settled()
    pair.connection.beat()
    go.set()
    await endpoint.accepted.wait()
    pair.connection.beat()
    assert not pair.transport.is_closing()
    assert pair.frames[-1].opcode is Opcode.PING
    await pair.hang_up()


async def test_a_handshake_that_takes_too_long_is_refused() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        await asyncio.Event().wait()

    pair = SocketPair(application, "/")
    await settled()
    pair.connection.beat()
    await settled()
    assert pair.response is None
    pair.connection.beat()
    await pair.opened()
    assert pair.response is not None
    assert pair.response.status_code == 503
    await pair.hang_up()


async def test_a_server_that_stops_closes_with_1012(pair: SocketPair, endpoint: Endpoint) -> None:
    await pair.sockets.close()
    assert pair.closed()[0] == 1012
    assert endpoint.code == 1012


class Listener:
    """An endpoint that its connection holds as its listener, as those of the gateway are."""

    def __init__(self, port: SocketPort) -> None:
        self.port = port
        port.listen(self.take)

    def take(self, texts: list[str]) -> None:
        self.port.send_text(texts[0])


async def test_a_connection_that_ended_is_freed_without_the_garbage_collector(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check that no cycle holds it: the collector leaves old ones until the heap doubles, and ignores their buffers."""
    monkeypatch.setattr(websocket, "LINGER_S", 0.0)
    monkeypatch.setattr(websocket, "APPLICATION_END_S", 0.0)
    held: list[weakref.ref[Any]] = []

    async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        listener = Listener(port_of(scope))
        held.extend(map(weakref.ref, (listener, getattr(listener.port, "_protocol"))))  # noqa: B009
        await receive()

    pair = await SocketPair(application, "/").opened()
    await until(lambda: held)
    gc.collect()
    gc.disable()
    try:
        await pair.hang_up()
        del pair.connection  # the pair is in a circle with its own transport
        await until(lambda: not any(reference() for reference in held))
    finally:
        gc.enable()
