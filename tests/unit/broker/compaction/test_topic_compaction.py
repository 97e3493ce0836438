"""Compaction of a topic: the messages that readers receive, the ledgers that are kept, and the state after a crash at
any step."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from engine.base.errors import MagnetarError
from engine.base.ids import EARLIEST, LATEST, Position
from engine.broker.compaction import topic_compaction
from engine.broker.compaction.topic_compaction import CURSOR
from engine.broker.context import COMPACTIONS_MAX
from engine.broker.errors import NotAllowed
from engine.broker.policies import (
    BacklogQuota,
    QuotaAction,
    TopicPolicies,
)
from engine.broker.topics.inactivity import expired
from engine.broker.topics.publish import Publish
from engine.client.broker_link import BrokerLink
from engine.client.raw_consumer import FROM_EARLIEST, RawConsumer
from engine.client.raw_reader import RawReader
from engine.ledger.errors import LedgerError
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.stored.records import COMPACTED_LEDGER
from engine.metadata import paths
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.wire import client_commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry, unpack_entry
from engine.wire.commands import command_frame
from engine.wire.events import Delivered
from engine.wire.kernels import take_sends
from tests.support.broker_bench import NAME, Bench, link_to, put_in_force, round_of, served, until
from tests.support.waiting import stays

pytestmark = pytest.mark.virtual_time

EXCLUSIVE = 0
Pair = tuple[str | None, bytes]


class Rig:
    """A broker with the topic, and a link to it."""

    def __init__(self, bench: Bench, url: str) -> None:
        self.bench = bench
        self._url = url
        self._links: list[BrokerLink] = []
        self._names = 0
        self._sent = 0

    async def put(self, *entries: Pair | list[Pair], **metadata: Any) -> list[Position]:
        """Publish single messages and batches; return their positions."""
        data = b""
        for item in entries:
            pairs = item if isinstance(item, list) else [item]
            messages = [Message(value, key) for key, value in pairs]
            packed = pack_entry(
                messages,
                producer_name="p",
                publish_ms=1,
                batched=isinstance(item, list),
                extra=metadata,
            )
            data += client_commands.send(1, self._sent, packed)
            self._sent += 1
        _, _, run = take_sends(data, 0, len(data), 1 << 24)
        assert run is not None
        client = self.bench.publisher
        before = client.receipts
        Publish(run, self.bench.producer).start()
        await until(lambda: client.receipts == before + len(entries))
        last = self.bench.topic.log.last_confirmed
        return [Position(last.ledger_id, last.entry_id - i) for i in range(len(entries))][::-1]

    async def compact(self) -> str:
        """Compact the topic and return the status at the end."""
        compaction = self.bench.topic.compaction
        assert compaction.start()
        await until(lambda: compaction.status != "RUNNING")
        return compaction.status

    async def link(self) -> BrokerLink:
        self._links.append(await link_to(self._url))
        return self._links[-1]

    async def reader(self, start: Position = EARLIEST, *, compacted: bool = True) -> RawReader:
        self._names += 1
        return await RawReader.open(
            await self.link(), NAME.full, name=f"r{self._names}", start=start, compacted=compacted
        )

    async def seen(self, start: Position = EARLIEST, *, compacted: bool = True) -> list[Pair]:
        return pairs_in(await (await self.reader(start, compacted=compacted)).rest())

    def ledgers(self) -> set[int]:
        """Return the ids of all stored ledgers."""
        tree = self.bench.cluster.server.tree
        return {i for i in range(200) if tree.exists(paths.ledger(i)) is not None}

    def close(self) -> None:
        for link in self._links:
            link.abort()


def pairs_in(entries: Sequence[Delivered]) -> list[Pair]:
    return [
        (message.key, message.value or b"")
        for entry in entries
        for message in unpack_entry(entry.entry).messages
        if not message.compacted_out
    ]


@pytest.fixture
async def rig() -> AsyncIterator[Rig]:
    async with served() as (bench, _, url):
        made = Rig(bench, url)
        yield made
        made.close()


async def reloaded(rig: Rig, *, killed: bool = False) -> None:
    """Unload the topic, or kill its owner, and load it by the next owner."""
    await (rig.bench.kill() if killed else rig.bench.registry.unload(NAME))
    await rig.bench.load()
    rig._sent = 0


async def test_readers_receive_compacted_messages_and_then_the_topic(rig: Rig) -> None:
    await rig.put(("a", b"1"), ("b", b"1"), ("a", b"2"), [("c", b"1"), ("b", b""), (None, b"x")])
    assert rig.bench.topic.compaction.status == "NOT_RUN"
    before = await rig.seen()
    assert len(before) == 6
    assert await rig.compact() == "SUCCESS"
    assert await rig.seen() == [("a", b"2"), ("c", b"1")]
    assert await rig.seen(compacted=False) == before
    await rig.put(("a", b"3"), [("d", b"1"), ("c", b"")])
    assert await rig.seen() == [("a", b"2"), ("c", b"1"), ("a", b"3"), ("d", b"1"), ("c", b"")]
    assert await rig.compact() == "SUCCESS"
    assert await rig.seen() == [("a", b"3"), ("d", b"1")]


async def test_compacted_messages_outlive_the_topics_ledgers_and_its_owner(rig: Rig) -> None:
    rig.bench.everything.ledger_entries = 4
    await reloaded(rig)
    await rig.compact()  # entries that the compaction has not read are not trimmed from now on
    for i in range(5):
        await rig.put(("a", b"%d" % i), (f"k{i}", b"v"), ("z", b"x"), ("z", b""))
    (place, *_) = await rig.put(("last", b"1"))
    await rig.compact()
    expected = [(f"k{i}", b"v") for i in range(4)] + [("a", b"4"), ("k4", b"v"), ("last", b"1")]
    for killed in (False, True):
        await rig.bench.topic.log.trim()
        assert await rig.seen() == expected
        assert await rig.seen(Position(place.ledger_id, 0)) == [("last", b"1")]
        await reloaded(rig, killed=killed)
    assert len(rig.bench.topic.log.stats().ledgers) <= 2
    assert await rig.seen(compacted=False) in ([], [("last", b"1")])


async def test_only_the_newest_compacted_ledger_is_kept_and_deleted_with_the_topic(
    rig: Rig,
) -> None:
    start = rig.ledgers()
    for i in range(4):
        await rig.put(("a", b"%d" % i))
        assert await rig.compact() == "SUCCESS"
    compaction = rig.bench.topic.compaction
    assert await rig.seen() == [("a", b"3")]
    cursor = rig.bench.topic.log.cursors[CURSOR].stats().cursor_ledger_id
    assert rig.ledgers() - start - {cursor} == {compaction.ledger_id}
    await rig.bench.registry.deletions.delete(NAME, force=True)
    assert rig.ledgers() == set()


async def test_the_compacted_ledger_is_deleted_with_its_subscription(rig: Rig) -> None:
    await rig.put(("a", b"1"), ("a", b"2"))
    await rig.compact()
    ledger = rig.bench.topic.compaction.ledger_id
    await rig.bench.topic.subscriptions.delete(CURSOR)
    assert ledger not in rig.ledgers()
    assert await rig.seen() == [("a", b"1"), ("a", b"2")]
    await rig.compact()
    assert await rig.seen() == [("a", b"2")]


async def test_the_compactions_subscription_does_not_expire(rig: Rig) -> None:
    await rig.put(("a", b"1"))
    await rig.compact()
    topic = rig.bench.topic
    expiring = replace(topic.policies.subscriptions, expiration_minutes=1)
    policies = replace(topic.policies, subscriptions=expiring)
    await topic.subscriptions.create("idle", LATEST, {})
    assert expired(topic, policies, rig.bench.context.clock.wall_ms() + 120_000) == ["idle"]


@pytest.mark.parametrize("initial", [pb.CommandSubscribe.Latest, pb.CommandSubscribe.Earliest])
async def test_a_compaction_subscription_created_by_a_client_hides_no_messages(
    rig: Rig, initial: pb.CommandSubscribe.InitialPosition
) -> None:
    await rig.put(("before", b"1"))
    link = await rig.link()
    request = {"topic": NAME.full, "subscription": CURSOR, "consumer_id": 1, "subType": EXCLUSIVE}

    async def ask(command: str, **fields: Any) -> None:
        request_id = link.new_id()
        frame = command_frame(command, request_id=request_id, **fields)
        await link.request(request_id, frame)

    with pytest.raises(MagnetarError, match="is the compaction's, which is durable"):
        await ask("subscribe", **request, durable=False)
    await ask("subscribe", **request, initialPosition=initial)
    await rig.put(("after", b"2"))
    assert await rig.compact() == "SUCCESS"
    assert await rig.seen() == [("before", b"1"), ("after", b"2")]
    with pytest.raises(MagnetarError, match="deleted by an administrator alone"):
        await ask("unsubscribe", consumer_id=1)
    assert await rig.seen() == [("before", b"1"), ("after", b"2")]


async def test_a_compaction_cursor_without_a_ledger_starts_at_the_beginning(rig: Rig) -> None:
    """Begin with the cursor that other brokers leave: at the end, without the id of a compacted ledger."""
    await rig.put(("before", b"1"))
    cursor = await rig.bench.topic.log.open_cursor(
        CURSOR, InitialPosition.LATEST, durable=True, cursor_properties={}
    )
    rig.bench.topic.compaction_made(cursor)
    await rig.put(("after", b"2"))
    assert await rig.compact() == "SUCCESS"
    assert await rig.seen() == [("before", b"1"), ("after", b"2")]


async def test_a_chunked_message_stays_whole_also_when_it_is_compacted_half_way(rig: Rig) -> None:
    rig.bench.everything.ledger_entries = 2
    await reloaded(rig)
    await rig.compact()

    async def put_chunk(index: int) -> None:
        pair = ("k", b"%d" % index)
        await rig.put(pair, uuid="m", chunk_id=index, num_chunks_from_msg=3)

    await rig.put(("k", b"old"))
    await put_chunk(0)
    await rig.put(("other", b"x"))
    await rig.compact()
    assert await rig.seen() == [("k", b"old"), ("k", b"0"), ("other", b"x")]
    await put_chunk(1)
    await put_chunk(2)
    whole = [("k", b"0"), ("other", b"x"), ("k", b"1"), ("k", b"2")]
    assert await rig.seen() == [("k", b"old"), *whole]
    await rig.compact()
    await rig.bench.topic.log.trim()
    assert await rig.seen() == whole
    await rig.put(("k", b"new"))
    await rig.compact()
    assert await rig.seen() == [("other", b"x"), ("k", b"new")]


async def test_a_reader_continues_at_its_position_when_the_topic_is_compacted_again(
    rig: Rig,
) -> None:
    await rig.put(*((f"k{i}", b"1") for i in range(6)))
    await rig.compact()
    reader = await rig.reader()
    assert len(await reader.rest()) == 6
    slow = RawReader(1000)
    slow._consumer = await RawConsumer.open(
        await rig.link(), NAME.full, "slow", EXCLUSIVE, on_messages=slow._receive,
        durable=False, start=EARLIEST, initial=FROM_EARLIEST, compacted=True,
    )  # fmt: skip
    slow._consumer.flow(2)
    first = await slow.next()
    await rig.put(("k0", b"2"), ("k3", b"2"), ("k9", b"1"))
    await rig.compact()
    assert pairs_in(await reader.rest()) == [("k0", b"2"), ("k3", b"2"), ("k9", b"1")]
    while len(first) < 2:
        first += await slow.next()
    slow._consumer.flow(100)
    rest: list[Pair] = []
    while len(rest) < 5:
        rest += pairs_in(await slow.next())
    # Entries read ahead may be those of the previous compaction; the last message of each key arrives nevertheless.
    assert dict(rest)["k9"] == b"1"
    assert dict(rest)["k3"] == b"2"


async def test_a_durable_subscription_reads_compacted_messages_and_continues(rig: Rig) -> None:
    await rig.put(("a", b"1"), ("a", b"2"), ("b", b"1"))
    await rig.compact()

    async def joined() -> tuple[RawConsumer, list[Delivered]]:
        got: list[Delivered] = []
        consumer = await RawConsumer.open(
            await rig.link(), NAME.full, "s", EXCLUSIVE, on_messages=got.extend,
            initial=FROM_EARLIEST, compacted=True,
        )  # fmt: skip
        consumer.flow(100)
        return consumer, got

    consumer, got = await joined()
    await until(lambda: len(got) == 2)
    assert pairs_in(got) == [("a", b"2"), ("b", b"1")]
    await consumer.acknowledged([got[0].position], cumulative=True)
    await consumer.close()
    consumer, got = await joined()
    await until(lambda: got)
    assert pairs_in(got) == [("b", b"1")]
    await consumer.acknowledged([got[0].position], cumulative=True)
    await consumer.close()
    await rig.put(("c", b"1"))
    consumer, got = await joined()
    await until(lambda: got)
    assert pairs_in(got) == [("c", b"1")]
    await consumer.seek(position=EARLIEST)
    await consumer.ended if hasattr(consumer, "ended") else None
    consumer, got = await joined()
    await until(lambda: len(got) == 3)
    assert pairs_in(got) == [("a", b"2"), ("b", b"1"), ("c", b"1")]


async def test_the_last_message_is_that_of_the_compacted_topic(rig: Rig) -> None:
    first, last = await rig.put([("a", b"1"), ("b", b"1"), ("c", b"")], ("b", b""))
    topic = rig.bench.topic
    assert await topic.last_message.read(compacted=True) == (last, -1)
    await rig.compact()
    assert topic.last_message.at_hand(compacted=True) == (first, 0)
    assert await topic.last_message.read() == (last, -1)
    await reloaded(rig)
    assert await rig.bench.topic.last_message.read(compacted=True) == (first, 0)
    await rig.put(("a", b""))
    await rig.compact()
    assert await rig.bench.topic.last_message.read(compacted=True) == (EARLIEST, -1)
    assert await rig.seen() == []


async def test_entries_that_are_not_readable_are_not_compacted(rig: Rig) -> None:
    await rig.put(("a", b"1"), ("a", b"2"))
    log = rig.bench.topic.log
    assert isinstance(log, ManagedLedger)
    log.hold_reads(LATEST)
    (held,) = await rig.put(("a", b"3"))
    await rig.compact()
    assert await rig.seen() == [("a", b"2")]
    assert rig.bench.topic.compaction.holds_all
    log.release_reads()
    assert not rig.bench.topic.compaction.holds_all
    assert await rig.bench.topic.last_message.read(compacted=True) == (held, -1)
    assert await rig.seen() == [("a", b"2"), ("a", b"3")]


async def test_a_topic_without_entries_is_compacted_to_nothing(rig: Rig) -> None:
    ledgers = rig.ledgers()
    assert await rig.compact() == "SUCCESS"
    assert rig.bench.topic.compaction.ledger_id == -1
    assert rig.ledgers() == ledgers
    await rig.put((None, b"x"))
    assert await rig.compact() == "SUCCESS"
    assert await rig.seen() == []


async def test_only_one_compaction_at_a_time(rig: Rig) -> None:
    await rig.put(("a", b"1"))
    compaction = rig.bench.topic.compaction
    assert compaction.start()
    assert not compaction.start()
    assert compaction.status == "RUNNING"
    await until(lambda: compaction.status == "SUCCESS")


@pytest.mark.parametrize("error", [LedgerError("lost"), KeyError("unforeseen")])
async def test_a_failed_compaction_is_reported_as_failed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    async def failing(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(topic_compaction, "find_last_values", failing)
    await rig.put(("a", b"1"), ("a", b"2"))
    assert await rig.compact() == "ERROR"
    compaction = rig.bench.topic.compaction
    assert (compaction.succeeded, compaction.failed) == (0, 1)
    assert compaction.error == str(error)
    monkeypatch.undo()
    assert await rig.compact() == "SUCCESS"
    assert await rig.seen() == [("a", b"2")]


async def test_deleting_the_subscription_during_a_compaction_ends_both(rig: Rig) -> None:
    """Keep the entries in the topic: the next compaction begins with the first of them."""
    await rig.put(("a", b"1"), ("a", b"2"))
    await rig.compact()
    await rig.put(("a", b"3"))
    compaction = rig.bench.topic.compaction
    assert compaction.start()
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await rig.bench.topic.subscriptions.delete(CURSOR)
        await until(lambda: compaction.status != "RUNNING")
    assert len(await rig.seen()) in (1, 3)
    assert await rig.compact() == "SUCCESS"
    assert await rig.seen() == [("a", b"3")]
    await rig.bench.registry.deletions.delete(NAME, force=True)
    assert rig.ledgers() == set()


async def test_a_compaction_waits_for_its_turn_among_topics(rig: Rig) -> None:
    await rig.put(("a", b"1"), ("a", b"2"))
    turns, compaction = rig.bench.context.compactions, rig.bench.topic.compaction
    for _ in range(COMPACTIONS_MAX):
        await turns.acquire()
    assert compaction.start()
    await stays(lambda: (compaction.status, compaction.ledger_id) == ("RUNNING", -1), 0.1)
    turns.release()
    await until(lambda: compaction.status == "SUCCESS")


async def test_a_compaction_begins_at_the_threshold_of_the_policy(rig: Rig) -> None:
    bench = rig.bench
    await rig.put(("a", b"1"), ("a", b"2" * 500))
    for threshold, ran in ((0, False), (100_000, False), (500, True)):
        await bench.topic.apply(
            replace(
                TopicPolicies(),
                storage=replace(TopicPolicies().storage, compaction_threshold=threshold),
            ),
            bench.everything.ledger_config(TopicPolicies()),
        )
        await round_of(bench, "compaction")
        assert (bench.topic.compaction.status == "SUCCESS") == ran
    ledger = bench.topic.compaction.ledger_id
    await rig.put(("a", b"3"))
    await round_of(bench, "compaction")
    assert bench.topic.compaction.ledger_id == ledger
    await rig.put(("a", b"4" * 600))
    await round_of(bench, "compaction")
    assert bench.topic.compaction.ledger_id > ledger


async def test_the_compaction_cursor_counts_as_no_backlog_and_does_not_expire(rig: Rig) -> None:
    bench = rig.bench
    await rig.put(("a", b"1"))
    await rig.compact()
    await rig.put(("a", b"2"), ("b", b"1" * 1000))
    quota = BacklogQuota(10, QuotaAction.EVICT)
    put_in_force(
        bench.topic,
        replace(
            bench.topic.policies, backlog=replace(bench.topic.policies.backlog, size_quota=quota)
        ),
    )
    await bench.topic.quotas.check()
    await bench.topic.subscriptions.expire(1 << 60)
    subscription = bench.topic.subscriptions[CURSOR]
    assert (subscription.cursor.backlog_entries(), subscription.counters.expired_ms) == (2, 0)
    assert bench.topic.quotas.oldest is None


async def test_only_the_compaction_moves_its_cursor(rig: Rig) -> None:
    await rig.put(("a", b"1"))
    await rig.compact()
    (place,) = await rig.put(("b", b"1"))
    subscription = rig.bench.topic.subscriptions[CURSOR]
    consumer = await RawConsumer.open(
        await rig.link(), NAME.full, CURSOR, EXCLUSIVE, on_messages=lambda messages: None
    )
    for cumulative in (False, True):
        await consumer.acknowledged([place], cumulative=cumulative)
    for move in (
        subscription.moves.clear(),
        subscription.moves.skip(1),
        subscription.moves.reset(LATEST),
    ):
        with pytest.raises(NotAllowed):
            await move
    assert subscription.cursor.backlog_entries() == 1
    await reloaded(rig)
    assert await rig.seen() == [("a", b"1"), ("b", b"1")]


class Fragile:
    """Store that accepts ``left`` more changes and fails all later ones."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.left = 1 << 30

    def __getattr__(self, name: str) -> object:
        attribute = getattr(self._store, name)
        if name not in ("create", "put", "delete"):
            return attribute

        async def changed(*args: object, **more: object) -> object:
            if self.left <= 0:
                raise StoreUnavailableError("cut off")
            self.left -= 1
            return await attribute(*args, **more)

        return changed


