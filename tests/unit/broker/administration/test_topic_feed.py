"""The rows that a broker reports are those of its topics as they are, though it reads only the touched ones."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from engine.admin.api.rows import ROW_COLUMNS, RowsSince
from engine.base.errors import NotReady
from engine.base.names import TopicName
from engine.broker.administration import change_feed, topic_feed
from engine.broker.administration.reports import topic_row
from engine.broker.administration.topic_feed import TopicFeed
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.managed.ledger import InitialPosition
from tests.support.broker_bench import Bench, Client, opened, until

pytestmark = pytest.mark.virtual_time

OTHER = TopicName.parse("persistent://public/default/other")


class Followed:
    """The gateway's side of the feed: its rows after each count."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.feed = TopicFeed(bench.registry, bench.context.clock, "b-1")
        self.rows: dict[str, list[Any]] = {}
        self.asked = RowsSince()

    def count(self) -> None:
        self.feed.count(self.bench.registry.counters.tick(1.0))

    async def receive(self) -> dict[str, Any]:
        self.count()
        answer = await self.feed.since(self.asked)
        for row in answer["rows"]:
            self.rows[row[0]] = row
        for name in answer["gone"]:
            self.rows.pop(name, None)
        self.asked = RowsSince(answer["incarnation"], answer["revision"], answer["begun"])
        return answer

    async def settle(self) -> None:
        """Wait until all rates are zero; from then on only touched topics are read."""
        while self.bench.registry.counters.tick(1.0):
            pass
        self.feed.count(self.bench.registry.topics())
        await self.receive()

    async def check(self) -> None:
        await self.receive()
        truth = [topic_row(topic) for topic in self.bench.registry.topics()]
        assert sorted(self.rows.values(), key=lambda row: str(row[0])) == truth


@pytest.fixture
async def followed(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Followed]:
    # Without sweeps a change is reported only if it touches its topic.
    monkeypatch.setattr(topic_feed, "SWEEP_ROUNDS", 1 << 30)
    monkeypatch.setattr(change_feed, "WAIT_MAX_S", 0.001)
    async with opened() as bench:
        made = Followed(bench)
        await made.receive()
        yield made


def number(followed: Followed, column: str, name: str = "persistent://public/default/d") -> int:
    value: int = followed.rows[name][1 + ROW_COLUMNS.index(column)]
    return value


async def test_each_column_of_a_row_is_reported_when_it_changes(followed: Followed) -> None:
    bench = followed.bench
    topic = bench.topic

    async def reported(column: str, value: int) -> None:
        await followed.check()
        assert number(followed, column) == value
        await followed.settle()

    await topic.publishers.admit(bench.producer)
    await reported("producers", 1)
    made = await topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    assert made is not None
    await reported("subscriptions", 1)
    await bench.publish(10)
    await reported("backlog", 10)
    await bench.publish(1)
    await reported("storage_bytes", topic.log.stats().size)
    consumer, client = await bench.join(SubscriptionType.SHARED, permits=0)
    await reported("consumers", 1)
    bench.subscription.flow(consumer, 6)
    await until(lambda: len(client.received) == 6)
    await followed.check()
    assert number(followed, "msg_rate_out") > 0
    await followed.settle()
    bench.subscription.acknowledge(consumer, client.received[:4])
    await reported("backlog", 7)
    await bench.subscription.moves.skip(2)
    await reported("backlog", 5)
    bench.subscription.moves.pass_over(
        topic.log.next_position(bench.subscription.cursor.mark_delete)
    )
    await reported("backlog", 4)
    await bench.subscription.moves.clear()
    await reported("backlog", 0)
    await bench.subscription.moves.reset(client.received[1])
    await reported("backlog", 10)
    again, _ = await bench.join(SubscriptionType.SHARED, permits=0)
    await reported("consumers", 1)
    bench.subscription.detach(again)
    await reported("consumers", 0)
    await bench.subscription.moves.reset(client.received[5])
    await reported("backlog", 6)
    await topic.subscriptions.delete("s")
    await reported("subscriptions", 0)
    bench.producer.leave()
    await reported("producers", 0)


