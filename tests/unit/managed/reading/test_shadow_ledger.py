"""A shadow topic's log has its source's entries at their positions, cursors of its own, and changes no ledger."""

from dataclasses import replace

import pytest

from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.names import SHADOW_SOURCE
from engine.managed.errors import ManagedLedgerFencedError, ShadowTopicError
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.positions import LedgerSpan
from engine.managed.shadow_ledger import ShadowLedger
from engine.managed.stats import OffloadPhase
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.offload.bucket import S3, Bucket
from engine.offload.errors import OffloadError
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.tiered_storage import TieredStorage
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import (
    LAZY,
    NAME,
    ONE,
    Brokers,
    Sink,
    drain,
    numbered,
    publish,
    rolling,
)
from tests.support.stores.memory_objects import MemoryObjectStores
from tests.support.waiting import until

SHADOW = "public/default/persistent/shadow"
FIRST = InitialPosition.EARLIEST
PROPERTIES = {SHADOW_SOURCE: "persistent://public/default/t"}


async def shadow_of(factory: ManagedLedgerFactory) -> ShadowLedger:
    ledger = await factory.open(SHADOW, ONE, PROPERTIES)
    assert isinstance(ledger, ShadowLedger)
    return ledger


async def source_of(brokers: Brokers, entries: int) -> ManagedLedger:
    """Return a source whose ledgers roll over after ``entries``, and which a cursor keeps from being trimmed."""
    source = await brokers.broker().open(NAME, rolling(entries))
    await source.open_cursor("keeper", FIRST)
    return source


def state(source: ManagedLedger, shadow: ShadowLedger) -> None:
    """Report the source's end as its broker does."""
    shadow.reached(source.last_readable, source.line.last.size)


async def test_m19_the_entries_of_the_source_are_read_at_their_positions(brokers: Brokers) -> None:
    source = await source_of(brokers, 2)
    sink = await publish(source, 0, 5)
    shadow = await shadow_of(brokers.broker())
    cursor = await shadow.open_cursor("s", FIRST)
    places: list[tuple[int, int]] = []
    while views := await cursor.read(100, 1 << 20):
        places += [(view.run.ledger_id, view.run.first + i) for view in views for i in view.indexes]
    assert places == sink.positions
    assert shadow.last_confirmed == source.last_confirmed
    assert shadow.bytes_behind(EARLIEST) == source.bytes_behind(EARLIEST)


async def test_the_ledgers_are_moved_by_the_source_alone(brokers: Brokers) -> None:
    source = await source_of(brokers, 2)
    await publish(source, 0, 5)
    stores = MemoryObjectStores()
    policy = OffloadPolicy(Bucket(S3, "cold"), threshold_bytes=0, deletion_lag_s=0.0)
    factory = brokers.broker(tiered=TieredStorage(stores, {}))
    shadow = await factory.open(SHADOW, replace(ONE, offload=policy), PROPERTIES)
    shadow.trim_soon()
    assert shadow.offload_status.phase is OffloadPhase.NOT_RUN
    with pytest.raises(OffloadError, match="are its source's, which moves them"):
        shadow.offload(LATEST)
    assert stores.stores == {}


async def test_new_entries_appear_when_the_source_states_them_and_in_new_ledgers(
    brokers: Brokers,
) -> None:
    source = await source_of(brokers, 4)
    shadow = await shadow_of(brokers.broker())
    cursor = await shadow.open_cursor("s", FIRST)
    woken: list[Position] = []
    shadow.on_readable(lambda: woken.append(shadow.last_readable))
    await publish(source, 0, 3)
    assert await drain(cursor) == []
    state(source, shadow)
    assert woken == [source.last_confirmed]
    assert await drain(cursor) == numbered(0, 3)
    assert shadow.bytes_behind(EARLIEST) == source.bytes_behind(EARLIEST)
    await publish(source, 3, 4)
    await until(lambda: len(shadow.line.ledgers) == len(source.line.ledgers))
    state(source, shadow)
    assert await drain(cursor) == numbered(3, 4)
    assert shadow.entries_added == 7


async def test_a_statement_about_an_unknown_ledger_counts_once_the_record_was_read(
    brokers: Brokers,
) -> None:
    source = await source_of(brokers, 1)
    shadow = await shadow_of(brokers.broker())
    await publish(source, 0, 3)
    state(source, shadow)
    await until(lambda: shadow.last_readable == source.last_readable)
    assert await drain(await shadow.open_cursor("s", FIRST)) == numbered(0, 3)


async def test_m19_the_source_goes_on_writing_its_ledger(brokers: Brokers) -> None:
    source = await brokers.broker().open(NAME, ONE)
    await publish(source, 0, 2)
    shadow = await shadow_of(brokers.broker())
    assert await drain(await shadow.open_cursor("s", FIRST)) == numbered(0, 2)
    await publish(source, 2, 2)
    assert len(source.line.ledgers) == 1, "the open ledger was recovered by its reader"


async def test_acknowledgements_are_its_own_and_outlive_its_owner(brokers: Brokers) -> None:
    source = await brokers.broker().open(NAME, ONE)
    mine = await source.open_cursor("s", FIRST)
    sink = await publish(source, 0, 4)
    shadow = await shadow_of(first := brokers.broker())
    cursor = await shadow.open_cursor("s", FIRST)
    cursor.acknowledge_cumulative(Position(*sink.positions[2]))
    await cursor.persisted()
    brokers.crash(first)
    again = await shadow_of(brokers.broker())
    assert await drain(again.cursors["s"]) == numbered(3, 1)
    assert await drain(mine) == numbered(0, 4)


