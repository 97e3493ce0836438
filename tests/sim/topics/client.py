"""The base of clients of a simulated cluster: the engine's own client, and endless reconnecting.

They behave as the official ones where it matters: they look up, attach, send pipelined, reconnect after any loss and
send again what has no receipt, under the same sequence ids. Whatever they see goes into the history at once.
"""

import asyncio
import logging
import random

from engine.base.errors import PeerError
from engine.client.broker_link import Body, BrokerLink, LinkSettings
from engine.client.errors import ClientError, SentAwayError
from engine.client.lookup import Links
from engine.net.keepalive import SilentPeerError
from engine.wire.errors import RefusedError
from engine.wire.states import CommandType
from tests.sim.kit.cluster import BROKER_PORT
from tests.sim.kit.loop import Node
from tests.sim.kit.network import Pipe, SimNetwork
from tests.sim.topics.observer import Observer

REQUEST_TIMEOUT_S = 5.0
SETTINGS = LinkSettings(
    "Pulsar-CPP-simulated",
    connect_timeout_s=REQUEST_TIMEOUT_S,
    request_timeout_s=REQUEST_TIMEOUT_S,
    keep_alive_s=2.0,
)
PATIENCE_MAX = 4
"""Bound of the factor by which the shortest pause between two attempts grows after attempts that failed."""

log = logging.getLogger(__name__)


class Link(BrokerLink):
    """The connection of one client, with one producer or consumer. ``gone`` is set when it ended, or when the broker
    closed a consumer after it had refused it, which the C++ client waits for."""

    def __init__(self, settings: LinkSettings, proxy_to: str | None = None) -> None:
        super().__init__(settings, proxy_to)
        self.gone = asyncio.Event()

    def unclaimed(self, kind: int, body: Body) -> None:
        if kind == CommandType.CLOSE_CONSUMER:
            self.gone.set()

    def closed(self, error: Exception | None) -> None:
        super().closed(error)
        self.gone.set()

    @property
    def pipe(self) -> Pipe:
        assert isinstance(self.transport, Pipe)
        return self.transport


class Client:
    """The base of producers and consumers: finds the topic's broker, reconnects, and runs as a node of its own."""

    def __init__(self, observer: Observer, name: str, topic: str) -> None:
        self.observer = observer
        self.history = observer.history
        cluster = self.cluster = observer.cluster
        cluster.clients.append(name)
        self.loop = cluster.loop
        self.name = name
        self.topic = topic
        self.rng = random.Random(f"{cluster.loop.seed}/{name}")
        self.node = Node(name)
        self.settings = SETTINGS
        self.link: Link | None = None
        self.wake = asyncio.Event()
        """Set when something arrived, or when there is something to send."""
        self.calm = False
        """Set when the faults are over: the client makes no trouble of its own any more."""
        self.stopping = False
        self.broker = ""
        self.sent_to = ""
        """URL of the broker to which the client was sent; empty when it has to look the topic up."""
        self._links: Links | None = None
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
            except (ClientError, RefusedError) as error:
                self.loop.note(self.name, type(error).__name__)
                log.debug("client reconnects: %s %s", type(error).__name__, error)
                self.cluster.count("client reconnects")
                self.sent_to = error.url if isinstance(error, SentAwayError) else ""
                self._check(error)
            finally:
                self.cut()
            tries = tries + 1 if self.loop.now - began < 1.0 else 0
            patience = min(2**tries, PATIENCE_MAX)
            await asyncio.sleep(patience * (0.05 + 0.25 * self.rng.random()))

    async def _session(self) -> None:
        raise NotImplementedError

    def _check(self, error: Exception) -> None:
        """Note an anomaly when the broker broke the protocol."""
        cause = error.__cause__
        if isinstance(cause, PeerError) and not isinstance(cause, SilentPeerError):
            self.observer.wrong(f"{self.name}: {cause}")

    async def open(self) -> Link:
        """Return a connection to the topic's owner. Raises ClientError, RefusedError."""
        host = self.rng.choice(self.cluster.brokers).name
        links = self._links = Links(self._network, self.settings, Link)
        url, self.sent_to = self.sent_to, ""
        if url:
            self.cluster.count("clients sent on")
            link = await links.get(url)
        else:
            link = await links.owner(self.topic, f"pulsar://{host}:{BROKER_PORT}")
        self.link = link
        self.broker = self.cluster.machines[link.pipe.peer.node.name].incarnation
        return link

    def cut(self) -> None:
        """End the connections at once, as a crash would."""
        if self._links is not None:
            self._links.abort()
        self.link = self._links = None

    def wake_up(self, _: object = None) -> None:
        self.wake.set()
