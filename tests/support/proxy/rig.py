"""A proxy over the network in memory, in front of a broker that a test scripts."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from engine.auth.settings import IdentitySettings
from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.client.settings import BrokerClientSettings
from engine.metadata.store import MetadataStore
from engine.net.http import Request, Response
from engine.net.transport import Connection
from engine.proxy.proxy_service import ProxyService
from engine.proxy.settings import ProxyProgramSettings, ProxySettings
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from tests.support.access.callers import PROXY, token
from tests.support.net.pipe_network import PipeNetwork
from tests.support.waiting import until

FRAME_MAX = 1 << 24


def program(
    *urls: str, identity: IdentitySettings | None = None, **settings: Any
) -> ProxyProgramSettings:
    """Return the settings of a proxy on any ports, in front of brokers at ``urls``."""
    proxy = replace(
        ProxySettings(service_port=0, web_service_port=0, broker_service_url=",".join(urls)),
        **settings,
    )
    if identity is None:
        return ProxyProgramSettings(proxy=proxy)
    return ProxyProgramSettings(
        proxy=proxy,
        broker_client=BrokerClientSettings(
            broker_client_authentication_plugin="token",
            broker_client_authentication_parameters=f"token:{token(PROXY)}",
        ),
        authentication=identity.general,
        token=identity.token,
        authorization=identity.authorization,
    )


@asynccontextmanager
async def proxied(
    settings: ProxyProgramSettings, store: MetadataStore | None = None
) -> AsyncIterator[ProxyService]:
    """Yield a running proxy."""
    service = ProxyService(
        settings,
        clock=LoopClock(),
        entropy=RandomEntropy(),
        network=PipeNetwork(),
        store=store,
    )
    await service.start()
    try:
        yield service
    finally:
        await service.drain()


class Peer(Connection):
    """One end of a conversation: whole frames are parsed until ``raw``, then bytes are kept as they are.

    With ``raw_when_connected`` that is behind CONNECTED.
    """

    def __init__(self, *, raw_when_connected: bool = False) -> None:
        super().__init__(FRAME_MAX)
        self._raw_when_connected = raw_when_connected
        self.received_commands: list[pb.BaseCommand] = []
        self.bytes = bytearray()
        self.raw = False
        self.half_closed = False
        self.has_ended = False

    def received(self, buf: bytes, pos: int, end: int) -> int:
        while pos < end and not self.raw:
            stop = frames.frame_end(buf, pos, end, FRAME_MAX)
            if stop < 0:
                return pos
            self.received_commands.append(commands.parse(buf, *frames.command_span(buf, pos, stop)))
            pos = stop
            connected = self.received_commands[-1].HasField("connected")
            self.raw = connected and self._raw_when_connected
        self.bytes += buf[pos:end]
        return end

    def eof_received(self) -> bool | None:
        self.half_closed = True
        return True

    def closed(self, error: Exception | None) -> None:
        self.has_ended = True

    def kinds(self) -> list[str]:
        """Return the types of the received commands."""
        return [pb.BaseCommand.Type.Name(command.type) for command in self.received_commands]

    async def next(self, field: str) -> Any:
        """Return the body of the first received command of one type, which may be about to arrive; forget it."""
        await until(
            lambda: self.has_ended or any(c.HasField(field) for c in self.received_commands),
            lambda: f"no {field}, but {self.kinds()}",
        )
        command = next(c for c in self.received_commands if c.HasField(field))
        self.received_commands.remove(command)
        return getattr(command, field)

    async def next_command(self) -> pb.BaseCommand:
        """Return the first command that was received, which may be about to arrive; forget it."""
        await until(lambda: self.received_commands, "nothing arrives")
        return self.received_commands.pop(0)

    async def gone(self) -> None:
        """Return once the connection has ended."""
        await until(lambda: self.has_ended, "the connection stays open")


class ScriptedBroker:
    """A broker that does what a test says; ``peers`` are its connections, oldest first."""

    def __init__(self) -> None:
        self.peers: list[Peer] = []
        self._server: Any = None

    async def start(self) -> str:
        """Listen and return the URL."""
        self._server = await PipeNetwork().listen("127.0.0.1", 0, self._accept)
        return f"pulsar://127.0.0.1:{self._server.port}"

    def _accept(self) -> Peer:
        self.peers.append(Peer())
        return self.peers[-1]

    async def peer(self, number: int = 0) -> Peer:
        """Return a connection, which may be about to be made."""
        await until(lambda: len(self.peers) > number, "no connection to the broker")
        return self.peers[number]

    def close(self) -> None:
        """Listen no longer, and end all connections."""
        self._server.close()
        for peer in self.peers:
            peer.close()


async def dial(
    proxy: ProxyService, first: bytes = b"", *, raw_when_connected: bool = False
) -> Peer:
    """Return a client's connection to a proxy, on which ``first`` was sent."""
    client = Peer(raw_when_connected=raw_when_connected)
    await PipeNetwork().connect("127.0.0.1", proxy.port, lambda: client)
    client.send(first)
    return client


@asynccontextmanager
async def joined(
    connect: Callable[[str], bytes],
    answer: bytes,
    **settings: Any,
) -> AsyncIterator[tuple[ProxyService, Peer, Peer]]:
    """Yield a proxy, and a client and a broker that it has joined. ``connect`` makes the client's CONNECT of the
    broker's ``host:port``; the broker answers the proxy's with ``answer``."""
    broker = ScriptedBroker()
    url = await broker.start()
    async with proxied(program(url, **settings)) as proxy:
        first = connect(url.removeprefix("pulsar://"))
        client = await dial(proxy, first, raw_when_connected=True)
        far = await broker.peer()
        await far.next("connect")
        far.raw = True
        far.send(answer)
        await client.next("connected")
        yield proxy, client, far
        broker.close()


async def page(proxy: ProxyService, path: str, headers: dict[str, str] | None = None) -> Response:
    """Return the proxy's answer to GET of a page."""
    return await proxy.pages(Request("GET", path, "", headers or {}, b""))


async def body_of(response: Response) -> str:
    """Return the whole body of a page."""
    if response.pieces is None:
        return response.body.decode()
    return b"".join([piece async for piece in response.pieces]).decode()


async def rows_of(proxy: ProxyService) -> Any:
    """Return the statistics of the connections."""
    return json.loads((await page(proxy, "/proxy-stats/connections")).body)


async def settled() -> None:
    """Let the loop run what is ready, several times."""
    for _ in range(20):
        await asyncio.sleep(0)
