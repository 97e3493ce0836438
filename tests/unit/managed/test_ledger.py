"""Appends, rollover, ownership and reads of managed ledgers against a real bookie."""

import asyncio

import pytest

from engine.base.errors import MisuseError
from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.settings import SettingsError
from engine.ledger.errors import LedgerError, NotEnoughBookiesError
from engine.ledger.writing.writer import LedgerWriter
from engine.managed.cursors.cursor import Cursor
from engine.managed.errors import (
    InvalidPositionError,
    ManagedLedgerClosedError,
    ManagedLedgerFencedError,
    ManagedLedgerNotFoundError,
    ManagedLedgerTerminatedError,
)
from engine.managed.ledger import InitialPosition
from engine.managed.positions import LedgerSpan
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.managed.stored.records import LogRecord
from engine.managed.writing.appender import Appender
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from tests.support.broker_bench import until
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
    texts,
)
from tests.support.stores.failing import FailingStore

pytestmark = pytest.mark.virtual_time


async def stored(brokers: Brokers) -> LogRecord:
    return LogRecord.decode((await brokers.cluster.store.get(paths.managed_ledger(NAME)))[0])


async def test_appended_entries_are_read_in_order_from_memory(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, ONE)
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
    woken: list[int] = []
    ledger.on_readable(lambda: woken.append(1))
    assert cursor.read_nowait(10, 1000) == []
    sink = await publish(ledger, 0, 25, batch=10)
    assert 1 <= len(woken) <= 3
    assert sink.positions == sorted(sink.positions)
    assert ledger.last_confirmed == sink.positions[-1]
    first = cursor.read_nowait(7, 1000)
    assert first is not None
    assert texts(first) == numbered(0, 7)
    assert cursor.read_position == sink.positions[7]
    assert texts(cursor.read_nowait(3, 1) or []) == numbered(7, 1)
    rest = cursor.read_nowait(100, 1000)
    assert rest is not None
    assert texts(rest) == numbered(8, 17)
    assert cursor.read_nowait(10, 1000) == []
    assert cursor.backlog_entries() == 25


