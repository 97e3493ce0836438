"""Beyond a backlog quota producers are held or refused, or entries of the slowest subscriptions are dropped."""

import logging
from collections.abc import AsyncIterator

import pytest

from engine.admin.api.statistics import TopicStats
from engine.broker.administration import reports
from engine.broker.connection.produce import ProduceCommands
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import BacklogExceeded, BacklogHeld, BrokerError, ServiceNotReady
from engine.broker.policies import (
    BacklogPolicies,
    BacklogQuota,
    QuotaAction,
    TopicPolicies,
)
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from tests.support.broker_bench import NAME, Bench, Client, opened, put_in_force, round_of
from tests.support.stores.failing import FailingStore

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
SETTINGS = ManagedSettings(
    cache_bytes_max=1, retry_initial_s=0.002, retry_max_s=0.01, metadata_attempts_max=2
)
BLOCKING = pytest.mark.parametrize(
    ("action", "refusal"),
    [(QuotaAction.HOLD, BacklogHeld), (QuotaAction.REFUSE, BacklogExceeded)],
)


class Silent:
    """A broker's metadata store that can be made unavailable for the node of the subscription "u"."""

    failing: FailingStore

    def wrap(self, store: MetadataStore) -> MetadataStore:
        node = paths.cursor(NAME.managed_ledger_name, "u")
        self.failing = FailingStore(store, lambda operation, path: path == node)
        return self.failing


@pytest.fixture
def silent() -> Silent:
    return Silent()


@pytest.fixture
async def bench(silent: Silent) -> AsyncIterator[Bench]:
    async with opened(settings=SETTINGS, wrap=silent.wrap) as made:
        await made.topic.publishers.admit(made.producer)
        yield made


async def subscribe(bench: Bench, *names: str) -> None:
    for name in names:
        await bench.topic.subscriptions.create(name, FIRST, {})


async def publish(bench: Bench, count: int, age_s: int = 0) -> int:
    """Publish ``count`` entries and return the bytes of an entry."""
    before = bench.topic.log.stats().size
    await bench.publish(count, publish_ms=bench.context.clock.wall_ms() - age_s * 1000)
    return (bench.topic.log.stats().size - before) // count


def size_quota(limit: int, action: QuotaAction) -> TopicPolicies:
    return TopicPolicies(backlog=BacklogPolicies(size_quota=BacklogQuota(limit, action)))


def age_quota(limit_s: int, action: QuotaAction) -> TopicPolicies:
    return TopicPolicies(backlog=BacklogPolicies(age_quota=BacklogQuota(limit_s, action)))


def backlogs(bench: Bench) -> dict[str, int]:
    subscriptions = bench.topic.subscriptions.values()
    return {
        subscription.name: subscription.cursor.backlog_entries() for subscription in subscriptions
    }


async def make_unread(bench: Bench, silent: Silent) -> None:
    """Delete the subscription "u" without an answer: whether it was deleted is not known."""
    await subscribe(bench, "u")
    silent.failing.fail_at(1, calls=1_000_000)
    with pytest.raises(ServiceNotReady):
        await bench.topic.subscriptions.delete("u")
    assert "u" in bench.topic.subscriptions.unread


@BLOCKING
async def test_beyond_the_size_producers_are_refused_until_consumers_catch_up(
    bench: Bench, action: QuotaAction, refusal: type[BrokerError]
) -> None:
    await subscribe(bench, "s", "t")
    size = await publish(bench, 9)
    put_in_force(bench.topic, size_quota(10 * size, action))
    await round_of(bench, "quotas")
    await bench.topic.quotas.admit()
    assert bench.publisher.dropped == []
    await publish(bench, 1)
    with pytest.raises(
        refusal, match=r"^Cannot create producer on topic with backlog quota exceed"
    ):
        await bench.topic.quotas.admit()  # refused before the next round of upkeep
    assert bench.publisher.dropped == []
    await round_of(bench, "quotas")
    assert (bench.publisher.dropped, bench.topic.producers) == ([1], {})
    await bench.topic.subscriptions["s"].moves.skip(1)
    with pytest.raises(refusal):
        await bench.topic.quotas.admit()  # the other one is as slow as before
    await bench.topic.subscriptions["t"].moves.skip(1)
    await bench.topic.quotas.admit()
    assert backlogs(bench) == {"s": 9, "t": 9}  # no subscription lost an entry


