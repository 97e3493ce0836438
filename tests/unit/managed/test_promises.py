"""Promises of a topic's ledger list, by the numbers of docs/formats/managed-ledger.md."""

import asyncio
import contextlib
import itertools
from dataclasses import replace

import pytest

from engine.base.ids import Position
from engine.ledger.ledger_metadata import LedgerState, decode
from engine.managed.errors import (
    AppendFailedError,
    LedgerIdReusedError,
    ManagedLedgerFencedError,
)
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.managed.stored import node
from engine.managed.stored.records import LogRecord
from engine.managed.writing import rolling as rolling_module
from engine.metadata import paths
from engine.metadata.memory import Fault
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import (
    NAME,
    ONE,
    Brokers,
    Sink,
    drain,
    numbered,
    publish,
    rolling,
)

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
YOUNG = LedgerConfig(1, 1, 1, ledger_age_min_s=0, ledger_age_max_s=0.05)


def states(brokers: Brokers) -> list[LedgerState]:
    """Return the states of the ledgers in the stored list."""
    tree = brokers.cluster.server.tree
    record = LogRecord.decode(tree.get(paths.managed_ledger(NAME))[0])
    return [decode(tree.get(paths.ledger(span.ledger_id))[0]).state for span in record.ledgers]


async def writable(ledger: ManagedLedger) -> None:
    """Return when the ledger's next attempt to open a ledger succeeded."""
    while True:
        with contextlib.suppress(AppendFailedError):
            return await ledger.writable()
        await asyncio.sleep(0.001)


async def test_m2_at_most_the_last_ledger_of_the_list_is_open(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, rolling(3))
    await ledger.open_cursor("s", FIRST)
    seen: list[list[LedgerState]] = []
    ledger.on_readable(lambda: seen.append(states(brokers)))
    for at in range(0, 30, 2):
        await publish(ledger, at, 2)
    assert len(seen[-1]) > 8
    for listed in seen:
        assert all(state is LedgerState.CLOSED for state in listed[:-1])


async def test_m3_positions_rise_over_takeovers(brokers: Brokers) -> None:
    places: list[tuple[int, int]] = []
    for i in range(6):
        factory = brokers.broker()
        ledger = await factory.open(NAME, rolling(4))
        await ledger.open_cursor("s", FIRST)
        places += (await publish(ledger, 10 * i, 10)).positions
        if i % 2:
            brokers.crash(factory)
    assert all(before < after for before, after in itertools.pairwise(places))


async def test_m3_falling_ledger_ids_are_refused_and_nothing_is_written(
    brokers: Brokers,
) -> None:
    factory = brokers.broker()
    ledger = await factory.open(NAME, ONE)
    await publish(ledger, 0, 1)
    await factory.close()
    tree = brokers.cluster.server.tree
    path = paths.managed_ledger(NAME)
    record = LogRecord.decode(tree.get(path)[0])
    record.ledgers[0].ledger_id += 1000  # what a metadata store put back to yesterday looks like
    record.ledgers[0].timestamp_ms, record.ledgers[0].entries = 1, 1
    await brokers.cluster.store.put(path, record.encode())
    with pytest.raises(LedgerIdReusedError, match="twice"):
        await brokers.broker().open(NAME, ONE)
    assert LogRecord.decode(tree.get(path)[0]) == record


async def test_m13_an_empty_ledger_that_another_closed_is_noticed_without_an_append(
    brokers: Brokers,
) -> None:
    broker = brokers.broker()
    ledger = await broker.open(NAME, YOUNG)
    closed = ledger.stats().current_ledger_id
    await brokers.cluster.client().open(closed, recover=True)  # what auto-recovery does
    async with asyncio.timeout(120):
        while ledger.stats().current_ledger_id == closed and not ledger.ended:
            await asyncio.sleep(0.01)
    # It was found closed and followed by another, or found under recovery, which ended the object.
    again = await broker.open(NAME, ONE)
    await again.writable()
    await publish(again, 0, 1)


async def test_m13_empty_ledgers_roll_by_age_and_are_deleted(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, YOUNG)
    first = ledger.stats().current_ledger_id
    while ledger.stats().current_ledger_id < first + 4:
        await asyncio.sleep(0.02)
    await ledger.update_config(ONE)
    await ledger.writable()
    await publish(ledger, 0, 3)
    await ledger.close()
    assert len(states(brokers)) == 1
    assert len(brokers.cluster.server.tree.children(paths.LEDGERS + "/00/0000")) == 1


