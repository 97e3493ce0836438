"""Holders of one message: its state at every subscription of the topic, and the consumer that has it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, MessagePosition
from engine.admin.api.cursors import ACKNOWLEDGE_MESSAGES, AcknowledgeMessages
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    MESSAGE_HOLDERS,
    CreateSubscription,
    MessageHolders,
)
from engine.base.errors import NotFound, Unsupported
from engine.base.names import TopicName
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.consumer import SubscriptionType
from engine.wire.batches import Message, pack_entry
from gateway.services.admin import topics
from tests.support.admin.attached import attach
from tests.support.admin.bench import AdminBench
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time
TOPIC = TopicName.parse("persistent://public/default/t")
LATER_MS = 4_000_000_000_000
"""A time far behind the tests."""


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    for name in ("shared", "ordered", "idle"):
        wanted = CreateSubscription(TOPIC, name, EARLIEST_MESSAGE, {})
        await made.admin.call(CREATE_SUBSCRIPTION, wanted)
    yield made
    await made.close()


async def states(bench: AdminBench, entry: int, index: int = -1) -> dict[str, Any]:
    ledger = (await bench.loaded(TOPIC)).log.last_confirmed.ledger_id
    wanted = MessageHolders(TOPIC, MessagePosition(ledger, entry, index))
    answer: dict[str, Any] = await bench.engine.call(MESSAGE_HOLDERS, wanted)
    return {row["name"]: row for row in answer["subscriptions"]}


async def append(bench: AdminBench, entry: bytes) -> None:
    sink = Sink()
    (await bench.loaded(TOPIC)).log.append(run_of(entry), sink)
    await sink.settle(1)


async def acknowledge(bench: AdminBench, subscription: str, entry: int, index: int = -1) -> None:
    ledger = (await bench.loaded(TOPIC)).log.last_confirmed.ledger_id
    messages = [MessagePosition(ledger, entry, index)]
    wanted = AcknowledgeMessages(TOPIC, subscription, messages)
    await bench.engine.call(ACKNOWLEDGE_MESSAGES, wanted)


async def test_each_subscription_has_a_state_and_a_holder(bench: AdminBench) -> None:
    await bench.publish(TOPIC, 3)
    shared, _ = await attach(bench, TOPIC, "a", "shared", permits=2)
    kind = SubscriptionType.EXCLUSIVE
    _, ordered = await attach(bench, TOPIC, "b", "ordered", id=2, kind=kind, permits=1)
    await until(lambda: shared.unacked == 2 and len(ordered.received) == 1)
    first = await states(bench, 0)
    assert {name: row["state"] for name, row in first.items()} == {
        "shared": "delivered",
        "ordered": "delivered",
        "idle": "waiting",
    }
    assert first["shared"]["consumer"] == {"name": "a", "address": "/a:1"}
    assert first["ordered"]["consumer"]["name"] == "b"
    assert first["idle"]["consumer"] is None
    last = await states(bench, 2)
    assert {row["state"] for row in last.values()} == {"waiting"}
    assert last["ordered"]["consumer"]["name"] == "b"  # it gets everything, in order
    await acknowledge(bench, "shared", 0)
    assert (await states(bench, 0))["shared"]["state"] == "acknowledged"


async def test_a_message_given_back_has_its_redeliveries(bench: AdminBench) -> None:
    await bench.publish(TOPIC, 1)
    consumer, _ = await attach(bench, TOPIC, "a", "shared")
    await until(lambda: consumer.unacked == 1)
    subscription = (await bench.loaded(TOPIC)).subscriptions["shared"]
    for _ in range(2):
        subscription.redeliver(consumer, None, None)
        await until(lambda: consumer.unacked == 1)
    row = (await states(bench, 0))["shared"]
    assert (row["state"], row["redeliveries"]) == ("delivered", 2)


async def test_a_delayed_message_waits_for_its_time_where_times_count(bench: AdminBench) -> None:
    later = {"deliver_at_time": LATER_MS}
    await append(
        bench, pack_entry([Message(b"v")], producer_name="p", publish_ms=1_000, extra=later)
    )
    await attach(bench, TOPIC, "a", "shared")
    _, ordered = await attach(bench, TOPIC, "b", "ordered", id=2, kind=SubscriptionType.EXCLUSIVE)
    await until(lambda: len(ordered.received) == 1)
    places = {name: row["state"] for name, row in (await states(bench, 0)).items()}
    assert places == {"shared": "delayed", "ordered": "delivered", "idle": "delayed"}


async def test_a_key_names_the_consumer_that_a_waiting_message_is_for(bench: AdminBench) -> None:
    kind = SubscriptionType.KEY_SHARED
    await attach(bench, TOPIC, "a", "shared", kind=kind, keys=KeyPolicy(), permits=0)
    key = [Message(b"v", key="k")]
    await append(bench, pack_entry(key, producer_name="p", publish_ms=1_000))
    row = (await states(bench, 0))["shared"]
    assert (row["state"], row["consumer"]["name"], row["waits_for"]) == ("waiting", "a", None)
    assert row["range"][0] <= row["slot"] <= row["range"][1]


async def test_messages_of_a_batch_have_their_own_states(bench: AdminBench) -> None:
    batch = [Message(b"%d" % i) for i in range(3)]
    await append(bench, pack_entry(batch, producer_name="p", publish_ms=1_000))
    await acknowledge(bench, "shared", 0, 1)
    places = [(await states(bench, 0, i))["shared"]["state"] for i in (0, 1, 2, -1)]
    assert places == ["waiting", "acknowledged", "waiting", "waiting"]
    with pytest.raises(NotFound):
        await states(bench, 0, 3)


async def test_a_message_that_the_topic_does_not_have_is_refused(bench: AdminBench) -> None:
    await bench.publish(TOPIC, 1)
    with pytest.raises(NotFound):
        await states(bench, 7)
    name = TopicName.parse("non-persistent://public/default/t")
    with pytest.raises(Unsupported):
        wanted = MessageHolders(name, MessagePosition(1, 1))
        await bench.engine.call(MESSAGE_HOLDERS, wanted)
