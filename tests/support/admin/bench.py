"""One broker over one bookie in memory, administered without sockets, on a metadata store whose calls can fail."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from engine.admin.api.arguments import OnTopic
from engine.admin.api.messages import LAST_MESSAGE_ID
from engine.base.clock import Clock, LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.names import TopicName
from engine.broker.service import BrokerService
from engine.broker.topics.topic import Topic
from engine.programs.broker import build_broker
from engine.settings import load
from engine.wire import pulsar_pb2 as pb
from gateway.services.engine_link import Engine
from tests.support.admin.direct import DirectAdmin
from tests.support.ledger_cluster import Cluster, run_of
from tests.support.managed_cluster import Sink
from tests.support.stores.failing import FailingStore

TOKEN = "a-token-of-some-length"
QUICK = {
    "MAGNETAR_BROKER_PORT": "0",
    "MAGNETAR_BROKER_HTTP_PORT": "0",
    "MAGNETAR_INTERNAL_TOKEN": TOKEN,
    "MAGNETAR_METADATA_ATTEMPTS_MAX": "2",
    "MAGNETAR_RETRY_INITIAL_S": "0.001",
    "MAGNETAR_RETRY_MAX_S": "0.005",
    "MAGNETAR_METADATA_TIMEOUT_S": "0.1",
    "MAGNETAR_CURSOR_PERSIST_INTERVAL_S": "0.005",
    "MAGNETAR_DEFAULT_NUMBER_OF_NAMESPACE_BUNDLES": "4",
}


class ShiftedClock(LoopClock):
    """The loop's clock, whose wall time is ahead by ``ahead_ms``."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


class AdminBench:
    """``store`` is the one session that broker and gateway share; ``engine`` is what services work on."""

    store: FailingStore
    broker: BrokerService
    engine: Engine

    def __init__(self, clock: Clock | None = None, **settings: str) -> None:
        """``clock``: the broker's, the loop's unless given. ``settings``: of the broker."""
        self._settings = QUICK | settings
        self._cluster = Cluster()
        self._clock = clock or self._cluster.clock

    async def start(self) -> None:
        await self._cluster.start("b0")
        await self._start_broker()

    async def _start_broker(self) -> None:
        self.store = FailingStore(self._cluster.server.session(10.0))
        self.broker = build_broker(
            load(self._settings, Path("/nowhere")),
            clock=self._clock,
            entropy=RandomEntropy(),
            network=self._cluster.network,
            store=self.store,
        )
        self.admin = DirectAdmin(self.store, TOKEN, lambda: [self.broker])
        self.engine = Engine(self.store, self.admin)
        await self.broker.start()

    async def _stop_broker(self) -> None:
        self.store.heal()
        await self.broker.drain()
        await self.store.close()

    async def restart(self) -> None:
        """Kill the broker, so that nothing of its topics is written any more, and start it again."""
        for topic in self.broker.running.registry.topics():
            topic.log.abandon()
        await self._stop_broker()
        await self._start_broker()

    async def close(self) -> None:
        await self._stop_broker()
        await self._cluster.close()

    async def loaded(self, name: TopicName) -> Topic:
        """Load a topic and return it."""
        await self.admin.call(LAST_MESSAGE_ID, OnTopic(name))
        topic = self.broker.running.registry.loaded(name)
        assert topic is not None
        return topic

    async def publish(self, name: TopicName, count: int, first_ms: int = 1_000) -> Sink:
        """Append entries whose publish times are a second apart; return the sink with their outcomes."""
        sink = Sink()
        entries = [_entry(i, first_ms + 1000 * i) for i in range(count)]
        (await self.loaded(name)).log.append(run_of(*entries), sink)
        await sink.settle(count)
        return sink


def _entry(sequence: int, publish_ms: int) -> bytes:
    metadata = pb.MessageMetadata(
        producer_name="p", sequence_id=sequence, publish_time=publish_ms
    ).SerializeToString()
    return len(metadata).to_bytes(4, "big") + metadata + b"v"


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    """A started bench for one test."""
    made = AdminBench()
    await made.start()
    yield made
    await made.close()
