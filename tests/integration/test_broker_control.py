"""Brokers' control plane together: real bookie and sockets, metadata in memory, administered over the private port."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.admin.api.arguments import (
    EARLIEST_MESSAGE,
    JsonObject,
    OnBundle,
    OnSubscription,
    OnTopic,
)
from engine.admin.api.bundles import SPLIT_BUNDLE, UNLOAD_BUNDLE, SplitBundle
from engine.admin.api.cursors import (
    CLEAR_BACKLOG,
    EXPIRE_MESSAGES,
    PREVIEW_CHANGE,
    RESET_CURSOR,
    SKIP_MESSAGES,
    ExpireMessages,
    PreviewChange,
    ResetCursor,
    Skip,
)
from engine.admin.api.messages import LAST_MESSAGE_ID, PEEK, Peek
from engine.admin.api.rows import TOPIC_ROWS, RowsSince
from engine.admin.api.statistics import INTERNAL_STATS, TOPIC_STATS, InternalStats, TopicStats
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    CreateSubscription,
    DeleteSubscription,
)
from engine.admin.api.topics import CREATE_TOPIC, DELETE_TOPIC, LOOKUP, CreateTopic, DeleteTopic
from engine.admin.client import AdminClient, BrokerAddress
from engine.base.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    NotReady,
    PreconditionFailed,
)
from engine.base.names import NamespaceName, TopicName
from engine.tenancy import topics
from tests.support.admin.broker_instance import BrokerInstance
from tests.support.waiting import until

TOPIC = TopicName.parse("hello")


async def stats_of(admin: AdminClient, topic: TopicName, **flags: bool) -> JsonObject:
    return await admin.call(TOPIC_STATS, TopicStats(topic, **flags))


async def subscribe(admin: AdminClient, properties: dict[str, str] | None = None) -> None:
    args = CreateSubscription(TOPIC, "s", EARLIEST_MESSAGE, properties or {})
    await admin.call(CREATE_SUBSCRIPTION, args)


@pytest.fixture
async def instance(tmp_path: Path) -> AsyncIterator[BrokerInstance]:
    brokers = BrokerInstance(tmp_path)
    await brokers.cluster.start("b0")
    yield brokers
    await brokers.close()


async def test_a_topic_is_administered_from_creation_to_deletion(instance: BrokerInstance) -> None:
    await instance.broker()
    admin = instance.admin
    await admin.call(CREATE_TOPIC, CreateTopic(TOPIC, {"a": "b"}))
    with pytest.raises(AlreadyExists, match="This topic already exists"):
        await admin.call(CREATE_TOPIC, CreateTopic(TOPIC))
    await subscribe(admin, {"k": "v"})
    await instance.publish(TOPIC, 10)
    stats = await stats_of(admin, TOPIC, earliest_time_in_backlog=True)
    assert stats["subscriptions"]["s"]["msgBacklog"] == 10
    assert stats["subscriptions"]["s"]["subscriptionProperties"] == {"k": "v"}
    assert stats["subscriptions"]["s"]["backlogSize"] == stats["storageSize"] > 0
    assert stats["earliestMsgPublishTimeInBacklogs"] == 1000
    internal = await admin.call(INTERNAL_STATS, InternalStats(TOPIC))
    assert internal["numberOfEntries"] == 10
    peeked = await admin.call(PEEK, Peek(TOPIC, "s", 3))
    assert base64.b64decode(peeked["body"]) == b"m2"
    assert peeked["headers"]["X-Pulsar-publish-time"] == "1970-01-01T00:00:03Z"
    with pytest.raises(NotFound, match="Message not found"):
        await admin.call(PEEK, Peek(TOPIC, "s", 11))
    last = await admin.call(LAST_MESSAGE_ID, OnTopic(TOPIC))
    assert last["entryId"] == 9
    await admin.call(DELETE_SUBSCRIPTION, DeleteSubscription(TOPIC, "s"))
    with pytest.raises(NotFound, match="Subscription s not found for topic"):
        await admin.call(CLEAR_BACKLOG, OnSubscription(TOPIC, "s"))
    await admin.call(DELETE_TOPIC, DeleteTopic(TOPIC))
    assert await topics.list_topics(instance.cluster.store, TOPIC.namespace) == ()
    with pytest.raises(NotFound, match=f"Topic {TOPIC} not found"):
        await stats_of(admin, TOPIC)


async def backlog(admin: AdminClient) -> int:
    return int((await stats_of(admin, TOPIC))["subscriptions"]["s"]["msgBacklog"])


async def test_a_change_of_the_cursor_does_what_its_preview_showed(
    instance: BrokerInstance,
) -> None:
    await instance.broker()
    admin = instance.admin
    await subscribe(admin)
    await instance.publish(TOPIC, 10)
    preview = await admin.call(PREVIEW_CHANGE, PreviewChange(TOPIC, "s", "skip", count=3))
    await admin.call(SKIP_MESSAGES, Skip(TOPIC, "s", 3))
    assert (preview["lost"], await backlog(admin)) == (3, 7)
    assert base64.b64decode((await admin.call(PEEK, Peek(TOPIC, "s")))["body"]) == b"m3"
    at = 1_000 + 6 * 1000  # m6 was published then
    preview = await admin.call(PREVIEW_CHANGE, PreviewChange(TOPIC, "s", "reset", timestamp_ms=at))
    await admin.call(RESET_CURSOR, ResetCursor(TOPIC, "s", timestamp_ms=at))
    assert (preview["lost"], await backlog(admin)) == (3, 4)
    preview = await admin.call(
        PREVIEW_CHANGE, PreviewChange(TOPIC, "s", "reset", position=EARLIEST_MESSAGE)
    )
    await admin.call(RESET_CURSOR, ResetCursor(TOPIC, "s", position=EARLIEST_MESSAGE))
    assert (preview["again"], await backlog(admin)) == (6, 10)
    preview = await admin.call(PREVIEW_CHANGE, PreviewChange(TOPIC, "s", "skip-all"))
    await admin.call(CLEAR_BACKLOG, OnSubscription(TOPIC, "s"))
    assert (preview["lost"], await backlog(admin)) == (10, 0)
    with pytest.raises(Conflict, match="Expire message by timestamp not issued"):
        await admin.call(EXPIRE_MESSAGES, ExpireMessages(TOPIC, "s", 1))
    await admin.call(RESET_CURSOR, ResetCursor(TOPIC, "s", position=EARLIEST_MESSAGE))
    await admin.call(EXPIRE_MESSAGES, ExpireMessages(TOPIC, "s", 1))
    assert await backlog(admin) == 0


async def test_any_broker_returns_the_owner_and_a_stopped_one_hands_over(
    instance: BrokerInstance,
) -> None:
    both = [await instance.broker(), await instance.broker()]
    admin, names = instance.admin, [TopicName.parse(f"t{i}") for i in range(12)]
    for number, bundle in enumerate(await both[0].running.ownership.bundles(TOPIC.namespace)):
        assert await both[number % 2].running.ownership.acquire(bundle)
    for name in names:
        await admin.call(CREATE_TOPIC, CreateTopic(name))
    addresses = await admin.brokers()
    assert len(addresses) == 2
    owners = {name: instance.owner(name) for name in names}
    assert set(map(id, owners.values())) == set(map(id, both))
    for name in names:
        answer = await admin.call(LOOKUP, OnTopic(name))
        assert answer["brokerUrl"] == owners[name].record.service_url
    leaving = owners[names[0]]
    await instance.stop(leaving)
    assert [address.id for address in await admin.brokers()] != [leaving.record.id]
    for name in names:
        assert (await stats_of(admin, name))["ownerBroker"] != leaving.record.id
    (left,) = await admin.brokers()
    until = time.monotonic() + 30
    while True:  # rows are of the last count, up to a second ago
        rows = (await admin.call_on(left, TOPIC_ROWS, RowsSince()))["rows"]
        if sorted(row[0] for row in rows) == sorted(map(str, names)):
            break
        assert time.monotonic() < until, rows
        await asyncio.sleep(0.1)


async def test_a_broker_without_session_stops_and_another_takes_over(
    instance: BrokerInstance,
) -> None:
    old = await instance.broker(timeout_s=0.6)
    await subscribe(instance.admin)
    await instance.publish(TOPIC, 5)
    new = await instance.broker()
    session = instance.brokers[0][1].session_id
    instance.cluster.server.partition(session)
    gone = asyncio.Event()
    store = instance.cluster.store
    bundle = old.running.ownership.owned()[0]
    store.watch(f"/namespace/{bundle}", lambda _: gone.set())
    await gone.wait()
    assert not old.ready
    assert not old.running.ownership.serves(TOPIC)
    address = BrokerAddress(new.record.id, new.record.web_url, new.record.service_url)
    args = TopicStats(TOPIC)
    stats: dict[str, Any] = {}

    async def answered() -> bool:
        """Return whether the new owner answers; it refuses until it sees that the old owner's node was deleted."""
        nonlocal stats
        with contextlib.suppress(NotReady, Conflict):
            stats = await instance.admin.call_on(address, TOPIC_STATS, args)
        return bool(stats)

    await until(answered)
    assert stats["ownerBroker"] == new.record.id
    assert stats["subscriptions"]["s"]["msgBacklog"] == 5
    instance.cluster.server.heal(session)
    while not old.ready:
        await asyncio.sleep(0.02)
    assert old.running.registry.loaded(TOPIC) is None
    assert len(await instance.admin.brokers()) == 2


