"""Listening and dialling over loopback sockets."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.base.entropy import RandomEntropy
from engine.net.dialer import Dialer, DialError, DialSettings
from engine.net.listener import Listener
from engine.net.network import LoopNetwork
from engine.net.transport import Connection


class Echo(Connection):
    """Sends every whole frame back; ``got`` collects what a client receives."""

    def __init__(self, echo: bool = True) -> None:
        super().__init__(frame_max=1 << 20)
        self.echo = echo
        self.got = asyncio.Event()
        self.gone = asyncio.Event()
        self.data = b""

    def received(self, buf: bytes, pos: int, end: int) -> int:
        while (
            end - pos >= 4 and (stop := pos + 4 + int.from_bytes(buf[pos : pos + 4], "big")) <= end
        ):
            if self.echo:
                self.send(buf[pos:stop])
            self.data += buf[pos + 4 : stop]
            pos = stop
        self.got.set()
        return pos

    def closed(self, error: Exception | None) -> None:
        self.gone.set()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    found = Listener(LoopNetwork(), Echo, connections_max=2, refusal=b"\x00\x00\x00\x04full")
    await found.start("127.0.0.1", 0)
    yield found
    await found.drain(1)


@pytest.fixture
async def dialer() -> AsyncIterator[Dialer[Echo]]:
    found = Dialer(LoopNetwork(), RandomEntropy(), lambda host, port: Echo(echo=False))
    yield found
    await found.close()


async def test_callers_of_one_address_share_a_connection(
    listener: Listener, dialer: Dialer[Echo]
) -> None:
    first, second = await asyncio.gather(
        dialer.connection("127.0.0.1", listener.port), dialer.connection("127.0.0.1", listener.port)
    )
    assert first is second is dialer.current("127.0.0.1", listener.port)
    first.send(b"\x00\x00\x00\x05hello")
    await first.got.wait()
    assert first.data == b"hello"


async def test_a_lost_connection_is_replaced(listener: Listener, dialer: Dialer[Echo]) -> None:
    first = await dialer.connection("127.0.0.1", listener.port)
    first.abort()
    await first.gone.wait()
    assert dialer.current("127.0.0.1", listener.port) is None
    assert await dialer.connection("127.0.0.1", listener.port) is not first


async def test_beyond_the_cap_a_newcomer_is_told_and_closed(
    listener: Listener, dialer: Dialer[Echo]
) -> None:
    network = LoopNetwork()
    held = []
    for _ in range(2):
        connection = Echo(echo=False)
        await network.connect("127.0.0.1", listener.port, lambda c=connection: c)  # type: ignore[misc]
        connection.send(b"\x00\x00\x00\x01a")
        await connection.got.wait()
        held.append(connection)
    third = await dialer.connection("127.0.0.1", listener.port)
    await third.gone.wait()
    assert third.data == b"full"
    assert (listener.refused, len(listener.connections)) == (1, 2)
    for connection in held:
        connection.close()


async def test_draining_ends_every_connection(listener: Listener, dialer: Dialer[Echo]) -> None:
    connection = await dialer.connection("127.0.0.1", listener.port)
    connection.send(b"\x00\x00\x00\x01a")
    await connection.got.wait()
    await listener.drain(1)
    await connection.gone.wait()
    assert listener.connections == []
    with pytest.raises(DialError):
        await dialer.connection("127.0.0.1", listener.port)


async def test_attempts_after_a_failure_wait() -> None:
    settings = DialSettings(backoff_initial_s=0.05, backoff_max_s=0.05)
    dialer = Dialer(LoopNetwork(), RandomEntropy(), lambda host, port: Echo(False), settings)
    loop = asyncio.get_running_loop()
    with pytest.raises(DialError, match=r"127\.0\.0\.1:1"):
        await dialer.connection("127.0.0.1", 1)
    before = loop.time()
    with pytest.raises(DialError):
        await dialer.connection("127.0.0.1", 1)
    assert loop.time() - before >= 0.03
    await dialer.close()
    with pytest.raises(DialError, match="closed"):
        await dialer.connection("127.0.0.1", 1)
