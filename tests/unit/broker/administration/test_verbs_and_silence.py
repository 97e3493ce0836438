"""Operations while any one call of the metadata store gets no answer. None reports a success that it did not have, and
afterwards this broker and the next one can use and delete everything."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from engine.base.errors import WorldError
from engine.base.ids import EARLIEST
from engine.base.names import TopicName
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import BrokerError, SubscriptionNotFound
from engine.managed.errors import ManagedLedgerError
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from tests.support.broker_bench import Bench, opened
from tests.support.stores.failing import FailingStore

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
QUICK = ManagedSettings(
    retry_initial_s=0.001,
    retry_max_s=0.004,
    metadata_attempts_max=2,
    cursor_persist_interval_s=3600,
)
SILENT_CALLS = 3
"""Unanswered calls: more than the attempts of one write, few enough for operations that retry until they succeed."""
CALLS_MAX = 60


@dataclass(frozen=True)
class Verb:
    """Operation on a topic of four entries whose subscription "s" acknowledged one, and a check of its result."""

    work: Callable[[Bench], Awaitable[object]]
    holds: Callable[[Bench], bool]


def backlog(count: int) -> Callable[[Bench], bool]:
    return lambda bench: bench.subscription.cursor.backlog_entries() == count


async def create(bench: Bench) -> None:
    await bench.topic.subscriptions.create("n", FIRST, {})


async def delete(bench: Bench) -> None:
    await bench.topic.subscriptions.delete("s")


async def delete_forced(bench: Bench) -> None:
    await bench.join(SubscriptionType.SHARED)
    await bench.topic.subscriptions.delete("s", force=True)


async def delete_topic(bench: Bench) -> None:
    await bench.registry.deletions.delete(bench.topic.name, force=True)
    await bench.load(bench.topic.name)


async def unload(bench: Bench) -> None:
    await bench.registry.unload(bench.topic.name)
    await bench.load(bench.topic.name)


async def expire(bench: Bench) -> None:
    ledger = bench.topic.log
    bench.subscription.moves.pass_over(ledger.previous_position(ledger.last_confirmed))
    await bench.subscription.cursor.persisted()


VERBS = {
    "create": Verb(
        create,
        lambda bench: (
            "n" in bench.topic.subscriptions
            and bench.topic.subscriptions["n"].cursor.backlog_entries() == 4
        ),
    ),
    "delete": Verb(delete, lambda bench: bench.topic.subscriptions.names == []),
    "delete, forced": Verb(delete_forced, lambda bench: bench.topic.subscriptions.names == []),
    "delete the topic": Verb(
        delete_topic,
        lambda bench: not bench.topic.subscriptions.names and not bench.topic.log.stats().entries,
    ),
    "unload": Verb(unload, backlog(3)),
    "reset": Verb(lambda bench: bench.subscription.moves.reset(EARLIEST), backlog(4)),
    "skip": Verb(lambda bench: bench.subscription.moves.skip(1), backlog(2)),
    "clear": Verb(lambda bench: bench.subscription.moves.clear(), backlog(0)),
    "expire": Verb(expire, backlog(1)),
    "terminate": Verb(lambda bench: bench.topic.terminate(), lambda bench: bench.topic.terminated),
}


class Silence:
    """The failing store of the broker under test."""

    store: FailingStore

    def wrap(self, store: MetadataStore) -> MetadataStore:
        self.store = FailingStore(store)
        return self.store


@pytest.fixture
def silence() -> Silence:
    return Silence()


@pytest.fixture
async def bench(silence: Silence) -> AsyncIterator[Bench]:
    async with opened(settings=QUICK, wrap=silence.wrap) as made:
        await made.registry.deletions.delete(made.topic.name, force=True)
        yield made


async def prepare(bench: Bench, name: TopicName) -> None:
    await bench.load(name)
    await bench.topic.subscriptions.create("s", FIRST, {})
    await bench.publish(4)
    cursor = bench.subscription.cursor
    cursor.acknowledge([bench.topic.log.next_position(EARLIEST)])
    await cursor.persisted()


async def attempt(bench: Bench, verb: Verb) -> bool:
    """Return whether the verb reports that it is done. Its refusal must be a retriable error of the broker's."""
    try:
        await verb.work(bench)
    except SubscriptionNotFound:
        assert verb.holds(bench), "a deletion that reports a missing subscription has deleted it"
        return True
    except (BrokerError, WorldError, ManagedLedgerError) as error:
        assert error.retriable, error
        return False
    return True


async def can_be_used_and_deleted(bench: Bench) -> None:
    """Check that the subscription keeps its acknowledgements, and that both can be deleted without a trace."""
    topic = bench.topic
    await topic.subscriptions.create("s", FIRST, {})
    if not topic.terminated:
        await bench.publish(1)
    await bench.subscription.moves.clear()
    await bench.kill()
    await bench.load(topic.name)
    assert backlog(0)(bench)
    for name in bench.topic.subscriptions.names:
        await bench.topic.subscriptions.delete(name)
    await bench.registry.deletions.delete(topic.name, force=False)
    store = bench.cluster.store
    assert await store.exists(paths.managed_ledger(topic.name.managed_ledger_name)) is None


async def check_no_ledger_is_left(bench: Bench) -> None:
    """Check that at most one ledger remains: an empty one, created before any record could name it."""
    tree, client = bench.cluster.server.tree, bench.cluster.client()
    left = [i for i in range(1_000) if tree.exists(paths.ledger(i)) is not None]
    assert len(left) <= 1, left
    for ledger_id in left:
        assert (await client.open(ledger_id, recover=True)).last_confirmed < 0, ledger_id
        await client.delete(ledger_id)


@pytest.mark.parametrize("lost_answer", [False, True])
@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
async def test_no_operation_reports_a_false_success_or_leaves_remains(
    bench: Bench, silence: Silence, verb: Verb, lost_answer: bool
) -> None:
    for k in range(1, CALLS_MAX):
        await prepare(bench, TopicName.parse(f"persistent://public/default/t{k}"))
        silence.store.fail_at(k, lost_answer=lost_answer, calls=SILENT_CALLS)
        done = await attempt(bench, verb)
        met = silence.store.failed
        silence.store.heal()
        if not done:
            await bench.load(bench.topic.name)
            assert await attempt(bench, verb) or verb.holds(bench), (
                k,
                "again, with a store that answers",
            )
        assert verb.holds(bench), (k, done)
        await bench.kill()
        await bench.load(bench.topic.name)
        assert verb.holds(bench), (k, done, "after a kill")
        await can_be_used_and_deleted(bench)
        await check_no_ledger_is_left(bench)
        if not met:
            return
    raise AssertionError("the store was called more often than expected")
