"""A topic that is sealed answers all that was sent before, wherever it waits."""

import asyncio
from pathlib import Path

import pytest

from engine.broker.ports import TopicPolicies
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NotEnoughBookiesError
from engine.ledger.writing.writer import LedgerWriter
from engine.wire.errors import ServerError
from tests.support.broker_bench import NAME, opened, until
from tests.unit.broker.topics.test_deduplication import late_answers


@pytest.mark.parametrize("deduplication", [False, True])
async def test_entries_under_way_get_their_receipts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deduplication: bool
) -> None:
    async with opened(tmp_path) as bench:
        bench.everything.in_force = TopicPolicies(deduplication=deduplication)
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as bench:
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as bench:
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
