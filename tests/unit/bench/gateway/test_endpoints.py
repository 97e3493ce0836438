"""The bench's producer and consumer, against a real ASGI server whose application answers constants."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.bench.gateway.endpoints import Producer, acknowledgement, message
from tests.bench.gateway.sides import Side, floor
from tests.bench.gateway.websocket_client import Socket, build_frame


@pytest.fixture(scope="module")
def side() -> Iterator[Side]:
    with floor("daphne") as side:
        yield side


def test_a_message_is_acknowledged_by_its_id() -> None:
    text = b'{"messageId":"CAAQAyAA","payload":"eA==","properties":{}}'
    assert acknowledgement(text) == build_frame(b'{"messageId":"CAAQAyAA"}')


@pytest.mark.parametrize("text", [b"{}", b'{"messageId":"CAAQ'])
def test_texts_that_are_no_message_are_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match="no message"):
        acknowledgement(text)


async def test_a_producer_keeps_its_window_full(side: Side) -> None:
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    producer = Producer(side.http, broken, message(100), 10)
    await producer.open("127.0.0.2")
    producer.sent = []
    producer.begin()
    async with asyncio.timeout(60):
        while producer.published < 100:
            assert producer.unanswered == 10
            await asyncio.sleep(0.001)
        producer.stop()
        while producer.unanswered:
            await asyncio.sleep(0.001)
    assert len(producer.took) == producer.published == len(producer.sent)
    assert not broken.done()
    producer.leave()


async def test_a_refused_handshake_raises(side: Side) -> None:
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with pytest.raises(RuntimeError, match="refused"):
        await Refused(side.http, broken).open()
    assert not broken.done()


class Refused(Socket):
    """A client whose handshake lacks the upgrade to a WebSocket."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


async def test_a_server_that_ends_breaks_the_sockets() -> None:
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    with floor("daphne") as side:
        await Socket(side.http, broken).open()
    with pytest.raises(ConnectionError):
        async with asyncio.timeout(60):
            await broken
