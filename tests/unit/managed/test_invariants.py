"""Invariants I36 to I39 of a managed ledger, as far as no other test holds them: see docs/invariants.md."""

import pytest

from engine.base.ids import Position
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.metadata.memory import Fault
from tests.support.managed_cluster import EAGER, LAZY, NAME, ONE, Brokers, publish, rolling

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
WORDS = [-1] * 157
"""A batch of 10,048 messages of which none is acknowledged."""


async def test_i37_a_ledger_is_deleted_only_when_the_stored_list_has_dropped_it(
    brokers: Brokers,
) -> None:
    """Lose requests and replies of the list's compare-and-set in turn: the order must hold all the same."""
    server = brokers.cluster.server
    deleted: list[str] = []
    too_early: list[str] = []
    puts = 0

    def watched(session: int, operation: str, path: str) -> Fault | None:
        nonlocal puts
        record = LogRecord.decode(server.tree.get(paths.managed_ledger(NAME))[0])
        if operation == "delete":
            listed = [paths.ledger(span.ledger_id) for span in record.ledgers]
            (too_early if path in listed else deleted).append(path)
        if operation == "put" and path == paths.managed_ledger(NAME):
            puts += 1
            return Fault(lose_request=puts % 3 == 1, lose_reply=puts % 3 == 2)
        return None

    ledger = await brokers.broker().open(NAME, rolling(2))
    cursor = await ledger.open_cursor("s", FIRST)
    server.on_call = watched
    filled: dict[str, None] = {}
    for at in range(0, 12, 4):
        places = (await publish(ledger, at, 4)).positions
        filled |= {paths.ledger(ledger_id): None for ledger_id, _ in places}
        cursor.acknowledge_cumulative(Position(*places[-1]))
        await cursor.persisted()
        await ledger.trim()
    assert too_early == []
    assert all(path in deleted for path in list(filled)[:-1])
    assert puts > 6


@pytest.mark.parametrize("clean", [True, False])
async def test_i38_many_partly_acknowledged_batches_survive_at_any_size(
    brokers: Brokers, clean: bool
) -> None:
    """Acknowledge more than one value of the metadata store can hold."""
    factory = brokers.broker(EAGER)
    ledger = await factory.open(NAME, ONE)
    cursor = await ledger.open_cursor("s", FIRST)
    places = [Position(*place_of) for place_of in (await publish(ledger, 0, 700, 100)).positions]
    for i, place in enumerate(places):
        cursor.acknowledge_batch(place, [~(1 << i % 63), *WORDS])
    await cursor.persisted()
    await _end(brokers, factory, clean)
    again = await (factory := brokers.broker(EAGER)).open(NAME, ONE)
    stored = again.cursors["s"]
    assert [stored.ack_set(place) for place in places] == [
        [~(1 << i % 63), *WORDS] for i in range(700)
    ]
    await _end(brokers, factory, clean)


async def test_i38_properties_of_a_subscription_do_not_hold_its_acknowledgements_back(
    brokers: Brokers,
) -> None:
    """Store the properties before the cursor has a ledger, with more acknowledgements than the node can hold."""
    factory = brokers.broker(LAZY)
    ledger = await factory.open(NAME, ONE)
    cursor = await ledger.open_cursor("s", FIRST)
    places = [Position(*place_of) for place_of in (await publish(ledger, 0, 700, 100)).positions]
    for place in places:
        cursor.acknowledge_batch(place, [0, *WORDS])
    await cursor.update_cursor_properties({"a": "b"})
    await _end(brokers, factory, clean=False)
    stored = (await brokers.broker(EAGER).open(NAME, ONE)).cursors["s"]
    assert stored.cursor_properties == {"a": "b"}
    assert all(stored.ack_set(place) == [0, *WORDS] for place in places)


async def _end(brokers: Brokers, factory: ManagedLedgerFactory, clean: bool) -> None:
    if not clean:
        brokers.crash(factory)
    await factory.close()
