"""Topics on a test's bookies, and the stream reader over them, driven as Spark drives it."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import pytest
from pyspark.sql.streaming.datasource import ReadLimit

from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.metadata import paths
from engine.metadata.records import encode_json
from engine.metadata.store import MetadataStore, NodeExistsError
from engine.wire.batches import Message, pack_entry
from spark_jobs.pulsar_source import batch, planning
from spark_jobs.pulsar_source.brokers.access import BrokerAccess
from spark_jobs.pulsar_source.columns import EntryColumns
from spark_jobs.pulsar_source.options import Options, parse
from spark_jobs.pulsar_source.planning import plan_topics
from spark_jobs.pulsar_source.streams import reader as stream_reader
from spark_jobs.pulsar_source.streams.reader import PulsarStreamReader
from spark_jobs.pulsar_source.tasks import read_group, tasks_of
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Brokers, Sink, rolling

T = TypeVar("T")
TOPIC = "persistent://public/default/t"
opened_first = EntryColumns(("value",)).take()
"""pyarrow loads pandas at its first array: not while sessions wait."""


class LoopLink:
    """Connections of the test's loop for code of Spark that runs in a thread."""

    def __init__(self, store: MetadataStore, ledgers: LedgerClient) -> None:
        self.store = store
        self.ledgers = ledgers
        self._loop = asyncio.get_running_loop()

    alive = True

    def brokers(self, options: Options) -> BrokerAccess | None:
        """Return None: a test that reads through brokers patches this."""
        return None

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.start(work).result()


class Topics:
    """Topics with messages ``<topic>:0`` and following, whose ledgers roll over after ``entries`` entries."""

    def __init__(self, brokers: Brokers, monkeypatch: pytest.MonkeyPatch, entries: int = 5) -> None:
        self.brokers = brokers
        self.broker = brokers.broker()
        self.store = brokers.cluster.store
        self.sent: dict[str, int] = {}
        self._entries = entries
        link = LoopLink(self.store, brokers.cluster.client())
        for module in (batch, planning, stream_reader):
            monkeypatch.setattr(module, "link_to", lambda stores: link)

    async def open(self, topic: str = TOPIC) -> ManagedLedger:
        name = TopicName.parse(topic).managed_ledger_name
        ledger = await self.broker.open(name, rolling(self._entries))
        if "keeps" not in ledger.cursors:
            await ledger.open_cursor("keeps", InitialPosition.EARLIEST)
        return ledger

    async def send(self, count: int, topic: str = TOPIC) -> list[str]:
        """Publish messages and return their texts."""
        ledger, sink = await self.open(topic), Sink()
        first = self.sent.get(topic, 0)
        texts = [f"{TopicName.parse(topic).local}:{i}" for i in range(first, first + count)]
        for i, text in enumerate(texts):
            entry = pack_entry(
                [Message(text.encode(), key=f"k{first + i}")],
                producer_name="p",
                publish_ms=first + i + 1,
                batched=False,
                compression=0,
            )
            ledger.append(run_of(entry), sink)
            await sink.settle(i + 1)
        assert not sink.failures
        self.sent[topic] = first + count
        return texts

    async def trim(self, topic: str = TOPIC) -> None:
        """Acknowledge everything and trim: no retention keeps it."""
        ledger = await self.open(topic)
        await ledger.cursors["keeps"].clear()
        await ledger.trim()

    async def partition(self, count: int, topic: str = TOPIC) -> None:
        """Make the topic partitioned, or grow it."""
        name = TopicName.parse(topic)
        path = paths.partitioned_topic(str(name.namespace), name.local)
        value = encode_json({"partitions": count})
        try:
            await self.store.create(path, value, make_parents=True)
        except NodeExistsError:
            await self.store.put(path, value)


class Query:
    """A query's micro-batches over a reader; ``checkpoint`` is the offset of its last planned batch."""

    def __init__(self, **options: str) -> None:
        self._options = {"metadata.url": "zk:nowhere:1", "columns": "value", **options}
        if not {"topic", "topics", "topicsPattern", "namespace"} & options.keys():
            self._options["topic"] = TOPIC
        self.reader = PulsarStreamReader(self._options)
        self.checkpoint: dict[str, Any] | None = None
        self.batches: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def restart(self) -> None:
        """Begin again with the checkpoint, in a new process."""
        self.reader = PulsarStreamReader(self._options)

    async def start(self) -> None:
        self.checkpoint = await asyncio.to_thread(self.reader.initialOffset)

    async def plan(self, limit: ReadLimit | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Plan the next batch as Spark does: its offsets are logged before it is read."""
        if self.checkpoint is None:
            await self.start()
        limit = limit or self.reader.getDefaultReadLimit()
        start = self.checkpoint
        assert start is not None
        self.checkpoint = await asyncio.to_thread(self.reader.latestOffset, start, limit)
        self.batches.append((start, self.checkpoint))
        return start, self.checkpoint

    async def read(self, start: dict[str, Any], end: dict[str, Any]) -> list[str]:
        """Return the texts of a batch's rows."""
        if start == end:
            return []

        def rows() -> list[str]:
            return [
                row["value"].decode()
                for task in self.reader.partitions(start, end)
                for part in self.reader.read(task)
                for row in part.to_pylist()
            ]

        return await asyncio.to_thread(rows)

    async def batch(self, limit: ReadLimit | None = None) -> list[str]:
        return await self.read(*await self.plan(limit))

    async def until(self, count: int) -> list[str]:
        """Return the rows of batches until there are ``count`` of them."""
        texts: list[str] = []
        async with asyncio.timeout(60):
            while len(texts) < count:
                texts += await self.batch()
        return texts


async def read_batch(**options: str) -> list[str]:
    """Return the texts of a batch read."""

    def rows() -> list[str]:
        parsed = parse({"topic": TOPIC, "metadata.url": "zk:nowhere:1", **options})
        return [
            row["value"].decode()
            for task in tasks_of(parsed, plan_topics(parsed))
            for part in read_group(parsed, task)
            for row in part.to_pylist()
        ]

    return await asyncio.to_thread(rows)