async def test_bundles_can_be_unloaded_and_partitions_are_topics(instance: BrokerInstance) -> None:
    broker = await instance.broker()
    parent = NamespaceName.parse("public/default").topic("pt")
    await topics.create_partitioned(instance.cluster.store, parent, 3)
    for index in range(3):
        await stats_of(instance.admin, parent.partition_at(index))
    with pytest.raises(Conflict, match="please call delete-partitioned-topic"):
        await instance.admin.call(DELETE_TOPIC, DeleteTopic(parent))
    assert len(broker.running.registry.topics()) == 3
    await instance.admin.call(UNLOAD_BUNDLE, OnBundle(TOPIC.namespace))
    assert broker.running.ownership.owned() == []
    assert broker.running.registry.topics() == []
    assert (await stats_of(instance.admin, parent.partition_at(1)))["storageSize"] == 0
    with pytest.raises(NotFound, match="Topic partitions were not yet created"):
        await stats_of(instance.admin, parent.partition_at(7))


async def test_a_bundle_is_split_and_unloaded_only_by_its_owner(
    instance: BrokerInstance,
) -> None:
    both = [await instance.broker(), await instance.broker()]
    admin, namespace = instance.admin, TOPIC.namespace
    ranges = await both[0].running.ownership.bundles(namespace)
    bundle = ranges.of_topic(TOPIC)
    assert await both[1].running.ownership.acquire(bundle)
    await subscribe(admin)
    await instance.publish(TOPIC, 3)
    loaded = both[1].running.registry.loaded(TOPIC)
    addresses = await admin.brokers()
    (other,) = [address for address in addresses if address.id == both[0].record.id]

    async def ask_the_other(args: SplitBundle) -> None:
        with pytest.raises(Conflict, match="is not broker"):
            await admin.call_on(other, SPLIT_BUNDLE, args)

    edge = TOPIC.bundle_hash
    args = SplitBundle(namespace, bundle.range, "specified_positions_divide", [edge])
    await ask_the_other(args)
    parts = await admin.call(SPLIT_BUNDLE, args)
    assert parts == [f"0x{bundle.lower:08x}_0x{edge:08x}", f"0x{edge:08x}_0x{bundle.upper:08x}"]
    assert both[1].running.registry.loaded(TOPIC) is loaded  # served all the while
    await instance.publish(TOPIC, 2)
    assert await backlog(admin) == 5
    with pytest.raises(Conflict, match=r"not served here|was split"):
        await both[1].running.ownership.split(bundle, [edge])
    half = SplitBundle(namespace, parts[1], "topic_count_equally_divide")
    assert await admin.call(SPLIT_BUNDLE, half) == [parts[1]]  # one topic is on one side
    await admin.call(SPLIT_BUNDLE, SplitBundle(namespace, parts[1], unload=True))
    assert both[1].running.registry.loaded(TOPIC) is None
    assert await backlog(admin) == 5
    (owned,) = [
        candidate
        for candidate in instance.owner(TOPIC).running.ownership.owned()
        if candidate.holds(edge)
    ]
    args_of = OnBundle(namespace, owned.range)
    owner = instance.owner(TOPIC)
    await admin.call(UNLOAD_BUNDLE, args_of)
    assert owned not in owner.running.ownership.owned()
    with pytest.raises(PreconditionFailed, match="Unsupported namespace bundle split algorithm"):
        await admin.call(SPLIT_BUNDLE, SplitBundle(namespace, parts[0], "bogus"))


async def test_a_port_in_use_is_reported_and_no_broker_is_left_registered(
    instance: BrokerInstance,
) -> None:
    first = await instance.broker()
    with pytest.raises(OSError, match="in use"):
        await instance.broker(broker=first.broker_port)
    assert len(await instance.admin.brokers()) == 1
    assert instance.brokers[0][0].ready