@BLOCKING
async def test_beyond_the_age_producers_are_refused_until_consumers_catch_up(
    bench: Bench, action: QuotaAction, refusal: type[BrokerError]
) -> None:
    await subscribe(bench, "s", "t")
    await publish(bench, 1, age_s=100)
    await publish(bench, 1, age_s=10)
    put_in_force(bench.topic, age_quota(200, action))
    await round_of(bench, "quotas")
    await bench.topic.quotas.admit()
    put_in_force(bench.topic, age_quota(50, action))
    with pytest.raises(refusal):
        await bench.topic.quotas.admit()
    await round_of(bench, "quotas")
    assert bench.publisher.dropped == [1]
    for subscription in bench.topic.subscriptions.values():
        await subscription.moves.skip(1)
    await bench.topic.quotas.admit()
    await bench.topic.subscriptions["s"].moves.clear()
    await bench.topic.subscriptions["t"].moves.clear()
    put_in_force(bench.topic, age_quota(1, action))
    await bench.topic.quotas.admit()  # without a backlog nothing is old


async def test_a_refused_producer_gets_pulsars_code_and_creates_no_subscription(
    bench: Bench,
) -> None:
    await subscribe(bench, "s")
    size = await publish(bench, 1)
    produce = ProduceCommands(Client(), bench.context, bench.registry, bench.schemas)
    request = pb.CommandProducer(
        topic=NAME.full, producer_id=7, request_id=1, initial_subscription_name="first"
    )
    codes = []
    for action in (QuotaAction.HOLD, QuotaAction.REFUSE):
        put_in_force(bench.topic, size_quota(size, action))
        with pytest.raises(BrokerError) as caught:
            await produce.producer(request)
        codes.append(caught.value.code)
    assert codes == [
        ServerError.ProducerBlockedQuotaExceededError,
        ServerError.ProducerBlockedQuotaExceededException,
    ]
    assert list(bench.topic.subscriptions) == ["s"]
    put_in_force(bench.topic, size_quota(size, QuotaAction.EVICT))
    await produce.producer(request)
    assert len(produce.producers) == 1


async def test_eviction_leaves_nine_tenths_of_the_size_to_the_slowest(bench: Bench) -> None:
    await subscribe(bench, "slow", "quick")
    size = await publish(bench, 20)
    await bench.topic.subscriptions["quick"].moves.skip(15)
    put_in_force(bench.topic, size_quota(21 * size, QuotaAction.EVICT))
    await round_of(bench, "quotas")
    assert backlogs(bench) == {"slow": 20, "quick": 5}
    put_in_force(bench.topic, size_quota(10 * size, QuotaAction.EVICT))
    await round_of(bench, "quotas")
    assert backlogs(bench) == {"slow": 9, "quick": 5}
    assert bench.publisher.dropped == []
    await bench.topic.subscriptions["slow"].cursor.persisted()
    await bench.kill()
    await bench.load()
    assert backlogs(bench) == {"slow": 9, "quick": 5}


async def test_eviction_by_age_drops_older_messages_and_counts_them(bench: Bench) -> None:
    await subscribe(bench, "s", "t")
    await publish(bench, 3, age_s=100)
    await publish(bench, 2, age_s=10)
    put_in_force(bench.topic, age_quota(50, QuotaAction.EVICT))
    await bench.topic.subscriptions["t"].moves.skip(4)
    await round_of(bench, "quotas")
    assert backlogs(bench) == {"s": 2, "t": 1}
    subscriptions = bench.topic.subscriptions
    assert (
        subscriptions["s"].counters.expired.total,
        subscriptions["t"].counters.expired.total,
    ) == (3, 0)


