"""TLS that begins in the middle of a connection, over loopback and over the simulated network."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from engine.base.tasks import TaskScope
from engine.net import network as network_module
from engine.net.listener import Listener
from engine.net.network import Interim, LoopNetwork, Network
from engine.net.tls import ClientFiles, ServerFiles
from engine.net.transport import ClearTextError, Connection
from tests.sim.kit.loop import NODE, Node, SimLoop, simulate
from tests.sim.kit.network import SimNetwork, World
from tests.support.net.certificates import Authority
from tests.support.waiting import until

REQUEST = b"\0\0\0\3tls"
GRANTED = b"\0\0\0\2ok"
LATE = b"\0\0\0\4late"
SIM_TLS: Any = object()
"""The simulated network only passes its context on."""


def frame(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


class Server(Connection):
    """Echoes frames; grants TLS, and sends LATE while the handshake is under way."""

    def __init__(self, network: Network, tasks: TaskScope, tls: ssl.SSLContext) -> None:
        super().__init__(1 << 20)
        self.ends: list[Exception | None] = []
        self.openings = 0
        self._network, self._tasks, self._tls = network, tasks, tls

    def opened(self) -> None:
        self.openings += 1

    def received(self, buf: bytes, pos: int, end: int) -> int:
        while end - pos >= 4:
            stop = pos + 4 + int.from_bytes(buf[pos : pos + 4], "big")
            if stop > end:
                break
            self.check_clear()
            if buf[pos:stop] == REQUEST:
                self.send(GRANTED)
                self.stop_clear()
                self._tasks.spawn("tls", self.start_tls(self._network, self._tls))
                self.send(LATE)
            else:
                self.send(buf[pos:stop])
            pos = stop
        return pos

    def closed(self, error: Exception | None) -> None:
        self.ends.append(error)


class Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = bytearray()
        self.changed = asyncio.Event()
        self.lost = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.data += data
        self.changed.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.changed.clear()
            await self.changed.wait()

    async def exchange(self, sent: bytes, expected: bytes) -> None:
        assert self.transport is not None
        self.data.clear()
        self.transport.write(sent)
        await self.until(lambda: self.lost or len(self.data) >= len(expected))
        assert bytes(self.data) == expected


class Site:
    """A listener of Server connections on one network, and the way to it."""

    def __init__(self, network: Network, host: str, tls: ssl.SSLContext) -> None:
        self.network, self.host = network, host
        self.made: list[Server] = []
        self.tasks = TaskScope("tls")
        self.listener = Listener(network, lambda: self._make(tls), connections_max=0)

    def _make(self, tls: ssl.SSLContext) -> Server:
        self.made.append(Server(self.network, self.tasks, tls))
        return self.made[-1]

    async def connect(self, network: Network | None = None) -> Client:
        made = await (network or self.network).connect(self.host, self.listener.port, Client)
        client = made[1]
        assert isinstance(client, Client)
        return client


async def upgrade(site: Site, client: Client, tls: ssl.SSLContext, network: Network) -> None:
    await client.exchange(frame(b"clear"), frame(b"clear"))
    await client.exchange(REQUEST, GRANTED)
    transport = client.transport
    assert transport is not None
    client.data.clear()
    await network.start_tls(transport, client, tls, host=site.host)
    assert client.transport is not None
    assert client.transport.get_extra_info("sslcontext") is tls
    await client.until(lambda: len(client.data) >= len(LATE))
    assert client.data == LATE
    assert site.made[0].encrypted
    await client.exchange(frame(b"secret"), frame(b"secret"))
    large = frame(b"x" * 1_000_000)
    await client.exchange(large, large)
    assert site.made[0].openings == 2
    client.transport.close()


# --- sockets ------------------------------------------------------------------------------------------


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def serving(authority: Authority) -> AsyncIterator[Site]:
    tls = ServerFiles(*authority.issue("server", "127.0.0.1")).context()
    site = Site(LoopNetwork(), "127.0.0.1", tls)
    await site.listener.start("127.0.0.1", 0)
    yield site
    await site.listener.drain(1.0)
    await site.tasks.close()


async def test_a_connection_continues_with_tls(authority: Authority) -> None:
    async with serving(authority) as site:
        client = await site.connect()
        await upgrade(site, client, ClientFiles(authority.cert).context(), site.network)
        await until(lambda: site.made[0].ends == [None])
        assert not site.listener.connections


async def test_bytes_in_clear_behind_the_request_end_the_connection(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse such bytes: an attacker on the path could inject them, and they would count as the client's."""
    monkeypatch.setattr(network_module, "TLS_HANDSHAKE_TIMEOUT_S", 0.5)
    async with serving(authority) as site:
        for injected in (frame(b"injected"), b"\0\0", b"\x16\x03\x01"):
            client = await site.connect()
            await client.exchange(REQUEST + injected, GRANTED)
            await client.until(lambda client=client: client.lost)  # type: ignore[misc]
            assert client.data == GRANTED
            server = site.made[-1]
            await until(lambda server=server: bool(server.ends))  # type: ignore[misc]
            assert isinstance(server.ends[0], ClearTextError)
            assert len(server.ends) == 1


