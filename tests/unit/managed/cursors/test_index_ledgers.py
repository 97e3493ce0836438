"""Ledgers of a cursor's index: named when they are whole, gone when they are not, whatever was cut off."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

import pytest

from engine.base.errors import WorldError
from engine.ledger.errors import LedgerError
from engine.managed.cursors.index_ledgers import IndexLedgers
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from engine.managed.stored.records import CursorRecord, LogRecord
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from tests.support.ledger_cluster import PATIENT
from tests.support.managed_cluster import NAME, ONE, Brokers, publish
from tests.support.stores.failing import FailingStore

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
QUICK = ManagedSettings(
    retry_initial_s=0.001, retry_max_s=0.002, metadata_attempts_max=2, cursor_persist_interval_s=60
)
FOR_EVER = 1_000_000


async def _parts(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


async def _index(factory: ManagedLedgerFactory) -> IndexLedgers:
    ledger = await factory.open(NAME, ONE)
    if not ledger.cursors:
        await publish(ledger, 0, 3)
    index = (await ledger.open_cursor("s", FIRST)).index
    assert index is not None
    return index


async def test_a_written_index_is_read_and_survives_its_owner(brokers: Brokers) -> None:
    first = brokers.broker(QUICK)
    index = await _index(first)
    ledger_id = await index.write(_parts(b"one", b"two"))
    assert index.stored == {}
    await index.put({ledger_id: 2})
    brokers.crash(first)
    index = await _index(brokers.broker(QUICK))
    assert index.stored == {ledger_id: 2}
    reader = await index.reader(ledger_id)
    payloads = [run.entry(0) for i in (0, 1) for run in await reader.read(i, i, 1)]
    assert payloads == [b"one", b"two"]


async def test_an_index_is_not_among_the_cursors_properties(brokers: Brokers) -> None:
    factory = brokers.broker(QUICK)
    index = await _index(factory)
    await index.put({await index.write(_parts(b"one")): 1})
    cursor = factory.opened[NAME].cursors["s"]
    await cursor.update_cursor_properties({"mine": "1"})
    assert cursor.cursor_properties == {"mine": "1"}
    assert len(index.stored) == 1


async def test_an_index_ledger_that_no_record_lists_is_deleted(brokers: Brokers) -> None:
    index = await _index(brokers.broker(QUICK))
    before = brokers.ledgers()
    first, second = [await index.write(_parts(b"one")) for _ in range(2)]
    await index.put({first: 1, second: 1})
    await index.put({second: 1})
    assert brokers.ledgers() == [*before, second]
    third = await index.write(_parts(b"one"))
    index.discard(third)
    await index.put({})
    assert brokers.ledgers() == before


async def test_an_unlisted_index_is_deleted_by_the_next_owner(
    brokers: Brokers,
) -> None:
    first = brokers.broker(QUICK)
    ledger_id = await (await _index(first)).write(_parts(b"one"))
    brokers.crash(first)
    index = await _index(brokers.broker(QUICK))
    assert index.stored == {}
    assert ledger_id not in brokers.ledgers()


@pytest.mark.parametrize("lost_answer", [False, True])
async def test_an_interrupted_write_lists_no_incomplete_index_and_leaves_no_ledger(
    brokers: Brokers, lost_answer: bool
) -> None:
    # A close of an index ledger whose every metadata call fails ends in a time-out.
    ledgers = replace(PATIENT, metadata_timeout_s=1.0)
    for k in range(1, 30):
        stores: list[FailingStore] = []

        def wrap(store: MetadataStore, stores: list[FailingStore] = stores) -> MetadataStore:
            stores.append(FailingStore(store))
            return stores[-1]

        factory = brokers.broker(QUICK, ledgers, wrap=wrap)
        index = await _index(factory)
        old = await index.write(_parts(b"old"))
        await index.put({old: 1})

        async def change(index: IndexLedgers = index) -> None:
            await index.put({await index.write(_parts(b"one", b"two")): 2})

        failed = await _cut_off(stores[-1], change, k, lost_answer)
        brokers.crash(factory)
        after = brokers.broker(QUICK)
        index = await _index(after)
        (entries,) = index.stored.values()
        reader = await index.reader(next(iter(index.stored)))
        assert reader.last_confirmed + 1 == entries
        assert set(brokers.ledgers()) - await _empty(after, brokers) <= _listed(brokers)
        await after.delete(NAME)
        assert set(brokers.ledgers()) == await _empty(after, brokers)
        if not failed:
            return
    raise AssertionError("the change never succeeded")


async def _cut_off(
    store: FailingStore, work: Callable[[], Awaitable[None]], k: int, lost: bool
) -> bool:
    store.fail_at(k, lost_answer=lost, calls=FOR_EVER)
    try:
        await work()
    except (WorldError, LedgerError):
        return True
    finally:
        store.heal()
    return False


async def _empty(factory: ManagedLedgerFactory, brokers: Brokers) -> set[int]:
    """Return the ledgers that no record lists: a call that received no answer created them (M17)."""
    empty = set()
    for ledger_id in brokers.ledgers():
        reader = await brokers.cluster.client().open(ledger_id, recover=False)
        if reader.last_confirmed < 0 and ledger_id not in _listed(brokers):
            empty.add(ledger_id)
    return empty


def _listed(brokers: Brokers) -> set[int]:
    tree = brokers.cluster.server.tree
    path = paths.cursor(NAME, "s")
    if tree.exists(path) is None:
        return set()
    record = CursorRecord.decode(tree.get(path)[0])
    topic = LogRecord.decode(tree.get(paths.managed_ledger(NAME))[0])
    ledgers = {span.ledger_id for span in topic.ledgers}
    return {record.ledger_id, *record.doomed, *record.index, *topic.doomed, *ledgers}


async def test_deleting_the_cursor_deletes_its_index(brokers: Brokers) -> None:
    factory = brokers.broker(QUICK)
    index = await _index(factory)
    before = brokers.ledgers()
    await index.put({await index.write(_parts(b"one")): 1})
    await factory.opened[NAME].delete_cursor("s")
    assert brokers.ledgers() == before
