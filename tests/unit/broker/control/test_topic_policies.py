"""Topics' own policies: kept in their namespace's log and the same at all brokers, whichever broker changes them or
dies."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.admin import partitions
from engine.admin.api.topics import DELETE_TOPIC, DeleteTopic
from engine.base.errors import Conflict, NotFound, PreconditionFailed
from engine.base.ids import Position
from engine.base.names import NamespaceName, TopicName
from engine.broker.control import topic_policies
from engine.broker.control.topic_policies import PolicyLog
from engine.broker.errors import ServiceNotReady
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.client.raw_producer import RawProducer
from engine.managed.stored.records import CursorRecord, CursorState
from engine.metadata.records import Document
from engine.tenancy import topics
from engine.tenancy.avro import AvroSchema
from engine.tenancy.change_events import SCHEMA_TEXT, log_topic, new_event, with_policies
from engine.tenancy.namespaces import create_namespace
from engine.wire.batches import Message, pack_entry
from tests.support.admin.direct import DirectAdmin
from tests.support.admin.later_release import newer, register
from tests.support.admin.several_brokers import TOKEN, SeveralBrokers, policies
from tests.support.broker_bench import until
from tests.support.ledger_cluster import Listener, run_of
from tests.support.net.pipe_network import PipeNetwork
from tests.support.waiting import stays

pytestmark = pytest.mark.virtual_time

GOLDEN = Path(__file__).resolve().parents[3] / "golden/change_events/apache.json"
NAMESPACE = NamespaceName.parse("public/default")
TOPIC = NAMESPACE.topic("t")
SOON_S = 60.0
"""Seconds within which all brokers must see a change. It takes milliseconds; the rest is for a busy machine."""


@pytest.fixture
async def two() -> AsyncIterator[SeveralBrokers]:
    made = SeveralBrokers()
    await made.start(2)
    yield made
    await made.close()


def put(**values: Any) -> Any:
    def change(document: Document) -> None:
        document.update(values)

    return change


async def settled(log: PolicyLog, topic: TopicName, expected: Document, within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while await log.get(topic) != expected:
            await asyncio.sleep(0.005)


async def test_reading_policies_creates_no_log_in_a_namespace_without_one(
    two: SeveralBrokers,
) -> None:
    log = policies(two.brokers[0])
    assert await log.get(TOPIC) == {}
    await log.forget(TOPIC)
    assert not await topics.topic_exists(two.store, log_topic(NAMESPACE))


async def test_a_change_is_seen_locally_at_once_and_by_the_other_broker_soon(
    two: SeveralBrokers,
) -> None:
    here, there = map(policies, two.brokers)
    reported: list[TopicName] = []
    there._on_change = reported.append
    assert await there.get(TOPIC) == {}
    await here.change(TOPIC, put(messageTTLInSeconds=60))
    assert await here.get(TOPIC) == {"messageTTLInSeconds": 60}
    await settled(there, TOPIC, {"messageTTLInSeconds": 60}, SOON_S)
    assert TOPIC in reported
    reported.clear()
    await here.change(TOPIC, put(messageTTLInSeconds=None, maxConsumerPerTopic=5))
    await settled(there, TOPIC, {"maxConsumerPerTopic": 5}, SOON_S)
    assert reported == [TOPIC]
    await there.change(
        TOPIC, put(retentionPolicies={"retentionSizeInMB": 1, "retentionTimeInMinutes": 2})
    )
    assert len(await there.get(TOPIC)) == 2
    await settled(here, TOPIC, await there.get(TOPIC), SOON_S)


async def test_partitions_have_their_parents_policies_and_other_topics_their_own(
    two: SeveralBrokers,
) -> None:
    log = policies(two.brokers[0])
    await log.change(TOPIC.partition_at(3), put(maxMessageSize=9))
    assert await log.get(TOPIC) == await log.get(TOPIC.partition_at(0)) == {"maxMessageSize": 9}
    assert await log.get(NAMESPACE.topic("t2")) == {}
    assert await log.get(NAMESPACE.topic("t", "non-persistent")) == {}
    await log.forget(TOPIC.partition_at(3))
    assert await log.get(TOPIC) == {"maxMessageSize": 9}


async def test_policies_for_all_clusters_are_kept_beside_the_local_ones(
    two: SeveralBrokers,
) -> None:
    here, there = map(policies, two.brokers)
    await here.change(TOPIC, put(maxMessageSize=1))
    await here.change(TOPIC, put(maxMessageSize=2), everywhere=True)
    assert await here.get(TOPIC) == {"maxMessageSize": 1}
    assert await here.get(TOPIC, everywhere=True) == {"maxMessageSize": 2}
    await settled(there, TOPIC, {"maxMessageSize": 1}, SOON_S)
    await here.forget(TOPIC)
    assert await here.get(TOPIC) == await here.get(TOPIC, everywhere=True) == {}


async def test_forgotten_policies_are_removed_at_all_brokers(two: SeveralBrokers) -> None:
    here, there = map(policies, two.brokers)
    await here.change(TOPIC, put(maxMessageSize=1))
    await settled(there, TOPIC, {"maxMessageSize": 1}, SOON_S)
    await there.forget(TOPIC)
    assert await there.get(TOPIC) == {}
    await settled(here, TOPIC, {}, SOON_S)
    late = await two.add()
    assert await policies(late).get(TOPIC) == {}


async def test_concurrent_changes_at_any_brokers_are_all_kept(
    two: SeveralBrokers,
) -> None:
    names = ["maxConsumerPerTopic", "maxProducerPerTopic", "maxSubscriptionsPerTopic"]
    names += ["maxConsumersPerSubscription", "maxMessageSize", "messageTTLInSeconds"]
    logs = [policies(broker) for broker in two.brokers]
    for turn in range(5):
        await asyncio.gather(
            *(logs[i % 2].change(TOPIC, put(**{name: turn})) for i, name in enumerate(names))
        )
        for log in logs:
            await settled(log, TOPIC, dict.fromkeys(names, turn), SOON_S)


async def test_a_change_that_changes_nothing_writes_nothing(two: SeveralBrokers) -> None:
    log = policies(two.brokers[0])
    await log.change(TOPIC, lambda document: None)
    assert not await topics.topic_exists(two.store, log_topic(NAMESPACE))
    await log.change(TOPIC, put(maxMessageSize=1))
    reported: list[TopicName] = []
    log._on_change = reported.append
    await log.change(TOPIC, put(maxMessageSize=1))
    assert reported == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"maxMessageSize": "much"}, "maxMessageSize: 'much' is none of null, int"),
        ({"maxMessageSize": 1 << 31}, "maxMessageSize: 2147483648 does not fit into 32 bits"),
        ({"unheardOf": 1}, "TopicPolicies has no field unheardOf"),
        ({"retentionPolicies": {}}, "retentionPolicies.retentionSizeInMB: None is no long"),
    ],
)
async def test_values_that_do_not_fit_are_refused_by_name(
    two: SeveralBrokers, values: Document, reason: str
) -> None:
    with pytest.raises(PreconditionFailed, match=reason):
        await policies(two.brokers[0]).change(TOPIC, put(**values))
    assert await policies(two.brokers[0]).get(TOPIC) == {}


async def test_an_error_of_the_change_is_raised_and_nothing_is_written(two: SeveralBrokers) -> None:
    def refuse(document: Document) -> None:
        raise Conflict("not that")

    with pytest.raises(Conflict, match="not that"):
        await policies(two.brokers[0]).change(TOPIC, refuse)
    assert not await topics.topic_exists(two.store, log_topic(NAMESPACE))


async def test_without_its_namespace_a_topic_gets_no_policies(two: SeveralBrokers) -> None:
    with pytest.raises(NotFound, match="Namespace not found"):
        await policies(two.brokers[0]).change(
            TopicName.parse("public/none/t"), put(maxMessageSize=1)
        )
    assert await two.store.exists("/managed-ledgers/public/none") is None


async def test_system_topics_have_none(two: SeveralBrokers) -> None:
    log = policies(two.brokers[0])
    assert await log.get(log_topic(NAMESPACE)) == {}
    await log.forget(log_topic(NAMESPACE))
    with pytest.raises(PreconditionFailed, match="system topic"):
        await log.change(log_topic(NAMESPACE), put(maxMessageSize=1))


async def test_known_policies_are_served_and_changed_after_the_logs_owner_was_killed(
    two: SeveralBrokers,
) -> None:
    await two.add()
    first = policies(two.brokers[0])
    await first.change(TOPIC, put(maxMessageSize=1))
    for broker in two.brokers:
        await settled(policies(broker), TOPIC, {"maxMessageSize": 1}, SOON_S)
    owner = two.owner(log_topic(NAMESPACE))
    assert owner is not None
    left = [broker for broker in two.brokers if broker is not owner]
    dying = asyncio.ensure_future(two.kill(owner))
    while not dying.done():
        assert await policies(left[0]).get(TOPIC) == {"maxMessageSize": 1}
        await asyncio.sleep(0.001)
    await dying
    await policies(left[0]).change(TOPIC, put(messageTTLInSeconds=2))
    expected = {"maxMessageSize": 1, "messageTTLInSeconds": 2}
    for broker in left:
        await settled(policies(broker), TOPIC, expected, SOON_S)


async def test_no_confirmed_change_is_lost_while_the_logs_owner_changes(
    two: SeveralBrokers,
) -> None:
    writer, reader = map(policies, two.brokers)
    await writer.change(TOPIC, put(maxMessageSize=0))
    owner = two.owner(log_topic(NAMESPACE))
    assert owner is not None
    done = 0
    moving = asyncio.ensure_future(moved(two, 5))
    while not moving.done():
        done += 1
        await writer.change(TOPIC, put(maxMessageSize=done))
        assert await writer.get(TOPIC) == {"maxMessageSize": done}
    await moving
    await settled(reader, TOPIC, {"maxMessageSize": done}, SOON_S)


async def moved(two: SeveralBrokers, times: int) -> None:
    """Unload the log ``times`` times while it is written to."""
    for _ in range(times):
        await asyncio.sleep(0.05)
        owner = two.owner(log_topic(NAMESPACE))
        if owner is not None:
            running = owner.running
            bundle = next(
                b for b in running.ownership.owned() if b.holds(log_topic(NAMESPACE).bundle_hash)
            )
            await running.ownership.release(bundle, running.operations.bundles.unload_topics)


async def test_policies_of_an_unavailable_log_are_refused_and_not_reported_as_none(
    two: SeveralBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    await policies(two.brokers[0]).change(TOPIC, put(maxMessageSize=1))
    monkeypatch.setattr(topic_policies, "LOAD_WAIT_S", 0.05)
    monkeypatch.setattr(topic_policies, "CHANGE_WAIT_S", 0.05)
    await two.cluster.stop("b0")
    for broker in list(two.brokers):
        await two.kill(broker)
    late = policies(await two.add())
    with pytest.raises(ServiceNotReady, match="not known yet"):
        await late.get(TOPIC)
    with pytest.raises(ServiceNotReady, match="may or may not be changed"):
        await late.change(TOPIC, put(maxMessageSize=2))
    await two.cluster.start("b0")
    monkeypatch.undo()
    await settled(late, TOPIC, {"maxMessageSize": 1}, SOON_S)


async def test_a_log_is_followed_no_longer_than_it_is_used(
    two: SeveralBrokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_policies, "UNUSED_S", 0.6)
    late = await two.add()
    log = policies(late)
    await log.change(TOPIC, put(maxMessageSize=1))
    await until(lambda: not log._logs)
    assert await log.get(TOPIC) == {"maxMessageSize": 1}
    loaded = [NAMESPACE.topic("another")]
    log._loaded = lambda: loaded
    assert await log.get(TOPIC) == {"maxMessageSize": 1}
    await stays(lambda: list(log._logs) == [NAMESPACE], 1.0)
    loaded[:] = [log_topic(NAMESPACE)]
    await until(lambda: not log._logs)


async def test_many_topics_and_a_restart(two: SeveralBrokers) -> None:
    log = policies(two.brokers[0])
    names = [NAMESPACE.topic(f"many-{i}") for i in range(300)]
    for index, name in enumerate(names):
        await log.change(name, put(maxMessageSize=index))
    for broker in list(two.brokers):
        await two.kill(broker)
    late = policies(await two.add())
    for index, name in enumerate(names):
        await settled(late, name, {"maxMessageSize": index}, SOON_S)


async def test_the_log_is_not_trimmed_without_retention() -> None:
    cluster = SeveralBrokers(
        managed_ledger_max_entries_per_ledger="2",
        managed_ledger_min_ledger_rollover_time_minutes="0",
    )
    await cluster.start(1)
    log = policies(cluster.brokers[0])
    names = [NAMESPACE.topic(f"kept-{i}") for i in range(7)]
    for index, name in enumerate(names):
        await log.change(name, put(maxMessageSize=index))
    topic = cluster.brokers[0].running.registry.loaded(log_topic(NAMESPACE))
    assert topic is not None
    await topic.log.trim()
    assert len(topic.log.stats().ledgers) >= 3
    await cluster.kill(cluster.brokers[0])
    late = policies(await cluster.add())
    for index, name in enumerate(names):
        assert await late.get(name) == {"maxMessageSize": index}
    await cluster.close()


async def append_raw(two: SeveralBrokers, key: str, payload: bytes, number: int) -> None:
    """Append a message to the log that Magnetar's brokers would not write."""
    url = two.brokers[0].record.service_url
    links = Links(PipeNetwork(), LinkSettings(), BrokerLink)
    link = await links.owner(str(log_topic(NAMESPACE)), url)
    producer = await RawProducer.open(link, str(log_topic(NAMESPACE)))
    extra = {"schema_version": number.to_bytes(8, "big")}
    entry = pack_entry([Message(payload, key)], producer_name="x", publish_ms=1, extra=extra)
    producer.send([0], [entry])
    await producer.drained()
    await links.close()


