"""Answers to clients while no entry can be stored, and recovery without help; deletion; retention."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from engine.base.names import TopicName
from engine.broker.errors import PersistenceError, ServiceNotReady, SubscriptionNotFound
from engine.broker.policies import (
    BacklogPolicies,
    DeduplicationPolicies,
    StoragePolicies,
    TopicPolicies,
)
from engine.broker.topics.deduplication import Deduplication
from engine.broker.topics.publish import Producer
from engine.broker.topics.quotas import BacklogQuotas
from engine.broker.topics.subscriptions.subscriptions import Subscriptions
from engine.broker.topics.topic import Topic
from engine.broker.upkeep import Upkeep
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NotEnoughBookiesError
from engine.ledger.writing.writer import LedgerWriter
from engine.managed.ledger import InitialPosition
from engine.wire.errors import ServerError
from tests.support.broker_bench import NAME, Bench, Client, opened, until
from tests.support.waiting import stays
from tests.unit.broker.topics.test_deduplication import late_answers

pytestmark = pytest.mark.virtual_time

OTHER = TopicName.parse("persistent://public/default/other")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def _fill_disk(bench: Bench, full: bool) -> None:
    """Change the mode of the bookie as it does when its disk is full, or has room again."""
    bookie = bench.cluster.bookies["b0"]
    bookie.mode.set(full, "for a test")
    path = "/ledgers/available/readonly/b0" if full else "/ledgers/available/b0"
    while await bench.cluster.store.exists(path) is None:
        await asyncio.sleep(0.001)


def _newcomer(bench: Bench, name: str) -> Producer:
    return Producer(Client(), 1, name, bench.topic, now_ms=0)


async def test_a_send_that_cannot_be_stored_is_refused_with_the_reason_and_its_producer_disconnected(
    bench: Bench,
) -> None:
    await bench.topic.publishers.admit(bench.producer)
    await bench.publish(2)
    await _fill_disk(bench, True)
    bench.send(3)
    bench.send(1)
    await until(lambda: bench.publisher.dropped)
    assert [number for number, _, _ in bench.publisher.errors] == [2, 3, 4]
    assert {code for _, code, _ in bench.publisher.errors} == {ServerError.PersistenceError}
    assert "EREADONLY" in bench.publisher.errors[0][2]
    bench.send(1)
    assert bench.publisher.receipts == 2
    assert bench.topic.producers == {}
    assert bench.publisher.dropped == [1]


async def test_producers_are_refused_with_the_reason_until_storage_is_back(bench: Bench) -> None:
    await bench.topic.publishers.admit(bench.producer)
    await _fill_disk(bench, True)
    settings = replace(bench.context.settings, topic_load_timeout_seconds=1)
    bench.registry._context = replace(bench.context, settings=settings)
    bench.send(1)
    await until(lambda: bench.publisher.dropped)
    async with asyncio.timeout(120):
        with pytest.raises(PersistenceError, match="1 writable bookies, there are 0"):
            await bench.topic.publishers.admit(_newcomer(bench, "refused"))
        with pytest.raises(PersistenceError, match="1 writable bookies, there are 0"):
            await bench.registry.get(OTHER, create=True)
    await _fill_disk(bench, False)
    async with asyncio.timeout(120):
        while True:
            try:
                await bench.topic.publishers.admit(bench.producer)
                break
            except PersistenceError:
                await asyncio.sleep(0.01)
    bench.producer = _newcomer(bench, "q")
    bench.publisher = bench.producer.outlet  # type: ignore[assignment]
    bench.send(1)
    await until(lambda: bench.publisher.receipts == 1)
    assert (await bench.registry.get(OTHER, create=True)).name == OTHER


async def test_loading_a_topic_waits_for_a_bookie_that_is_soon_writable_again(bench: Bench) -> None:
    """Wait instead of refusing: clients that are refused retry after growing pauses."""
    await _fill_disk(bench, True)
    loading = asyncio.ensure_future(bench.registry.get(OTHER, create=True))
    await stays(lambda: not loading.done(), 0.05)  # tried, refused, and to be tried again
    await _fill_disk(bench, False)
    assert (await loading).name == OTHER


async def test_a_topic_cannot_be_created_again_before_its_deletion_is_complete(
    bench: Bench,
) -> None:
    await bench.publish(5)
    await bench.topic.subscriptions.create("s", InitialPosition.EARLIEST, {})
    deleting = asyncio.ensure_future(bench.registry.deletions.delete(NAME, force=True))
    refused = 0
    while True:
        try:
            again = await bench.registry.get(NAME, create=True)
        except ServiceNotReady:
            refused += 1
            await asyncio.sleep(0)
            continue
        if again is not bench.topic:
            break
        await asyncio.sleep(0)
    assert deleting.done()
    await deleting
    assert refused
    assert again.subscriptions == {}
    assert again.log.stats().entries == 0
    with pytest.raises(SubscriptionNotFound):
        await again.subscriptions.delete("s")


async def test_changed_retention_reaches_a_loaded_topic_without_traffic(bench: Bench) -> None:
    bench.everything.ledger_entries = 2
    bench.everything.in_force = TopicPolicies(
        storage=StoragePolicies(retention_minutes=-1, retention_mb=-1)
    )
    await bench.registry.unload(NAME)
    bench.topic = await bench.registry.get(NAME, create=True)
    bench.producer = _newcomer(bench, "p")
    bench.publisher = bench.producer.outlet  # type: ignore[assignment]
    for i in range(3):
        bench.send(2)
        await until(lambda sent=2 * i + 2: bench.publisher.receipts == sent)  # type: ignore[misc]
    await bench.topic.log.trim()
    assert bench.topic.log.stats().entries == 6
    everything = bench.everything
    upkeep = Upkeep(bench.registry, everything, everything.ledger_config, bench.context.settings)
    upkeep.start()
    bench.everything.in_force = TopicPolicies()
    await until(lambda: bench.topic.log.stats().entries < 6)
    await upkeep.close()
    assert bench.topic.policies == TopicPolicies()


@pytest.mark.parametrize("job", ["expiry", "quotas", "deduplication", "policies"])
async def test_upkeep_of_other_topics_goes_on_when_one_fails_unexpectedly(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    bench.everything.in_force = TopicPolicies(backlog=BacklogPolicies(message_ttl_s=10))
    await bench.topic.apply(
        bench.everything.in_force, bench.everything.ledger_config(TopicPolicies())
    )
    other = await bench.registry.get(TopicName.parse("persistent://public/default/z"), create=True)
    rounds: dict[str, int] = {}

    def planted(of: object) -> Any:
        name = str(
            next(
                topic.name
                for topic in (bench.topic, other)
                if any(
                    of is part
                    for part in (topic, topic.subscriptions, topic.quotas, topic.deduplication)
                )
            )
        )
        rounds[name] = rounds.get(name, 0) + 1
        if name == bench.topic.name.full:
            raise ZeroDivisionError("planted")

    async def slowly(of: object, *args: object) -> None:
        planted(of)

    for kind, method in ((Subscriptions, "expire"), (BacklogQuotas, "check"), (Topic, "apply")):
        monkeypatch.setattr(kind, method, slowly)
    monkeypatch.setattr(Deduplication, "check", planted)
    everything = bench.everything
    upkeep = Upkeep(bench.registry, everything, everything.ledger_config, bench.context.settings)
    work = next(task.work for task in upkeep.jobs if task.name == job)
    await work(1.0)
    await work(1.0)
    assert rounds == {bench.topic.name.full: 2, other.name.full: 2}


@pytest.mark.parametrize("deduplication", [False, True])
async def test_entries_under_way_get_their_receipts(
    monkeypatch: pytest.MonkeyPatch, deduplication: bool
) -> None:
    async with opened() as bench:
        bench.everything.in_force = TopicPolicies(
            deduplication=DeduplicationPolicies(enabled=deduplication)
        )
        await bench.registry.unload(NAME)
        topic = await bench.load()
        await topic.deduplication.ready()
        await topic.publishers.admit(bench.producer)
        with late_answers(monkeypatch) as answers:
            bench.send(3)
            await until(lambda: answers.count == 3)
            sealing = asyncio.ensure_future(topic.terminate())
            await asyncio.sleep(0)
            assert not sealing.done()
        last = await sealing
        assert (bench.publisher.receipts, last.entry_id, bench.producer.pending) == (3, 2, 0)
        assert bench.producer.closed


async def test_entries_that_wait_for_a_ledger_are_stored_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened() as bench:
        bench.everything.ledger_entries = 2
        await bench.registry.unload(NAME)
        topic = await bench.load()
        await topic.publishers.admit(bench.producer)
        go, create = asyncio.Event(), LedgerClient.create

        async def slow(self: LedgerClient, *args: int, **more: object) -> LedgerWriter:
            await go.wait()
            return await create(self, *args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(LedgerClient, "create", slow)
        await bench.publish(2)
        bench.send(3)
        sealing = asyncio.ensure_future(topic.terminate())
        await asyncio.sleep(0)
        go.set()
        await sealing
        assert bench.publisher.receipts == 5
        assert topic.log.stats().entries_added == 5
        bench.send(1)
        await until(lambda: not bench.producer.pending)
        assert bench.publisher.receipts == 5


async def test_entries_that_wait_for_a_ledger_that_cannot_be_made_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with opened() as bench:
        bench.everything.ledger_entries = 2
        await bench.registry.unload(NAME)
        topic = await bench.load()
        await topic.publishers.admit(bench.producer)
        go = asyncio.Event()

        async def fails(self: LedgerClient, *args: int, **more: object) -> LedgerWriter:
            await go.wait()
            raise NotEnoughBookiesError("none is there")

        monkeypatch.setattr(LedgerClient, "create", fails)
        await bench.publish(2)
        bench.send(3)
        sealing = asyncio.ensure_future(topic.terminate())
        await asyncio.sleep(0)
        go.set()
        assert (await sealing).entry_id == 1
        assert [code for _, code, _ in bench.publisher.errors] == [ServerError.PersistenceError] * 3
        assert (bench.producer.pending, bench.publisher.publish_budget.bytes) == (0, 0)
