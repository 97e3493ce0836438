"""A stream over real bookies: every row once, whatever ledgers and partitions do; only real losses are named."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
)

from engine.base.ids import Position
from spark_jobs.pulsar_source.offsets import DataLossError
from spark_jobs.pulsar_source.options import OptionError
from tests.support.analyses.queries import TOPIC, Query, Topics
from tests.support.managed_cluster import Brokers

ALL = ReadAllAvailable()


@pytest.fixture
async def topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Topics]:
    brokers = Brokers(tmp_path)
    await brokers.start()
    yield Topics(brokers, monkeypatch)
    await brokers.close()


async def test_rows_come_once_over_ledgers_with_the_last_entry_of_an_idle_topic(
    topics: Topics,
) -> None:
    sent = await topics.send(12)
    query = Query(startingOffsets="earliest")
    assert await query.until(12) == sent
    more = await topics.send(3)
    assert await query.until(3) == more
    start, end = await query.plan()
    assert start == end


async def test_a_stream_begins_at_the_end_without_an_option(topics: Topics) -> None:
    await topics.send(7)
    query = Query()
    await query.start()
    assert await query.batch() == []
    new = await topics.send(2)
    assert await query.until(2) == new


async def test_the_same_offsets_give_the_same_rows_after_rollover_and_restart(
    topics: Topics,
) -> None:
    await topics.send(3)
    query = Query(startingOffsets="earliest", maxEntriesPerTrigger="4")
    first = await query.until(3)
    await topics.send(20)
    second = await query.batch()
    planned = list(query.batches)
    await topics.send(9)
    query.restart()
    replayed = [text for bounds in planned for text in await query.read(*bounds)]
    assert replayed == first + second
    assert len(await query.until(32 - len(replayed))) == 32 - len(replayed)


async def test_offsets_are_readable_json(topics: Topics) -> None:
    await topics.send(7)
    query = Query(startingOffsets="earliest")
    await query.until(7)
    offsets = json.loads(json.dumps(query.checkpoint))
    [fields] = offsets.values()
    assert list(offsets) == [TOPIC]
    assert fields["at"].count(":") == 1
    assert (fields["read"], fields["unread"]) == (7, 0)
    copied = Query(startingOffsets=json.dumps(offsets))
    await copied.start()
    more = await topics.send(2)
    assert await copied.until(2) == more


async def test_a_limit_is_shared_in_proportion_and_one_entry_is_always_read(
    topics: Topics,
) -> None:
    await topics.partition(2)
    few, many = (f"{TOPIC}-partition-{i}" for i in range(2))
    await topics.send(4, few)
    await topics.send(12, many)
    query = Query(startingOffsets="earliest", maxEntriesPerTrigger="8")
    rows = await query.batch()
    assert len(rows) in (7, 8)
    assert 1 <= sum("partition-0" in row for row in rows) <= 2
    assert isinstance(query.reader.getDefaultReadLimit(), ReadMaxRows)
    assert len(await query.batch(ReadMaxRows(1))) == 1
    assert len(await query.batch(ReadMaxBytes(1))) == 1
    everything = Query(startingOffsets="earliest", maxEntriesPerTrigger="1")
    await everything.start()
    assert len(await everything.batch(ALL)) >= 14


async def test_a_batch_of_at_least_some_rows_waits_for_them(topics: Topics) -> None:
    await topics.send(6)
    query = Query(startingOffsets="earliest")
    await query.until(6)
    await topics.send(6)
    assert await query.batch(ReadMinRows(100)) == []
    assert len(await query.until(6)) == 6


async def test_available_now_ends_with_what_was_there(topics: Topics) -> None:
    sent = await topics.send(13)
    query = Query(startingOffsets="earliest", maxEntriesPerTrigger="5")
    await query.start()
    await asyncio.to_thread(query.reader.prepareForTriggerAvailableNow)
    await topics.send(8)
    texts: list[str] = []
    while batch := await query.batch():
        texts += batch
    assert texts == sent


async def test_grown_partitions_and_new_topics_of_a_pattern_join_from_their_first_entry(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.pulsar_source.streams.watch.TOPICS_S", 0.0)
    await topics.partition(1)
    sent = await topics.send(3, f"{TOPIC}-partition-0")
    query = Query(startingOffsets="latest")
    await query.start()
    await topics.partition(3)
    sent = await topics.send(4, f"{TOPIC}-partition-2")
    assert await query.until(4) == sent
    assert await topics.store.exists("/admin/policies/public/default") is None
    await topics.store.create("/admin/policies/public/default", b"{}", make_parents=True)
    every = Query(topicsPattern="public/default/.*", startingOffsets="latest")
    await every.start()
    new = await topics.send(2, "persistent://public/default/new")
    assert await every.until(2) == new


async def test_trimmed_entries_that_were_read_are_no_loss(topics: Topics) -> None:
    """Trim the ledger at whose end the stream stands, and the empty one behind it."""
    sent = await topics.send(5)
    query = Query(startingOffsets="earliest")
    assert await query.until(5) == sent
    await topics.trim()
    topics.brokers.crash(topics.broker)
    topics.broker = topics.brokers.broker()
    await topics.open()
    await topics.trim()
    query.restart()
    assert await query.batch() == []
    more = await topics.send(4)
    assert await query.until(4) == more


async def test_entries_trimmed_before_they_were_read_are_named(topics: Topics) -> None:
    await topics.send(12)
    query = Query(startingOffsets="earliest", maxEntriesPerTrigger="2")
    await query.until(2)
    await topics.trim()
    query.restart()
    with pytest.raises(
        DataLossError,
        match=rf"{TOPIC}: entries from 2 of ledger 0 on, before ledger \d+, were trimmed .* 9 entries",
    ):
        await query.batch()
    with pytest.raises(DataLossError, match=r"failOnDataLoss to false.*commitSubscription"):
        await query.batch()
    permissive = Query(failOnDataLoss="false")
    permissive.checkpoint = query.checkpoint
    assert await permissive.until(2) == ["t:10", "t:11"]


async def test_a_planned_batch_whose_ledgers_were_trimmed_is_named(topics: Topics) -> None:
    await topics.send(12)
    query = Query(startingOffsets="earliest")
    bounds = await query.plan()
    await topics.trim()
    query.restart()
    with pytest.raises(DataLossError, match=r"10 of the 1[12] entries from 0 of ledger 0"):
        await query.read(*bounds)


async def test_a_topic_deleted_and_made_again_is_read_from_its_beginning(topics: Topics) -> None:
    sent = await topics.send(7)
    query = Query(startingOffsets="earliest", maxEntriesPerTrigger="3")
    assert await query.batch() == sent[:3]
    await topics.broker.delete("public/default/persistent/t")
    assert await query.batch() == []
    topics.sent.clear()
    again = await topics.send(6)
    assert await query.until(6) == again
    with pytest.raises(OptionError, match="there is no topic"):
        await Query(topic="public/default/none").start()


async def test_a_checkpoint_of_another_topic_is_refused(topics: Topics) -> None:
    await topics.send(12)
    query = Query(startingOffsets="earliest")
    start, end = await query.plan()
    end[TOPIC]["read"] = 3
    with pytest.raises(DataLossError, match="the checkpoint is not of this topic"):
        await query.read(start, end)


async def test_the_latest_offset_is_reported_for_the_backlog_metric(topics: Topics) -> None:
    await topics.send(12)
    query = Query(startingOffsets="earliest", maxEntriesPerTrigger="1")
    assert query.reader.reportLatestOffset() is None
    await query.batch()
    reported = query.reader.reportLatestOffset()
    assert reported is not None
    assert reported != query.checkpoint
    assert reported[TOPIC]["at"] in ("2:1", "2:2")


class Followed:
    """A subscription that notes where it was moved."""

    moved: ClassVar[list[Mapping[str, Position | None]]] = []

    def __init__(self, service_url: str, name: str) -> None:
        self.moved.clear()

    async def hold(self, topics: Mapping[str, Position | None]) -> None:
        self.moved.append(topics)

    async def follow(self, topics: Mapping[str, Position | None]) -> None:
        self.moved.append(topics)


async def test_a_subscription_follows_when_a_batch_is_committed_without_waiting_for_the_next_rows(
    topics: Topics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.pulsar_source.streams.reader.StreamFollower", Followed)
    await topics.send(3)
    query = Query(
        startingOffsets="earliest",
        commitSubscription="follows",
        **{"service.url": "pulsar://nowhere:1"},
    )
    await query.until(3)
    assert Followed.moved[-1] != {TOPIC: Position(0, 2)}
    start, end = await query.plan()
    assert start == end
    assert Followed.moved[-1] == {TOPIC: Position(0, 2)}
