"""Statistics of a topic without an owner equal those of its next owner, or are unknown."""

from collections.abc import Awaitable, Callable

import pytest

from engine.ledger.client import LedgerClient
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import ManagedSettings
from engine.managed.stored import resting
from engine.managed.stored.resting import LogAtRest, RestingLogs
from engine.metadata import paths
from tests.support.managed_cluster import EAGER, NAME, ONE, Brokers, publish, rolling

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
LEDGERED = ManagedSettings(
    cursor_persist_interval_s=0.01, retry_initial_s=0.02, cursor_inline_ranges_max=2
)


def at(brokers: Brokers) -> RestingLogs:
    store = brokers.cluster.server.session(10.0)
    return RestingLogs(store, brokers.cluster.client(store=store))


async def read(logs: RestingLogs) -> LogAtRest:
    (log,) = await logs.read([NAME])
    assert log is not None
    return log


def seen(ledger: ManagedLedger) -> LogAtRest:
    backlogs: dict[str, int | None] = {
        name: cursor.backlog_entries() for name, cursor in ledger.cursors.items()
    }
    return LogAtRest(ledger.stats().size, backlogs)


async def holes(ledger: ManagedLedger, name: str, count: int) -> None:
    """Acknowledge ``count`` entries that are not adjacent."""
    cursor = await ledger.open_cursor(name, FIRST)
    positions = []
    at_ = ledger.next_position(cursor.mark_delete)
    for i in range(2 * count):
        if i % 2:
            positions.append(at_)
        at_ = ledger.next_position(at_)
    cursor.acknowledge(positions)
    await cursor.persisted()


async def closed(factory: ManagedLedgerFactory, ledger: ManagedLedger) -> None:
    await ledger.close()


async def crashed(factory: ManagedLedgerFactory, ledger: ManagedLedger) -> None:
    Brokers.crash(factory)


@pytest.mark.parametrize("end", [closed, crashed])
@pytest.mark.parametrize("settings", [EAGER, LEDGERED])
async def test_statistics_at_rest_equal_those_of_the_next_owner(
    brokers: Brokers,
    end: Callable[[ManagedLedgerFactory, ManagedLedger], Awaitable[None]],
    settings: ManagedSettings,
) -> None:
    factory = brokers.broker(settings)
    ledger = await factory.open(NAME, rolling(8))
    await ledger.open_cursor("all", FIRST)  # or ledgers would be trimmed at once
    await publish(ledger, 0, 30)
    await holes(ledger, "holes", 5)
    done = await ledger.open_cursor("none", InitialPosition.LATEST)
    await done.persisted()
    expected = seen(ledger)
    assert expected.backlogs == {"all": 30, "holes": 25, "none": 0}
    await end(factory, ledger)
    assert await read(at(brokers)) == expected
    reopened = await brokers.broker().open(NAME, ONE)
    assert seen(reopened) == expected


async def test_reading_does_not_fence_the_owner(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, ONE)
    await publish(ledger, 0, 3)
    await ledger.open_cursor("s", FIRST)
    logs = at(brokers)
    assert (await read(logs)).backlogs == {"s": 3}
    await publish(ledger, 3, 4)
    assert (await read(logs)).backlogs == {"s": 7}, "an open ledger's end is not remembered"


async def test_values_that_storage_does_not_answer_are_unknown(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resting, "LEDGER_TIMEOUT_S", 0.5)
    factory = brokers.broker(LEDGERED)
    ledger = await factory.open(NAME, ONE)
    await publish(ledger, 0, 30)
    await holes(ledger, "holes", 5)
    await ledger.open_cursor("all", FIRST)
    Brokers.crash(factory)
    await brokers.cluster.stop("b0")
    logs = at(brokers)
    assert await read(logs) == LogAtRest(None, {"holes": None, "all": None})
    await brokers.cluster.start("b0")
    assert (await read(logs)).backlogs == {"holes": 25, "all": 30}


async def test_only_the_subscription_whose_acknowledgements_are_silent_is_unknown(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resting, "LEDGER_TIMEOUT_S", 0.5)
    ledger = await brokers.broker(LEDGERED).open(NAME, ONE)
    await publish(ledger, 0, 30)
    await holes(ledger, "holes", 5)
    await ledger.open_cursor("all", FIRST)
    size = ledger.stats().size
    await ledger.close()
    await brokers.cluster.stop("b0")
    assert await read(at(brokers)) == LogAtRest(size, {"holes": None, "all": 30})


async def test_an_answer_is_cached_while_its_nodes_do_not_change(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await brokers.broker(LEDGERED).open(NAME, ONE)
    await publish(ledger, 0, 30)
    await holes(ledger, "holes", 5)
    await ledger.close()
    logs = at(brokers)
    first = await read(logs)
    opened: list[int] = []
    real = LedgerClient.open

    async def counted(self: LedgerClient, ledger_id: int, *args: object, **more: object) -> object:
        opened.append(ledger_id)
        return await real(self, ledger_id, *args, **more)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(LedgerClient, "open", counted)
        assert await read(logs) == first
        assert opened == []
    again = await brokers.broker(LEDGERED).open(NAME, ONE)
    await again.cursors["holes"].clear()
    await again.close()
    assert (await read(logs)).backlogs == {"holes": 0}


async def test_an_absent_topic_is_missing_and_a_broken_record_unknown(brokers: Brokers) -> None:
    logs, store = at(brokers), brokers.cluster.store
    broken = "public/default/persistent/broken"
    await store.create(paths.managed_ledger(broken), b"\xff\xff", make_parents=True)
    assert await logs.read([NAME, broken]) == [None, LogAtRest(None, None)]
