"""Entries trimmed between planning and reading: counted, named, and distinguished from lost entries."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.base.slices import Slice
from engine.ledger.errors import NoSuchEntryError, NoSuchLedgerError
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.metadata.apart.stores import StoreUrls
from engine.offload.bucket import FILES, Bucket
from engine.offload.errors import DamagedObjectError, MissingObjectError
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.stores.obstore_stores import ConfiguredStores
from engine.offload.tiered_storage import TieredStorage
from engine.wire import mledger_pb2 as pb
from engine.wire.batches import Message, pack_entry
from spark_jobs.jobs.kit import reading
from spark_jobs.jobs.kit.cells import CELLS
from spark_jobs.jobs.kit.reading import cells_of_range
from spark_jobs.jobs.topic_profile.counting import COLUMNS, cells_of, compact
from spark_jobs.jobs.topic_profile.job import result_of
from spark_jobs.pulsar_source import batch, planning
from spark_jobs.pulsar_source.batch import RangeEntries, TrimmedError
from spark_jobs.pulsar_source.columns import EntryColumns, Opened
from spark_jobs.pulsar_source.options import OptionError, Options, TopicChoice, parse
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import NAME, Brokers, Sink, rolling
from tests.support.waiting import until

TOPIC = "persistent://public/default/t"
OPTIONS = Options(TopicChoice((TOPIC,)), StoreUrls("zk:nowhere:1"))
opened_first = EntryColumns(COLUMNS).take()
"""pyarrow loads pandas at its first array: not while sessions wait."""


@pytest.fixture
async def topic(tmp_path: Path) -> AsyncIterator[tuple[Brokers, ManagedLedger]]:
    """Twelve messages in ledgers of five, read by no consumer."""
    brokers = Brokers(tmp_path)
    await brokers.start()
    broker = brokers.broker()
    ledger = await broker.open(NAME, rolling(5))
    await ledger.open_cursor("keeps", InitialPosition.EARLIEST)
    sink = Sink()
    for number in range(12):
        entry = pack_entry(
            [Message(b"x")], producer_name="p", publish_ms=number + 1, batched=False, compression=0
        )
        ledger.append(run_of(entry), sink)
        await sink.settle(number + 1)

    yield brokers, ledger
    await brokers.close()


async def trim_all(ledger: ManagedLedger) -> None:
    """Acknowledge all entries and trim the ledger: no retention keeps them."""
    await ledger.cursors["keeps"].clear()
    await ledger.trim()


async def planned_of(brokers: Brokers) -> list[LedgerRange]:
    return await planning._plan(OPTIONS, brokers.cluster.store, brokers.cluster.client())


async def read(brokers: Brokers, part: LedgerRange) -> int:
    """Read a range and return its number of entries."""
    entries = RangeEntries(brokers.cluster.store, brokers.cluster.client(), part)
    count = 0
    while runs := await entries.next():
        count += sum(run.count for run in runs)
    return count


async def test_a_ledger_trimmed_after_planning_is_reported_as_trimmed(
    topic: tuple[Brokers, ManagedLedger],
) -> None:
    brokers, ledger = topic
    planned = await planned_of(brokers)
    assert [part.entries for part in planned] == [5, 5, 2]
    await trim_all(ledger)
    with pytest.raises(TrimmedError, match=r"entries 0 to 4 of ledger \d+ were trimmed") as raised:
        await read(brokers, planned[0])
    assert raised.value.entries == 5
    assert await read(brokers, planned[2]) == 2


async def test_entries_read_before_the_trimming_count(
    topic: tuple[Brokers, ManagedLedger], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trim the ledger between two reads of a task."""
    brokers, ledger = topic
    [first, *_] = await planned_of(brokers)
    monkeypatch.setattr(batch, "READ_BYTES", 1)
    entries = RangeEntries(brokers.cluster.store, brokers.cluster.client(), first)
    read_entries = [len(await entries.next()), len(await entries.next())]

    async def gone() -> list[Slice]:
        raise NoSuchEntryError("entry 2")

    await trim_all(ledger)
    monkeypatch.setattr(entries, "_read", gone)
    with pytest.raises(TrimmedError) as raised:
        await entries.next()
    assert (read_entries, raised.value.entries) == ([1, 1], 3)


