"""Peers in the TLS handshake count against the limits of a listener."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.net.listener import Listener
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles, ServerFiles
from engine.net.transport import Connection
from tests.support.net.certificates import Authority
from tests.support.waiting import until

LIMIT = 2
FRAME = b"\x00\x00\x00\x01a"


class Mirror(Connection):
    """Sends back what it receives."""

    def __init__(self) -> None:
        super().__init__(frame_max=1 << 20)

    def received(self, buf: bytes, pos: int, end: int) -> int:
        self.send(buf[pos:end])
        return end


class Site:
    """A listener in TLS with LIMIT connections of one address, and clients of it."""

    def __init__(self, listener: Listener, port: int, authority: Authority) -> None:
        self.listener = listener
        self.port = port
        self.kept: list[asyncio.StreamWriter] = []
        """The streams of silent peers."""
        self._tls = ClientFiles(authority.cert).context()

    async def silent(self, address: str = "127.0.0.1") -> asyncio.StreamReader:
        """Return the stream of a peer that connects and begins no handshake."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.port, local_addr=(address, 0)
        )
        self.kept.append(writer)
        return reader

    async def answer(self, address: str = "127.0.0.1") -> bytes:
        """Return what a client receives for FRAME, sent at the end of its handshake."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1",
            self.port,
            local_addr=(address, 0),
            ssl=self._tls,
            server_hostname="localhost",
        )
        try:
            writer.write(FRAME)
            return await reader.read(1024)
        finally:
            writer.transport.abort()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    authority = Authority(tmp_path)
    files = ServerFiles(*authority.issue("server", "localhost"))
    listener = Listener(
        LoopNetwork(),
        Mirror,
        connections_max=0,
        per_address_max=LIMIT,
        refusal=lambda reason: reason.encode(),
    )
    port = await listener.start("127.0.0.1", 0, tls=files.context())
    made = Site(listener, port, authority)
    yield made
    for writer in made.kept:
        writer.transport.abort()
    await listener.drain(1)


async def test_peers_in_the_handshake_count_for_their_address(site: Site) -> None:
    await site.silent()
    assert await site.answer() == FRAME
    await until(lambda: not site.listener.connections)
    await site.silent()
    # One above the limit completes the handshake and reads the reason.
    assert await site.answer() == b"Reached the maximum number of connections on address 127.0.0.1"
    await until(lambda: len(site.listener._handshakes) == LIMIT)
    await site.silent()
    refused = site.listener.refused
    assert await (await site.silent()).read() == b""
    assert site.listener.refused == refused + 1
    assert await site.answer("127.0.0.2") == FRAME
    for writer in site.kept:
        writer.transport.abort()
    await until(lambda: not site.listener._handshakes)
    assert await site.answer() == FRAME


async def test_a_drain_ends_handshakes_at_once(site: Site) -> None:
    reader = await site.silent()
    await until(lambda: len(site.listener._handshakes) == 1)
    await site.listener.drain(60)
    with pytest.raises((ConnectionResetError, EOFError)):
        await reader.readexactly(1)
    assert not site.listener._handshakes
