"""Deduplication: a resent message is stored once, over retries, connections, failures, restarts and policy changes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.clock import LoopClock
from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.errors import ServiceNotReady
from engine.broker.policies import (
    DeduplicationPolicies,
    TopicPolicies,
)
from engine.broker.topics import deduplication
from engine.broker.topics.deduplication import CURSOR
from engine.broker.topics.publish import Producer, Publish
from engine.broker.topics.recovered import RecoveredEntries
from engine.ledger.cluster.channel import BookieChannel
from engine.managed.errors import ManagedLedgerError
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.writing.appends import AppendSink
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.wire import client_commands
from engine.wire.batches import read_metadata
from engine.wire.bookie_kernels import take_add_replies
from engine.wire.errors import ServerError
from engine.wire.kernels import following, head_sequences, take_sends
from tests.support.broker_bench import NAME, Bench, Client, commands_in, opened, until
from tests.support.ledger_cluster import PATIENT
from tests.support.raw_client import entry_of

ON = TopicPolicies(deduplication=DeduplicationPolicies(enabled=True))
DUPLICATE = None


class Sender(Client):
    """A connection with one producer. ``outcomes``: sequence id and entry id of each receipt, None for a duplicate."""

    def __init__(self, bench: Bench, name: str) -> None:
        super().__init__()
        self.outcomes: list[tuple[int, int | None]] = []
        self.bench = bench
        self.producer = Producer(self, 1, name, bench.topic, now_ms=0)

    def send(self, data: bytes) -> None:
        for command in commands_in(data):
            if command.HasField("send_receipt"):
                place = command.send_receipt.message_id
                stored = place.ledgerId < 1 << 63
                self.outcomes.append(
                    (command.send_receipt.sequence_id, place.entryId if stored else DUPLICATE)
                )
        super().send(data)

    async def join(self) -> "Sender":
        await self.bench.topic.deduplication.ready()
        await self.bench.topic.publishers.admit(self.producer)
        return self

    def sends(self, *ids: int | tuple[int, int], chunk: tuple[int, int] | None = None) -> None:
        """Send messages by sequence id, batches by their first and last id, in one burst.

        ``chunk``: the number of the chunk and the number of chunks.
        """
        data = b""
        for sequence in ids:
            first, last = sequence if isinstance(sequence, tuple) else (sequence, None)
            metadata: dict[str, Any] = {
                "producer_name": self.producer.name,
                "sequence_id": first,
                "highest_sequence_id": last,
            }
            if chunk is not None:
                metadata |= {"uuid": "u", "chunk_id": chunk[0], "num_chunks_from_msg": chunk[1]}
            entry = entry_of(b"%d" % first, **{k: v for k, v in metadata.items() if v is not None})
            data += client_commands.send(1, first, entry, highest_sequence_id=last)
        _, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        Publish(run, self.producer, None, chunk is not None).start()

    async def answered(self, count: int) -> list[tuple[int, int | None]]:
        await until(lambda: len(self.outcomes) >= count)
        return self.outcomes


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        made.everything.in_force = ON
        await made.registry.unload(NAME)
        await made.load()
        yield made


async def stored(bench: Bench) -> list[tuple[str, int]]:
    """Return the producer name and the sequence id of every entry."""
    ledger = bench.topic.log
    entries = []
    position = ledger.next_position(Position(-1, -1))
    while position <= ledger.last_confirmed:
        metadata = read_metadata((await ledger.read_entry(position)).entry(0))
        assert metadata is not None
        entries.append((metadata.producer_name, metadata.sequence_id))
        position = ledger.next_position(position)
    return entries


async def test_resent_messages_are_confirmed_and_not_stored_again(bench: Bench) -> None:
    sender = await Sender(bench, "a").join()
    assert bench.topic.deduplication.status == "Enabled"
    sender.sends(0, 1, 2)
    assert await sender.answered(3) == [(0, 0), (1, 1), (2, 2)]
    sender.sends(1, 2, 3, 4)
    assert (await sender.answered(7))[3:] == [(1, DUPLICATE), (2, DUPLICATE), (3, 3), (4, 4)]
    sender.sends(9, 5)  # ids may leave gaps; an id within a gap counts as a duplicate
    assert (await sender.answered(9))[7:] == [(9, 5), (5, DUPLICATE)]
    assert await stored(bench) == [("a", i) for i in (0, 1, 2, 3, 4, 9)]
    assert bench.topic.last_sequence("a") == 9
    assert sender.producer.pending == 0
    assert sender.publish_budget.bytes == 0


async def test_a_resend_waits_for_the_outcome_of_the_first_send(bench: Bench) -> None:
    old = await Sender(bench, "a").join()
    old.sends(0, 1, 2, 3)
    old.producer.leave()  # its connection is closed, its entries are still under way
    new = await Sender(bench, "a").join()
    new.sends(2, 3, 4)
    new.sends(5)
    new.sends(5, 6)
    assert (old.outcomes, new.outcomes) == ([], [])
    assert await new.answered(6) == [
        (2, DUPLICATE),
        (3, DUPLICATE),
        (4, 4),
        (5, 5),
        (5, DUPLICATE),
        (6, 6),
    ]
    assert await stored(bench) == [("a", i) for i in range(7)]


async def test_a_resend_of_a_failed_message_is_no_duplicate(bench: Bench) -> None:
    sender = await Sender(bench, "a").join()
    sender.sends(0)
    await sender.answered(1)
    bookie = bench.cluster.bookies["b0"]
    bookie.mode.set(True, "for a test")
    sender.sends(1, 2)
    sender.sends(1)
    await until(lambda: sender.dropped)
    await until(lambda: not sender.producer.pending)
    assert bench.topic.last_sequence("a") == 0
    bookie.mode.set(False, "for a test")
    again = Sender(bench, "a")
    async with asyncio.timeout(60):
        while True:
            try:
                await again.join()
                break
            except Exception:  # not writable yet
                await asyncio.sleep(0.05)
    again.sends(1, 2)
    await again.answered(2)
    assert sorted(set(await stored(bench))) == [("a", 0), ("a", 1), ("a", 2)]
    assert len(await stored(bench)) == 3


@pytest.mark.parametrize("interval", [1, 3, 1000])
async def test_sequence_ids_are_known_after_a_crash(bench: Bench, interval: int) -> None:
    settings = replace(bench.context.settings, deduplication_entries_interval=interval)
    bench.topic.context = replace(bench.context, settings=settings)
    first, second = await Sender(bench, "a").join(), await Sender(bench, "b").join()
    first.sends(*range(7))
    second.sends((0, 4), 7)
    await first.answered(7)
    await second.answered(2)
    if interval < 1000:
        cursor = bench.topic.log.cursors[CURSOR]
        await cursor.persisted()
        assert cursor.properties
    await bench.kill()
    await bench.load()
    first = await Sender(bench, "a").join()
    assert [bench.topic.last_sequence(name) for name in ("a", "b", "c")] == [6, 7, -1]
    first.sends(5, 6, 7)
    assert await first.answered(3) == [(5, DUPLICATE), (6, DUPLICATE), (7, first.outcomes[2][1])]
    assert first.outcomes[2][1] is not DUPLICATE


async def test_a_cleanly_closed_topic_is_loaded_without_reading_entries(bench: Bench) -> None:
    sender = await Sender(bench, "a").join()
    sender.sends(*range(5))
    await sender.answered(5)
    await bench.registry.unload(NAME)
    topic = await bench.load()
    cursor = topic.log.cursors[CURSOR]
    assert (cursor.properties, cursor.backlog_entries()) == ({"a": 4}, 0)


async def test_a_batch_is_compared_by_its_highest_sequence_id(bench: Bench) -> None:
    sender = await Sender(bench, "a").join()
    sender.sends((0, 9), (10, 19))
    assert [sequence_id for sequence_id, _ in await sender.answered(2)] == [0, 10]
    sender.sends((10, 19), (20, 29))
    assert (await sender.answered(4))[2:] == [(10, DUPLICATE), (20, 2)]
    sender.sends((25, 34), 30)
    await until(lambda: sender.errors)
    [(sequence, code, text)] = sender.errors
    assert (sequence, code) == (34, ServerError.NotAllowedError)
    assert "25 to 34 holds messages that are stored, up to 29" in text
    assert (await sender.answered(5))[4:] == [(30, 3)]


async def test_chunks_of_a_message_share_a_sequence_id(bench: Bench) -> None:
    sender = await Sender(bench, "a").join()
    for i in range(3):
        sender.sends(4, chunk=(i, 3))
        await sender.answered(i + 1)
    assert sender.outcomes == [(4, 0), (4, 1), (4, 2)]
    sender.sends(4, chunk=(0, 3))
    sender.sends(4, chunk=(2, 3))
    assert (await sender.answered(5))[3:] == [(4, DUPLICATE), (4, DUPLICATE)]
    sender.sends(5, chunk=(0, 2))
    await sender.answered(6)
    await bench.kill()
    await bench.load()
    sender = await Sender(bench, "a").join()
    assert bench.topic.last_sequence("a") == 4
    for i in range(2):
        sender.sends(5, chunk=(i, 2))
    assert DUPLICATE not in [entry for _, entry in await sender.answered(2)]


async def test_sequence_ids_of_producers_in_one_burst_are_independent(bench: Bench) -> None:
    sender = await Sender(bench, "a").join()
    other = Producer(sender, 2, "b", bench.topic, now_ms=0)
    await bench.topic.publishers.admit(other)

    def burst(*sends: tuple[int, int]) -> None:
        data = b"".join(client_commands.send(i, n, entry_of(b"x")) for i, n in sends)
        _, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        owners = [sender.producer if i == 1 else other for i, _ in sends]
        Publish(run, owners[0], owners).start()

    burst((1, 0), (2, 5), (1, 1), (2, 6))
    await sender.answered(4)
    burst((2, 6), (1, 1), (1, 2), (2, 7))
    await sender.answered(8)
    assert sorted(seq for seq, entry in sender.outcomes[4:] if entry is DUPLICATE) == [1, 6]
    assert bench.topic.log.last_confirmed.entry_id == 5
    assert [bench.topic.last_sequence(name) for name in "ab"] == [2, 7]


class Late:
    """Answers of bookies that are held back. ``count``: number of entries that they answer."""

    def __init__(self) -> None:
        self.kept: list[tuple[BookieChannel, bytes]] = []

    @property
    def count(self) -> int:
        replies = [take_add_replies(data, 0, len(data)) for _, data in self.kept]
        return sum(count for _, _, runs in replies for _, _, _, count in runs)


class SilentStore:
    """A metadata store that does not answer while ``silent``."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.silent = False

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)
        if name not in ("get", "put", "create", "delete", "exists", "children", "get_all"):
            return real

        async def call(*args: Any, **more: Any) -> Any:
            if self.silent:
                raise StoreUnavailableError(f"{name}: no answer")
            return await real(*args, **more)

        return call