async def test_a_ledger_that_is_lost_is_no_trimmed_one(
    topic: tuple[Brokers, ManagedLedger],
) -> None:
    """Delete the metadata of a ledger that the topic still lists."""
    brokers, _ = topic
    [first, *_] = await planned_of(brokers)
    await brokers.cluster.client().delete(first.ledger_id)
    with pytest.raises(NoSuchLedgerError):
        await read(brokers, first)


async def test_an_offloaded_ledger_that_left_the_bookies_is_no_trimmed_one(
    topic: tuple[Brokers, ManagedLedger],
) -> None:
    brokers, ledger = topic
    info = pb.ManagedLedgerInfo.LedgerInfo()
    info.offloadContext.bookkeeperDeleted = True
    ledger.line.ledgers[0].extra = info.SerializePartialToString()
    await ledger.update_properties({"stored": "again"})
    [first, *_] = await planned_of(brokers)
    await brokers.cluster.client().delete(first.ledger_id)
    with pytest.raises(DamagedObjectError, match="the record names no object"):
        await read(brokers, first)


async def test_a_moved_ledger_is_read_from_tiered_storage(tmp_path: Path) -> None:
    brokers = Brokers(tmp_path / "cluster")
    await brokers.start()
    tiered = TieredStorage(ConfiguredStores(None), {})
    policy = OffloadPolicy(Bucket(FILES, str(tmp_path / "cold")), 0, deletion_lag_s=0.0)
    broker = brokers.broker(tiered=tiered)
    ledger = await broker.open(NAME, replace(rolling(5), offload=policy))
    await ledger.open_cursor("keeps", InitialPosition.EARLIEST)
    entry = pack_entry(
        [Message(b"x")], producer_name="p", publish_ms=1, batched=False, compression=0
    )
    sink = Sink()
    for number in range(6):
        ledger.append(run_of(entry), sink)
        await sink.settle(number + 1)
    [moved, *_] = await planned_of(brokers)
    await until(lambda: moved.ledger_id not in brokers.ledgers())
    [moved, *_] = await planned_of(brokers)
    assert await read(brokers, moved) == 5
    for path in (tmp_path / "cold").iterdir():
        path.unlink()
    with pytest.raises(MissingObjectError):
        await read(brokers, moved)
    await brokers.close()


def test_a_profile_counts_trimmed_entries_and_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    part = LedgerRange(7, 0, 9)

    def half(*_: Any) -> Iterator[Opened]:
        columns = EntryColumns(COLUMNS)
        entry = pack_entry(
            [Message(b"x")], producer_name="p", publish_ms=5, batched=False, compression=0
        )
        run = run_of(*[entry] * 4)
        yield from columns.add(run)
        yield columns.take()
        raise TrimmedError(part, 4)

    monkeypatch.setattr(reading, "open_range", half)
    import pyarrow as pa

    cells = pa.Table.from_batches(list(cells_of_range(OPTIONS, part, COLUMNS, cells_of, compact)))
    result = result_of(cells, TOPIC, [part], 5)
    facts = {row["key"]: row["value"] for row in result["summary"]}
    assert (facts["messages"], facts["entries"], facts["trimmed"]) == (4, 4, 6)
    assert "trimmed" not in {
        row["key"] for row in result_of(CELLS.empty_table(), "t", [], 5)["summary"]
    }


@pytest.mark.parametrize("given", ["true", "False"])
def test_rows_of_a_trimmed_range_fail_unless_the_option_permits_it(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = LedgerRange(7, 0, 9)

    def gone(*_: Any) -> Iterator[Opened]:
        raise TrimmedError(part, 0)
        yield

    monkeypatch.setattr(batch, "open_range", gone)
    options = parse({"topic": TOPIC, "metadata.url": "zk:a:1", "failOnDataLoss": given})
    if given == "true":
        with pytest.raises(TrimmedError, match="failOnDataLoss"):
            list(batch.read_range(options, part))
    else:
        assert list(batch.read_range(options, part)) == []
    with pytest.raises(OptionError, match="failondataloss must be true or false"):
        parse({"topic": TOPIC, "metadata.url": "zk:a:1", "failOnDataLoss": "1"})