@pytest.mark.parametrize("survived", range(14))
async def test_a_crash_at_any_step_leaves_the_old_or_the_new_ledger_and_no_other(
    survived: int,
) -> None:
    fragile: list[Fragile] = []

    def wrap(store: MetadataStore) -> MetadataStore:
        fragile.append(Fragile(store))
        return fragile[-1]  # type: ignore[return-value]

    async with served(wrap=wrap) as (bench, _, url):
        rig = Rig(bench, url)
        await rig.put(("a", b"1"), ("b", b"1"))
        await rig.compact()
        await rig.put(("a", b"2"), ("b", b""))
        fragile[0].left = survived
        bench.topic.compaction.start()
        await until(lambda: fragile[0].left <= 0 or bench.topic.compaction.status != "RUNNING")
        # The steps after the last change are part of the crash.
        await asyncio.sleep(0.05)
        bench.topic.log.abandon()
        fragile[0].left = 1 << 30
        await reloaded(rig, killed=True)
        assert await rig.seen() in (
            [("a", b"2")],
            [("a", b"1"), ("b", b"1"), ("a", b"2"), ("b", b"")],
        )
        cursor = bench.topic.log.cursors[CURSOR]
        stats = bench.topic.log.stats()
        known = {ledger.ledger_id for ledger in stats.ledgers} | {stats.current_ledger_id}
        known |= {cursor.stats().cursor_ledger_id, cursor.properties[COMPACTED_LEDGER]}
        # A ledger that was created and not yet named is empty, and the only one that may remain.
        left = list(rig.ledgers() - known)
        assert len(left) <= 1
        for ledger_id in left:
            assert (await bench.topic.log.open_ledger(ledger_id)).last_confirmed == -1
        await rig.put(("c", b"1"))
        await rig.compact()
        assert await rig.seen() == [("a", b"2"), ("c", b"1")]
        rig.close()
