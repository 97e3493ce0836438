"""A coordinator over a managed ledger: steps, ends, time-outs, and what its next owner finds."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any

import pytest

from engine.base.clock import LoopClock
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.tasks import TaskScope
from engine.broker.errors import (
    InvalidTxnStatus,
    NotAllowed,
    TooManyRequests,
    TransactionCoordinatorNotFound,
    TransactionNotFound,
)
from engine.broker.settings import TransactionSettings
from engine.broker.transactions.coordinator.coordinator import Coordinator, CoordinatorState
from engine.broker.transactions.coordinator.coordinator_log import CURSOR, CoordinatorLog
from engine.broker.transactions.coordinator.participants import Participants
from engine.broker.transactions.coordinator.transaction_table import (
    PARTICIPANTS_MAX,
    Entry,
    TransactionTable,
)
from engine.broker.transactions.log_batches import coordinator_records
from engine.broker.transactions.txn_id import TxnId
from engine.managed.factory import ManagedLedgerFactory
from tests.support.managed_cluster import EAGER, ONE, Brokers, rolling
from tests.support.transactions.coordinator_steps import add_partitions, add_subscriptions
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

TOPIC, OTHER = "persistent://public/default/a", "persistent://public/default/b"


class Ends(Participants):
    """Topics and subscriptions that confirm the ends of transactions while ``open`` is set."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.done: list[tuple[TxnId, list[str], list[tuple[str, str]], bool, int]] = []

    def end(
        self,
        txn: TxnId,
        partitions: Iterable[str],
        subscriptions: Iterable[tuple[str, str]],
        *,
        commit: bool,
        low_water_mark: Callable[[], int],
        tasks: TaskScope,
        ended: Callable[[], None],
    ) -> None:
        async def end() -> None:
            await self.open.wait()
            self.done.append((txn, list(partitions), list(subscriptions), commit, low_water_mark()))
            ended()

        tasks.spawn("end", end())


class Bench:
    """Coordinators of one number on several brokers, one after the other."""

    def __init__(self) -> None:
        self.brokers = Brokers()
        self.ends = Ends()
        self.failed: list[Coordinator] = []

    def factory(self) -> ManagedLedgerFactory:
        return self.brokers.broker(EAGER)

    async def coordinator(
        self, factory: ManagedLedgerFactory | None = None, config: Any = ONE, **settings: int
    ) -> Coordinator:
        """Open the coordinator on another broker, which fences the one before."""
        chosen = TransactionSettings(**settings)
        log = await CoordinatorLog.open(factory or self.factory(), 3, config, chosen.log_batches)
        coordinator = Coordinator(
            3,
            log,
            self.ends,
            chosen,
            self.brokers.cluster.clock,
            self.failed.append,
        )
        await coordinator.recover()
        return coordinator


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    await bench.brokers.start()
    yield bench
    await bench.brokers.close()


async def stored(coordinator: Coordinator) -> list[Entry]:
    records = []
    async for run, i in coordinator.log.ledger.oldest_first():
        records += coordinator_records(run.entry(i))
    return records


async def test_a_committed_transaction_is_ended_everywhere_and_leaves_no_entry(
    bench: Bench,
) -> None:
    coordinator = await bench.coordinator()
    txn = await coordinator.begin(20_000, "app")
    await add_partitions(coordinator, txn, [TOPIC, OTHER])
    await add_subscriptions(coordinator, txn, [(TOPIC, "s")])
    await coordinator.end(txn, commit=True)
    assert txn == TxnId(3, 0)
    assert bench.ends.done == [(txn, [TOPIC, OTHER], [(TOPIC, "s")], True, -1)]
    await until(lambda: coordinator.log.cursor.backlog_entries() == 0)
    records = await stored(coordinator)
    assert [record.metadata_op for record in records] == [
        *(Entry.NEW, Entry.ADD_PARTITION, Entry.ADD_SUBSCRIPTION),
        *(Entry.UPDATE, Entry.UPDATE),
    ]
    assert [record.new_status for record in records[3:]] == [Entry.COMMITTING, Entry.COMMITTED]
    assert coordinator.log.cursor.mark_delete == coordinator.log.ledger.last_confirmed
    assert (len(coordinator.table), coordinator.table.low_water_mark) == (0, 0)
    assert (coordinator.begun, coordinator.committed, coordinator.aborted) == (1, 1, 0)
    await coordinator.close()


