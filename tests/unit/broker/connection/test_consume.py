"""The fields of SUBSCRIBE, as the broker reads them."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.base.ids import LATEST, Position
from engine.broker.connection.consume import ConsumeCommands, key_policy
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import ConsumerAssignError
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.client.broker_link import BrokerLink
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_frame
from tests.support.broker_bench import Bench, Client, commands_in, link_to, opened, served

pytestmark = pytest.mark.virtual_time


def meta(*ranges: tuple[int, int], sticky: bool = True) -> pb.KeySharedMeta:
    return pb.KeySharedMeta(
        keySharedMode=pb.STICKY if sticky else pb.AUTO_SPLIT,
        hashRanges=[pb.IntRange(start=start, end=end) for start, end in ranges],
    )


def test_ranges_count_where_the_consumer_chooses_them() -> None:
    assert key_policy(meta((0, 9), (10, 10))) == KeyPolicy(True, False, ((0, 9), (10, 10)))
    assert key_policy(meta((0, 9), sticky=False)) == KeyPolicy()
    assert key_policy(pb.KeySharedMeta()) == KeyPolicy()


@pytest.mark.parametrize(
    ("ranges", "why"),
    [
        ([], "Ranges for KeyShared policy must not be empty."),
        ([(0, 1), (5, 3)], r"Fixed hash range start > end for range: \[5,3\]"),
        ([(5, 20), (0, 5)], r"own ranges conflict: \[0,5\] overlaps with \[5,20\]"),
        ([(-1, 5)], r"Hash range \[-1,5\] is not within \[0,65535\]"),
        ([(0, 5), (7, 65536)], r"Hash range \[7,65536\] is not within \[0,65535\]"),
        ([(i, i) for i in range(1001)], "at most 1000 hash ranges, hashRanges has 1001"),
    ],
)
def test_invalid_ranges_are_refused(ranges: list[tuple[int, int]], why: str) -> None:
    with pytest.raises(ConsumerAssignError, match=why):
        key_policy(meta(*ranges))


class Asker:
    """Connection to a broker whose topic has six entries, published at 10 to 60 s."""

    def __init__(self, bench: Bench, link: BrokerLink) -> None:
        self.bench = bench
        self.link = link

    async def subscribe(
        self, name: str, kind: SubscriptionType = SubscriptionType.EXCLUSIVE, **fields: Any
    ) -> Subscription:
        await self.ask(
            "subscribe",
            topic=self.bench.topic.name.full,
            subscription=name,
            subType=int(kind),
            consumer_id=self.link.new_id(),
            **fields,
        )
        return self.bench.topic.subscriptions[name]

    async def ask(self, command: str, **fields: Any) -> None:
        request_id = self.link.new_id()
        await self.link.request(request_id, command_frame(command, request_id=request_id, **fields))


@pytest.fixture
async def asker() -> AsyncIterator[Asker]:
    async with served() as (bench, _, url):
        for second in range(10, 70, 10):
            await bench.publish(1, publish_ms=second * 1000)
        link = await link_to(url)
        yield Asker(bench, link)
        link.close()


def wire_id(position: Position) -> dict[str, int]:
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}


@pytest.mark.parametrize(("initial", "backlog"), [(0, 0), (1, 6)])
async def test_a_start_behind_the_end_is_replaced_by_the_initial_position(
    asker: Asker, initial: int, backlog: int
) -> None:
    last = asker.bench.topic.log.last_confirmed
    for far in (Position(last.ledger_id, last.entry_id + 2), Position(1 << 40, 0), LATEST):
        subscription = await asker.subscribe(
            f"r{far}", durable=False, start_message_id=wire_id(far), initialPosition=initial
        )
        assert subscription.cursor.backlog_entries() == backlog
    next_one = wire_id(Position(last.ledger_id, last.entry_id + 1))
    subscription = await asker.subscribe(
        "next", durable=False, start_message_id=next_one, initialPosition=initial
    )
    assert subscription.cursor.backlog_entries() == 0


async def test_rolling_back_moves_an_existing_subscription_and_disconnects_its_consumers(
    asker: Asker,
) -> None:
    first = await asker.subscribe("s", initialPosition=0)
    (held,) = first.consumers
    assert first.cursor.backlog_entries() == 0
    now_s = asker.bench.context.clock.wall_ms() // 1000
    again = await asker.subscribe("s", start_message_rollback_duration_sec=now_s - 35)
    assert again is first
    assert again.cursor.backlog_entries() == 3
    assert (len(again.consumers), held.attached) == (1, False)
    made = await asker.subscribe("new", start_message_rollback_duration_sec=now_s - 45)
    assert made.cursor.backlog_entries() == 2


async def test_the_replicated_flag_of_a_subscription_is_stored(asker: Asker) -> None:
    subscription = await asker.subscribe("s", replicate_subscription_state=True)
    other = await asker.subscribe("volatile", durable=False, replicate_subscription_state=True)
    assert (subscription.replicated, other.replicated) == (True, False)
    await subscription.cursor.persisted()
    await asker.bench.kill()
    await asker.bench.load()
    assert asker.bench.subscription.replicated
    asker.bench.subscription.replicate(False)
    await asker.bench.subscription.cursor.persisted()
    await asker.bench.kill()
    await asker.bench.load()
    assert not asker.bench.subscription.replicated


@pytest.mark.parametrize("kind", SubscriptionType)
async def test_only_consumers_of_ordered_types_have_an_epoch(
    asker: Asker, kind: SubscriptionType
) -> None:
    subscription = await asker.subscribe("s", kind, consumer_epoch=5)
    (consumer,) = subscription.consumers
    assert consumer.epoch == (5 if kind.ordered else None)
    for epoch, then in ((7, 7), (6, 7)):
        subscription.redeliver(consumer, None, epoch)
        assert consumer.epoch == (then if kind.ordered else None)


async def test_a_seek_to_a_negative_time_goes_to_the_first_message(asker: Asker) -> None:
    subscription = await asker.subscribe("s", initialPosition=0)
    (consumer,) = subscription.consumers
    await asker.ask("seek", consumer_id=consumer.consumer_id, message_publish_time=(1 << 64) - 1)
    assert subscription.cursor.backlog_entries() == 6


class Subscriber(Client):
    """Client that records commands and answers in order: the kind, and whether the consumer is active."""

    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self.family = ConsumeCommands(self, bench.context, bench.registry, bench.schemas)
        self.commands: list[tuple[str, bool]] = []

    def send(self, data: bytes) -> None:
        for command in commands_in(data):
            kind = pb.BaseCommand.Type.Name(command.type)
            self.commands.append((kind, command.active_consumer_change.is_active))

    async def subscribe(self, kind: SubscriptionType, name: str = "a") -> None:
        body = pb.CommandSubscribe(
            topic="persistent://public/default/d",
            subscription=kind.title,
            subType=int(kind),
            consumer_id=1,
            request_id=1,
            consumer_name=name,
        )
        self.family.subscribe(body)
        self.send(await self.answers.pop())


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


NOW_ACTIVE = ("ACTIVE_CONSUMER_CHANGE", True)
NOT_ACTIVE = ("ACTIVE_CONSUMER_CHANGE", False)
ANSWER = ("SUCCESS", False)


async def test_each_failover_consumer_is_notified_right_behind_the_answer(bench: Bench) -> None:
    first, second = Subscriber(bench), Subscriber(bench)
    await first.subscribe(SubscriptionType.FAILOVER)
    assert first.commands == [ANSWER, NOW_ACTIVE]
    await second.subscribe(SubscriptionType.FAILOVER, "b")
    active = bench.topic.subscriptions["Failover"].dispatch.state.active
    assert active is not None
    assert second.commands[0] == ANSWER
    if active.outlet is first:
        assert second.commands[1:] == [NOT_ACTIVE]
    for subscriber in (first, second):
        subscriber.family.disconnected()
    await first.subscribe(SubscriptionType.FAILOVER)  # alone again, after a disconnect
    assert first.commands[-2:] == [ANSWER, NOW_ACTIVE]


@pytest.mark.parametrize(
    "kind", [kind for kind in SubscriptionType if kind != SubscriptionType.FAILOVER]
)
async def test_consumers_of_other_types_are_not_notified_of_the_active_one(
    bench: Bench, kind: SubscriptionType
) -> None:
    subscriber = Subscriber(bench)
    await subscriber.subscribe(kind)
    assert subscriber.commands == [ANSWER]
