"""Brokers of one cluster in memory, over one bookie; each can be killed."""

from pathlib import Path

from engine.base.entropy import RandomEntropy
from engine.base.names import TopicName
from engine.broker.control.topic_policies import PolicyLog
from engine.broker.service import BrokerService
from engine.metadata.store import MetadataStore
from engine.programs.broker import build_broker
from engine.settings import load
from tests.support.ledger_cluster import Cluster

TOKEN = "tests-only-tests-only"
ENVIRON = {
    "MAGNETAR_BROKER_PORT": "0",
    "MAGNETAR_BROKER_HTTP_PORT": "0",
    "MAGNETAR_INTERNAL_TOKEN": TOKEN,
}


def _environ(settings: dict[str, str]) -> dict[str, str]:
    return {f"MAGNETAR_{key.upper()}": value for key, value in settings.items()}


class SeveralBrokers:
    """Running ``brokers`` of one cluster; ``store`` is a session of the test's own."""

    def __init__(self, **settings: str) -> None:
        self.cluster = Cluster()
        self.store = self.cluster.store
        self.brokers: list[BrokerService] = []
        self._stores: dict[BrokerService, MetadataStore] = {}
        self._environ = ENVIRON | _environ(settings)

    async def start(self, count: int) -> None:
        await self.cluster.start("b0")
        for _ in range(count):
            await self.add()

    async def add(self, **settings: str) -> BrokerService:
        """Start a broker, with ``settings`` of its own."""
        store = self.cluster.server.session(10.0)
        broker = build_broker(
            load({**self._environ, **_environ(settings)}, Path("/nowhere")),
            clock=self.cluster.clock,
            entropy=RandomEntropy(),
            network=self.cluster.network,
            store=store,
        )
        await broker.start()
        self.brokers.append(broker)
        self._stores[broker] = store
        return broker

    def owner(self, topic: TopicName) -> BrokerService | None:
        """Return the broker that has ``topic`` loaded."""
        for broker in self.brokers:
            if broker.running.registry.loaded(topic) is not None:
                return broker
        return None

    async def kill(self, broker: BrokerService) -> None:
        """Kill a broker: its topics write nothing more, its session ends, its connections break."""
        self.brokers.remove(broker)
        for topic in broker.running.registry.topics():
            topic.log.abandon()
        broker._serving = False  # so that it hands nothing over
        await self._stores.pop(broker).close()
        await broker.drain()

    async def stop(self, broker: BrokerService) -> None:
        """Stop a broker gracefully."""
        self.brokers.remove(broker)
        await broker.drain()
        await self._stores.pop(broker).close()

    async def close(self) -> None:
        for broker in list(self.brokers):
            await self.stop(broker)
        await self.cluster.close()


def policies(broker: BrokerService) -> PolicyLog:
    return broker.running.policy_log