async def test_an_end_that_is_requested_again_succeeds_and_the_other_one_is_refused(
    bench: Bench,
) -> None:
    coordinator = await bench.coordinator()
    txn = await coordinator.begin(20_000, None)
    bench.ends.open.clear()
    first = asyncio.ensure_future(coordinator.end(txn, commit=True))
    second = asyncio.ensure_future(coordinator.end(txn, commit=True))
    await asyncio.sleep(0)
    with pytest.raises(InvalidTxnStatus, match=r"`\(3,0\)` to be in OPEN .* in COMMITTING"):
        await coordinator.end(txn, commit=False)
    with pytest.raises(InvalidTxnStatus, match="COMMITTING"):
        await add_partitions(coordinator, txn, [TOPIC])
    bench.ends.open.set()
    await asyncio.gather(first, second)
    await coordinator.end(txn, commit=True)
    with pytest.raises(InvalidTxnStatus, match="COMMITTED"):
        await coordinator.end(txn, commit=False)
    assert len(bench.ends.done) == 1
    with pytest.raises(TransactionNotFound):
        await coordinator.end(TxnId(3, 9), commit=True)
    await coordinator.close()


async def test_a_client_that_leaves_does_not_stop_the_end(bench: Bench) -> None:
    coordinator = await bench.coordinator()
    txn = await coordinator.begin(20_000, None)
    bench.ends.open.clear()
    request = asyncio.ensure_future(coordinator.end(txn, commit=True))
    await asyncio.sleep(1)
    request.cancel()
    with suppress(asyncio.CancelledError):
        await request
    bench.ends.open.set()
    await until(lambda: coordinator.committed == 1)
    await coordinator.close()


async def test_the_next_owner_continues_what_was_decided_and_keeps_what_is_open(
    bench: Bench,
) -> None:
    first = await bench.coordinator()
    ended, committing, aborting, left = [await first.begin(60_000, "app") for _ in range(4)]
    await first.end(ended, commit=False)
    await add_partitions(first, committing, [TOPIC])
    await add_subscriptions(first, aborting, [(OTHER, "s")])
    await add_partitions(first, left, [OTHER])
    bench.ends.open.clear()
    tasks = [
        asyncio.ensure_future(first.end(committing, commit=True)),
        asyncio.ensure_future(first.end(aborting, commit=False)),
    ]
    await asyncio.sleep(1)

    second = await bench.coordinator()
    bench.ends.done.clear()
    bench.ends.open.set()
    await until(lambda: (second.committed, second.aborted) == (1, 1))
    ends = sorted(bench.ends.done)
    assert (committing, [TOPIC], [], True) in [end[:4] for end in ends]
    assert (aborting, [], [(OTHER, "s")], False) in [end[:4] for end in ends]
    kept = second.find(left)
    assert (kept.owner, list(kept.partitions), kept.timeout_ms) == ("app", [OTHER], 60_000)
    assert await second.begin(1000, None) == TxnId(3, 4)
    # What ended before is answered as it was before.
    await second.end(ended, commit=False)
    # The first one learns by its next entry that it is no longer the owner.
    await until(lambda: bench.failed == [first])
    await first.close()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    # What the first one had decided is what the second one does, so it may be answered by either.
    assert all(
        outcome is None or isinstance(outcome, TransactionCoordinatorNotFound)
        for outcome in outcomes
    )
    await second.close()


