"""Messages of a producer over partitions that exist or are added later."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from engine.base.budget import Budget
from engine.base.names import TopicName
from engine.broker.errors import TopicNotFound
from engine.client.errors import RefusedError
from engine.client.producing import topic_producer
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_choice import Hashing, Routing, key_hash
from engine.client.producing.partition_producer import ProducerSettings, SendResult
from engine.client.producing.topic_producer import TopicProducer
from tests.support.broker_bench import NAME, Bench, served, until
from tests.unit.client.test_client import client_of

pytestmark = pytest.mark.virtual_time


@asynccontextmanager
async def producing(
    partitions: int, routing: Routing
) -> AsyncIterator[tuple[Bench, TopicProducer, list[SendResult], Budget]]:
    async with served() as (bench, _, url):
        grow(bench, partitions)
        client = client_of(url)
        results: list[SendResult] = []
        budget = Budget(1 << 30)
        producer = await TopicProducer.open(
            client,
            NAME.full,
            ProducerSettings(name="mine", routing=routing),
            budget=budget,
            on_results=results.extend,
        )
        yield bench, producer, results, budget
        await producer.close()
        assert budget.items == 0
        await client.close()


def grow(bench: Bench, partitions: int) -> None:
    async def count(topic: TopicName, *, allow_create: bool) -> int:
        return partitions

    bench.everything.partitions = count  # type: ignore[method-assign]


def send(producer: TopicProducer, *keys: str | None) -> None:
    producer.send([OutgoingMessage(b"x", (key, n), key=key) for n, key in enumerate(keys)])


async def test_messages_go_by_turns_and_keys_to_their_partition() -> None:
    async with producing(3, Routing.ROUND_ROBIN) as (_, producer, results, _budget):
        assert producer.names == ["mine"] * 3
        send(producer, *[None] * 9, *"abcabc")
        await until(lambda: len(results) == 15)
        of_key = {
            result.token[0]: result.message_id.partition
            for result in results
            if result.message_id is not None
        }
        for key in "abc":
            assert of_key[key] == key_hash(Hashing.JAVA_STRING, key) % 3
        turns = [
            result.message_id.partition
            for result in results
            if not result.token[0] and result.message_id
        ]
        assert sorted(turns) == [0, 0, 0, 1, 1, 1, 2, 2, 2]


async def test_a_topic_that_grows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_producer, "PARTITIONS_CHECK_S", 0.01)
    async with producing(2, Routing.ROUND_ROBIN) as (bench, producer, results, _):
        grow(bench, 4)
        await until(lambda: len(producer.names) == 4)
        send(producer, *[None] * 8)
        await until(lambda: len(results) == 8)
        partitions = {
            result.message_id.partition for result in results if result.message_id is not None
        }
        assert partitions == {0, 1, 2, 3}


async def test_a_partition_that_is_refused_leaves_no_other_attached() -> None:
    async with served() as (bench, _, url):
        grow(bench, 3)
        get = bench.registry.get

        async def refuse(name: TopicName, *, create: bool) -> object:
            if str(name).endswith("-1"):
                raise TopicNotFound("no such partition")
            return await get(name, create=create)

        bench.registry.get = refuse  # type: ignore[assignment, method-assign]
        client = client_of(url)
        with pytest.raises(RefusedError, match="no such partition"):
            await TopicProducer.open(
                client,
                NAME.full,
                ProducerSettings(),
                budget=Budget(1),
                on_results=lambda results: None,
            )
        topics = [topic for topic in bench.registry.topics(NAME.namespace) if topic.producers]
        assert topics == []
        await client.close()
