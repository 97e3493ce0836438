"""Subscriptions whose creation or deletion the metadata store did not answer: complete afterwards, or deleted."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.statistics import TopicStats
from engine.broker.administration import reports
from engine.broker.connection.consume import ConsumeCommands
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import ServiceNotReady, SubscriptionNotFound
from engine.managed.cursors.cursor_store import CursorStore
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import ManagedSettings
from engine.managed.stored.records import CursorState
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.wire import pulsar_pb2 as pb
from tests.support.broker_bench import NAME, Bench, Client, opened, until
from tests.support.stores.failing import FailingStore

pytestmark = pytest.mark.virtual_time

FIRST = InitialPosition.EARLIEST
SHARED = SubscriptionType.SHARED
NODE = paths.cursor(NAME.managed_ledger_name, "s")
QUICK = ManagedSettings(
    retry_initial_s=0.002, retry_max_s=0.01, metadata_attempts_max=2, cursor_persist_interval_s=0.01
)
PATIENT = ManagedSettings(retry_initial_s=3600, retry_max_s=3600, metadata_attempts_max=1)
"""Settings with pauses before retries that no test waits for."""
LOST = pytest.mark.parametrize("lost_answer", [False, True])


class Away:
    """A broker's metadata store that can be made unavailable for the node of one subscription."""

    def __init__(self) -> None:
        self.failing: FailingStore | None = None

    def wrap(self, store: MetadataStore) -> MetadataStore:
        self.failing = FailingStore(store, lambda operation, path: path == NODE)
        return self.failing

    def now(self, *, lost_answer: bool, calls: int = 1_000) -> None:
        assert self.failing is not None
        self.failing.fail_at(1, lost_answer=lost_answer, calls=calls)

    def over(self) -> None:
        assert self.failing is not None
        self.failing.heal()


@pytest.fixture
def away() -> Away:
    return Away()


@pytest.fixture
async def bench(away: Away) -> AsyncIterator[Bench]:
    async with opened(settings=QUICK, wrap=away.wrap) as made:
        yield made


async def durable(bench: Bench) -> None:
    """Assert that "s" has its acknowledged and its unacknowledged entries after a kill."""
    await bench.topic.subscriptions.create("s", FIRST, {})
    cursor = bench.subscription.cursor
    await cursor.clear()
    await bench.publish(3)
    cursor.acknowledge([bench.topic.log.last_confirmed])
    await asyncio.wait_for(cursor.persisted(), 120)
    await bench.kill()
    await bench.load()
    assert list(bench.topic.subscriptions) == ["s"]
    assert bench.subscription.cursor.backlog_entries() == 2


@LOST
async def test_after_a_failed_deletion_the_subscription_is_complete_or_deleted(
    bench: Bench, away: Away, lost_answer: bool
) -> None:
    consumer, client = await bench.join(SHARED)
    await bench.publish(5)
    await until(lambda: len(client.received) == 5)
    bench.subscription.acknowledge(consumer, client.received[:2])
    await bench.subscription.cursor.persisted()
    away.now(lost_answer=lost_answer)
    with pytest.raises(ServiceNotReady, match="not known to be deleted"):
        await bench.topic.subscriptions.delete("s", force=True)
    assert client.dropped == [1], "its client was told to reconnect"
    assert bench.topic.subscriptions.names == ["s"]
    stats = reports.topic_stats(bench.topic, TopicStats(NAME), "b")["subscriptions"]["s"]
    assert stats["msgBacklog"] == 5
    assert "no answer" in stats["blockedBy"]
    with pytest.raises(ServiceNotReady, match="cannot be used now"):
        await bench.join(SHARED)
    away.over()
    _, client = await bench.join(SHARED)
    await until(lambda: len(client.received) == (5 if lost_answer else 3))
    await durable(bench)


@LOST
async def test_a_subscription_is_loaded_again_if_its_deletion_did_not_happen(
    bench: Bench, away: Away, lost_answer: bool
) -> None:
    await bench.topic.subscriptions.create("s", FIRST, {})
    away.now(lost_answer=lost_answer)
    with pytest.raises(ServiceNotReady):
        await bench.topic.subscriptions.delete("s")
    away.over()
    await until(lambda: not bench.topic.subscriptions.unread)
    assert list(bench.topic.subscriptions) == ([] if lost_answer else ["s"])