async def test_an_end_is_not_sent_before_its_decision_is_durable(bench: Bench) -> None:
    coordinator = await bench.coordinator()
    txn = await coordinator.begin(20_000, None)
    await add_partitions(coordinator, txn, [TOPIC])
    appended: list[Callable[[Exception | None], None]] = []
    coordinator.log.append = lambda record, positions, outcome: appended.append(outcome)  # type: ignore[method-assign]
    request = asyncio.ensure_future(coordinator.end(txn, commit=True))
    await asyncio.sleep(1)
    assert bench.ends.done == []
    coordinator.log.ledger.fenced(MagnetarError("another owner"))
    (decided,) = appended
    decided(MagnetarError("another owner"))
    with pytest.raises(TransactionCoordinatorNotFound):
        await request
    assert bench.ends.done == []
    assert coordinator.state is CoordinatorState.CLOSED
    await coordinator.close()
    second = await bench.coordinator()
    assert second.find(txn).status == Entry.OPEN
    await second.close()


async def test_transactions_time_out_at_their_time_also_at_the_next_owner(bench: Bench) -> None:
    first = await bench.coordinator()
    begun = asyncio.get_running_loop().time()
    short, long = await first.begin(3000, None), await first.begin(30_000, None)
    await until(lambda: first.timed_out == 1)
    assert 2.9 <= asyncio.get_running_loop().time() - begun < 3.2
    await until(lambda: first.aborted == 1)
    with pytest.raises(InvalidTxnStatus, match="ABORTED"):
        await first.end(short, commit=True)
    await first.close()
    await asyncio.sleep(10)
    second = await bench.coordinator()
    await until(lambda: second.aborted == 1)
    assert 29.9 <= asyncio.get_running_loop().time() - begun < 30.2
    assert [end[0] for end in bench.ends.done] == [short, long]
    await second.close()


async def test_a_transaction_that_timed_out_without_an_owner_is_aborted_at_once(
    bench: Bench,
) -> None:
    first = await bench.coordinator()
    txn = await first.begin(3000, None)
    await first.close()
    await asyncio.sleep(60)
    second = await bench.coordinator()
    await until(lambda: second.aborted == 1)
    assert [end[:1] for end in bench.ends.done] == [(txn,)]
    await second.close()


@pytest.mark.parametrize("hours", [-24, 24])
async def test_x6_a_clock_that_is_set_changes_no_time_out(bench: Bench, hours: int) -> None:
    clock = bench.brokers.cluster.clock
    assert isinstance(clock, LoopClock)
    first = await bench.coordinator()
    begun = asyncio.get_running_loop().time()
    await first.begin(3000, None)
    clock.epoch_ms += hours * 3_600_000
    await until(lambda: first.timed_out == 1)
    assert 2.9 <= asyncio.get_running_loop().time() - begun < 3.2
    await first.begin(3000, None)
    await first.close()
    # The clock was ahead when the transaction began, and is right again.
    clock.epoch_ms -= 48 * 3_600_000
    second = await bench.coordinator()
    await until(lambda: second.timed_out == 1)
    assert asyncio.get_running_loop().time() - begun < 7
    await second.close()


async def test_ids_never_repeat_although_the_whole_log_was_trimmed(bench: Bench) -> None:
    config = rolling(4)
    factory = bench.factory()
    first = await bench.coordinator(factory, config)
    for _ in range(3):
        await first.end(await first.begin(1000, None), commit=True)
    ledger = first.log.ledger
    while ledger.stats().entries:
        await asyncio.sleep(1)
        await ledger.trim()
    await first.close()
    second = await bench.coordinator(config=config)
    assert (await second.begin(1000, None)).least > 2
    await second.close()


async def test_the_log_is_kept_from_the_oldest_open_transaction_on(bench: Bench) -> None:
    coordinator = await bench.coordinator()
    first, second = await coordinator.begin(9000, None), await coordinator.begin(9000, None)
    await coordinator.end(second, commit=True)
    cursor = coordinator.log.cursor
    assert cursor.name == CURSOR
    await until(lambda: cursor.backlog_entries() == 1)
    assert coordinator.table.low_water_mark == -1
    await coordinator.end(first, commit=True)
    assert coordinator.table.low_water_mark == 1
    await until(lambda: cursor.backlog_entries() == 0)
    await coordinator.close()


