"""The console's numbers over real brokers: while topics change their owner, and while brokers, the gateway and the
metadata store are unavailable."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, OnTopic
from engine.admin.api.messages import LAST_MESSAGE_ID
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.client import AdminClient
from engine.auth.viewer import ALL
from engine.base.names import TopicName
from engine.broker.service import BrokerService
from engine.metadata.memory import MemoryStore
from engine.net.network import LoopNetwork
from gateway.services.clock import now_ms
from gateway.services.collection import collector as collecting
from gateway.services.collection.collector import Collector
from gateway.services.engine_link import Engine, EngineLink
from gateway.services.health.hops import HopState, Kind
from tests.support.admin.broker_instance import TOKEN, BrokerInstance
from tests.support.waiting import stays, until

TOPIC = TopicName.parse("hello")
ENTRIES = 10


class Gateway:
    """The collector of a gateway process, run on the test's loop."""

    def __init__(self, instance: BrokerInstance) -> None:
        self.store: MemoryStore = instance.cluster.server.session(10.0)
        self.admin = AdminClient(self.store, LoopNetwork(), TOKEN, timeout_s=2.0)
        self.link = EngineLink(self._connect, asyncio.get_running_loop())
        self.collector = Collector(self.link)

    async def _connect(self) -> Engine:
        return Engine(self.store, self.admin)

    async def row(self) -> dict[str, Any]:
        snapshot = await self.collector.snapshot()
        return snapshot.topics.row(str(TOPIC), snapshot.taken)

    async def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """Return the topic's row once ``condition`` holds for it; until then the topic must be listed exactly once."""
        async with asyncio.timeout(30):
            while True:
                snapshot = await self.collector.snapshot()
                assert snapshot.topics.sums.totals(ALL)["topics"] == 1
                row = await self.row()
                if condition(row):
                    return row
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        await self.link._close()


@pytest.fixture
async def instance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[BrokerInstance]:
    monkeypatch.setattr(collecting, "INTERVAL_S", 0.1)
    running = BrokerInstance(tmp_path)
    await running.cluster.start("b0")
    await running.broker()
    await running.broker()
    await running.admin.call(CREATE_SUBSCRIPTION, CreateSubscription(TOPIC, "s", EARLIEST_MESSAGE))
    await running.publish(TOPIC, ENTRIES)
    yield running
    await running.close()


@pytest.fixture
async def gateway(instance: BrokerInstance) -> AsyncIterator[Gateway]:
    collecting_gateway = Gateway(instance)
    yield collecting_gateway
    await collecting_gateway.close()


def loaded(row: dict[str, Any]) -> bool:
    return row["loaded"] is True and row["backlog"] == ENTRIES


async def kill(instance: BrokerInstance, broker: BrokerService) -> None:
    """Make a broker look killed: it writes and answers nothing any more, and its session has not expired yet."""
    for topic in broker.running.registry.topics():
        topic.log.abandon()
    await broker.running.upkeep.close()
    await broker._tasks.close()
    await broker._http.close()


async def test_a_topic_that_changes_its_owner_is_listed_once_with_its_backlog(
    instance: BrokerInstance, gateway: Gateway
) -> None:
    await gateway.until(loaded)
    owner = instance.owner(TOPIC)
    await instance.stop(owner)
    resting = await gateway.until(lambda row: row["loaded"] is False)
    assert resting["backlog"] == ENTRIES
    assert resting["subscriptions"] == 1
    await instance.admin.call(LAST_MESSAGE_ID, OnTopic(TOPIC))
    assert instance.owner(TOPIC) is not owner
    await gateway.until(loaded)