async def test_a_subscription_removed_with_its_consumer_is_reported(followed: Followed) -> None:
    topic = followed.bench.topic
    consumer = Consumer(
        Client(),
        1,
        "c",
        SubscriptionType.EXCLUSIVE,
        settings=followed.bench.context.settings,
        partition=-1,
        now_ms=0,
    )
    subscription = await topic.subscriptions.attach(
        consumer, "r", durable=False, initial=InitialPosition.LATEST, properties={}
    )
    await followed.check()
    assert number(followed, "subscriptions") == 1
    await followed.settle()
    subscription.detach(consumer)
    await followed.check()
    assert number(followed, "subscriptions") == 0


async def test_nothing_is_reported_after_rates_fell_to_zero(followed: Followed) -> None:
    await followed.bench.publish(10)
    rates = []
    for _ in range(60):
        answer = await followed.receive()
        rates.append(number(followed, "msg_rate_in"))
        if not answer["rows"]:
            break
    assert rates[0] > rates[5] > rates[-1] == 0
    assert not followed.bench.registry.counters.tick(1.0), "no topic needs to be read"


async def test_trimmed_ledgers_no_longer_count_as_storage(followed: Followed) -> None:
    bench = followed.bench
    bench.everything.ledger_entries = 5
    config = bench.everything.ledger_config(bench.everything.in_force)
    await bench.topic.log.update_config(replace(config, retention_s=3600.0, retention_bytes=-1))
    for _ in range(4):
        await bench.publish(5)
    await followed.check()
    before = number(followed, "storage_bytes")
    for _ in range(60):
        await followed.receive()
    await bench.topic.log.update_config(config)
    await until(lambda: bench.topic.log.stats().size < before)
    await followed.check()
    assert number(followed, "storage_bytes") < before


async def test_created_and_removed_topics_are_reported(followed: Followed) -> None:
    await followed.bench.registry.get(OTHER, create=True)
    await followed.check()
    assert str(OTHER) in followed.rows
    await followed.bench.registry.unload(OTHER)
    await followed.check()
    assert str(OTHER) not in followed.rows
    await followed.bench.registry.get(OTHER, create=True)
    await followed.bench.registry.deletions.delete(OTHER, force=True)
    answer = await followed.receive()
    assert answer["gone"] == [str(OTHER)], "it was loaded, though no count saw it"


async def test_an_untouched_topic_is_read_now_and_then(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.bench.topic.producers["unseen"] = followed.bench.producer
    monkeypatch.setattr(topic_feed, "SWEEP_ROUNDS", 1)
    await followed.receive()
    await followed.receive()
    assert number(followed, "producers") == 1


async def test_an_up_to_date_request_waits_for_the_next_count(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_feed, "WAIT_MAX_S", 30.0)
    asking = asyncio.ensure_future(followed.feed.since(followed.asked))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not asking.done()
    followed.count()
    answer = await asking
    assert (answer["rows"], answer["gone"], answer["more"]) == ([], [], False)
    other = RowsSince("another-life", followed.asked.revision, followed.asked.begun)
    everything = await followed.feed.since(other)
    assert everything["whole"]
    assert [row[0] for row in everything["rows"]] == ["persistent://public/default/d"]


async def test_nothing_is_reported_before_the_first_count(followed: Followed) -> None:
    fresh = TopicFeed(followed.bench.registry, followed.bench.context.clock, "b-2")
    with pytest.raises(NotReady):
        await fresh.since(RowsSince())


async def test_a_subscription_that_cannot_be_read_makes_the_backlog_unknown(
    followed: Followed,
) -> None:
    followed.bench.topic.log.unread_cursors["lost"] = "its storage does not answer"  # type: ignore[index]
    followed.bench.topic.touched()
    await followed.receive()
    row = followed.rows[str(followed.bench.topic.name)]
    assert row[1 + ROW_COLUMNS.index("backlog")] is None
    assert row[1 + ROW_COLUMNS.index("subscriptions")] == 1