async def test_limits_are_refused_with_the_setting(bench: Bench) -> None:
    coordinator = await bench.coordinator(
        max_active_transactions_per_coordinator=3, max_active_transactions_per_owner=2
    )
    txn = await coordinator.begin(1000, "app")
    await coordinator.begin(1000, "app")
    with pytest.raises(TooManyRequests, match="max_active_transactions_per_owner"):
        await coordinator.begin(1000, "app")
    await coordinator.begin(1000, "other")
    with pytest.raises(TooManyRequests, match="max_active_transactions_per_coordinator"):
        await coordinator.begin(1000, "third")
    await coordinator.end(txn, commit=False)
    await coordinator.begin(1000, "app")
    with pytest.raises(NotAllowed, match="txn_ttl_millis 0"):
        await coordinator.begin(0, "app")
    await coordinator.close()


async def test_a_time_out_is_bounded(bench: Bench) -> None:
    coordinator = await bench.coordinator(transaction_timeout_max_ms=500)
    assert coordinator.find(await coordinator.begin(1 << 63, None)).timeout_ms == 500
    await coordinator.close()


async def test_the_topics_of_a_transaction_are_bounded(bench: Bench) -> None:
    coordinator = await bench.coordinator()
    txn = await coordinator.begin(1000, None)
    await add_partitions(coordinator, txn, [f"{TOPIC}{i}" for i in range(PARTICIPANTS_MAX)])
    with pytest.raises(NotAllowed, match=str(PARTICIPANTS_MAX)):
        await add_partitions(coordinator, txn, [TOPIC])
    await coordinator.close()


async def test_x7_records_that_are_stored_together_are_read_by_the_next_owner(bench: Bench) -> None:
    batched = {"transaction_log_batched_write_enabled": True}
    coordinator = await bench.coordinator(**batched)
    txns = await asyncio.gather(*(coordinator.begin(20_000, "app") for _ in range(4)))
    assert [txn.least for txn in txns] == [0, 1, 2, 3]
    await asyncio.gather(*(add_partitions(coordinator, txn, [TOPIC]) for txn in txns))
    assert coordinator.log.ledger.stats().entries == 2
    await asyncio.gather(*(coordinator.end(txn, commit=True) for txn in txns[:3]))
    await until(lambda: coordinator.log.cursor.backlog_entries() == 2)
    other = await bench.coordinator()
    assert [txn.id for txn in other.table] == txns[3:]
    assert list(other.find(txns[3]).partitions) == [TOPIC]
    await other.end(txns[3], commit=False)
    await until(lambda: other.log.cursor.backlog_entries() == 0)


@pytest.mark.parametrize("batched", [False, True])
async def test_ended_transactions_behind_an_open_one_are_not_read_at_a_load(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, batched: bool
) -> None:
    settings = {"transaction_log_batched_write_enabled": batched}
    coordinator = await bench.coordinator(**settings)
    is_open = await coordinator.begin(86_000_000, None)
    for _ in range(20):
        txns = [await coordinator.begin(20_000, None) for _ in range(30)]
        await asyncio.gather(*(coordinator.end(txn, commit=True) for txn in txns))
    await until(lambda: coordinator.log.cursor.backlog_entries() <= 30)
    await coordinator.close()
    replayed: list[int] = []
    real = TransactionTable.replay

    def replay(self: TransactionTable, record: Entry, position: Position) -> list[Position]:
        replayed.append(record.txnid_least_bits)
        return real(self, record, position)

    monkeypatch.setattr(TransactionTable, "replay", replay)
    again = await bench.coordinator(**settings)
    assert [txn.id for txn in again.table] == [is_open]
    assert replayed[0] == is_open.least
    assert len(replayed) <= 60
    assert await again.begin(20_000, None) == TxnId(3, 601)
    await again.close()
