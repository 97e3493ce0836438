"""The latest value of each key, page by page: what a reader of the compacted topic ends with, with and without a
compaction, bounded and with counts that add up."""

import random
from collections.abc import AsyncIterator

import pytest

from engine.admin.api.arguments import MessagePosition
from engine.admin.api.messages import COMPACTED_ENTRIES, CompactedEntries
from engine.admin.api.topics import CREATE_TOPIC, CreateTopic
from engine.base.errors import Conflict, InvalidField, NotFound, Unsupported
from engine.base.names import TopicName
from engine.tenancy import topics
from engine.wire.batches import Message, pack_entry
from gateway.services.browsing import parts
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.latest_values import COMPACTED_MEANWHILE, LatestValues, latest_values
from gateway.services.browsing.values import TopicValues
from tests.support.admin.bench import AdminBench
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink
from tests.support.waiting import until

PLAIN = TopicName.parse("persistent://public/default/plain")
MANY = TopicName.parse("persistent://public/default/many")
ALL = MessageFilter()
Sent = tuple[str | None, bytes | None]


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await made.admin.call(CREATE_TOPIC, CreateTopic(PLAIN))
    await topics.create_partitioned(made.store, MANY, 3)
    yield made
    await made.close()


class Publisher:
    """Publishes batches of keys and values, a millisecond apart."""

    def __init__(self, bench: AdminBench) -> None:
        self.bench = bench
        self.at_ms = 1_000

    async def send(self, topic: TopicName, *batches: list[Sent]) -> None:
        entries = []
        for batch in batches:
            self.at_ms += 1
            messages = [Message(value, key=key) for key, value in batch]
            entries.append(pack_entry(messages, producer_name="p", publish_ms=self.at_ms))
        await self.store(topic, *entries)

    async def store(self, topic: TopicName, *entries: bytes) -> None:
        sink = Sink()
        (await self.bench.loaded(topic)).log.append(run_of(*entries), sink)
        await sink.settle(len(entries))

    async def compact(self, topic: TopicName) -> None:
        compaction = (await self.bench.loaded(topic)).compaction
        assert compaction.start()
        await until(lambda: compaction.status != "RUNNING")
        assert compaction.status == "SUCCESS"


async def page(
    bench: AdminBench,
    topic: TopicName,
    *,
    limit: int = 1_000,
    after: str = "",
    wanted: MessageFilter = ALL,
) -> LatestValues:
    return await latest_values(
        bench.engine, topic, after=after, wanted=wanted, limit=limit, values=TopicValues(topic)
    )


def values_of(read: LatestValues) -> dict[str, bytes]:
    values = {}
    for _, browsed in read.rows:
        message = browsed.message
        assert message is not None
        assert message.key is not None
        assert message.value is not None
        values[message.key] = message.value
    return values


async def folded(
    bench: AdminBench, topic: TopicName, limit: int, wanted: MessageFilter = ALL
) -> dict[str, bytes]:
    """Return the latest values of all pages, each of which says what it looked at."""
    values: dict[str, bytes] = {}
    after = ""
    while True:
        read = await page(bench, topic, limit=limit, after=after, wanted=wanted)
        fold = read.fold
        assert read.missing == []
        assert len(fold.latest) <= limit
        parts_of = (fold.replaced, fold.without_key, fold.undecoded, fold.other_keys)
        assert fold.scanned == len(fold.latest) + sum(parts_of), "each message is counted once"
        for _, key in read.removed:
            values.pop(key, None)
        values |= values_of(read)
        if read.stopped == "end":
            return values
        assert read.after != after, "each page goes on"
        after = read.after


@pytest.mark.parametrize("limit", [1, 3, 1_000])
@pytest.mark.parametrize("seed", range(4))
async def test_pages_end_with_the_last_value_of_each_key_wherever_compactions_ran(
    bench: AdminBench, limit: int, seed: int
) -> None:
    chance = random.Random(seed)
    publisher = Publisher(bench)
    topic = MANY if seed % 2 else PLAIN
    model: dict[str, bytes] = {}
    for step in range(40):
        batch: list[Sent] = []
        part = chance.randrange(2)
        for index in range(chance.choice([1, 1, 3])):
            key = f"{part}k{chance.randrange(6)}"
            value = b"%d/%d" % (step, index) if chance.random() < 0.8 else None
            batch.append((key, value))
            model.pop(key, None)
            if value is not None:
                model[key] = value
        target = topic if topic is PLAIN else topic.partition_at(part)
        await publisher.send(target, batch)
        if chance.random() < 0.1:
            await publisher.compact(target)
        if step % 10 == 9:
            assert await folded(bench, topic, limit) == model
    for key in ("0k1", "1k2", "none"):
        of_key = {key: model[key]} if key in model else {}
        assert await folded(bench, topic, limit, MessageFilter(key=key)) == of_key
    assert (await bench.loaded(target)).subscriptions.keys() <= {"__compaction"}


async def test_a_key_whose_last_value_is_null_or_empty_is_removed(bench: AdminBench) -> None:
    publisher = Publisher(bench)
    await publisher.send(
        PLAIN, [("a", b"1"), ("b", b"1"), ("c", b"1")], [("a", None)], [("b", b"")]
    )
    read = await page(bench, PLAIN)
    assert values_of(read) == {"c": b"1"}
    assert sorted(key for _, key in read.removed) == ["a", "b"]
    assert (read.deleted, read.fold.replaced, read.stopped) == (2, 2, "end")


