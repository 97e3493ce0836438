"""Interrupted deletions: the topic is whole or gone, the next owner finishes them, and no ledger is left behind."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial

import pytest

from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.ledger.errors import LedgerError
from engine.ledger.settings import LedgerSettings
from engine.managed.errors import (
    CursorNotFoundError,
    ManagedLedgerError,
    ManagedLedgerNotFoundError,
)
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from engine.managed.stored.records import CursorRecord, CursorState, LogRecord
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.wire import mledger_pb2 as pb
from tests.support.ledger_cluster import PATIENT, run_of
from tests.support.managed_cluster import LAZY, NAME, ONE, Brokers, Sink, publish, rolling
from tests.support.stores.failing import FailingStore

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
QUICK = ManagedSettings(
    retry_initial_s=0.001, retry_max_s=0.002, metadata_attempts_max=2, cursor_persist_interval_s=60
)
ROLLING = ManagedSettings(
    retry_initial_s=0.001,
    retry_max_s=0.002,
    metadata_attempts_max=2,
    cursor_persist_interval_s=60,
    cursor_ledger_entries_max=1,
)
FOR_EVER = 1_000_000
LOST = pytest.mark.parametrize("lost_answer", [False, True])


class Broker:
    """A factory whose metadata store can be made to fail, and what a topic of it needs."""

    def __init__(
        self,
        brokers: Brokers,
        settings: ManagedSettings = QUICK,
        ledgers: LedgerSettings = PATIENT,
    ) -> None:
        self.store: FailingStore
        self.factory = brokers.broker(settings, ledgers, wrap=self._wrap)

    def _wrap(self, store: MetadataStore) -> MetadataStore:
        self.store = FailingStore(store)
        return self.store


def deletion_of_a_ledger(operation: str, path: str) -> bool:
    return operation == "delete" and path.startswith(f"{paths.LEDGERS}/00")


def listing(operation: str, path: str) -> bool:
    """Return whether the call lists a topic's cursors: the first step after the mark of its deletion."""
    return operation == "children"


async def filled(factory: ManagedLedgerFactory) -> None:
    """Publish six entries in three ledgers, unread by "a", half acknowledged by "b" (in a ledger of its own)."""
    ledger = await factory.open(NAME, rolling(2))
    await ledger.open_cursor("a", FIRST)
    cursor = await ledger.open_cursor("b", FIRST)
    sink = await publish(ledger, 0, 6)
    for position in sink.positions[:3]:
        cursor.acknowledge([Position(*position)])
        await cursor.persisted()
    assert cursor.stats().cursor_ledger_id >= 0


async def cut_off(broker: Broker, work: Callable[[], Awaitable[None]], k: int, lost: bool) -> bool:
    """Return whether ``work`` was cut off at its ``k``-th call of the store, for good; False when it has fewer."""
    broker.store.fail_at(k, lost_answer=lost, calls=FOR_EVER)
    try:
        await work()
    except (WorldError, LedgerError):
        return True
    finally:
        broker.store.heal()
    return False


@LOST
@pytest.mark.parametrize("then_open", [False, True])
async def test_m17_a_topics_interrupted_deletion_is_finished(
    brokers: Brokers, lost_answer: bool, then_open: bool
) -> None:
    # A close of the topic's ledger whose every metadata call fails ends in a time-out.
    ledgers = replace(PATIENT, metadata_timeout_s=1.0)
    for k in range(1, 50):
        broker = Broker(brokers, ledgers=ledgers)
        await filled(broker.factory)
        failed = await cut_off(broker, partial(broker.factory.delete, NAME), k, lost_answer)
        brokers.crash(broker.factory)
        if then_open:
            factory = brokers.broker(QUICK)
            ledger = await factory.open(NAME, rolling(2))
            if ledger.cursors:
                assert [cursor.backlog_entries() for cursor in ledger.cursors.values()] == [6, 3]
                assert ledger.stats().entries == 6
            else:
                assert ledger.stats().entries == 0
            await ledger.trim()
            kept = [span.ledger_id for span in ledger.stats().ledgers]
            assert set(brokers.ledgers()) <= {*kept, *_cursor_ledgers(brokers)}
            await factory.delete(NAME)
        else:
            try:
                await broker.factory.delete(NAME)
            except ManagedLedgerNotFoundError:
                assert lost_answer or not failed
        assert brokers.ledgers() == []
        assert not await brokers.cluster.store.exists(paths.managed_ledger(NAME))
        if not failed:
            assert k > 8
            return
    raise AssertionError("it has no end")