async def test_numbers_of_a_killed_broker_stay_and_are_read_from_storage(
    instance: BrokerInstance, gateway: Gateway
) -> None:
    counted = (await gateway.until(loaded))["at"]
    owner = instance.owner(TOPIC)
    await kill(instance, owner)
    store = next(store for broker, store in instance.brokers if broker is owner)
    instance.cluster.server.expire(store.session_id)
    row = await gateway.until(lambda row: row["known"] != "live")
    assert (row["known"], row["backlog"]) == ("last", ENTRIES)
    row = await gateway.until(lambda row: row["known"] == "at_rest" and row["at"] > counted)
    # Read from storage by the other broker, which has not loaded the topic.
    assert row["backlog"] == ENTRIES
    lines = {line["id"]: line for line in (await gateway.collector.snapshot()).brokers}
    assert (lines[owner.record.id]["state"], lines[owner.record.id]["topics"]) == ("down", 1)
    await instance.admin.call(LAST_MESSAGE_ID, OnTopic(TOPIC))
    row = await gateway.until(loaded)
    assert row["known"] == "live"
    await gateway.until(lambda _: len(_lines(gateway)) == 1)


async def test_the_last_numbers_of_a_silent_broker_stay_and_its_hop_is_named(
    instance: BrokerInstance, gateway: Gateway
) -> None:
    await gateway.until(loaded)
    owner = instance.owner(TOPIC)
    await kill(instance, owner)
    await gateway.until(lambda _: _state(gateway, owner) == "down")
    row = await gateway.until(lambda row: row["known"] == "last")
    assert (row["backlog"], row["loaded"]) == (ENTRIES, None)
    totals = (await gateway.collector.snapshot()).topics.sums.totals(ALL)
    assert (totals["backlog"], totals["last"], totals["unknown"]) == (ENTRIES, 1, 0)
    [hop] = [hop for hop in gateway.collector.health.hops.bad if hop.kind is Kind.BROKER]
    assert (hop.id, hop.state) == (owner.record.id, HopState.DOWN)
    last_seen = gateway.collector._brokers._followed[owner.record.id].last_seen
    # The metadata store answered since; the numbers are as old as the part that has been silent the longest.
    await until(lambda: gateway.collector.known_until() == last_seen)
    await stays(lambda: gateway.collector.known_until() == last_seen, 0.5)


def _lines(gateway: Gateway) -> list[dict[str, Any]]:
    assert gateway.collector.latest is not None
    return gateway.collector.latest.brokers


def _state(gateway: Gateway, broker: BrokerService) -> str:
    return next(str(line["state"]) for line in _lines(gateway) if line["id"] == broker.record.id)


async def test_a_restarted_gateway_has_the_numbers_at_once(
    instance: BrokerInstance, gateway: Gateway
) -> None:
    await gateway.until(loaded)
    other = Gateway(instance)
    row = await other.row()
    assert loaded(row)
    assert row["at"] <= now_ms()
    await other.close()


async def test_numbers_of_brokers_arrive_while_the_metadata_store_is_unavailable(
    instance: BrokerInstance, gateway: Gateway
) -> None:
    await gateway.until(loaded)
    instance.cluster.server.partition(gateway.store.session_id)
    await instance.publish(TOPIC, 5)
    await gateway.until(lambda row: row["backlog"] == ENTRIES + 5)
    await gateway.until(lambda _: _is_named(gateway, Kind.STORE))
    instance.cluster.server.heal(gateway.store.session_id)
    await gateway.until(lambda _: not _is_named(gateway, Kind.STORE))


def _is_named(gateway: Gateway, kind: Kind) -> bool:
    return any(hop.kind is kind for hop in gateway.collector.health.hops.bad)


async def test_the_age_of_numbers_is_that_of_the_brokers_count(
    instance: BrokerInstance, gateway: Gateway
) -> None:
    row = await gateway.until(loaded)
    owner = instance.owner(TOPIC)
    await kill(instance, owner)
    await gateway.until(lambda _: _state(gateway, owner) == "down")
    at = (await gateway.row())["at"]
    assert at - row["at"] < 3000

    async def unchanged() -> bool:
        return bool((await gateway.row())["at"] == at)

    await stays(unchanged, 0.3)
