"""Transactions that no client ends: when their coordinators are asked about them, and what is aborted then."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from types import SimpleNamespace

import pytest

from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import ServiceNotReady
from engine.broker.topics.transactional.abandoned import (
    ASK_AFTER_MAX_S,
    ASK_AFTER_S,
    CHECK_S,
    AbandonedTransactions,
)
from engine.broker.transactions.txn_id import TxnId
from engine.client.errors import NoAnswerError
from tests.support.broker_bench import NAME, Bench, opened
from tests.support.transactions.bench import KeptSnapshots, end, put
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

A, B = TxnId(0, 0), TxnId(7, 1 << 62)


class Coordinators:
    """Stand-in for the coordinators: ``over`` are the transactions that have ended, or never began."""

    def __init__(self) -> None:
        self.over: set[TxnId] = set()
        self.asked: list[tuple[float, TxnId, str | None]] = []
        self.failures = 0

    async def is_over(self, txn: TxnId, topic: str, subscription: str | None) -> bool:
        assert topic == NAME.full
        self.asked.append((asyncio.get_running_loop().time(), txn, subscription))
        await asyncio.sleep(0.1)
        if self.failures:
            self.failures -= 1
            raise NoAnswerError("no coordinator")
        return txn in self.over


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened(snapshots=KeptSnapshots()) as made:
        yield made


@pytest.fixture
def coordinators() -> Coordinators:
    return Coordinators()


@pytest.fixture
async def watch(bench: Bench, coordinators: Coordinators) -> AsyncIterator[AbandonedTransactions]:
    watch = AbandonedTransactions(bench.registry._loaded, coordinators, bench.cluster.clock)
    watch.start()
    yield watch
    await watch.close()


async def test_x11_what_never_ends_by_its_coordinator_is_aborted(
    bench: Bench, coordinators: Coordinators, watch: AbandonedTransactions
) -> None:
    _, client = await bench.join(SubscriptionType.SHARED)
    await put(bench, B)
    await put(bench, A)
    await put(bench)
    began_s = asyncio.get_running_loop().time()
    coordinators.over = {B}
    await until(lambda: len(coordinators.asked) == 2, bound_s=120)
    assert coordinators.asked[0][0] - began_s >= ASK_AFTER_S
    buffer = bench.topic.transactions
    assert buffer is not None
    await until(lambda: list(buffer.open) == [A])
    assert client.received == []
    await end(bench, A, commit=True)
    await until(lambda: [at.entry_id for at in client.received] == [1, 2])
    await asyncio.sleep(3 * ASK_AFTER_S)
    assert len(coordinators.asked) == 2


async def test_coordinators_are_asked_less_often_about_what_stays_open(
    bench: Bench, coordinators: Coordinators, watch: AbandonedTransactions
) -> None:
    await put(bench, A)
    coordinators.failures = 2
    await asyncio.sleep(2300)
    times = [at for at, *_ in coordinators.asked]
    pauses = [later - before for before, later in pairwise(times)]
    longest = ASK_AFTER_MAX_S
    for pause, wanted in zip(pauses, (60, 120, 240, 480, longest, longest), strict=True):
        assert wanted <= pause <= wanted + 2 * CHECK_S


async def test_acknowledgements_are_watched_like_messages(
    bench: Bench, coordinators: Coordinators, watch: AbandonedTransactions
) -> None:
    consumer, _ = await bench.join(SubscriptionType.SHARED)
    open_ = {A: None, B: None}
    ended: list[tuple[TxnId, bool, int]] = []
    refusals = 1

    async def end_acks(txn: TxnId, *, commit: bool, low_water_mark: int) -> None:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise ServiceNotReady("the log is being replayed")
        ended.append((txn, commit, low_water_mark))
        del open_[txn]

    acks = SimpleNamespace(open=open_.keys(), end=end_acks)
    bench.subscription.pending_acks = acks  # type: ignore[assignment]
    coordinators.over = {A}
    await until(lambda: ended == [(A, False, -1)], bound_s=300)
    assert {asked[1:] for asked in coordinators.asked} == {(A, "s"), (B, "s")}
    assert list(open_) == [B]
    bench.subscription.pending_acks = None
    bench.subscription.detach(consumer)