@LOST
async def test_m17_an_interrupted_deletion_of_a_topic_that_is_not_open_is_finished(
    brokers: Brokers, lost_answer: bool
) -> None:
    for k in range(1, 50):
        broker = Broker(brokers, ledgers=replace(PATIENT, metadata_timeout_s=1.0))
        await filled(broker.factory)
        brokers.crash(broker.factory)
        work = partial(at_rest, broker.factory)
        failed = await cut_off(broker, work, k, lost_answer)
        try:
            await work()
        except ManagedLedgerNotFoundError:
            assert lost_answer or not failed
        assert brokers.ledgers() == []
        assert not await brokers.cluster.store.exists(paths.managed_ledger(NAME))
        if not failed:
            return
    raise AssertionError("it has no end")


async def at_rest(factory: ManagedLedgerFactory) -> None:
    """Delete a topic that is not open, as its broker does."""

    async def inspect(record: LogRecord, cursors: Sequence[str]) -> None:
        assert sum(span.entries for span in record.ledgers) == 6
        assert len(cursors) <= 2

    await (await factory.begin_deletion(NAME, inspect=inspect)).finish()


async def test_i39_a_deletion_by_the_next_owner_fences_the_previous_writer(
    brokers: Brokers,
) -> None:
    old = await brokers.broker().open(NAME, ONE)
    await publish(old, 0, 6)
    await at_rest(brokers.broker())
    sink = Sink()
    old.append(run_of(b"late"), sink)
    await sink.settle(1)
    assert not sink.payloads, "an entry of a deleted topic was confirmed"


async def test_an_empty_topic_is_deleted_by_one_write(brokers: Brokers) -> None:
    broker = Broker(brokers)
    await brokers.cluster.store.create(paths.managed_ledger(NAME), make_parents=True)
    broker.store.heal()
    await broker.factory.delete(NAME)
    assert [operation for operation, _ in broker.store.log] == ["get_all", "delete"]


async def test_a_cursor_created_late_is_deleted_with_its_topic(brokers: Brokers) -> None:
    broker = Broker(brokers)
    await broker.factory.open(NAME, ONE)
    deletion = await broker.factory.begin_deletion(NAME)
    record = CursorRecord(-1, CursorState(Position(0, -1)))
    await brokers.cluster.store.create(f"{paths.managed_ledger(NAME)}/late", record.encode())
    await deletion.finish()
    assert not await brokers.cluster.store.exists(paths.managed_ledger(NAME))


async def test_no_change_takes_the_mark_of_a_deletion_back(brokers: Brokers) -> None:
    """Change properties and terminate while the mark is being written: both wait for it."""
    broker = Broker(brokers)
    ledger = await broker.factory.open(NAME, ONE)
    await publish(ledger, 0, 1)
    deleting = asyncio.ensure_future(broker.factory.begin_deletion(NAME))
    changes = [ledger.update_properties({"k": "v"}), ledger.terminate()]
    outcomes = await asyncio.gather(*changes, return_exceptions=True)
    assert all(isinstance(outcome, ManagedLedgerError) for outcome in outcomes), outcomes
    stored, _ = await brokers.cluster.store.get(paths.managed_ledger(NAME))
    assert LogRecord.decode(stored).deleted
    await (await deleting).finish()
    assert brokers.ledgers() == []


def _cursor_ledgers(brokers: Brokers) -> list[int]:
    tree = brokers.cluster.server.tree
    top = paths.managed_ledger(NAME)
    records = [CursorRecord.decode(tree.get(f"{top}/{name}")[0]) for name in tree.children(top)]
    return [record.ledger_id for record in records]


@LOST
@pytest.mark.parametrize("killed", [False, True])
async def test_m17_a_cursors_interrupted_deletion_is_finished(
    brokers: Brokers, lost_answer: bool, killed: bool
) -> None:
    for k in range(1, 50):
        broker = Broker(brokers)
        await filled(broker.factory)
        ledger = broker.factory.opened[NAME]
        failed = await cut_off(broker, partial(ledger.delete_cursor, "b"), k, lost_answer)
        assert ("b" in ledger.unread_cursors) == failed
        if killed:
            brokers.crash(broker.factory)
            ledger = await brokers.broker(QUICK).open(NAME, rolling(2))
        try:
            if killed and "b" in ledger.cursors:
                assert ledger.cursors["b"].backlog_entries() == 3
            await ledger.delete_cursor("b")
        except CursorNotFoundError:
            assert killed or not failed
        assert "b" not in ledger.unread_cursors
        await ledger.trim()
        ledgers = [span.ledger_id for span in ledger.stats().ledgers]
        assert brokers.ledgers() == ledgers
        await ledger.close()
        await brokers.broker(QUICK).delete(NAME)
        if not failed:
            assert k > 3
            return
    raise AssertionError("it has no end")


