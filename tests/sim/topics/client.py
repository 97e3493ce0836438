"""What clients of a simulated cluster share: a connection over the binary protocol, and coming back for ever.

They behave as the official ones where it matters: look up, attach, send pipelined, come back after any loss and send
again what has no receipt, under the same sequence ids. Whatever they see goes into the history at once.
"""

import asyncio
import logging
import random
from collections.abc import Callable

from engine.net.transport import Connection
from engine.wire import client_commands as say
from engine.wire import commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import refusal
from tests.sim.kit.cluster import BROKER_PORT, Cluster
from tests.sim.kit.loop import Node
from tests.sim.kit.network import Pipe, SimNetwork

REQUEST_TIMEOUT_S = 5.0
KEEPALIVE_S = 1.0
REDIRECTS_MAX = 5
PATIENCE_MAX = 4
"""Times the shortest rest between two attempts, after attempts that came to nothing."""

log = logging.getLogger(__name__)

Heard = Callable[[pb.BaseCommand, bytes], None]


class Refused(Exception):
    """The broker answered with an error. ``passing``: the same request may succeed later."""

    def __init__(self, text: str, *, passing: bool = False) -> None:
        super().__init__(text)
        self.passing = passing


class Lost(Exception):
    """The connection or the attachment ended; come again."""


class Link(Connection):
    """One connection. ``request`` waits for the answer to a request; everything else goes to ``heard``."""

    def __init__(self) -> None:
        super().__init__(frames.FRAME_BYTES_MAX)
        self.heard: Heard = lambda command, entry: None
        self.wake = asyncio.Event()
        self.over = False
        self.silent = 0
        self._replies: dict[int, asyncio.Future[pb.BaseCommand]] = {}
        self._keepalive: asyncio.TimerHandle | None = None

    @property
    def sent_at(self) -> float:
        """When the broker wrote what is being received."""
        assert isinstance(self.transport, Pipe)
        return self.transport.sent_at

    def opened(self) -> None:
        self._keepalive = self._loop.call_later(KEEPALIVE_S, self._tick)

    def _tick(self) -> None:
        self.silent += 1
        if self.silent > 3:
            self.abort()
            return
        self.send(commands.ping())
        self._keepalive = self._loop.call_later(KEEPALIVE_S, self._tick)

    def received(self, buf: bytes, pos: int, end: int) -> int:
        self.silent = 0
        while (stop := frames.whole_frame(buf, pos, end, self.frame_max)) > 0:
            start, split = frames.command_span(buf, pos, stop)
            command = commands.parse(buf, start, split)
            self._hear(command, buf[split:stop])
            pos = stop
        return pos

    def _hear(self, command: pb.BaseCommand, entry: bytes) -> None:
        if command.type == pb.BaseCommand.PING:
            self.send(commands.pong())
            return
        body = getattr(command, commands.FIELD_OF_TYPE[command.type])
        request_id = getattr(body, "request_id", -1)
        if command.type == pb.BaseCommand.CONNECTED:
            request_id = 0
        reply = self._replies.pop(request_id, None)
        if reply is not None:
            if not reply.done():
                reply.set_result(command)
        else:
            self.heard(command, entry)

    def closed(self, error: Exception | None) -> None:
        self.over = True
        if self._keepalive is not None:
            self._keepalive.cancel()
        self.wake.set()
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(Lost("connection lost"))

    async def request(self, request_id: int, frame: bytes) -> pb.BaseCommand:
        """Raises Lost, Refused, TimeoutError."""
        if self.over:
            raise Lost("connection lost")
        reply: asyncio.Future[pb.BaseCommand] = self._loop.create_future()
        self._replies[request_id] = reply
        self.send(frame)
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT_S):
                command = await reply
        finally:
            self._replies.pop(request_id, None)
        if command.type == pb.BaseCommand.ERROR:
            error = refusal(command.error.error, command.error.message)
            raise Refused(f"{error.code.name} {error}", passing=error.retriable)
        return command


class Client:
    """What producers and consumers share: finding the topic's broker, coming back, a life of its own as a node."""

    def __init__(self, cluster: Cluster, name: str, topic: str) -> None:
        self.cluster = cluster
        self.history = cluster.history
        self.loop = cluster.loop
        self.name = name
        self.topic = topic
        self.rng = random.Random(f"{cluster.loop.seed}/{name}")
        self.node = Node(name)
        self.link: Link | None = None
        self.calm = False
        """The faults are over: no mischief of our own any more."""
        self.stopping = False
        self.broker = ""
        self._requests = 1
        self._network = SimNetwork(cluster.world)
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.task = self.loop.spawn(self.node, self._run())
        self.task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            error = task.exception()
            self.cluster.failures.append(f"client {self.name}: {type(error).__name__}: {error}")

    async def _run(self) -> None:
        tries = 0
        while not self.stopping:
            began = self.loop.now
            try:
                await self._session()
            except (OSError, TimeoutError, Lost, Refused) as error:
                self.loop.note(self.name, type(error).__name__)
                log.debug("client comes again: %s %s", type(error).__name__, error)
                self.cluster.count("client reconnects")
            finally:
                if self.link is not None:
                    self.link.abort()
                    self.link = None
            tries = tries + 1 if self.loop.now - began < 1.0 else 0
            patience = min(2**tries, PATIENCE_MAX)
            await asyncio.sleep(patience * (0.05 + 0.25 * self.rng.random()))

    async def _session(self) -> None:
        raise NotImplementedError

    def request_id(self) -> int:
        self._requests += 1
        return self._requests

    async def open(self) -> Link:
        """A connection to the topic's owner. Raises OSError, Lost, Refused, TimeoutError."""
        host = self.rng.choice(self.cluster.brokers).name
        authoritative = False
        for _ in range(REDIRECTS_MAX):
            link = await self._connect(host)
            rid = self.request_id()
            answer = await link.request(
                rid, say.lookup(self.topic, rid, authoritative=authoritative)
            )
            found = answer.lookupTopicResponse
            if found.response == found.Failed:
                raise Refused(f"lookup: {found.message}")
            target = found.brokerServiceUrl.removeprefix("pulsar://").partition(":")[0]
            authoritative = found.authoritative
            if found.response == found.Connect and target == host:
                machine = self.cluster.machines[host]
                self.broker = machine.incarnation
                return link
            link.abort()
            host = target
        raise Refused("redirected too often")

    async def _connect(self, host: str) -> Link:
        _, link = await self._network.connect(host, BROKER_PORT, Link)
        assert isinstance(link, Link)
        self.link = link
        await link.request(0, say.connect("Pulsar-CPP-simulated"))
        return link
