"""Replication of a topic from the cluster ``us`` to ``eu``: two brokers in memory, each with its own storage."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from engine.base.entropy import RandomEntropy
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.policies import DeduplicationPolicies, TopicPolicies
from engine.broker.topics.geo.replicator import Replicator
from engine.broker.topics.publish import Publish
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.client import PulsarClient
from engine.client.errors import LostError, UnreachableError
from engine.client.replicating_producer import FEATURES
from engine.wire.batches import read_metadata
from engine.wire.client_commands import send
from engine.wire.geo.source_positions import source_position
from engine.wire.kernels import take_sends
from tests.support.broker_bench import NAME, Bench, served, until
from tests.support.net.pipe_network import PipeNetwork
from tests.support.raw_client import entry_of

ON = TopicPolicies(deduplication=DeduplicationPolicies(enabled=True))
TO_BOTH = TopicPolicies(clusters=("us", "eu"))


class Remotes:
    """Stand-in for the configuration store: clusters by name, each at one URL."""

    def __init__(self, bench: Bench, urls: Mapping[str, str]) -> None:
        self.reachable = True
        self.shape_error: Exception | None = None
        self.registered: list[bytes] = []
        self._made = {cluster: _client(bench, url) for cluster, url in urls.items()}

    async def client(self, cluster: str) -> PulsarClient:
        if not self.reachable:
            raise UnreachableError(f"no connection to {cluster}")
        return self._made[cluster]

    async def check_shape(self, client: PulsarClient, cluster: str, topic: TopicName) -> None:
        if self.shape_error is not None:
            raise self.shape_error

    async def register_schema(self, link: BrokerLink, topic: TopicName, version: bytes) -> bytes:
        self.registered.append(version)
        return bytes(reversed(version))

    async def close(self) -> None:
        for client in self._made.values():
            await client.close()


def _client(bench: Bench, url: str) -> PulsarClient:
    async def brokers() -> list[str]:
        return [url]

    return PulsarClient(
        network=PipeNetwork(),
        clock=bench.cluster.clock,
        entropy=RandomEntropy(),
        brokers=brokers,
        settings=LinkSettings(connect_timeout_s=60, request_timeout_s=60, features=FEATURES),
    )


class Pair:
    """The brokers of ``us``, whose topic is sent, and ``eu``."""

    def __init__(self, us: Bench, eu: Bench, remotes: Remotes) -> None:
        self.us, self.eu, self.remotes = us, eu, remotes
        self._sequence = 0

    @property
    def replicator(self) -> Replicator:
        return self.us.topic.replication.replicators["eu"]

    async def begin(self, policies: TopicPolicies = TO_BOTH, name: TopicName = NAME) -> None:
        """Load the topic with these policies, and wait for its replicator's cursor."""
        self.us.everything.in_force = policies
        await self.us.registry.unload(name)
        await self.us.load(name)
        self._sequence = 0
        await until(lambda: "eu" in self.us.topic.replication.replicators)

    async def publish(self, *values: bytes, **metadata: object) -> None:
        data = b""
        for value in values:
            data += send(1, self._sequence, entry_of(value, **metadata))
            self._sequence += 1
        _, _, run = take_sends(data, 0, len(data), 8 << 20)
        assert run is not None
        before = self.us.publisher.receipts
        Publish(run, self.us.producer).start()
        await until(lambda: self.us.publisher.receipts == before + len(values))

    async def stored(self, count: int) -> list[tuple[bytes, Position | None, str]]:
        """Return payload, source position and origin of the entries in ``eu``, once there are ``count``."""
        log = self.eu.topic.log
        await until(lambda: log.entries_added >= count)
        rows = []
        position = log.next_position(Position(-1, -1))
        while position <= log.last_confirmed:
            entry = (await log.read_entry(position)).entry(0)
            metadata = read_metadata(entry)
            assert metadata is not None
            rows.append((entry[-1:], source_position(metadata), metadata.replicated_from))
            position = log.next_position(position)
        return rows

    async def caught_up(self) -> None:
        await until(lambda: self.replicator.backlog == 0)

    async def cut(self) -> None:
        """End the connection of the replicator's producer."""
        producer = self.replicator._producer
        assert producer is not None
        producer.link.abort(LostError("cut"))
        await until(lambda: self.replicator._producer is not producer)


@asynccontextmanager
async def replicated() -> AsyncIterator[Pair]:
    """Yield the brokers of both clusters; nothing is sent before ``Pair.begin``."""
    async with AsyncExitStack() as stack:
        us, _, _ = await stack.enter_async_context(served())
        eu, _, url = await stack.enter_async_context(served())
        us.context.identity = replace(us.context.identity, cluster="us")
        eu.context.identity = replace(eu.context.identity, cluster="eu")
        eu.everything.in_force = ON
        await eu.registry.unload(NAME)
        await eu.load()
        remotes = us.context.remotes = Remotes(us, {"eu": url})
        stack.push_async_callback(remotes.close)
        yield Pair(us, eu, remotes)