@contextmanager
def late_answers(patch: pytest.MonkeyPatch) -> Iterator[Late]:
    """Hold the answers of bookies back until the context ends."""
    late, received = Late(), BookieChannel.received

    def keep(self: BookieChannel, buf: bytes, pos: int, end: int) -> int:
        late.kept.append((self, buf[pos:end]))
        return end

    with patch.context() as inner:
        inner.setattr(BookieChannel, "received", keep)
        yield late
    for channel, data in late.kept:
        received(channel, data, 0, len(data))


async def apply(bench: Bench, on: bool, status: str) -> None:
    policies = TopicPolicies(deduplication=DeduplicationPolicies(enabled=on))
    await bench.topic.apply(policies, bench.everything.ledger_config(policies))
    await until(lambda: bench.topic.deduplication.status == status)


async def test_a_run_of_many_producers_is_appended_as_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = await Sender(bench, "p0").join()
    producers = [
        sender.producer,
        *(Producer(sender, i, f"p{i}", bench.topic, now_ms=0) for i in (2, 3)),
    ]
    for other in producers[1:]:
        await bench.topic.publishers.admit(other)
    appended: list[int] = []
    append = ManagedLedger.append

    def counted(log: ManagedLedger, run: Slice, sink: AppendSink) -> None:
        appended.append(run.count)
        append(log, run, sink)

    monkeypatch.setattr(ManagedLedger, "append", counted)

    def burst(*ids: int) -> None:
        sends = [(producer, n) for n in ids for producer in producers]
        data = b"".join(
            client_commands.send(
                producer.producer_id, n, entry_of(b"x", producer_name=producer.name)
            )
            for producer, n in sends
        )
        _, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        Publish(run, producers[0], [producer for producer, _ in sends]).start()

    burst(4, 5)
    await sender.answered(6)
    assert appended == [6]
    burst(6, 5)  # 5 is checked after 6 is known to be stored
    burst(7, 8)
    await sender.answered(6 + 6 + 6)
    assert [seq for seq, entry in sender.outcomes if entry is DUPLICATE] == [5] * 3
    assert sum(appended) == 6 + 3 + 6
    assert [bench.topic.last_sequence(producer.name) for producer in producers] == [8] * 3


