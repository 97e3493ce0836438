"""Rows that are read through brokers are those read from bookies; what is missing is reported."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.errors import TopicNotFound
from engine.broker.topics.publish import Publish
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.errors import NoAnswerError
from engine.ledger.client import LedgerClient
from engine.ledger.errors import ReadError
from engine.ledger.settings import LedgerSettings
from engine.managed.ledger import InitialPosition
from engine.metadata.apart.stores import StoreUrls
from engine.wire import client_commands
from engine.wire.batches import Message, pack_entry
from engine.wire.compression import LZ4, NONE, ZLIB, ZSTD
from engine.wire.errors import REFUSALS, ServerError
from engine.wire.kernels import take_sends
from spark_jobs.pulsar_source import planning
from spark_jobs.pulsar_source.batch import SOURCES, RangeEntries, TrimmedError, rows
from spark_jobs.pulsar_source.brokers import entries as through_brokers
from spark_jobs.pulsar_source.brokers.access import BrokerAccess
from spark_jobs.pulsar_source.brokers.entries import WINDOW_BYTES, last_position
from spark_jobs.pulsar_source.columns import EntryColumns
from spark_jobs.pulsar_source.options import COLUMNS, Bound, Options, TopicChoice
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.streams.watch import TopicWatch
from tests.support.broker_bench import Bench, served, until
from tests.support.net.pipe_network import PipeNetwork
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/read")
OPTIONS = Options(TopicChoice((TOPIC.full,)), StoreUrls("zk:nowhere:1"))
MARKER = entry_of(b"", marker_type=21, txnid_most_bits=1, txnid_least_bits=0)
opened_first = EntryColumns(("value",)).take()
"""pyarrow loads pandas at its first array: not while sessions wait."""


def message(number: int) -> Message:
    return Message(
        b"value %d" % number * 20,
        key=f"k{number % 3}",
        properties={"n": str(number)},
        event_ms=1000 + number,
        sequence_id=number,
    )


def published(count: int) -> list[bytes]:
    """Return entries of every kind: single and batched in different codecs, a message in two chunks, markers."""
    made = []
    for number in range(count):
        codec = (NONE, LZ4, ZLIB, ZSTD)[number % 4]
        batch = [message(10 * number + i) for i in range(1 + number % 3)]
        made.append(pack_entry(batch, producer_name="p", publish_ms=number + 1, compression=codec))
        if number % 4 == 1:
            made.append(MARKER)
    chunks = {"uuid": "p-9", "num_chunks_from_msg": 2, "total_chunk_msg_size": 8}
    made += [entry_of(b"half", chunk_id=i, **chunks) for i in range(2)]
    return [MARKER, *made, MARKER]


class Silence(PipeNetwork):
    """A network on which nothing answers."""

    async def connect(self, *_: Any, **__: Any) -> Any:
        raise ConnectionRefusedError("no bookie is reached from here")


class Source:
    """A topic with ledgers of five entries, and the ways to read it. ``no_bookies`` reaches none of them."""

    def __init__(self, bench: Bench, url: str) -> None:
        self.bench = bench
        self.store = bench.cluster.store
        self.bookies = bench.cluster.client()
        self.no_bookies = LedgerClient(
            store=self.store,
            network=Silence(),
            clock=LoopClock(),
            entropy=RandomEntropy(),
            settings=LedgerSettings(read_entry_timeout_s=1.0),
        )

        async def brokers() -> list[str]:
            return [url]

        self.client = PulsarClient(
            network=PipeNetwork(),
            clock=LoopClock(),
            entropy=RandomEntropy(),
            brokers=brokers,
            settings=LinkSettings(),
        )

    def brokers(self, *, alone: bool = True) -> BrokerAccess:
        return BrokerAccess(lambda: self.client, alone)

    async def put(self, *entries: bytes) -> None:
        bench, sent = self.bench, self.bench._sent
        for number, entry in enumerate(entries):
            data = client_commands.send(1, sent + number, entry)
            _, _, run = take_sends(data, 0, len(data), 1 << 24)
            assert run is not None
            Publish(run, bench.producer).start()
            bench._sent += 1
            await until(lambda: bench.publisher.receipts == bench._sent)

    async def planned(
        self,
        brokers: BrokerAccess | None = None,
        *,
        reached: bool = True,
        options: Options = OPTIONS,
    ) -> list[LedgerRange]:
        ledgers = self.bookies if reached else self.no_bookies
        return await planning._plan(options, self.store, ledgers, brokers)

    async def rows(
        self, part: LedgerRange, brokers: BrokerAccess | None = None, *, reached: bool = True
    ) -> list[dict[str, Any]]:
        """Return the rows of a range with all columns."""
        ledgers = self.bookies if reached else self.no_bookies
        entries = RangeEntries(self.store, ledgers, part, brokers=brokers)
        columns = EntryColumns({SOURCES.get(name, name) for name in COLUMNS})
        opened = []
        while runs := await entries.next():
            for run in runs:
                opened += columns.add(run)
        await entries.close()
        opened.append(columns.take())
        assert not any(some.problem for some in opened)
        table: list[dict[str, Any]] = pa.Table.from_batches(
            [rows(some, part, list(COLUMNS)) for some in opened]
        ).to_pylist()
        return table


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    async with served() as (bench, _, url):
        bench.everything.ledger_entries = 5
        topic = await bench.load(TOPIC)
        await topic.log.open_cursor("keeps", InitialPosition.EARLIEST)
        made = Source(bench, url)
        yield made
        await made.client.close()
        await made.no_bookies.close()


async def test_rows_of_every_kind_of_entry_are_those_of_the_bookies(source: Source) -> None:
    await source.put(*published(17))
    parts = await source.planned()
    assert len(parts) > 3
    of_bookies = [await source.rows(part) for part in parts]
    assert [await source.rows(part, source.brokers(), reached=False) for part in parts] == (
        of_bookies
    )
    every = [row for of_part in of_bookies for row in of_part]
    assert {row["compression"] for row in every} == {"NONE", "LZ4", "ZLIB", "ZSTD"}
    assert [row["chunk_id"] for row in every[-2:]] == [0, 1]
    assert every[0]["key"] == "k0"
    assert every[0]["event_time"] is not None
    middle = replace(parts[1], first=1, last=3)
    assert await source.rows(middle, source.brokers()) == await source.rows(middle)
    # No reader is left on the topic.
    await until(lambda: list(source.bench.topic.log.cursors) == ["keeps"])


async def test_the_end_of_the_open_ledger_is_the_brokers(source: Source) -> None:
    assert await source.planned(source.brokers(), reached=False) == []
    await source.put(*published(4))
    known = await source.planned()
    seen = await source.planned(source.brokers(), reached=False)
    assert seen[:-1] == known[:-1]
    # The marker behind the last message is no message.
    assert (seen[-1].ledger_id, seen[-1].last) == (known[-1].ledger_id, known[-1].last - 1)


@pytest.mark.parametrize("alone", [True, False])
async def test_bounds_of_time_are_those_of_the_bookies(source: Source, alone: bool) -> None:
    marker = {"marker_type": 21, "txnid_most_bits": 1, "txnid_least_bits": 0}
    for ms in range(1, 18):
        batch = pack_entry([message(ms), message(ms)], producer_name="p", publish_ms=ms)
        markers = [entry_of(b"", publish_time=ms, **marker)] * (ms % 3)
        await source.put(batch, *markers)
    for start_ms, end_ms in ((0, 5), (1, 6), (7, 12), (16, 17), (17, 99), (18, 99), (6, 6)):
        options = replace(OPTIONS, start=Bound(time_ms=start_ms), end=Bound(time_ms=end_ms))
        of_bookies = await source.planned(options=options)
        brokers = source.brokers(alone=alone)
        through = await source.planned(brokers, reached=False, options=options)
        wanted = [row for part in of_bookies for row in await source.rows(part)]
        got = [row for part in through for row in await source.rows(part)]
        assert got == wanted, (start_ms, end_ms)


async def test_a_stream_sees_what_the_broker_has(source: Source) -> None:
    watch = TopicWatch(TopicChoice((TOPIC.full,)), asyncio.get_running_loop().time)
    for count in (3, 6):
        await source.put(*(entry_of(b"v") for _ in range(count)))
        looked = await watch.look(source.store, source.no_bookies, brokers=source.brokers())
        assert looked[TOPIC.full].end == source.bench.topic.log.last_confirmed._replace(
            entry_id=source.bench.topic.log.last_confirmed.entry_id + 1
        )


async def test_brokers_are_read_through_where_bookies_do_not_answer(
    source: Source, caplog: pytest.LogCaptureFixture
) -> None:
    await source.put(*published(9))
    parts = await source.planned()
    with caplog.at_level(logging.WARNING):
        assert await source.rows(parts[-1], source.brokers(alone=False)) == await source.rows(
            parts[-1]
        )
        assert "brokers are read through" not in caplog.text
        silent = [
            await source.rows(part, source.brokers(alone=False), reached=False) for part in parts
        ]
    assert silent == [await source.rows(part) for part in parts]
    assert "brokers are read through" in caplog.text
    planned = await source.planned(source.brokers(alone=False), reached=False)
    assert [part.ledger_id for part in planned] == [part.ledger_id for part in parts]
    with pytest.raises(ReadError):
        await source.planned(reached=False)


async def test_a_range_goes_on_through_brokers_from_the_next_entry(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    await source.put(*(entry_of(b"v%d" % i) for i in range(5)))
    [part] = await source.planned()
    entries = RangeEntries(source.store, source.bookies, part, brokers=source.brokers(alone=False))
    monkeypatch.setattr("spark_jobs.pulsar_source.batch.READ_BYTES", 1)
    got = await entries.next()

    async def silent() -> Any:
        raise ReadError("no bookie answers")

    monkeypatch.setattr(entries, "_read", silent)
    while runs := await entries.next():
        got += runs
    assert [run.position(i) for run in got for i in range(run.count)] == [
        Position(part.ledger_id, i) for i in range(5)
    ]


async def test_a_reader_goes_on_when_the_topic_is_loaded_again(source: Source) -> None:
    await source.put(*(entry_of(b"v%d" % i) for i in range(4)))
    [part] = await source.planned()
    narrow = replace(part, size=WINDOW_BYTES * part.entries)
    entries = RangeEntries(source.store, source.no_bookies, narrow, brokers=source.brokers())
    got = [run.first for run in await entries.next()]
    await source.bench.kill()
    while runs := await entries.next():
        got += [run.first for run in runs]
    assert got == [0, 1, 2, 3]


async def test_a_trimmed_range_is_reported_as_by_bookies(source: Source) -> None:
    await source.put(*(entry_of(b"v%d" % i) for i in range(12)))
    first, *_, last = await source.planned()
    log = source.bench.topic.log
    await log.cursors["keeps"].clear()
    await log.trim()
    with pytest.raises(TrimmedError, match="entries 0 to 4 of ledger") as raised:
        await source.rows(first, source.brokers(), reached=False)
    assert raised.value.entries == 5
    assert len(await source.rows(last, source.brokers(), reached=False)) == 2


async def test_a_topic_that_was_deleted_is_not_created_again(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    await source.put(entry_of(b"v"))
    [part] = await source.planned()
    missing = replace(part, topic=f"{TOPIC.full}-deleted")

    async def ensure(topic: TopicName, *, create: bool) -> None:
        if not create:
            raise TopicNotFound("it was deleted")

    monkeypatch.setattr(source.bench.everything, "ensure_topic", ensure)
    with pytest.raises(REFUSALS[ServerError.TopicNotFound]):
        await source.rows(missing, source.brokers(), reached=False)
    with pytest.raises(REFUSALS[ServerError.TopicNotFound]):
        await last_position(source.client, missing.topic)


async def test_entries_that_are_never_delivered_fail_the_range(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    await source.put(entry_of(b"v"))
    [part] = await source.planned()

    async def nothing(_: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(through_brokers.RawReader, "next", nothing)
    with pytest.raises(NoAnswerError, match="no entry was delivered for 60 s") as raised:
        await source.rows(part, source.brokers(), reached=False)
    assert f"while {TOPIC.full} was read from entry 0 on" in raised.value.__notes__[0]
