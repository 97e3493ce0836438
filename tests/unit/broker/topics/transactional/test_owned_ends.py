"""Ends of transactions on the topics that one broker serves, and what is left to requests to others."""

from collections.abc import AsyncIterator, Callable, Collection
from typing import cast

import pytest

from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.broker.errors import BrokerError, InvalidTxnStatus, ServiceNotReady
from engine.broker.topics.transactional.owned_ends import TopicEnds
from engine.broker.transactions.coordinator.participants import Frame, Participants
from engine.broker.transactions.outcomes import Outcome
from engine.broker.transactions.txn_id import TxnId
from engine.client.client import PulsarClient
from tests.support.broker_bench import NAME, Bench, opened
from tests.support.transactions.bench import KeptSnapshots, put
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

A, B = TxnId(0, 0), TxnId(0, 1)
OTHER = "persistent://public/default/elsewhere"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened(snapshots=KeptSnapshots()) as made:
        yield made


def ends_of(bench: Bench) -> TopicEnds:
    topics = bench.registry
    return TopicEnds(topics, topics._loaded, bench.everything)


def on_topic(
    bench: Bench, txn: TxnId, outcome: Outcome, topic: str = NAME.full, *, commit: bool = True
) -> bool:
    ends = ends_of(bench)
    return ends.end(txn, topic, None, commit=commit, low_water_mark=-1, outcome=outcome)


async def test_an_end_is_reported_when_its_marker_is_durable(bench: Bench) -> None:
    await put(bench, A)
    before = bench.topic.log.last_confirmed
    outcomes: list[BrokerError | None] = []
    assert on_topic(bench, A, outcomes.append)
    assert on_topic(bench, A, outcomes.append)
    assert (outcomes, bench.topic.log.last_confirmed) == ([], before)
    with pytest.raises(ServiceNotReady, match="the other way"):
        on_topic(bench, A, outcomes.append, commit=False)
    await until(lambda: len(outcomes) == 2)
    assert outcomes == [None, None]
    assert bench.topic.log.last_confirmed.entry_id == before.entry_id + 1
    assert bench.topic.log.last_readable == bench.topic.log.last_confirmed
    with pytest.raises(InvalidTxnStatus, match="is COMMITTED"):
        on_topic(bench, A, outcomes.append, commit=False)


async def test_ends_of_one_turn_are_appended_together_in_their_order(bench: Bench) -> None:
    txns = [TxnId(0, least) for least in range(5)]
    for txn in txns:
        await put(bench, txn)
    appended: list[int] = []
    log = bench.topic.log
    real = log.append
    buffer = bench.topic.transactions
    assert buffer is not None

    class Watched:
        def append(self, run: object, sink: object) -> None:
            appended.append(run.count)  # type: ignore[attr-defined]
            real(run, sink)  # type: ignore[arg-type]

    buffer._markers._log = Watched()
    outcomes: list[BrokerError | None] = []
    for txn in txns:
        assert on_topic(bench, txn, outcomes.append, commit=txn.least != 3)
    await until(lambda: outcomes == [None] * 5)
    assert appended == [5]
    assert (buffer.counts.committed, buffer.counts.aborted) == (4, 1)
    assert [*buffer.aborted] == [txns[3]]


async def test_an_absent_topic_or_subscription_has_nothing_to_end(bench: Bench) -> None:
    outcomes: list[BrokerError | None] = []
    ends = ends_of(bench)
    assert on_topic(bench, A, outcomes.append)
    assert ends.end(
        *(A, NAME.full, "never"), commit=True, low_water_mark=-1, outcome=outcomes.append
    )
    assert outcomes == [None, None]
    assert not on_topic(bench, A, outcomes.append, OTHER)


async def test_x8_a_topic_that_may_have_another_owner_confirms_no_end(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_owned(topic: TopicName) -> None:
        raise ServiceNotReady("the session is not proven")

    monkeypatch.setattr(bench.everything, "check_owned", check_owned)
    outcomes: list[BrokerError | None] = []
    ends = ends_of(bench)
    assert not ends.owns(NAME.full)
    assert not on_topic(bench, A, outcomes.append)
    assert not ends.end(
        *(A, NAME.full, "s"), commit=True, low_water_mark=-1, outcome=outcomes.append
    )
    assert outcomes == []


class Requests(Participants):
    """Participants here, and requests to others that are recorded and confirmed at once."""

    def __init__(self, bench: Bench) -> None:
        client = cast(PulsarClient, bench.context)  # of which the clock is used
        super().__init__(client, 10, ends_of(bench))
        self.requested: list[str] = []

    async def _end(self, txn: TxnId, topic: str, frame: Frame, commit: bool) -> None:
        self.requested.append(topic)


async def test_an_end_is_confirmed_when_all_participants_have_confirmed_it(bench: Bench) -> None:
    await put(bench, A)
    await put(bench, B)
    participants = Requests(bench)
    tasks = TaskScope("test")
    confirmed: list[int] = []

    def end(txn: TxnId, topics: Collection[str], *, commit: bool) -> Callable[[], bool]:
        participants.end(
            txn,
            topics,
            [(NAME.full, "never")],
            commit=commit,
            low_water_mark=lambda: -1,
            tasks=tasks,
            ended=lambda: confirmed.append(bench.topic.log.last_confirmed.entry_id),
        )
        return lambda: len(confirmed) == txn.least + 1

    last = bench.topic.log.last_confirmed.entry_id
    await until(end(A, [NAME.full], commit=True))
    assert (participants.requested, participants.pending) == ([], 0)
    await until(end(B, [OTHER, NAME.full], commit=False))
    assert participants.requested == [OTHER]
    assert confirmed == [last + 1, last + 2]
    assert (participants.times[True].count, participants.times[False].count) == (2, 2)
    await tasks.close()


async def test_an_end_that_fails_here_is_requested(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await put(bench, A)
    buffer = bench.topic.transactions
    assert buffer is not None

    def end_soon(txn: TxnId, *, commit: bool, low_water_mark: int, outcome: Outcome) -> bool:
        outcome(ServiceNotReady("the marker may not be stored"))
        return True

    monkeypatch.setattr(
        type(buffer), "end_soon", lambda self, *args, **named: end_soon(*args, **named)
    )
    participants, tasks = Requests(bench), TaskScope("test")
    confirmed: list[bool] = []
    participants.end(
        A,
        [NAME.full],
        [],
        commit=True,
        low_water_mark=lambda: -1,
        tasks=tasks,
        ended=lambda: confirmed.append(True),
    )
    await until(lambda: confirmed == [True])
    assert (participants.requested, participants.times[True].failed) == ([NAME.full], 1)
    await tasks.close()