@pytest.mark.parametrize(("payload", "number"), [(b"\x02\x04", 0), (b"\0" * 4, 7)])
async def test_unreadable_policies_are_neither_returned_nor_changed(
    two: SeveralBrokers, payload: bytes, number: int
) -> None:
    log = policies(two.brokers[0])
    await log.change(TOPIC, put(maxMessageSize=1))
    await append_raw(two, str(TOPIC), payload, number)
    with pytest.raises(ServiceNotReady, match="cannot be read"):
        await settled(log, TOPIC, {}, SOON_S)
    with pytest.raises(Conflict, match="cannot be read"):
        await log.change(TOPIC, put(maxMessageSize=2))
    assert await log.get(NAMESPACE.topic("t2")) == {}
    await log.forget(TOPIC)
    assert await log.get(TOPIC) == {}


async def test_a_policy_of_another_release_survives_a_change(two: SeveralBrokers) -> None:
    log = policies(two.brokers[0])
    await log.change(TOPIC, put(maxMessageSize=1))
    event = with_policies(new_event(TOPIC, "standalone"), {"zNewPolicy": 5})
    await register(two.cluster, NAMESPACE, SCHEMA_TEXT, newer())
    payload = AvroSchema(json.loads(newer())).encode(event)
    await append_raw(two, str(TOPIC), payload, 1)
    await settled(log, TOPIC, {"zNewPolicy": 5}, SOON_S)
    await log.change(TOPIC, put(maxMessageSize=2))
    late = policies(await two.add())
    assert await late.get(TOPIC) == {"zNewPolicy": 5, "maxMessageSize": 2}