@pytest.mark.parametrize("end", ["the next ledger", "none", "terminated"])
async def test_entries_that_only_recovery_finds_wake_readers(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """Fail the ledger before it confirms: readers must not wait for an append that may never happen."""
    ledger = await brokers.broker().open(NAME, ONE)
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await publish(ledger, 0, 1)
    assert texts(cursor.read_nowait(10, 1000) or []) == numbered(0, 1)
    seen: list[int] = []
    ledger.on_readable(lambda: seen.append(cursor.backlog_entries()))
    appender = ledger._appender
    writer = appender._writer
    assert writer is not None
    real = LedgerWriter.close

    async def close(self: LedgerWriter) -> None:
        if self is writer:
            self.listener = None
            self.abandon(LedgerError("it failed before"))
            raise LedgerError("it failed before")
        await real(self)

    async def create(*_: object, **__: object) -> LedgerWriter:
        raise NotEnoughBookiesError("all are away")

    monkeypatch.setattr(Appender, "confirmed", lambda self, below: None)
    monkeypatch.setattr(LedgerWriter, "close", close)
    ledger.append(run_of(*numbered(1, 3)), Sink())
    await until(lambda: writer.last_confirmed == 3)
    assert seen == []
    if end == "terminated":
        await ledger.terminate()
    else:
        if end == "none":
            monkeypatch.setattr(appender._list._ledgers, "create", create)
        appender.failed(LedgerError("its bookies are away"))
    await until(lambda: seen == [4])
    assert await drain(cursor) == numbered(1, 3)


async def test_rollover_keeps_order_and_lists_each_ledger_before_it_confirms(
    brokers: Brokers,
) -> None:
    ledger = await brokers.broker().open(NAME, rolling(10))
    await ledger.open_cursor("keeps", InitialPosition.EARLIEST)
    listed: list[bool] = []
    tree = brokers.cluster.server.tree

    class Watching(Sink):
        def appended(self, run, start, stop):  # type: ignore[no-untyped-def]
            record = LogRecord.decode(tree.get(paths.managed_ledger(NAME))[0])
            listed.append(run.ledger_id in [span.ledger_id for span in record.ledgers])
            super().appended(run, start, stop)

    sink = Watching()
    for at in range(0, 100, 4):
        ledger.append(run_of(*numbered(at, 4)), sink)
        await asyncio.sleep(0)
    await sink.settle(100)
    assert sink.payloads == numbered(0, 100)
    assert all(
        before < after for before, after in zip(sink.positions, sink.positions[1:], strict=False)
    )
    assert all(listed)
    ids = sorted({ledger_id for ledger_id, _ in sink.positions})
    assert len(ids) == 9
    cursor = await ledger.open_cursor("all", InitialPosition.EARLIEST)
    assert await drain(cursor, 7) == numbered(0, 100)
    record = await stored(brokers)
    assert [span.ledger_id for span in record.ledgers][:8] == ids[:8]
    assert all(span.entries == 12 for span in record.ledgers[:8])


async def test_backlog_is_read_from_the_bookies_when_the_cache_is_small(brokers: Brokers) -> None:
    settings = ManagedSettings(cache_bytes_max=200)
    ledger = await brokers.broker(settings).open(NAME, rolling(30))
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
    sink = await publish(ledger, 0, 200, batch=7)
    assert cursor.read_nowait(10, 1000) is None
    assert await drain(cursor, 13) == numbered(0, 200)
    cursor.acknowledge([Position(*place) for place in sink.positions[::2]])
    cursor.rewind()
    assert await drain(cursor, 13) == numbered(0, 200)[1::2]
    wanted = [Position(*sink.positions[i]) for i in (3, 5, 4, 150, 7, 199)]
    assert texts(await cursor.replay(wanted, 1 << 20)) == [b"m3", b"m5", b"m7", b"m199"]
    assert texts(await cursor.replay(wanted[:1], 1)) == [b"m3"], "one at least"
    far = [Position(*sink.positions[i]) for i in (3, 63, 123)]
    first = await cursor.replay(far, 1)
    assert texts(first) == [b"m3"]
    assert texts(await cursor.replay(far, first[0].run.held + 1)) == [b"m3", b"m63"]


async def test_a_reopened_ledger_continues_after_the_last_entry(brokers: Brokers) -> None:
    first = brokers.broker()
    ledger = await first.open(NAME, ONE, {"k": "v"})
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    before = await publish(ledger, 0, 5)
    await first.close()
    two = brokers.broker()
    again = await two.open(NAME, ONE)
    assert again.properties == {"k": "v"}
    assert again.last_confirmed == before.positions[-1]
    after = await publish(again, 5, 5)
    assert after.positions[0] > before.positions[-1]
    assert await drain(again.cursors["s"]) == numbered(0, 10)
    assert len((await stored(brokers)).ledgers) == 2


async def test_empty_ledgers_do_not_accumulate(brokers: Brokers) -> None:
    for _ in range(4):
        factory = brokers.broker()
        await factory.open(NAME, ONE)
        await factory.close()
    record = await stored(brokers)
    assert len(record.ledgers) == 1
    tree = brokers.cluster.server.tree
    assert tree.children(paths.LEDGERS + "/00/0000") == [f"L{record.ledgers[0].ledger_id:04d}"]


async def test_old_owner_confirms_nothing_after_a_new_one_opened(brokers: Brokers) -> None:
    first, second = brokers.broker(), brokers.broker()
    old = await first.open(NAME, ONE)
    cursor = await old.open_cursor("s", InitialPosition.EARLIEST)
    fenced: list[int] = []
    old.on_fenced(lambda: fenced.append(1))
    await publish(old, 0, 5)
    cursor.acknowledge([old.last_confirmed])
    await cursor.persisted()
    new = await second.open(NAME, ONE)
    sink = Sink()
    old.append(run_of(*numbered(5, 3)), sink)
    await sink.settle(3)
    assert not sink.payloads
    assert [type(error) for _, error in sink.failures] == [ManagedLedgerFencedError] * 3
    assert fenced == [1]
    old.append(run_of(b"later"), sink)
    assert len(sink.failures) == 4
    with pytest.raises(ManagedLedgerFencedError):
        cursor.read_nowait(1, 1)
    with pytest.raises(ManagedLedgerFencedError):
        await old.trim()
    assert await drain(new.cursors["s"]) == numbered(0, 4)
    await publish(new, 5, 3)


async def test_old_owner_cannot_confirm_an_acknowledgement_to_a_cursor_it_lost(
    brokers: Brokers,
) -> None:
    first, second = brokers.broker(), brokers.broker()
    old = await first.open(NAME, ONE)
    never, written = [await old.open_cursor(n, InitialPosition.EARLIEST) for n in ("a", "b")]
    await publish(old, 0, 5)
    written.acknowledge([Position(old.last_confirmed.ledger_id, 0)])
    await written.persisted()
    new = await second.open(NAME, ONE)
    for cursor in (never, written):
        cursor.acknowledge([Position(old.last_confirmed.ledger_id, 3)])
        with pytest.raises(ManagedLedgerFencedError):
            await cursor.persisted()
    assert new.cursors["a"].backlog_entries() == 5
    assert new.cursors["b"].backlog_entries() == 4


async def test_two_opening_at_once_leave_one_owner(brokers: Brokers) -> None:
    factories = [brokers.broker() for _ in range(2)]
    outcomes = await asyncio.gather(
        *(factory.open(NAME, ONE) for factory in factories), return_exceptions=True
    )
    ledgers = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert ledgers
    sinks = [Sink() for _ in ledgers]
    for ledger, sink in zip(ledgers, sinks, strict=True):
        ledger.append(run_of(b"x"), sink)
        await sink.settle(1)
    assert sum(len(sink.payloads) for sink in sinks) <= 1


async def test_a_lost_bookie_fails_pending_appends_and_a_fresh_ledger_takes_over(
    brokers: Brokers,
) -> None:
    ledger = await brokers.broker().open(NAME, ONE)
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await publish(ledger, 0, 5)
    before = ledger.last_confirmed
    await brokers.cluster.stop("b0")
    sink = Sink()
    ledger.append(run_of(*numbered(100, 3)), sink)
    await sink.settle(3)
    assert len(sink.failures) == 3
    await brokers.cluster.start("b0")

    async def stored() -> bool:
        nonlocal sink
        sink = Sink()
        ledger.append(run_of(b"m5"), sink)
        await sink.settle(1)
        return bool(sink.payloads)

    await until(stored)
    assert sink.payloads == [b"m5"]
    assert sink.positions[0][0] > before.ledger_id
    assert await drain(cursor) == numbered(0, 6)


async def test_queued_appends_are_bounded(brokers: Brokers) -> None:
    settings = ManagedSettings(append_queue_entries_max=10)
    ledger = await brokers.broker(settings).open(NAME, rolling(1))
    sink = Sink()
    for i in range(30):
        ledger.append(run_of(b"m%d" % i), sink)
    assert len(sink.failures) == 30 - 1 - 10
    await sink.settle(30)
    assert sink.payloads == numbered(0, 11)


async def test_terminated_topic_refuses_appends_for_good(brokers: Brokers) -> None:
    first = brokers.broker()
    ledger = await first.open(NAME, ONE)
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    sink = Sink()
    ledger.append(run_of(*numbered(0, 3)), sink)
    last = await ledger.terminate()
    assert sink.positions[-1] == last == ledger.terminated
    assert await ledger.terminate() == last
    await first.close()
    again = await brokers.broker().open(NAME, ONE)
    assert again.terminated == last
    again.append(run_of(b"x"), sink)
    assert isinstance(sink.failures[0][1], ManagedLedgerTerminatedError)
    assert await drain(again.cursors["s"]) == numbered(0, 3)


async def test_closed_ledger_refuses_everything(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, ONE)
    sink = Sink()
    ledger.append(run_of(b"a"), sink)
    await asyncio.gather(ledger.close(), ledger.close())
    assert sink.payloads == [b"a"]
    ledger.append(run_of(b"b"), sink)
    assert isinstance(sink.failures[0][1], ManagedLedgerClosedError)
    with pytest.raises(ManagedLedgerClosedError):
        await ledger.open_cursor("s", InitialPosition.LATEST)


async def test_delete_leaves_nothing_behind(brokers: Brokers) -> None:
    factory = brokers.broker()
    ledger = await factory.open(NAME, rolling(3))
    cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
    await publish(ledger, 0, 10)
    cursor.acknowledge([Position(cursor.mark_delete.ledger_id, 0)])
    await cursor.persisted()
    await factory.delete(NAME)
    tree = brokers.cluster.server.tree
    assert tree.children(paths.LEDGERS + "/00/0000") == []
    assert not await factory.exists(NAME)
    with pytest.raises(ManagedLedgerNotFoundError):
        await factory.delete(NAME)
    assert (await factory.open(NAME, ONE)).cursors == {}


async def test_info_includes_the_open_ledger_without_fencing_its_owner(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, rolling(4))
    await ledger.open_cursor("s", InitialPosition.EARLIEST, cursor_properties={"a": "b"})
    sink = await publish(ledger, 0, 6)
    spark = brokers.broker()
    info = await spark.info(NAME)
    assert [summary.closed for summary in info.ledgers] == [True, False]
    assert [summary.entries for summary in info.ledgers] == [4, 2]
    assert [summary.size for summary in info.ledgers] == [8, 4] == [4 * len(sink.payloads[0]), 4]
    assert [(cursor.name, cursor.cursor_properties) for cursor in info.cursors] == [
        ("s", {"a": "b"})
    ]
    await publish(ledger, 6, 4)
    with pytest.raises(ManagedLedgerNotFoundError):
        await spark.info("public/default/persistent/none")


async def test_properties_are_durable(brokers: Brokers) -> None:
    first = brokers.broker()
    ledger = await first.open(NAME, ONE)
    await ledger.update_properties({"a": "1", "b": "2"})
    await ledger.update_properties({"a": None, "c": "3"})
    brokers.crash(first)
    assert (await brokers.broker().open(NAME, ONE)).properties == {"b": "2", "c": "3"}


async def test_read_entry_and_neighbours(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, rolling(3))
    await ledger.open_cursor("s", InitialPosition.EARLIEST)
    sink = await publish(ledger, 0, 7)
    places = [Position(*place) for place in sink.positions]
    assert [(await ledger.read_entry(place)).entry(0) for place in places] == sink.payloads
    assert [ledger.next_position(place) for place in places[:-1]] == places[1:]
    assert [ledger.previous_position(place) for place in places[1:]] == places[:-1]
    assert ledger.entries_between(places[1], places[6]) == 5
    assert ledger.entries_between(EARLIEST, LATEST) == 7
    with pytest.raises(InvalidPositionError):
        await ledger.read_entry(Position(places[0].ledger_id, 3))
    at_hand = ledger.entry_at_hand(places[6])
    assert at_hand is not None
    assert at_hand.entry(0) == sink.payloads[6]
    assert ledger.entry_at_hand(Position(places[0].ledger_id, 3)) is None
    brokers.crash(brokers.broker())
    again = await brokers.broker().open(NAME, rolling(3))
    assert again.entry_at_hand(places[6]) is None  # it has to be read


async def test_opening_a_topic_of_a_thousand_ledgers_does_not_read_each(
    brokers: Brokers,
) -> None:
    record = LogRecord()
    for i in range(1000):
        record.ledgers.append(LedgerSpan(i, 10, 1000, 1_700_000_000_000))
    store = brokers.cluster.store
    await store.create(paths.managed_ledger(NAME), record.encode(), make_parents=True)
    for _ in range(1000):  # ids rise from where the list ends
        await store.create(paths.ID_GENERATOR_PREFIX, b"", sequence=True, make_parents=True)
    stores: list[FailingStore] = []

    def counting(store: MetadataStore) -> MetadataStore:
        stores.append(FailingStore(store))
        return stores[-1]

    ledger = await brokers.broker(wrap=counting).open(NAME, ONE)
    assert stores[0].calls < 20
    assert ledger.last_confirmed == Position(999, 9)
    assert ledger.stats().entries == 10_000


def test_config_refuses_invalid_values() -> None:
    with pytest.raises(MisuseError, match="quorums"):
        LedgerConfig(ensemble=1, write_quorum=2, ack_quorum=1)
    with pytest.raises(SettingsError, match="cache_bytes_max"):
        ManagedSettings(cache_bytes_max=0)


async def test_a_close_that_fails_unexpectedly_persists_the_other_cursors_and_ends_the_log(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    factory = brokers.broker(LAZY)
    ledger = await factory.open(NAME, ONE)
    cursors = [await ledger.open_cursor(name, InitialPosition.EARLIEST) for name in "abc"]
    sink = await publish(ledger, 0, 2)
    for cursor in cursors:
        cursor.acknowledge([Position(*sink.positions[0])])
    real = Cursor.close

    async def close(cursor: Cursor) -> None:
        if cursor.name == "a":
            raise ZeroDivisionError("planted")
        await real(cursor)

    monkeypatch.setattr(Cursor, "close", close)
    await ledger.close()
    assert ledger.ended
    monkeypatch.undo()
    again = await factory.open(NAME, ONE)
    assert again is not ledger
    backlogs = {name: reopened.backlog_entries() for name, reopened in again.cursors.items()}
    assert backlogs.pop("a") in (1, 2), "as after a crash: its first write may have been under way"
    assert backlogs == {"b": 1, "c": 1}