async def test_an_earlier_owner_is_fenced(brokers: Brokers) -> None:
    await (await brokers.broker().open(NAME, ONE)).open_cursor("s", FIRST)
    older = await shadow_of(brokers.broker())
    await shadow_of(brokers.broker())
    with pytest.raises(ManagedLedgerFencedError):
        await older.open_cursor("t", FIRST)


async def test_ledgers_that_the_source_trims_are_passed_by_the_cursors(brokers: Brokers) -> None:
    source = await brokers.broker().open(NAME, rolling(2))
    shadow = await shadow_of(brokers.broker())
    cursor = await shadow.open_cursor("s", FIRST)
    trims: list[int] = []
    shadow.on_trimmed(lambda: trims.append(shadow.line.base))
    await publish(source, 0, 5)
    await source.trim()
    await until(lambda: bool(trims))
    state(source, shadow)
    assert await drain(cursor) == numbered(4, 1)
    assert cursor.backlog_entries() == 1
    assert shadow.freed(ONE, {}, ()) == (0, EARLIEST)


async def test_an_empty_ledger_that_the_source_replaced_is_dropped(brokers: Brokers) -> None:
    await publish(await source_of(brokers, 1), 0, 2)
    shadow = await shadow_of(brokers.broker())
    await brokers.broker().open(NAME, ONE)
    source = await brokers.broker().open(NAME, ONE)
    await publish(source, 2, 1)
    state(source, shadow)
    await until(lambda: shadow.last_readable == source.last_readable)
    assert [span.ledger_id for span in shadow.line.ledgers] == [
        span.ledger_id for span in source.line.ledgers
    ]
    assert await drain(await shadow.open_cursor("s", FIRST)) == numbered(0, 3)


async def test_the_source_is_deleted_and_made_again(brokers: Brokers) -> None:
    factory = brokers.broker()
    await publish(await factory.open(NAME, ONE), 0, 2)
    shadow = await shadow_of(brokers.broker())
    cursor = await shadow.open_cursor("s", FIRST)
    await factory.delete(NAME)
    await until(lambda: not shadow.line.ledgers)
    assert cursor.backlog_entries() == 0
    source = await factory.open(NAME, ONE)
    await publish(source, 5, 1)
    state(source, shadow)
    await until(lambda: shadow.last_readable == source.last_readable)
    assert await drain(cursor) == numbered(5, 1)


async def test_without_its_source_it_has_no_entries(brokers: Brokers) -> None:
    shadow = await shadow_of(brokers.broker())
    assert await drain(await shadow.open_cursor("s", FIRST)) == []


async def test_m19_its_deletion_deletes_no_ledger_of_the_source(brokers: Brokers) -> None:
    source = await source_of(brokers, 2)
    await publish(source, 0, 5)
    factory = brokers.broker()
    await (await shadow_of(factory)).open_cursor("s", FIRST)
    before = brokers.ledgers()
    await factory.delete(SHADOW)
    assert brokers.ledgers() == before
    assert not await factory.exists(SHADOW)


async def test_a_record_that_lists_ledgers_of_the_source_is_deleted_without_them(
    brokers: Brokers,
) -> None:
    source = await source_of(brokers, 2)
    await publish(source, 0, 5)
    spans = [LedgerSpan(span.ledger_id) for span in source.line.ledgers]
    store = brokers.cluster.server.session(10.0)
    record = LogRecord(spans, properties=PROPERTIES)
    await store.create(paths.managed_ledger(SHADOW), record.encode(), make_parents=True)
    before = brokers.ledgers()
    await brokers.broker().delete(SHADOW)
    assert brokers.ledgers() == before
    await publish(source, 5, 1)


async def test_nothing_is_appended_and_it_is_not_terminated(brokers: Brokers) -> None:
    await brokers.broker().open(NAME, ONE)
    shadow = await shadow_of(brokers.broker())
    sink = Sink()
    shadow.append(run_of(b"x"), sink)
    ((payload, error),) = sink.failures
    assert (payload, type(error)) == (b"x", ShadowTopicError)
    with pytest.raises(ShadowTopicError, match="Terminate is not allowed on shadow topic"):
        await shadow.terminate()


async def test_it_ends_where_the_source_was_terminated(brokers: Brokers) -> None:
    source = await brokers.broker().open(NAME, ONE)
    await publish(source, 0, 2)
    shadow = await shadow_of(brokers.broker())
    woken: list[Position | None] = []
    shadow.on_readable(lambda: woken.append(shadow.terminated))
    last = await source.terminate()
    await until(lambda: woken == [last])
    assert shadow.stats().state == "Terminated"


async def test_its_properties_are_its_own(brokers: Brokers) -> None:
    source = await brokers.broker().open(NAME, ONE)
    shadow = await shadow_of(first := brokers.broker(LAZY))
    await shadow.update_properties({"a": "b"})
    await first.close()
    assert (await shadow_of(brokers.broker())).properties == {**PROPERTIES, "a": "b"}
    assert source.properties == {}


async def test_its_stored_info_names_the_ledgers_of_the_source(brokers: Brokers) -> None:
    source = await source_of(brokers, 2)
    await publish(source, 0, 3)
    factory = brokers.broker()
    await shadow_of(factory)
    info = await factory.info(SHADOW)
    assert [(ledger.ledger_id, ledger.entries) for ledger in info.ledgers] == [
        (span.ledger_id, span.entries) for span in source.line.ledgers
    ]
