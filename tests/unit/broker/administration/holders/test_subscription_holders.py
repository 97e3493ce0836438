"""Holders of the messages of a subscription: unacknowledged entries by consumer, keys and delayed entries."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    HOLDERS,
    CreateSubscription,
    Holders,
)
from engine.base.errors import NotFound
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
HOUR_MS = 3_600_000
LATER_MS = 4_000_000_000_000
"""A time far behind the tests."""


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    await made.admin.call(CREATE_SUBSCRIPTION, CreateSubscription(TOPIC, "s", EARLIEST_MESSAGE, {}))
    yield made
    await made.close()


async def holders(bench: AdminBench, **args: Any) -> dict[str, Any]:
    return await bench.engine.call(HOLDERS, Holders(TOPIC, "s", **args))


async def publish_keys(bench: AdminBench, *keys: str) -> None:
    sink = Sink()
    entries = [
        pack_entry([Message(b"v", key=key)], producer_name="p", publish_ms=1_000) for key in keys
    ]
    (await bench.loaded(TOPIC)).log.append(run_of(*entries), sink)
    await sink.settle(len(entries))


async def test_without_a_consumer_nothing_is_held_and_delays_are_not_known(
    bench: AdminBench,
) -> None:
    await bench.publish(TOPIC, 3)
    answer = await holders(bench, key="k")
    assert (answer["type"], answer["entries"], answer["consumers"]) == ("", 0, [])
    assert (answer["unacked"], answer["delayed"], answer["key"]) == ([], None, None)


async def test_entries_are_listed_by_consumer_with_publish_time_and_redeliveries(
    bench: AdminBench,
) -> None:
    await bench.publish(TOPIC, 4)
    first, _ = await attach(bench, TOPIC, "first", permits=2)
    await until(lambda: first.unacked == 2)
    second, _ = await attach(bench, TOPIC, "second", id=2)
    await until(lambda: second.unacked == 2)
    loaded = await bench.loaded(TOPIC)
    subscription = loaded.subscriptions["s"]
    ledger = loaded.log.last_confirmed.ledger_id
    given_back = next(iter(second.pending or ()))
    subscription.redeliver(second, [given_back], None)
    await until(lambda: second.unacked == 2)
    answer = await holders(bench)
    assert answer["entries"] == 4
    assert {row["name"]: (row["entries"], row["messages"]) for row in answer["consumers"]} == {
        "first": (2, 2),
        "second": (2, 2),
    }
    names = [row["name"] for row in answer["consumers"]]
    rows = {
        entry: (names[consumer], redeliveries, published)
        for _, entry, _, consumer, redeliveries, published, _ in answer["unacked"]
    }
    assert rows[given_back.entry_id][1] == 1
    assert [rows[i][0] for i in range(4)] == ["first", "first", "second", "second"]
    assert [rows[i][2] for i in range(4)] == [1_000, 2_000, 3_000, 4_000]
    oldest = {row["name"]: (row["oldest"], row["oldest_ms"]) for row in answer["consumers"]}
    assert oldest == {"first": ([ledger, 0], 1_000), "second": ([ledger, 2], 3_000)}


async def test_rows_are_bounded_and_numbers_are_of_all(bench: AdminBench) -> None:
    await bench.publish(TOPIC, 10)
    consumer, _ = await attach(bench, TOPIC, "c")
    await until(lambda: consumer.unacked == 10)
    answer = await holders(bench, rows=3)
    assert [row[1] for row in answer["unacked"]] == [0, 1, 2]
    assert answer["entries"] == answer["consumers"][0]["entries"] == 10
    with pytest.raises(ValueError, match="rows"):
        Holders(TOPIC, "s", rows=501)


@pytest.mark.parametrize("kind", [SubscriptionType.EXCLUSIVE, SubscriptionType.FAILOVER])
async def test_an_active_consumer_in_order_holds_what_it_was_sent(
    bench: AdminBench, kind: SubscriptionType
) -> None:
    await bench.publish(TOPIC, 5)
    _, client = await attach(bench, TOPIC, "c", kind=kind, permits=3)
    await until(lambda: len(client.received) == 3)
    answer = await holders(bench)
    (shown,) = answer["consumers"]
    assert (shown["entries"], shown["messages"]) == (3, None)
    assert [row[1] for row in answer["unacked"]] == [0, 1, 2]
    assert answer["delayed"] is None


async def test_a_key_has_the_consumer_that_its_messages_are_sent_to(bench: AdminBench) -> None:
    clients = {}
    for id, name in enumerate(("left", "right"), 1):
        consumer, clients[name] = await attach(
            bench, TOPIC, name, id=id, kind=SubscriptionType.KEY_SHARED, keys=KeyPolicy()
        )
        assert consumer.keys
    keys = [f"key-{i}" for i in range(20)]
    await publish_keys(bench, *keys)
    await until(lambda: sum(len(client.received) for client in clients.values()) == 20)
    seen = set()
    for number, key in enumerate(keys):
        answer = await holders(bench, key=key)
        places, names = answer["key"], [row["name"] for row in answer["consumers"]]
        name = names[places["consumer"]]
        assert number in {place[1] for place in clients[name].received}
        assert places["range"][0] <= places["slot"] <= places["range"][1]
        assert list(places["range"]) in [
            list(ends) for ends in answer["consumers"][places["consumer"]]["ranges"]
        ]
        assert places["waits_for"] is None
        seen.add(name)
        row = next(row for row in answer["unacked"] if row[1] == number)
        assert (row[6], names[row[3]]) == (places["slot"], name)
    assert seen == {"left", "right"}


async def test_a_key_that_moved_waits_for_its_former_consumer(bench: AdminBench) -> None:
    kind, keys = SubscriptionType.KEY_SHARED, [f"key-{i}" for i in range(40)]
    former, _ = await attach(bench, TOPIC, "former", kind=kind, keys=KeyPolicy())
    await publish_keys(bench, *keys)
    await until(lambda: former.unacked == 40)
    await attach(bench, TOPIC, "newcomer", id=2, kind=kind, keys=KeyPolicy())
    answers = [await holders(bench, key=key) for key in keys]
    moved = [answer for answer in answers if answer["key"]["waits_for"] is not None]
    assert 0 < len(moved) < 40
    for answer in moved:
        names = [row["name"] for row in answer["consumers"]]
        assert names[answer["key"]["consumer"]] == "newcomer"
        assert names[answer["key"]["waits_for"]] == "former"
        assert answer["key"]["slot"] in [row[0] for row in answer["draining"]["rows"]]
    draining = answers[0]["draining"]
    assert draining["total"] == len({answer["key"]["slot"] for answer in moved})
    assert sum(row[2] for row in draining["rows"]) == len(moved)


async def test_a_key_may_be_bytes_and_is_checked(bench: AdminBench) -> None:
    await attach(bench, TOPIC, "c", kind=SubscriptionType.KEY_SHARED, keys=KeyPolicy())
    text = (await holders(bench, key="key-1"))["key"]["slot"]
    assert (await holders(bench, key="a2V5LTE=", key_base64=True))["key"]["slot"] == text
    with pytest.raises(ValueError, match="key: must be base64"):
        Holders(TOPIC, "s", key="%", key_base64=True)


async def test_delayed_entries_are_listed_by_due_time(bench: AdminBench) -> None:
    sink, log = Sink(), (await bench.loaded(TOPIC)).log
    entries = [
        pack_entry(
            [Message(b"v")],
            producer_name="p",
            publish_ms=1_000,
            extra={"deliver_at_time": LATER_MS + hours * HOUR_MS},
        )
        for hours in (30, 10, 20)
    ]
    log.append(run_of(*entries), sink)
    await sink.settle(3)
    await attach(bench, TOPIC, "c")
    subscription = (await bench.loaded(TOPIC)).subscriptions["s"]
    await until(lambda: subscription.dispatch.state.delayed == 3)
    delayed = (await holders(bench, rows=2))["delayed"]
    assert [(row[0] - LATER_MS) // HOUR_MS for row in delayed["rows"]] == [10, 20]
    assert [row[2] for row in delayed["rows"]] == [1, 2]
    assert (delayed["entries"], delayed["known_ms"]) == (3, None)
    assert (delayed["last_ms"], delayed["last_exact"]) == (LATER_MS + 30 * HOUR_MS, True)


async def test_an_unknown_subscription_is_refused(bench: AdminBench) -> None:
    with pytest.raises(NotFound):
        await bench.engine.call(HOLDERS, Holders(TOPIC, "other"))
