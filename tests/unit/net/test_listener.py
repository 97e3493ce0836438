"""Listening over loopback sockets."""

import asyncio
from collections.abc import AsyncIterator

import pytest

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


def refusal_frame(reason: str) -> bytes:
    return len(reason).to_bytes(4, "big") + reason.encode()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    listener = Listener(LoopNetwork(), Echo, connections_max=2, refusal=refusal_frame)
    await listener.start("127.0.0.1", 0)
    yield listener
    await listener.drain(1)


async def dial(port: int) -> Echo:
    connection = Echo(echo=False)
    await LoopNetwork().connect("127.0.0.1", port, lambda: connection)
    return connection


async def test_a_connection_beyond_the_cap_receives_the_refusal_and_is_closed(
    listener: Listener,
) -> None:
    held = []
    for _ in range(2):
        connection = await dial(listener.port)
        connection.send(b"\x00\x00\x00\x01a")
        await connection.got.wait()
        held.append(connection)
    third = await dial(listener.port)
    await third.gone.wait()
    assert third.data == b"Reached the maximum number of connections"
    assert (listener.refused, len(listener.connections)) == (1, 2)
    for connection in held:
        connection.close()
        await connection.gone.wait()
    assert (await served(listener.port)).data == b"a", "those that are gone leave room"


async def served(port: int, address: str = "127.0.0.1") -> Echo:
    """Return a connection from ``address`` that was answered, or refused."""
    connection = Echo(echo=False)
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: connection, "127.0.0.1", port, local_addr=(address, 0))
    connection.send(b"\x00\x00\x00\x01a")
    await connection.got.wait()
    return connection


async def test_an_address_has_a_cap_of_its_own() -> None:
    listener = Listener(
        LoopNetwork(), Echo, connections_max=0, per_address_max=1, refusal=refusal_frame
    )
    await listener.start("127.0.0.1", 0)
    first = await served(listener.port)
    again = await served(listener.port)
    assert again.data == b"Reached the maximum number of connections on address 127.0.0.1"
    assert (await served(listener.port, "127.0.0.2")).data == b"a"
    first.close()
    await first.gone.wait()
    assert (await served(listener.port)).data == b"a"
    assert listener.refused == 1
    await listener.drain(1)


async def test_addresses_of_a_listener_share_its_cap_and_end_together(listener: Listener) -> None:
    other = await listener.start("127.0.0.1", 0)
    assert listener.port != other
    held = [await served(listener.port), await served(other)]
    for port in (listener.port, other):
        assert (await served(port)).data == b"Reached the maximum number of connections"
    assert listener.refused == 2
    await listener.drain(1)
    for connection in held:
        await connection.gone.wait()
    with pytest.raises(OSError, match=r"refused|failed"):
        await dial(other)


async def test_a_connection_without_a_handler_is_closed_and_not_counted() -> None:
    listener = Listener(LoopNetwork(), lambda: None, connections_max=1)
    await listener.start("127.0.0.1", 0)
    for _ in range(2):
        await (await dial(listener.port)).gone.wait()
    assert (listener.refused, listener.connections) == (0, [])
    await listener.drain(1)


async def test_draining_ends_every_connection(listener: Listener) -> None:
    connection = await dial(listener.port)
    connection.send(b"\x00\x00\x00\x01a")
    await connection.got.wait()
    await listener.drain(1)
    await connection.gone.wait()
    assert listener.connections == []
    with pytest.raises(ConnectionRefusedError):
        await dial(listener.port)