@LOST
async def test_a_repeated_deletion_deletes(away: Away, lost_answer: bool) -> None:
    async with opened(settings=PATIENT, wrap=away.wrap) as bench:
        await bench.topic.subscriptions.create("s", FIRST, {})
        await bench.publish(1)
        away.now(lost_answer=lost_answer)
        for _ in range(2):
            with pytest.raises(ServiceNotReady):
                await bench.topic.subscriptions.delete("s")
            await bench.topic.log.trim()
            assert bench.topic.log.stats().entries == 1
        away.over()
        await bench.topic.subscriptions.delete("s")
        assert bench.topic.subscriptions.names == []
        with pytest.raises(SubscriptionNotFound):
            await bench.topic.subscriptions.delete("s")
        assert await bench.cluster.store.exists(NODE) is None


@LOST
async def test_a_subscription_whose_creation_got_no_answer_is_complete_or_absent(
    bench: Bench, away: Away, lost_answer: bool
) -> None:
    await bench.publish(1)
    away.now(lost_answer=lost_answer)
    with pytest.raises(ServiceNotReady):
        await bench.join(SHARED)
    assert bench.topic.subscriptions.names == ["s"]
    assert await bench.cluster.store.exists(NODE) is not None or not lost_answer
    await bench.topic.log.trim()
    away.over()
    await until(lambda: not bench.topic.subscriptions.unread)
    assert list(bench.topic.subscriptions) == (["s"] if lost_answer else [])
    await durable(bench)


async def test_a_subscription_does_not_wait_for_the_storage_of_another(
    away: Away, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answered = asyncio.Event(), asyncio.Event()
    real = CursorStore.take

    async def take(self: CursorStore, *given: Any) -> CursorState:
        asked.set()
        await answered.wait()
        return await real(self, *given)

    async with opened(settings=PATIENT, wrap=away.wrap) as bench:
        await bench.topic.subscriptions.create("s", FIRST, {})
        away.now(lost_answer=False)
        with pytest.raises(ServiceNotReady):
            await bench.topic.subscriptions.delete("s")
        away.over()
        monkeypatch.setattr(CursorStore, "take", take)
        joining = asyncio.ensure_future(bench.join(SHARED))
        await asked.wait()
        await bench.topic.subscriptions.create("other", FIRST, {})
        await bench.topic.subscriptions.delete("other")
        assert not joining.done()
        answered.set()
        await joining


@LOST
async def test_an_administrators_creation_can_be_repeated(
    bench: Bench, away: Away, lost_answer: bool
) -> None:
    away.now(lost_answer=lost_answer)
    with pytest.raises(ServiceNotReady):
        await bench.topic.subscriptions.create("s", FIRST, {})
    away.over()
    made = await bench.topic.subscriptions.create("s", FIRST, {})
    assert (made is None) == lost_answer
    await durable(bench)


async def test_a_cancelled_request_does_not_interrupt_the_deletion(
    bench: Bench,
) -> None:
    await bench.topic.subscriptions.create("s", FIRST, {})
    deletion = asyncio.ensure_future(bench.topic.subscriptions.delete("s"))
    await asyncio.sleep(0)
    deletion.cancel()
    await until(lambda: not bench.topic.subscriptions.names)
    assert await bench.cluster.store.exists(NODE) is None
    await durable(bench)


async def test_a_consumer_that_subscribes_during_a_deletion_waits_and_delays_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.join(SHARED)
    old, ledger, asked, answered = (
        bench.subscription,
        bench.topic.log,
        asyncio.Event(),
        asyncio.Event(),
    )
    delete = ledger.delete_cursor

    async def slowly(_: object, name: str) -> None:
        asked.set()
        await answered.wait()
        await delete(name)

    monkeypatch.setattr(ManagedLedger, "delete_cursor", slowly)
    deletion = asyncio.ensure_future(bench.topic.subscriptions.delete("s", force=True))
    await asked.wait()
    coming = asyncio.ensure_future(bench.join(SHARED))
    await bench.publish(1)  # the loop is free for others
    assert not coming.done()
    answered.set()
    await deletion
    await coming
    assert bench.subscription is not old
    await durable(bench)


async def test_after_a_failed_unsubscribe_the_client_is_asked_to_reconnect(
    bench: Bench, away: Away
) -> None:
    connection = Client()
    commands = ConsumeCommands(connection, bench.context, bench.registry, bench.schemas)
    request = pb.CommandSubscribe(
        topic=str(NAME), subscription="s", subType=SHARED.value, consumer_id=7, request_id=1
    )
    commands.subscribe(request)
    await connection.answers.pop()
    away.now(lost_answer=False)
    with pytest.raises(ServiceNotReady):
        await commands.unsubscribe(pb.CommandUnsubscribe(consumer_id=7, request_id=2))
    assert connection.kinds == [], "the refusal goes first"
    await until(lambda: connection.kinds == ["CLOSE_CONSUMER"])
    away.over()
    commands.subscribe(request)
    await connection.answers.pop()
    assert len(bench.subscription.consumers) == 1
