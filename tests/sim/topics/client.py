"""What clients of a simulated cluster share: coming back for ever.

They behave as the official ones where it matters: look up, attach, send pipelined, come back after any loss and send
again what has no receipt, under the same sequence ids. Whatever they see goes into the history at once.
"""

import asyncio
import logging
import random

from engine.wire import client_commands as say
from tests.sim.kit.cluster import BROKER_PORT
from tests.sim.kit.loop import Node
from tests.sim.kit.network import SimNetwork
from tests.sim.topics.link import Link, Lost, Refused
from tests.sim.topics.observer import Observer

REDIRECTS_MAX = 5
PATIENCE_MAX = 4
"""Times the shortest rest between two attempts, after attempts that came to nothing."""

log = logging.getLogger(__name__)


class Client:
    """What producers and consumers share: finding the topic's broker, coming back, a life of its own as a node."""

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
