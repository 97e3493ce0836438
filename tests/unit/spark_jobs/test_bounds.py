"""Starts and ends of batches: positions, times, a subscription's place, which stays as it is."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.wire import pulsar_pb2 as pb
from spark_jobs.pulsar_source.options import ALIASES, OptionError, parse
from spark_jobs.pulsar_source.planning import plan_topics
from spark_jobs.pulsar_source.tasks import read_group, tasks_of
from tests.support.analyses.queries import TOPIC, Query, Topics, read_batch
from tests.support.managed_cluster import Brokers


@pytest.fixture
async def topics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Topics]:
    """Twelve messages in the ledgers 0, 1 and 2 of five; message i was published at i + 1 ms."""
    brokers = Brokers(tmp_path)
    await brokers.start()
    made = Topics(brokers, monkeypatch)
    await made.send(12)
    yield made
    await brokers.close()


def numbers(texts: list[str]) -> list[int]:
    return [int(text.rpartition(":")[2]) for text in texts]


async def test_a_batch_reads_from_a_place_to_before_another(topics: Topics) -> None:
    ledgers = [ledger.ledger_id for ledger in (await topics.open()).line.ledgers]
    first, second, third = ledgers
    cases: list[tuple[dict[str, str], range]] = [
        ({}, range(12)),
        ({"startingOffsets": "latest"}, range(0)),
        ({"startingOffsets": f"{second}:1"}, range(6, 12)),
        ({"startingOffsets": f"{second}:1:-1:0", "endingOffsets": f"{third}:1"}, range(6, 11)),
        ({"startingOffsets": json.dumps({TOPIC: [first, 3]})}, range(3, 12)),
        ({"startingOffsets": json.dumps({TOPIC: f"{first}:-1"})}, range(12)),
        ({"endingOffsets": json.dumps({TOPIC: "earliest"})}, range(0)),
        ({"startingTime": "4", "endingTime": "9"}, range(3, 8)),
        ({"startingTimestamp": "1970-01-01T00:00:00.007Z"}, range(6, 12)),
        ({"startingTime": "100"}, range(0)),
        ({"endingTimestamp": "0"}, range(0)),
        ({"lastEntries": "3", "endingTime": "9"}, range(5, 8)),
        ({"minPartitions": "6"}, range(12)),
    ]
    for options, wanted in cases:
        assert numbers(await read_batch(columns="value", **options)) == list(wanted), options


async def test_a_subscription_names_where_to_start_and_is_not_touched(topics: Topics) -> None:
    ledger = await topics.open()
    cursor = ledger.cursors["keeps"]
    cursor.acknowledge([ledger.line.position(i) for i in (0, 1, 2, 5, 9)])
    await cursor.persisted()
    path = "/managed-ledgers/public/default/persistent/t/keeps"
    before = await topics.store.get(path)
    texts = await read_batch(columns="value", startingSubscription="keeps")
    assert numbers(texts) == [3, 4, 6, 7, 8, 10, 11]
    query = Query(startingSubscription="keeps")
    assert numbers(await query.until(9)) == list(range(3, 12))
    assert await topics.store.get(path) == before
    with pytest.raises(OptionError, match="has no durable subscription other"):
        await read_batch(startingSubscription="other")


async def test_columns_of_pulsar_spark_have_its_names_types_and_values(topics: Topics) -> None:
    options = parse({"topic": TOPIC, "metadataUrl": "zk:a:1", "columns": "pulsar-spark"})

    def first() -> dict[str, Any]:
        [task, *_] = tasks_of(options, plan_topics(options))
        [part, *_] = read_group(options, task)
        row: dict[str, Any] = part.slice(0, 1).to_pylist()[0]
        return row

    row = await asyncio.to_thread(first)
    assert list(row) == ["value", *ALIASES]
    assert (row["value"], row["__key"], row["__topic"]) == (b"t:0", b"k0", TOPIC)
    identity = pb.MessageIdData.FromString(row["__messageId"])
    assert (identity.ledgerId, identity.entryId, identity.batch_index) == (0, 0, -1)
    assert row["__publishTime"].timestamp() == 0.001
    assert (row["__eventTime"], row["__messageProperties"]) == (None, [])


async def test_a_position_must_say_of_which_partition_it_is(topics: Topics) -> None:
    await topics.partition(2, "public/default/p")
    for reading in (
        read_batch(topic="public/default/p", endingOffsets="5:1"),
        Query(topic="public/default/p", startingOffsets="5:1").start(),
    ):
        with pytest.raises(OptionError, match=r"is a place in one of the 2 topics"):
            await reading
    with pytest.raises(OptionError, match="orders is not among the selected topics"):
        await read_batch(startingOffsets='{"orders": [5, 1]}')


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffsets": "first"}, "startingoffsets: 'first' is neither earliest"),
        ({"startingOffsets": '{"a/b": "earliest"}'}, "Invalid short topic name"),
        ({"endingOffsets": '{"x": [1]}'}, "neither earliest, latest nor"),
        ({"startingTime": "2026-01-31T12:00:00"}, "has no time zone"),
        ({"startingTime": "1", "startingOffsets": "latest"}, "exclude each other"),
        ({"startingSubscription": "s", "startingTime": "1"}, "startingSubscription excludes"),
        ({"commitSubscription": "s"}, "needs option service.url"),
    ],
)
def test_a_bad_bound_is_refused_by_name(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        parse({"topic": "x", "metadataUrl": "zk:a:1", **options})
