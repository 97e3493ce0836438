"""The tail of a topic: one reading for all who watch, and each message counted once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

from engine.admin.api.statistics import INTERNAL_STATS, InternalStats
from engine.base.names import TopicName
from engine.tenancy import topics as metadata
from engine.wire.batches import Message, pack_entry
from gateway.services.admin import topics
from gateway.services.browsing import tailing
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.tailing import Tails, TailWatch
from gateway.services.engine_link import Engine, EngineLink
from tests.support.admin.bench import AdminBench
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink
from tests.support.waiting import stays, until

TOPIC = TopicName.parse("persistent://public/default/t")
ALL = MessageFilter()


class Link:
    """The engine of a bench, with the number of reads. ``failing``: why they fail."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.reads = 0
        self.failing: Exception | None = None

    async def arun(self, work: Callable[[Engine], Awaitable[Any]], **options: Any) -> Any:
        self.reads += 1
        if self.failing is not None:
            raise self.failing
        return await work(self._engine)


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AdminBench]:
    monkeypatch.setattr(tailing, "EVERY_S", 0.01)
    monkeypatch.setattr(tailing, "AGAIN_S", 0.01)
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    yield made
    await made.close()


@pytest.fixture
async def link(bench: AdminBench) -> Link:
    return Link(bench.engine)


@pytest.fixture
def tails(link: Link) -> Tails:
    return Tails(cast(EngineLink, link))


async def publish(bench: AdminBench, *values: bytes) -> None:
    entry = pack_entry(
        [Message(value, value[:1].decode()) for value in values], producer_name="p", publish_ms=1
    )
    sink = Sink()
    (await bench.loaded(TOPIC)).log.append(run_of(entry), sink)
    await sink.settle(1)


async def began(watch: TailWatch) -> TailWatch:
    await until(lambda: watch.tail.since_ms is not None)
    return watch


def taken(watch: TailWatch) -> list[bytes | None]:
    return [row.message.value for _, row in watch.take() if row.message is not None]


def counts(watch: TailWatch) -> tuple[int, int, int, int]:
    return watch.received, watch.shown, watch.filtered, watch.passed_over


async def test_watches_share_one_reading_and_filter_for_themselves(
    bench: AdminBench, link: Link, tails: Tails
) -> None:
    await publish(bench, b"before")
    watch = await began(tails.watch(TOPIC, ALL, 100))
    only_b = tails.watch(TOPIC, MessageFilter(text="B"), 100)
    assert (len(tails), only_b.tail) == (1, watch.tail)
    await publish(bench, b"a1", b"b1")
    await publish(bench, b"b2")
    await until(lambda: (watch.received, only_b.received) == (3, 3))
    assert taken(watch) == [b"a1", b"b1", b"b2"]
    assert taken(only_b) == [b"b1", b"b2"]
    assert counts(watch) == (3, 3, 0, 0)
    assert counts(only_b) == (3, 2, 1, 0)
    stats = await bench.engine.call(INTERNAL_STATS, InternalStats(TOPIC))
    assert stats["cursors"] == {}, "no subscription, no cursor"
    await watch.end()
    await only_b.end()
    reads = link.reads
    assert len(tails) == 0
    await stays(lambda: link.reads == reads, 0.05)


async def test_messages_beyond_the_rate_or_during_a_pause_are_counted(
    bench: AdminBench, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailing, "monotonic", lambda: 5.0)
    watch = await began(tails.watch(TOPIC, ALL, 2))
    await publish(bench, *(b"%d" % i for i in range(5)))
    await until(lambda: watch.received == 5)
    assert (watch.waiting, taken(watch)) == (2, [b"0", b"1"])
    assert counts(watch) == (5, 2, 0, 3)
    watch.paused = True
    await publish(bench, b"paused")
    await until(lambda: watch.received == 6)
    assert counts(watch) == (6, 2, 0, 4)
    await watch.end()


async def test_rows_that_are_not_taken_are_bounded(
    bench: AdminBench, tails: Tails, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tailing, "ROWS_MAX", 3)
    watch = await began(tails.watch(TOPIC, ALL, 100))
    await publish(bench, *(b"%d" % i for i in range(5)))
    await until(lambda: watch.received == 5)
    assert (watch.waiting, watch.passed_over) == (3, 2)
    await watch.end()


async def test_a_failed_read_is_stated_and_nothing_is_missed(
    bench: AdminBench, link: Link, tails: Tails
) -> None:
    watch = await began(tails.watch(TOPIC, ALL, 100))
    link.failing = TimeoutError("the broker does not answer")
    await until(lambda: watch.tail.problem == "the broker does not answer")
    await publish(bench, b"meanwhile")
    link.failing = None
    await until(lambda: watch.received == 1)
    assert (watch.tail.problem, taken(watch)) == ("", [b"meanwhile"])
    await watch.end()


async def test_partitions_are_read_together(bench: AdminBench, tails: Tails) -> None:
    parted = TopicName.parse("persistent://public/default/parted")
    await metadata.create_partitioned(bench.engine.store, parted, 2)
    watch = await began(tails.watch(parted, ALL, 100))
    assert watch.tail.partitions == 2
    entry = pack_entry([Message(b"x")], producer_name="p", publish_ms=1)
    sink = Sink()
    (await bench.loaded(parted.partition_at(1))).log.append(run_of(entry), sink)
    await sink.settle(1)
    await until(lambda: watch.received == 1)
    assert [part for part, _ in watch.take()] == [1]
    await watch.end()