async def test_m15_fenced_is_the_end_of_the_object_and_a_fresh_one_works_in_the_same_process(
    brokers: Brokers,
) -> None:
    first, second = brokers.broker(), brokers.broker()
    old = await first.open(NAME, ONE)
    cursor = await old.open_cursor("s", FIRST)
    await publish(old, 0, 2)
    await second.open(NAME, ONE)
    sink = Sink()
    old.append(run_of(b"late"), sink)
    await sink.settle(1)
    assert old.ended
    assert old.stats().state == "Fenced"
    for attempt in (
        old.trim(),
        old.terminate(),
        old.update_properties({"a": "b"}),
        old.update_config(ONE),
        old.open_cursor("x", FIRST),
        old.delete_cursor("s"),
        old.writable(),
        cursor.reset(Position(0, 0)),
        cursor.skip(1),
        cursor.clear(),
        cursor.read(1, 1),
    ):
        with pytest.raises(ManagedLedgerFencedError):
            await attempt
    fresh = await first.open(NAME, ONE)  # takes the topic back: a later claim on the list
    assert fresh is not old
    await publish(fresh, 2, 2)
    assert await drain(fresh.cursors["s"]) == numbered(0, 4)


async def test_an_outage_of_the_metadata_store_under_a_roll_fails_appends_and_heals(
    brokers: Brokers,
) -> None:
    settings = ManagedSettings(retry_initial_s=0.01, retry_max_s=0.01, metadata_attempts_max=2)
    ledger = await brokers.broker(settings).open(NAME, rolling(2))
    cursor = await ledger.open_cursor("s", FIRST)

    def away(session: int, operation: str, path: str) -> Fault | None:
        unavailable = operation == "put" and path == paths.managed_ledger(NAME)
        return Fault(lose_request=True) if unavailable else None

    brokers.cluster.server.on_call = away
    await publish(ledger, 0, 2)
    sink = Sink()
    ledger.append(run_of(b"x"), sink)
    await sink.settle(1)
    assert isinstance(sink.failures[0][1], AppendFailedError)
    brokers.cluster.server.on_call = None
    await writable(ledger)
    await publish(ledger, 2, 5)
    assert await drain(cursor) == numbered(0, 7)
    assert all(state is LedgerState.CLOSED for state in states(brokers)[:-1])


async def test_a_list_too_large_for_its_node_refuses_appends_with_the_reason_until_there_is_room(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await brokers.broker().open(NAME, rolling(2))
    cursor = await ledger.open_cursor("s", FIRST)
    await publish(ledger, 0, 2)
    await ledger.writable()
    monkeypatch.setattr(node, "VALUE_MAX", 20)
    sink = await publish(ledger, 2, 2)  # the last ones for which there is a ledger
    with pytest.raises(AppendFailedError, match=r"has [0-9]+ bytes, at most 20 can be stored"):
        await ledger.writable()
    ledger.append(run_of(b"refused"), sink)
    await sink.settle(3)
    assert "at most 20 can be stored" in str(sink.failures[0][1])
    assert await drain(cursor) == numbered(0, 4)
    monkeypatch.undo()
    await writable(ledger)
    await publish(ledger, 4, 1)
    assert await drain(cursor) == numbered(4, 1)


async def test_a_roll_that_fails_unexpectedly_fails_its_appends_and_is_retried(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await brokers.broker().open(NAME, rolling(2))

    def fail(config: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(rolling_module, "custom_metadata", fail)
    await publish(ledger, 0, 2)
    async with asyncio.timeout(60):
        with pytest.raises(AppendFailedError, match="planted"):
            await ledger.writable()
    monkeypatch.undo()
    await writable(ledger)
    await publish(ledger, 2, 1)


async def test_near_the_limit_of_its_node_a_list_grows_only_by_ledgers_that_fail(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await brokers.broker().open(NAME, replace(YOUNG, ledger_entries_max=2))
    await ledger.open_cursor("s", FIRST)
    monkeypatch.setattr(rolling_module, "ROLLED_BYTES_MAX", 0)
    await publish(ledger, 0, 10)
    assert len(states(brokers)) == 1
    monkeypatch.undo()
    await publish(ledger, 10, 1)
    await ledger.writable()
    assert len(states(brokers)) == 2
