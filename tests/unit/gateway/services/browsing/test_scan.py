"""Pages of messages over all partitions of a topic, through a broker: all once, in order, bounded, without a trace."""

import random
from collections.abc import AsyncIterator

import pytest

from engine.admin.api.arguments import MessagePosition, OnTopic
from engine.admin.api.messages import NEXT_ENTRIES
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.base.errors import InvalidField, NotFound, NotReady, Unsupported
from engine.base.names import TopicName
from engine.rpc.operation import A, Operation, R
from engine.tenancy import topics
from engine.wire.batches import Message, pack_entry
from gateway.services.browsing import parts
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.scan import Direction, MessageScan, ScanStart, scan
from gateway.services.browsing.values import TopicValues
from gateway.services.engine_link import Engine
from tests.support.admin.bench import AdminBench
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink

PLAIN = TopicName.parse("persistent://public/default/plain")
MANY = TopicName.parse("persistent://public/default/many")
ALL = MessageFilter()
EARLIEST = ScanStart()


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await made.admin.call(CREATE_TOPIC, CreateTopic(PLAIN))
    await topics.create_partitioned(made.store, MANY, 3)
    yield made
    await made.close()


async def publish(bench: AdminBench, topic: TopicName, *batches: tuple[int, int]) -> None:
    """Publish an entry for each (publish time, messages); a message's value is its time and its index."""
    entries = []
    for at_ms, count in batches:
        messages = [Message(b"%d/%d" % (at_ms, i), key=f"k{i % 2}") for i in range(count)]
        entries.append(pack_entry(messages, producer_name="p", publish_ms=at_ms))
    sink = Sink()
    (await bench.loaded(topic)).log.append(run_of(*entries), sink)
    await sink.settle(len(entries))


async def page(
    bench: AdminBench,
    topic: TopicName,
    direction: Direction,
    limit: int,
    *,
    start: ScanStart = EARLIEST,
    after: str = "",
    wanted: MessageFilter = ALL,
    engine: Engine | None = None,
) -> MessageScan:
    return await scan(
        engine or bench.engine,
        topic,
        direction=direction,
        start=start,
        after=after,
        wanted=wanted,
        limit=limit,
        values=TopicValues(topic),
    )


def values_of(scan: MessageScan) -> list[str]:
    values = []
    for _, browsed in scan.messages:
        assert browsed.message is not None
        assert browsed.message.value is not None
        values.append(browsed.message.value.decode())
    return values


async def pages(
    bench: AdminBench,
    topic: TopicName,
    direction: Direction,
    limit: int,
    wanted: MessageFilter = ALL,
) -> list[str]:
    """Return all messages, read page by page."""
    values: list[str] = []
    after, scanned = "", 0
    while True:
        read = await page(bench, topic, direction, limit, after=after, wanted=wanted)
        assert len(read.messages) <= limit
        values += values_of(read)
        scanned += read.scanned
        if read.stopped == "end":
            assert wanted is not ALL or scanned == len(values), "each message is counted once"
            return values
        assert read.after != after, "each page goes on"
        after = read.after


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize("limit", [1, 7, 200])
async def test_pages_have_every_message_once_in_order_of_time(
    bench: AdminBench, direction: Direction, limit: int
) -> None:
    chance = random.Random(limit)
    times = list(range(1000, 1060))
    expected = []
    for at_ms in times:
        count = chance.choice([1, 1, 3, 5])
        await publish(bench, MANY.partition_at(chance.randrange(2)), (at_ms, count))
        expected += [f"{at_ms}/{i}" for i in range(count)]
    in_order = expected if direction == "forward" else expected[::-1]
    assert await pages(bench, MANY, direction, limit) == in_order
    of_key = [value for value in in_order if int(value.split("/")[1]) % 2]
    assert await pages(bench, MANY, direction, limit, MessageFilter(key="k1")) == of_key
    for index in range(2):
        assert (await bench.loaded(MANY.partition_at(index))).subscriptions == {}


async def test_a_page_goes_on_with_messages_that_were_published_since(bench: AdminBench) -> None:
    await publish(bench, PLAIN, (1, 2))
    first = await page(bench, PLAIN, "forward", 10)
    assert (values_of(first), first.stopped) == (["1/0", "1/1"], "end")
    nothing = await page(bench, PLAIN, "forward", 10, after=first.after)
    assert (values_of(nothing), nothing.stopped) == ([], "end")
    await publish(bench, PLAIN, (2, 1))
    assert values_of(await page(bench, PLAIN, "forward", 10, after=nothing.after)) == ["2/0"]
    newest = await page(bench, PLAIN, "forward", 10, start=ScanStart(newest=True))
    assert values_of(newest) == []
    await publish(bench, PLAIN, (3, 1))
    assert values_of(await page(bench, PLAIN, "forward", 10, after=newest.after)) == ["3/0"]


async def test_older_pages_are_not_moved_by_messages_that_were_published_since(
    bench: AdminBench,
) -> None:
    await publish(bench, MANY.partition_at(0), (1, 1), (2, 1))
    await publish(bench, MANY.partition_at(1), (3, 1))
    first = await page(bench, MANY, "backward", 1)
    assert values_of(first) == ["3/0"]
    await publish(bench, MANY.partition_at(0), (4, 1))
    await publish(bench, MANY.partition_at(1), (5, 1))
    assert values_of(await page(bench, MANY, "backward", 9, after=first.after)) == ["2/0", "1/0"]


