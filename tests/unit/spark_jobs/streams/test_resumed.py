"""A stream resumed fifty times over real bookies, under load, with trims behind it and growing partitions."""

import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from spark_jobs.pulsar_source.offsets import of_json
from tests.support.analyses.queries import TOPIC, Query, Topics
from tests.support.managed_cluster import Brokers


@pytest.fixture
async def topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Topics]:
    monkeypatch.setattr("spark_jobs.pulsar_source.streams.watch.TOPICS_S", 0.0)
    brokers = Brokers(tmp_path)
    await brokers.start()
    yield Topics(brokers, monkeypatch, entries=7)
    await brokers.close()


async def trim_behind(topics: Topics, query: Query, end: dict[str, object]) -> int:
    """Acknowledge what the stream has committed, as its subscription does, and trim; return the ledgers left."""
    left = 0
    for topic, offset in of_json(end).items():
        ledger = await topics.open(topic)
        known = query.reader._known.get(topic)
        last = known.last_before(offset.at) if known is not None else None
        if last is not None:
            ledger.cursors["keeps"].acknowledge_cumulative(last)
        await ledger.trim()
        left += len(ledger.line.ledgers)
    return left


@pytest.mark.parametrize("seed", range(2))
async def test_a_stream_resumed_fifty_times_gives_every_row_once(topics: Topics, seed: int) -> None:
    chance = random.Random(seed)
    partitions = 1
    await topics.partition(partitions)
    sent: list[str] = []
    rows: list[str] = []
    await topics.open(f"{TOPIC}-partition-0")
    query = Query(startingOffsets="earliest", maxEntriesPerTrigger="9")
    await query.start()
    for cycle in range(50):
        if cycle % 12 == 11:
            partitions += 1
            await topics.open(f"{TOPIC}-partition-{partitions - 1}")
            await topics.partition(partitions)
        for _ in range(chance.randint(0, 2)):
            number = chance.randrange(partitions)
            sent += await topics.send(chance.randint(1, 9), f"{TOPIC}-partition-{number}")
        start, end = await query.plan()
        seen = await query.read(start, end)
        if chance.random() < 0.6:  # killed before the batch is committed: it is read again
            query.restart()
            assert await query.read(start, end) == seen
            await query.plan()
            query.checkpoint = end
        rows += seen
        await trim_behind(topics, query, end)
    rows += await query.until(len(sent) - len(rows))
    assert Counter(rows) == Counter(sent)
    assert all(count == 1 for count in Counter(rows).values())
    written = (await topics.open(f"{TOPIC}-partition-0")).line.ledgers[0].ledger_id
    assert written > 0, "nothing was trimmed"