@pytest.mark.parametrize("clean", [False, True])
async def test_m17_a_cursors_old_ledgers_are_deleted_by_the_next_owner(
    brokers: Brokers, clean: bool
) -> None:
    broker = Broker(brokers, ROLLING)
    ledger = await broker.factory.open(NAME, rolling(100))
    cursor = await ledger.open_cursor("s", FIRST)
    sink = await publish(ledger, 0, 6)
    broker.store.counted = deletion_of_a_ledger
    broker.store.fail_at(1, calls=FOR_EVER)
    for position in sink.positions[:4]:
        cursor.acknowledge([Position(*position)])
        await cursor.persisted()
    assert len(brokers.ledgers()) == 5, (
        "each write has a ledger of its own, and none can be deleted"
    )
    if clean:
        await ledger.close()
    else:
        brokers.crash(broker.factory)
    again = await brokers.broker(QUICK).open(NAME, rolling(100))
    assert again.cursors["s"].backlog_entries() == 2
    await again.trim()
    assert brokers.ledgers() == [span.ledger_id for span in again.stats().ledgers]


async def test_m17_trimmed_ledgers_are_deleted_by_the_next_owner(brokers: Brokers) -> None:
    broker = Broker(brokers)
    ledger = await broker.factory.open(NAME, rolling(2))
    cursor = await ledger.open_cursor("s", FIRST)
    await publish(ledger, 0, 7)
    before = brokers.ledgers()
    broker.store.counted = deletion_of_a_ledger
    broker.store.fail_at(1, calls=FOR_EVER)
    await cursor.clear()
    await ledger.trim()
    assert len(ledger.stats().ledgers) == 1
    assert set(before) <= set(brokers.ledgers())
    brokers.crash(broker.factory)
    again = await brokers.broker(LAZY).open(NAME, rolling(2))
    await again.close()
    assert not set(before[:-1]) & set(brokers.ledgers())


async def test_a_topic_that_another_broker_opened_during_its_deletion_is_not_deleted(
    brokers: Brokers,
) -> None:
    """Open a topic after a broker that does not know our marks kept them and wrote its first ledger into the list."""
    broker = Broker(brokers)
    await filled(broker.factory)
    broker.store.counted = listing
    assert await cut_off(broker, partial(broker.factory.delete, NAME), 1, False)
    path = paths.managed_ledger(NAME)
    store = brokers.cluster.store
    marked = LogRecord.decode((await store.get(path))[0])
    assert marked.deleted
    made = await brokers.broker(LAZY)._ledgers.create(1, 1, 1)
    info = _with_ledger(marked, made.ledger_id)
    await store.put(path, info)
    ledger = await brokers.broker(QUICK).open(NAME, rolling(2))
    assert sorted(ledger.cursors) == ["a", "b"]
    await ledger.trim()
    assert not set(marked.doomed) & set(brokers.ledgers())


def _with_ledger(marked: LogRecord, ledger_id: int) -> bytes:
    info = pb.ManagedLedgerInfo.FromString(marked.encode())
    info.ledgerInfo.add(ledgerId=ledger_id)
    return info.SerializeToString()


async def test_a_cursor_used_since_its_interrupted_deletion_is_kept(
    brokers: Brokers,
) -> None:
    broker = Broker(brokers)
    await filled(broker.factory)
    ledger = broker.factory.opened[NAME]
    await cut_off(broker, partial(ledger.delete_cursor, "b"), 2, False)
    brokers.crash(broker.factory)
    path, store = paths.cursor(NAME, "b"), brokers.cluster.store
    value, _ = await store.get(path)
    assert CursorRecord.decode(value).deleted
    info = pb.ManagedCursorInfo.FromString(value)
    info.cursorsLedgerId = -1  # as a broker that does not know the mark closes it
    await store.put(path, info.SerializeToString())
    again = await brokers.broker(QUICK).open(NAME, rolling(2))
    assert sorted(again.cursors) == ["a", "b"]
    assert again.cursors["b"].properties == {}