async def test_a_scan_begins_at_a_position_a_time_and_where_a_subscription_stands(
    bench: AdminBench,
) -> None:
    await publish(bench, PLAIN, (10, 3), (20, 1), (30, 1))
    (_, first), *_ = (await page(bench, PLAIN, "forward", 1)).messages
    ledger, entry, _ = first.position
    at = ScanStart(position=(ledger, entry, 1))
    assert values_of(await page(bench, PLAIN, "forward", 2, start=at)) == ["10/1", "10/2"]
    assert values_of(await page(bench, PLAIN, "backward", 9, start=at)) == ["10/1", "10/0"]
    whole = ScanStart(position=(ledger, entry, -1))
    assert values_of(await page(bench, PLAIN, "backward", 9, start=whole)) == [
        "10/2",
        "10/1",
        "10/0",
    ]
    since = ScanStart(time_ms=20)
    assert values_of(await page(bench, PLAIN, "forward", 9, start=since)) == ["20/0", "30/0"]
    assert values_of(await page(bench, PLAIN, "backward", 1, start=since)) == ["10/2"]
    behind = MessagePosition(ledger, entry + 1)
    await bench.engine.call(CREATE_SUBSCRIPTION, CreateSubscription(PLAIN, "s", behind))
    of_subscription = ScanStart(subscription="s")
    assert values_of(await page(bench, PLAIN, "forward", 1, start=of_subscription)) == ["20/0"]
    with pytest.raises(NotFound, match="no subscription absent"):
        await page(bench, PLAIN, "forward", 9, start=ScanStart(subscription="absent"))
    with pytest.raises(InvalidField, match="position"):
        await page(bench, MANY, "forward", 9, start=at)


async def test_the_bytes_of_a_scan_are_bounded_and_the_next_one_goes_on(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "BYTES_MAX", 3_000)
    monkeypatch.setattr(parts, "PAGE_BYTES_MIN", 1_000)
    await publish(bench, PLAIN, *((at, 1) for at in range(1000, 1300)))
    wanted = MessageFilter(text="1299/")
    read = await page(bench, PLAIN, "forward", 9, wanted=wanted)
    assert (values_of(read), read.stopped) == ([], "bytes")
    assert 0 < read.scanned < 300
    steps = [read.scanned]
    while read.stopped == "bytes":
        read = await page(bench, PLAIN, "forward", 9, wanted=wanted, after=read.after)
        steps.append(read.scanned)
    assert values_of(read) == ["1299/0"]
    assert sum(steps) == 300, "every message is looked at once"


async def test_a_partition_that_does_not_answer_is_named_and_read_by_the_next_page(
    bench: AdminBench,
) -> None:
    await publish(bench, MANY.partition_at(0), (1, 1))
    await publish(bench, MANY.partition_at(1), (2, 1))

    class PartlySilent:
        silent = True

        async def call(self, operation: Operation[A, R], args: A, *, principal: str = "") -> R:
            is_second = isinstance(args, OnTopic) and args.topic.partition == 1
            if self.silent and is_second and operation is NEXT_ENTRIES:
                raise NotReady("its broker is away")
            return await bench.admin.call(operation, args)

    admin = PartlySilent()
    engine = Engine(bench.store, admin)  # type: ignore[arg-type]
    read = await page(bench, MANY, "forward", 9, engine=engine)
    assert (values_of(read), read.missing) == (["1/0"], [1])
    admin.silent = False
    read = await page(bench, MANY, "forward", 9, engine=engine, after=read.after)
    assert (values_of(read), read.missing) == (["2/0"], [])


async def test_a_topic_that_cannot_be_read_is_an_error(bench: AdminBench) -> None:
    with pytest.raises(Unsupported):
        live = TopicName.parse("non-persistent://public/default/live")
        await page(bench, live, "forward", 1)
    with pytest.raises(NotFound):
        await page(bench, TopicName.parse("persistent://public/default/absent"), "forward", 1)


@pytest.mark.parametrize(
    "token", ["x", "e30", "WyJiIl0", "WyJmIixbMSwyXV0", "WyJmIixbMSwyLCJhIl1d"]
)
async def test_a_place_that_no_page_had_is_refused(bench: AdminBench, token: str) -> None:
    await publish(bench, PLAIN, (1, 1))
    with pytest.raises(InvalidField, match="after"):
        await page(bench, PLAIN, "forward", 1, after=token)


async def test_a_partition_that_did_not_answer_begins_where_the_scan_began(
    bench: AdminBench,
) -> None:
    await publish(bench, MANY.partition_at(0), (1, 1), (9, 1))
    await publish(bench, MANY.partition_at(1), (2, 1), (8, 1))

    class SilentOnce:
        silent = True

        async def call(self, operation: Operation[A, R], args: A, *, principal: str = "") -> R:
            if self.silent and isinstance(args, OnTopic) and args.topic.partition == 1:
                raise NotReady("its broker is away")
            return await bench.admin.call(operation, args)

    admin = SilentOnce()
    engine = Engine(bench.store, admin)  # type: ignore[arg-type]
    since = ScanStart(time_ms=5)
    read = await page(bench, MANY, "forward", 9, engine=engine, start=since)
    assert (values_of(read), read.missing) == (["9/0"], [1])
    admin.silent = False
    rest = await page(bench, MANY, "forward", 9, engine=engine, start=since, after=read.after)
    assert values_of(rest) == ["8/0"]