async def test_the_backlog_of_readers_does_not_count(bench: Bench) -> None:
    size = await publish(bench, 10)
    await bench.topic.log.open_cursor("r", FIRST, durable=False, cursor_properties={})
    consumer = await bench.join(SubscriptionType.EXCLUSIVE, permits=0)
    await bench.topic.subscriptions["s"].moves.clear()
    put_in_force(bench.topic, size_quota(size, QuotaAction.HOLD))
    await bench.topic.quotas.admit()
    assert consumer[0].attached


async def test_an_unknown_backlog_evicts_nothing_and_refuses_no_further_producer(
    bench: Bench, silent: Silent
) -> None:
    await subscribe(bench, "s")
    size = await publish(bench, 10, age_s=100)
    await make_unread(bench, silent)
    for policies in (size_quota(size, QuotaAction.EVICT), age_quota(10, QuotaAction.EVICT)):
        put_in_force(bench.topic, policies)
        await round_of(bench, "quotas")
        assert backlogs(bench) == {"s": 10}
    for policies in (size_quota(size, QuotaAction.HOLD), age_quota(10, QuotaAction.HOLD)):
        put_in_force(bench.topic, policies)
        await bench.topic.quotas.admit()
        await round_of(bench, "quotas")
    assert bench.publisher.dropped == []


@pytest.mark.parametrize("by_age", [False, True])
async def test_producers_stay_refused_while_the_backlog_is_unknown(
    bench: Bench, silent: Silent, by_age: bool
) -> None:
    await subscribe(bench, "s")
    size = await publish(bench, 10, age_s=100)
    hold = QuotaAction.HOLD
    put_in_force(bench.topic, age_quota(10, hold) if by_age else size_quota(size, hold))
    await round_of(bench, "quotas")
    await make_unread(bench, silent)
    await bench.subscription.moves.clear()
    with pytest.raises(BacklogHeld):
        await bench.topic.quotas.admit()
    silent.failing.heal()
    await bench.topic.subscriptions.delete("u")
    await bench.topic.quotas.admit()


async def test_without_an_answer_of_storage_the_age_does_not_change(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    await subscribe(bench, "s")
    await publish(bench, 2, age_s=100)
    put_in_force(bench.topic, age_quota(10, QuotaAction.HOLD))
    caplog.set_level(logging.INFO)
    await bench.cluster.stop("b0")
    await round_of(bench, "quotas")
    assert bench.publisher.dropped == []
    assert "quotas not done" in caplog.text
    await bench.topic.quotas.admit()
    assert "age of the backlog not known" in caplog.text
    await bench.cluster.start("b0")
    while not bench.publisher.dropped:
        await round_of(bench, "quotas")
    with pytest.raises(BacklogHeld):
        await bench.topic.quotas.admit()


async def test_the_oldest_message_is_read_once_for_as_long_as_it_is_the_oldest(
    bench: Bench,
) -> None:
    await subscribe(bench, "s")
    await publish(bench, 2, age_s=100)
    put_in_force(bench.topic, age_quota(1000, QuotaAction.HOLD))
    await round_of(bench, "quotas")
    await bench.cluster.stop("b0")
    put_in_force(bench.topic, age_quota(10, QuotaAction.HOLD))
    with pytest.raises(BacklogHeld):
        await bench.topic.quotas.admit()
    await bench.cluster.start("b0")


async def test_the_statistics_show_quotas_and_the_oldest_message(bench: Bench) -> None:
    await subscribe(bench, "s", "t")
    await publish(bench, 1, age_s=100)
    put_in_force(bench.topic, TopicPolicies(backlog=BacklogPolicies(size_quota=BacklogQuota(7000))))
    await bench.topic.subscriptions["s"].moves.clear()
    before = reports.topic_stats(bench.topic, TopicStats(bench.topic.name), "b")
    assert before["oldestBacklogMessageAgeSeconds"] == -1
    await round_of(bench, "quotas")
    stats = reports.topic_stats(bench.topic, TopicStats(bench.topic.name), "b")
    assert (stats["backlogQuotaLimitSize"], stats["backlogQuotaLimitTime"]) == (7000, -1)
    assert 100 <= stats["oldestBacklogMessageAgeSeconds"] < 400
    assert stats["oldestBacklogMessageSubscriptionName"] == "t"