async def test_policies_kept_only_in_apaches_compacted_ledger_are_known(
    two: SeveralBrokers,
) -> None:
    namespace = NamespaceName.parse("public/pol")
    await create_namespace(two.store, namespace, None, cluster="standalone")
    kept = json.loads(GOLDEN.read_text())["compacted_ledger"]
    listener = Listener()
    writer = await two.cluster.client().create(1, 1, 1, listener=listener)
    writer.append(run_of(*map(bytes.fromhex, kept)))
    await listener.reach(len(kept))
    await writer.close()
    cursor = CursorState(Position(0, 35), properties={"CompactedTopicLedger": writer.ledger_id})
    path = topics.ledger_path(log_topic(namespace))
    await two.store.create(path, make_parents=True)
    await two.store.create(f"{path}/__compaction", CursorRecord(-1, cursor).encode())
    log = policies(two.brokers[0])
    golden, parted = namespace.topic("golden"), namespace.topic("parted")
    assert (await log.get(golden))["maxMessageSize"] == 1000
    assert await log.get(golden, everywhere=True) == {"maxConsumerPerTopic": 6}
    assert await log.get(parted) == {"maxConsumerPerTopic": 2}
    await log.change(parted, put(maxMessageSize=3))
    late = policies(await two.add())
    assert await late.get(parted) == {"maxConsumerPerTopic": 2, "maxMessageSize": 3}


async def test_a_topics_policies_are_deleted_with_it() -> None:
    cluster = SeveralBrokers()
    await cluster.start(1)
    (broker,) = cluster.brokers
    log, brokers = policies(broker), DirectAdmin(cluster.store, TOKEN, lambda: cluster.brokers)
    plain, parent = TOPIC, NAMESPACE.topic("parted")
    await topics.create_missing(cluster.store, plain)
    await topics.create_partitioned(cluster.store, parent, 2)
    for name in (plain, parent):
        await log.change(name, put(maxMessageSize=1))
    await brokers.call(DELETE_TOPIC, DeleteTopic(plain))
    assert await log.get(plain) == {}
    await brokers.call(DELETE_TOPIC, DeleteTopic(parent.partition_at(0)))
    assert await log.get(parent) == {"maxMessageSize": 1}
    await partitions.delete(cluster.store, brokers, parent)
    assert await log.get(parent) == {}
    brokers.close()
    await cluster.close()