async def test_the_policy_takes_effect_at_once(bench: Bench) -> None:
    sender = await Sender(bench, "a").join()
    sender.sends(0)
    await sender.answered(1)
    sender.sends(1)
    sender.sends(1)  # waits until deduplication is disabled, and is stored then
    await apply(bench, False, "Disabled")
    assert CURSOR not in bench.topic.log.cursors
    sender.sends(0)
    assert DUPLICATE not in [entry for _, entry in await sender.answered(4)]
    await apply(bench, True, "Enabled")
    sender.sends(2, 2)
    assert DUPLICATE in [entry for _, entry in (await sender.answered(6))[4:]]


async def test_a_change_of_the_policy_while_entries_are_under_way_leaves_no_resend_waiting(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sender = await Sender(bench, "a").join()
    with late_answers(monkeypatch) as answers:
        sender.sends(0, 1, 2)
        await until(lambda: answers.count == 3)
        await apply(bench, False, "Disabled")
        policies = TopicPolicies(deduplication=DeduplicationPolicies(enabled=True))
        await bench.topic.apply(policies, bench.everything.ledger_config(policies))
        await until(lambda: bench.topic.stages)
        sender.sends(3)
    await sender.answered(4)
    await until(lambda: bench.topic.deduplication.status == "Enabled", 10)
    sender.sends(3)
    assert (await sender.answered(5))[4] == (3, DUPLICATE)
    assert [sequence for _, sequence in await stored(bench)] == [0, 1, 2, 3]


async def test_a_producer_waits_for_entries_under_way_when_deduplication_is_enabled(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await apply(bench, False, "Disabled")
    first = await Sender(bench, "a").join()
    with late_answers(monkeypatch) as answers:
        first.sends(0, 1)
        await until(lambda: answers.count == 2)
        await bench.topic.apply(ON, bench.everything.ledger_config(ON))
        first.producer.leave()
        again = asyncio.ensure_future(Sender(bench, "a").join())
        await until(lambda: CURSOR in bench.topic.log.cursors)
        await asyncio.sleep(0)
        assert not again.done()
    second = await again
    second.sends(0, 1, 2)
    assert [entry for _, entry in await second.answered(3)] == [DUPLICATE, DUPLICATE, 2]


async def test_sequence_ids_of_entries_that_a_recovery_adds_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stores: list[SilentStore] = []

    def wrap(store: MetadataStore) -> MetadataStore:
        stores.append(SilentStore(store))
        return stores[-1]  # type: ignore[return-value]

    # The close of the failed ledger has to end in a time-out while its metadata cannot be written.
    hasty = replace(PATIENT, metadata_timeout_s=0.05)
    async with opened(ledgers=hasty, wrap=wrap) as bench:
        topic, store = bench.topic, stores[0]
        bench.everything.in_force = ON
        await apply(bench, True, "Enabled")
        first = await Sender(bench, "a").join()
        first.sends(0, 1, 2)
        await first.answered(3)
        with late_answers(monkeypatch) as answers:
            store.silent = True  # so the ledger cannot be closed at its last confirmed entry
            first.sends(3, 4)
            await until(lambda: answers.count == 2)
            channels = {channel for channel, _ in answers.kept}
            answers.kept.clear()
        for channel in channels:
            channel.take_down("the link broke")
        await until(lambda: first.producer.closed)
        second, third = Sender(bench, "a"), Sender(bench, "a")
        second.sends(3, 4)  # while there is no ledger
        await until(lambda: second.errors)
        assert [code for _, code, _ in second.errors] == [ServerError.PersistenceError] * 2
        store.silent = False
        await topic.recovered.settled(lambda error: None)
        third.sends(3, 4, 5)
        assert [entry for _, entry in await third.answered(3)][:2] == [DUPLICATE, DUPLICATE]
        assert [sequence for _, sequence in await stored(bench)] == [0, 1, 2, 3, 4, 5]
        assert topic.published.messages.total == 8, "with the two that were sent again"
        assert topic.log.stats().entries == topic.log.stats().entries_added == 6
        assert third.publish_budget.bytes == second.publish_budget.bytes == 0
        await bench.registry.unload(NAME)
        await bench.load()
        await bench.topic.deduplication.ready()
        assert bench.topic.last_sequence("a") == 5


async def test_sends_that_wait_for_a_recovery_free_their_budget_when_the_topic_closes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    forever = asyncio.Event()

    async def settled(*args: object) -> None:
        await forever.wait()

    first = await Sender(bench, "a").join()
    monkeypatch.setattr(RecoveredEntries, "settled", settled)
    with late_answers(monkeypatch) as answers:
        first.sends(0)
        await until(lambda: answers.count == 1)
        channels = {channel for channel, _ in answers.kept}
        answers.kept.clear()
    for channel in channels:
        channel.take_down("the link broke")
    await until(lambda: first.producer.closed)
    monkeypatch.setattr("engine.broker.topics.deduplication.READY_WAIT_S", 0.01)
    with pytest.raises(ServiceNotReady, match="whose append failed"):
        await Sender(bench, "a").join()
    second = Sender(bench, "b")
    second.sends(0, 1)
    assert second.publish_budget.items == 2
    await bench.registry.unload(NAME)
    assert (second.publish_budget.items, second.producer.pending, second.outcomes) == (0, 0, [])


async def test_a_topic_loaded_without_deduplication_deletes_its_cursor(bench: Bench) -> None:
    await Sender(bench, "a").join()
    await bench.registry.unload(NAME)
    bench.everything.in_force = TopicPolicies()
    topic = await bench.load()
    await until(lambda: CURSOR not in topic.log.cursors)
    assert topic.stages == ()


async def test_producers_are_refused_until_the_stored_sequence_ids_are_known(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.broker.topics.deduplication.READY_WAIT_S", 0.05)
    sender = await Sender(bench, "a").join()
    sender.sends(0)
    await sender.answered(1)
    await apply(bench, False, "Disabled")

    async def silent(*args: object, **more: object) -> object:
        raise ManagedLedgerError("silent")

    with monkeypatch.context() as patch:
        patch.setattr(ManagedLedger, "open_cursor", silent)
        await apply(bench, True, "Failed")
        with pytest.raises(ServiceNotReady, match=r"is not known yet\. silent"):
            await Sender(bench, "b").join()
    await until(lambda: bench.topic.deduplication.status == "Enabled")
    await Sender(bench, "b").join()


async def test_producer_names_are_forgotten_when_unused_for_long_or_too_many(
    bench: Bench,
) -> None:
    senders = [await Sender(bench, f"p{i}").join() for i in range(6)]
    for sender in senders:
        sender.sends(3)
        await sender.answered(1)
    state = bench.topic.deduplication
    for sender in senders[:4]:
        sender.producer.leave()
    settings = replace(bench.context.settings, deduplication_max_number_of_producers=5)
    bench.topic.context = replace(bench.context, settings=settings)
    state.check()
    assert [bench.topic.last_sequence(f"p{i}") for i in range(6)] == [-1, 3, 3, 3, 3, 3]
    settings = replace(settings, deduplication_producer_inactivity_timeout_minutes=0)
    bench.topic.context = replace(bench.context, settings=settings)
    state.check()
    assert [bench.topic.last_sequence(f"p{i}") for i in range(6)] == [-1, -1, -1, -1, 3, 3]


async def test_a_topic_with_more_names_than_a_node_can_hold_loads_again(bench: Bench) -> None:
    senders = [await Sender(bench, f"{i:04}" + "n" * 950).join() for i in range(1150)]
    for sender in senders:
        sender.sends(7)
    for sender in senders:
        await sender.answered(1)
    names = [sender.producer.name for sender in senders]
    for _ in range(2):  # from a cursor ledger, and from one whose node the first load wrote
        await bench.registry.unload(NAME)
        topic = await bench.load()
        assert {topic.last_sequence(name) for name in names} == {7}


async def test_a_snapshot_holds_the_names_in_use_before_others_up_to_its_bytes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduplication, "SNAPSHOT_BYTES_MAX", 4 * (200 + deduplication.NAME_BYTES))
    senders = [await Sender(bench, f"{i}" * 200).join() for i in range(6)]
    names = [sender.producer.name for sender in senders]
    for sender in senders:
        sender.sends(3)
        await sender.answered(1)
    for i in (0, 2, 1, 3):
        senders[i].producer.leave()
        bench.topic.deduplication.check() if i != 3 else None
    bench.topic.deduplication.take_snapshot()
    assert bench.topic.log.cursors[CURSOR].properties.keys() == {names[i] for i in (1, 3, 4, 5)}
    bench.topic.deduplication.check()
    known = [i for i in range(6) if bench.topic.last_sequence(names[i]) == 3]
    assert known == [1, 3, 4, 5]


async def test_a_producer_named_as_a_property_of_the_broker_deletes_no_ledger_and_is_remembered(
    bench: Bench,
) -> None:
    """Keep such names apart: the state is in the cursor's properties, where the broker also names ledgers to delete."""
    await bench.topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    (victim,) = (ledger.ledger_id for ledger in bench.topic.log.stats().ledgers)
    names = (f"magnetar.doomed-ledger.{victim}", "CompactedTopicLedger", "#magnetar.dedup:x")
    for name in names:
        sender = await Sender(bench, name).join()
        sender.sends(victim)
        await sender.answered(1)
    await bench.registry.unload(NAME)  # writes the state beside the broker's own properties
    topic = await bench.load()
    assert [topic.last_sequence(name) for name in names] == [victim] * 3
    assert len(await stored(bench)) == 3
    await apply(bench, False, "Disabled")  # deletes the cursor and the ledgers that it names
    await bench.registry.unload(NAME)
    await bench.load()
    assert len(await stored(bench)) == 3


class ClockAhead:
    """A clock whose time of day was set forward by a week."""

    def wall_ms(self) -> int:
        return LoopClock().wall_ms() + 7 * 86_400_000

    def monotonic_s(self) -> float:
        return LoopClock().monotonic_s()


async def test_no_producer_name_is_forgotten_when_the_clock_is_set_forward(bench: Bench) -> None:
    sender = await Sender(bench, "a").join()
    sender.sends(3)
    await sender.answered(1)
    sender.producer.leave()
    bench.topic.deduplication.check()
    bench.topic.context = replace(bench.context, clock=ClockAhead())
    bench.topic.deduplication.check()
    assert bench.topic.last_sequence("a") == 3


async def test_a_snapshot_with_room_for_few_names_has_those_that_published_last(
    bench: Bench,
) -> None:
    settings = replace(bench.context.settings, deduplication_max_number_of_producers=2)
    bench.topic.context = replace(bench.context, settings=settings)
    senders = [await Sender(bench, f"p{i}").join() for i in range(3)]
    for count, sender in enumerate([*senders, senders[0]]):
        sender.sends(count)
        await sender.answered(1 if count < 3 else 2)
    await bench.registry.unload(NAME)
    topic = await bench.load()
    await topic.deduplication.ready()
    assert [topic.last_sequence(f"p{i}") for i in range(3)] == [3, -1, 2]


@given(
    st.lists(st.integers(0, 400), min_size=1, max_size=8),
    st.integers(0, 1 << 40),
    st.integers(1, 300),
)
def test_following_returns_the_bounds_of_consecutive_sequence_ids(
    breaks: list[int], first: int, count: int
) -> None:
    ids = [first + i for i in range(count)]
    for place in breaks:
        if place % 3 == 0 and place < count:
            ids[place] += place % 5 - 2
    data = b"".join(client_commands.send(7, max(i, 0), entry_of(b"")) for i in ids)
    _, _, run = take_sends(data, 0, len(data), 1 << 20)
    assert run is not None
    bounds = following(run.heads)
    sequences = [sequence for sequence, _ in head_sequences(run.heads)]
    plain = sequences == list(range(sequences[0], sequences[0] + count))
    assert bounds == ((sequences[0], sequences[-1]) if plain else None)


async def test_entries_with_impossible_producer_names_or_ids_are_not_remembered(
    bench: Bench,
) -> None:
    sender = await Sender(bench, "a").join()
    for number, odd in enumerate(
        ({"producer_name": "n" * 2000}, {"producer_name": "b", "sequence_id": 2**64 - 1})
    ):
        entry = entry_of(b"v", **{"sequence_id": number, **odd})
        data = client_commands.send(1, number, entry)
        _, _, run = take_sends(data, 0, len(data), 1 << 20)
        assert run is not None
        Publish(run, sender.producer).start()
    await sender.answered(2)
    await bench.kill()
    topic = await bench.load()
    await topic.deduplication.ready()
    assert topic.last_sequence("n" * 2000) == topic.last_sequence("b") == -1
    await bench.registry.unload(NAME)
    assert (await bench.load()).log.stats().entries == 2
