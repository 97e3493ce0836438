"""Brokers on one bookie and one metadata server, administered over their private ports.

In memory without a directory; on a real disk, with sockets, with one.
"""

from collections.abc import Mapping
from pathlib import Path

from engine.admin.client import AdminClient
from engine.base.entropy import RandomEntropy
from engine.base.names import TopicName
from engine.broker.service import BrokerService
from engine.metadata.memory import MemoryStore
from engine.programs.broker import build_broker
from engine.settings import load
from engine.wire import pulsar_pb2 as pb
from tests.support.ledger_cluster import Cluster, run_of
from tests.support.managed_cluster import Sink

TOKEN = "a-token-of-some-length"


def entry(text: str, sequence: int, publish_ms: int) -> bytes:
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=sequence, publish_time=publish_ms)
    encoded = metadata.SerializeToString()
    return len(encoded).to_bytes(4, "big") + encoded + text.encode()


class BrokerInstance:
    """Brokers on one bookie and one metadata server."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or Path("/nowhere")
        self.cluster = Cluster(directory)
        self.brokers: list[tuple[BrokerService, MemoryStore]] = []
        self.admin = AdminClient(self.cluster.store, self.cluster.network, TOKEN)

    async def broker(
        self,
        *,
        timeout_s: float = 10.0,
        settings: Mapping[str, object] | None = None,
        **ports: int,
    ) -> BrokerService:
        store = self.cluster.server.session(timeout_s)
        environ = {
            "MAGNETAR_BROKER_PORT": str(ports.get("broker", 0)),
            "MAGNETAR_BROKER_HTTP_PORT": str(ports.get("http", 0)),
            "MAGNETAR_INTERNAL_TOKEN": TOKEN,
            **{f"MAGNETAR_{name.upper()}": str(value) for name, value in (settings or {}).items()},
        }
        broker = build_broker(
            load(environ, self.directory),
            clock=self.cluster.clock,
            entropy=RandomEntropy(),
            network=self.cluster.network,
            store=store,
        )
        self.brokers.append((broker, store))
        await broker.start()
        return broker

    async def stop(self, broker: BrokerService) -> None:
        entry = next(pair for pair in self.brokers if pair[0] is broker)
        self.brokers.remove(entry)
        await broker.drain()
        await entry[1].close()

    def owner(self, topic: TopicName) -> BrokerService:
        return next(broker for broker, _ in self.brokers if broker.running.ownership.serves(topic))

    async def publish(self, topic: TopicName, count: int, first_ms: int = 1_000) -> None:
        """Store entries ``m0``, ``m1``, … a second apart, as a producer's would be."""
        sink = Sink()
        loaded = self.owner(topic).running.registry.loaded(topic)
        assert loaded is not None
        loaded.log.append(
            run_of(*(entry(f"m{i}", i, first_ms + 1000 * i) for i in range(count))), sink
        )
        await sink.settle(count)
        assert not sink.failures

    async def close(self) -> None:
        self.admin.close()
        for broker, _ in list(self.brokers):
            await self.stop(broker)
        await self.cluster.close()
