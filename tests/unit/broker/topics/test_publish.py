"""Runs of SENDs: of several producers that arrive together, through the stages of their topic, within the budget."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest

from engine.base.names import TopicName
from engine.broker.connection.produce import ProduceCommands
from engine.broker.errors import TooManyRequests
from engine.broker.policies import (
    DeduplicationPolicies,
    MaxRate,
    TopicPolicies,
)
from engine.broker.topics.publish import Producer, Publish, StagePlace
from engine.broker.topics.topic import Topic
from engine.wire import client_commands
from engine.wire.events import Sends
from engine.wire.kernels import take_sends
from tests.support.broker_bench import NAME, Bench, Client, opened, until
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

OTHER = TopicName.parse("persistent://public/default/other")


class Burst:
    """A connection with producers, and the sends of one burst."""

    def __init__(self, bench: Bench) -> None:
        self.client = Client()
        self.commands = ProduceCommands(self.client, bench.context, bench.registry, bench.schemas)

    async def join(self, producer_id: int, topic: Topic) -> Producer:
        producer = Producer(self.client, producer_id, f"p{producer_id}", topic, now_ms=0)
        await topic.publishers.admit(producer)
        self.commands.producers[producer_id] = producer
        return producer

    def send(self, *sends: tuple[int, int, int]) -> None:
        """Send one burst; each send is producer id, sequence id and number of messages."""
        data = b"".join(
            client_commands.send(
                owner,
                sequence,
                entry_of(b"v%d" % sequence, num_messages_in_batch=count),
                num_messages=count,
            )
            for owner, sequence, count in sends
        )
        pos, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        assert pos == len(data)
        self.commands.send(Sends(run))


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def test_each_topic_gets_its_sends_in_order_and_each_producer_its_count(bench: Bench) -> None:
    burst = Burst(bench)
    other = await bench.registry.get(OTHER, create=True)
    first, second = await burst.join(1, bench.topic), await burst.join(2, bench.topic)
    third = await burst.join(300, other)
    burst.send((1, 0, 1), (300, 0, 1), (2, 0, 5), (1, 1, 2), (300, 1, 1), (2, 1, 1))
    await until(lambda: burst.client.receipts == 6)
    assert [p.published.messages.total for p in (first, second, third)] == [3, 6, 2]
    assert bench.topic.published.messages.total == 9
    assert first.published.bytes.total + second.published.bytes.total == (
        bench.topic.published.bytes.total
    )
    assert other.log.last_confirmed.entry_id == 1
    ledger = bench.topic.log
    last = ledger.last_confirmed
    assert last.entry_id == 3
    stored = [
        (await ledger.read_entry(last._replace(entry_id=entry_id))).entry(0)[-2:]
        for entry_id in range(4)
    ]
    assert stored == [b"v0", b"v0", b"v1", b"v1"]
    for producer in (first, second, third):
        await producer.drained()


async def test_a_disconnected_producer_is_left_out_of_a_burst(bench: Bench) -> None:
    burst = Burst(bench)
    await burst.join(1, bench.topic)
    gone = await burst.join(2, bench.topic)
    gone.leave()
    burst.send((2, 0, 1), (1, 0, 1), (2, 1, 1), (1, 1, 1))
    await until(lambda: burst.client.receipts == 2)
    assert bench.topic.log.last_confirmed.entry_id == 1
    assert gone.published.messages.total == 0


async def test_a_burst_that_cannot_be_stored_is_refused_send_by_send(bench: Bench) -> None:
    burst = Burst(bench)
    await burst.join(1, bench.topic)
    await burst.join(2, bench.topic)
    bookie = bench.cluster.bookies["b0"]
    bookie.mode.set(True, "for a test")
    burst.send((1, 7, 1), (2, 8, 1), (1, 9, 1))
    await until(lambda: len(burst.client.dropped) == 2)
    assert sorted(number for number, _, _ in burst.client.errors) == [7, 8, 9]
    assert bench.topic.producers == {}
    assert burst.client.receipts == 0


class Gate:
    """A stage that refuses runs, holds them, and records those that are stored."""

    def __init__(
        self, place: StagePlace = StagePlace.SIZE, refuses: bool = False, keeps: bool = False
    ) -> None:
        self.place = place
        self.refuses = refuses
        self.keeps = keeps
        self.kept: list[Publish] = []
        self.seen = 0
        self.ranges: list[tuple[int, int]] = []
        self.lost: list[int] = []

    def admit(self, publish: Publish) -> bool:
        self.seen += 1
        if self.refuses:
            publish.refuse(TooManyRequests("too fast"))
        elif self.keeps:
            self.kept.append(publish)
        return not self.refuses and not self.keeps

    def stored(self, publish: Publish, start: int, stop: int) -> None:
        self.ranges.append((start, stop))

    def failed(self, publish: Publish, start: int) -> None:
        self.lost.append(start)


async def test_a_stage_refuses_each_send_and_the_producers_stay_attached(bench: Bench) -> None:
    burst = Burst(bench)
    first, second = await burst.join(1, bench.topic), await burst.join(2, bench.topic)
    behind = Gate(StagePlace.DELAY)
    bench.topic.stages = (Gate(refuses=True), behind)
    burst.send((1, 7, 1), (2, 8, 3), (1, 9, 1))
    code = TooManyRequests.code
    assert sorted(burst.client.errors) == [(number, code, "too fast") for number in (7, 8, 9)]
    assert (burst.client.dropped, burst.client.receipts, behind.seen) == ([], 0, 0)
    assert (first.pending, second.pending, burst.client.publish_budget.bytes) == (0, 0, 0)
    bench.topic.stages = ()
    burst.send((1, 7, 1), (2, 8, 3), (1, 9, 1))
    await until(lambda: burst.client.receipts == 3)
    assert burst.client.publish_budget.bytes == 0


async def test_a_stage_holds_a_run_and_passes_it_to_the_stages_behind_it(bench: Bench) -> None:
    burst = Burst(bench)
    producer = await burst.join(1, bench.topic)
    before, keeper, behind = (
        Gate(),
        Gate(StagePlace.DELAY, keeps=True),
        Gate(StagePlace.DEDUPLICATION),
    )
    bench.topic.stages = (before, keeper, behind)
    burst.send((1, 0, 1), (1, 1, 1))
    assert (before.seen, len(keeper.kept), behind.seen) == (1, 1, 0)
    assert producer.pending == 2
    assert burst.client.publish_budget.items == 2
    bench.topic.admitted(keeper.kept[0], keeper)
    await until(lambda: burst.client.receipts == 2)
    assert (before.seen, behind.seen) == (1, 1)
    assert before.ranges == keeper.ranges == behind.ranges == [(0, 2)]
    assert producer.pending == 0


async def test_no_head_of_a_receipt_stays_in_the_run_that_is_cached(bench: Bench) -> None:
    data = b"".join(client_commands.send(1, number, entry_of(b"v")) for number in range(3))
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    publish = Publish(run, bench.producer)
    publish.start()
    assert (run.heads, len(publish.heads)) == ([], 3)
    await until(lambda: bench.publisher.receipts == 3)


EACH: dict[StagePlace, tuple[str, dict[str, Any]]] = {
    StagePlace.ENCRYPTION: ("publish", {"encryption_required": True}),
    StagePlace.SIZE: ("publish", {"message_bytes_max": 1000}),
    StagePlace.DELAY: ("publish", {"delay_max_ms": 1000}),
    StagePlace.TOPIC_RATE: ("rates", {"publish": MaxRate(messages=1)}),
}
"""The group of policies and the value that each stage needs."""


def all_of(*places: StagePlace, deduplication: bool = True) -> TopicPolicies:
    policies = TopicPolicies(deduplication=DeduplicationPolicies(enabled=deduplication))
    for place in places:
        group, values = EACH[place]
        changed = replace(getattr(policies, group), **values)
        policies = replace(policies, **{group: changed})
    return policies


async def test_stages_have_one_order_whichever_policy_is_set_first() -> None:
    async with opened() as bench:
        config = bench.everything.ledger_config(TopicPolicies())

        async def in_force(policies: TopicPolicies) -> list[StagePlace]:
            await bench.topic.apply(policies, config)
            wanted = "Enabled" if policies.deduplication.enabled else "Disabled"
            await until(lambda: bench.topic.deduplication.status == wanted)
            return [stage.place for stage in bench.topic.stages]

        for order in permutations(EACH):
            assert await in_force(TopicPolicies()) == []
            for count in range(1, len(order) + 1):
                present = await in_force(all_of(*order[:count], deduplication=False))
                assert present == sorted(order[:count])
        for first in EACH:
            assert await in_force(TopicPolicies()) == []
            assert await in_force(all_of()) == [StagePlace.DEDUPLICATION]
            assert await in_force(all_of(first)) == [first, StagePlace.DEDUPLICATION]
        assert await in_force(all_of(*EACH)) == [*EACH, StagePlace.DEDUPLICATION]


async def test_a_loaded_topic_has_the_stages_of_one_with_changed_policies() -> None:
    async with opened() as bench:
        bench.everything.in_force = all_of(*EACH)
        await bench.registry.unload(NAME)
        topic = await bench.load()
        await until(lambda: topic.deduplication.status == "Enabled")
        loaded = [stage.place for stage in topic.stages]
        await topic.apply(
            replace(
                all_of(*EACH), subscriptions=replace(all_of(*EACH).subscriptions, max_consumers=7)
            ),
            bench.everything.ledger_config(topic.policies),
        )
        assert (
            [stage.place for stage in topic.stages] == loaded == [*EACH, StagePlace.DEDUPLICATION]
        )