async def test_other_conditions_are_those_of_the_last_value_alone(bench: AdminBench) -> None:
    publisher = Publisher(bench)
    await publisher.send(PLAIN, [("a", b"red")], [("b", b"red")], [("a", b"blue")])
    read = await page(bench, PLAIN, wanted=MessageFilter(text="red"))
    assert values_of(read) == {"b": b"red"}
    assert read.removed == [(-1, "a")], "an earlier page may have had it"
    assert read.deleted == 0


async def test_messages_without_a_key_are_counted_and_not_shown(bench: AdminBench) -> None:
    await Publisher(bench).send(PLAIN, [(None, b"x"), ("a", b"1")], [(None, b"y")])
    read = await page(bench, PLAIN)
    assert (values_of(read), read.fold.without_key) == ({"a": b"1"}, 2)


async def test_the_horizon_is_stated_and_absent_where_nothing_was_compacted(
    bench: AdminBench,
) -> None:
    publisher = Publisher(bench)
    assert (await page(bench, PLAIN)).horizons == [(-1, None)]
    await publisher.send(PLAIN, [("a", b"1")], [("a", b"2")])
    await publisher.compact(PLAIN)
    last = (await bench.loaded(PLAIN)).log.last_confirmed
    await publisher.send(PLAIN, [("b", b"1")])
    read = await page(bench, PLAIN)
    assert read.horizons == [(-1, MessagePosition(*last))]
    assert (read.fold.scanned, read.entries) == (2, 2), "what was compacted out is not read"


async def test_a_compaction_between_two_pages_refuses_the_second(bench: AdminBench) -> None:
    publisher = Publisher(bench)
    await publisher.send(PLAIN, [("a", b"1")], [("b", b"1")], [("a", None)])
    first = await page(bench, PLAIN, limit=1)
    assert values_of(first) == {"a": b"1"}
    await publisher.compact(PLAIN)
    # The deletion of "a" left the topic: the second page could not say that it is gone.
    with pytest.raises(Conflict, match=COMPACTED_MEANWHILE):
        await page(bench, PLAIN, limit=1, after=first.after)
    assert await folded(bench, PLAIN, 1) == {"b": b"1"}


async def test_a_compaction_of_what_was_read_before_does_not_matter(bench: AdminBench) -> None:
    publisher = Publisher(bench)
    await publisher.send(PLAIN, [("a", b"1")], [("b", b"1")])
    first = await page(bench, PLAIN)
    await publisher.compact(PLAIN)
    await publisher.send(PLAIN, [("c", b"1")])
    assert values_of(await page(bench, PLAIN, after=first.after)) == {"c": b"1"}


async def test_a_page_ends_at_the_bound_of_bytes_and_goes_on(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher(bench)
    for i in range(20):
        await publisher.send(PLAIN, [("a", b"%d" % i * 1_000)])
    monkeypatch.setattr(parts, "BYTES_MAX", 4_000)
    monkeypatch.setattr(parts, "PAGE_BYTES_MIN", 1_000)
    first = await page(bench, PLAIN)
    assert first.stopped == "bytes"
    assert 0 < first.fold.scanned < 20
    assert len(first.fold.latest) == 1, "no more than the last message of a key is held"
    assert await folded(bench, PLAIN, 1_000) == {"a": b"19" * 1_000}


async def test_a_topic_that_no_broker_had_loaded_is_read(bench: AdminBench) -> None:
    publisher = Publisher(bench)
    await publisher.send(PLAIN, [("a", b"1")], [("a", b"2")])
    await publisher.compact(PLAIN)
    await publisher.send(PLAIN, [("b", b"1")])
    await bench.restart()
    assert bench.broker.running.registry.loaded(PLAIN) is None
    assert await folded(bench, PLAIN, 1) == {"a": b"2", "b": b"1"}


@pytest.mark.parametrize("after", ["x", "WyJmIl0", "WyJjIixbMSxbMSwyXV1d", "WyJjIixbLTUsbnVsbF1d"])
async def test_a_place_of_other_pages_is_refused(bench: AdminBench, after: str) -> None:
    with pytest.raises(InvalidField, match="after"):
        await page(bench, PLAIN, after=after)


async def test_a_topic_without_stored_messages_says_so(bench: AdminBench) -> None:
    with pytest.raises(NotFound):
        await page(bench, TopicName.parse("persistent://public/default/none"))
    with pytest.raises(Unsupported):
        await page(bench, TopicName.parse("non-persistent://public/default/plain"))


async def test_pages_of_the_broker_are_bounded_and_continue_behind_the_horizon(
    bench: AdminBench,
) -> None:
    publisher = Publisher(bench)
    for i in range(6):
        await publisher.send(PLAIN, [(f"k{i % 3}", b"%d" % i)])
    await publisher.compact(PLAIN)
    await publisher.send(PLAIN, [("k0", b"6")])
    entries, start = [], MessagePosition(-1, -1)
    more = True
    while more:
        args = CompactedEntries(PLAIN, 2, 1 << 20, start)
        answer = await bench.engine.call(COMPACTED_ENTRIES, args)
        assert len(answer["entries"]) <= 2
        assert answer["ledger"] >= 0
        entries += [entry for _, entry, _ in answer["entries"]]
        start, more = MessagePosition(*answer["next"]), answer["more"]
    assert entries == [3, 4, 5, 6]