async def test_a_failed_handshake_ends_both_sides_once(
    authority: Authority, tmp_path: Path
) -> None:
    stranger = ClientFiles(Authority(tmp_path, "stranger").cert).context()
    async with serving(authority) as site:
        client = await site.connect()
        await client.exchange(REQUEST, GRANTED)
        assert client.transport is not None
        with pytest.raises(ssl.SSLCertVerificationError):
            await site.network.start_tls(client.transport, client, stranger, host=site.host)
        assert not client.lost  # the caller of start_tls received the error
        garbage = await site.connect()
        await garbage.exchange(REQUEST, GRANTED)
        await garbage.exchange(frame(b"not a handshake" * 10), GRANTED[:0])
        await until(lambda: not site.listener.connections)
        assert [[isinstance(end, OSError) for end in made.ends] for made in site.made] == [
            [True],
            [True],
        ]


async def test_a_peer_that_never_begins_the_handshake_is_disconnected(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network_module, "TLS_HANDSHAKE_TIMEOUT_S", 0.05)
    async with serving(authority) as site:
        client = await site.connect()
        await client.exchange(REQUEST, GRANTED)
        await client.until(lambda: client.lost)
        assert client.data == GRANTED  # nothing of LATE in clear
        await until(lambda: not site.listener.connections)
        assert isinstance(site.made[0].ends[0], OSError)


async def test_a_connection_closed_or_cancelled_during_the_handshake_ends_once(
    authority: Authority,
) -> None:
    async with serving(authority) as site:
        for end in (
            lambda: site.made[-1].close(),
            lambda: site.made[-1].abort(),
            site.tasks.cancel,
        ):
            client = await site.connect()
            await client.exchange(REQUEST, GRANTED)
            end()
            await client.until(lambda client=client: client.lost)  # type: ignore[misc]
            await until(lambda: not site.listener.connections)
            assert site.made[-1].ends == [None]


# --- the simulated network ----------------------------------------------------------------------------


def simulated(scenario: Callable[[Site, SimNetwork, World], Coroutine[Any, Any, None]]) -> None:
    async def main(loop: SimLoop) -> None:
        world = World(loop)
        world.segment_chance = 0.5
        site = Site(SimNetwork(world), "server", SIM_TLS)

        async def serve() -> None:
            await site.listener.start("server", 1)

        loop.spawn(Node("server"), serve())
        await asyncio.sleep(1)
        NODE.set(Node("client"))
        await scenario(site, SimNetwork(world), world)

    for seed in range(5):
        simulate(seed, main, limit_s=100)


def test_a_simulated_connection_continues_with_tls() -> None:
    async def scenario(site: Site, network: SimNetwork, _: World) -> None:
        await upgrade(site, await site.connect(network), SIM_TLS, network)

    simulated(scenario)


def test_a_simulated_handshake_fails_as_a_real_one() -> None:
    async def scenario(site: Site, network: SimNetwork, world: World) -> None:
        client = await site.connect(network)
        await client.exchange(REQUEST, GRANTED)
        assert client.transport is not None
        world.untrusted.add("server")
        with pytest.raises(ssl.SSLCertVerificationError):
            await network.start_tls(client.transport, client, SIM_TLS, host="server")
        clear = await site.connect(network)
        await clear.exchange(REQUEST, GRANTED)
        assert clear.transport is not None
        clear.transport.write(frame(b"clear"))
        await clear.until(lambda: clear.lost)
        await asyncio.sleep(1)
        assert not site.listener.connections

    simulated(scenario)


async def test_bytes_of_the_handshake_precede_those_read_after_it() -> None:
    class Taker(asyncio.Protocol):
        def __init__(self) -> None:
            self.got: list[bytes] = []

        def data_received(self, data: bytes) -> None:
            self.got.append(data)

    taker, interim = Taker(), Interim()
    interim.data_received(b"with the handshake")
    interim.hand_over(Mock(asyncio.Transport), taker)
    taker.data_received(b"behind it")  # as the loop does, where it has read it in the same turn
    await asyncio.sleep(0)
    assert taker.got == [b"with the handshake", b"behind it"]
