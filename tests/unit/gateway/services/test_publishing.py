"""Messages that REST publishes, at a real broker: receipts, shared producers, names, refusals."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from engine.base.errors import Conflict, NotReady
from engine.base.names import TopicName
from engine.broker.errors import NotAllowed, TopicTerminated
from engine.client.errors import UnreachableError
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import (
    PartitionProducer,
    SendResult,
    SendTimeoutError,
)
from engine.client.raw_producer import RawProducer
from engine.client.raw_reader import RawReader
from engine.schema.kinds import Schema, SchemaKind
from engine.wire.batches import EntryMessages, unpack_entry
from gateway.services import publishing
from gateway.services.publishing import NO_VERSION, Outgoing, Published, Publisher, failure_of
from tests.support.broker_bench import NAME, Bench, served, until
from tests.unit.client.test_client import client_of
from tests.unit.gateway.ws.test_producer import Held

STRING = Schema(SchemaKind.STRING, b"", {})
INT32 = Schema(SchemaKind.INT32, b"", {})
BYTES = Schema(SchemaKind.NONE, b"", {})


class Rest:
    """A publisher, and what it is asked for."""

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher

    async def publish(
        self, *contents: bytes, name: str | None = None, schema: Schema = STRING, **fields: Any
    ) -> Published:
        messages = [Outgoing(OutgoingMessage(content, **fields)) for content in contents]
        return await self.publisher.publish([NAME], messages, schema, name)

    async def stored(self) -> list[EntryMessages]:
        link = await self.publisher._client.owner(NAME.full)
        reader = await RawReader.open(link, NAME.full, name="test")
        entries = [unpack_entry(message.entry) for message in await reader.rest()]
        await reader.consumer.close()
        return entries


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[Bench, Rest]]:
    async with served() as (bench, _, url):
        client = client_of(url, operation_timeout_s=5.0)
        publisher = Publisher(client)
        yield bench, Rest(publisher)
        await publisher.close()
        assert (publisher._budget.bytes, publisher._budget.items) == (0, 0)
        await client.close()


async def test_a_message_is_reported_stored_when_the_broker_has_confirmed_it() -> None:
    async with opened() as (bench, rest):
        held = Held(bench)
        publication = asyncio.create_task(rest.publish(b"a", b"b"))
        await until(lambda: held.count == 2)
        for _ in range(20):
            await asyncio.sleep(0)
        assert not publication.done(), "sent is not stored"
        held.go()
        published = await publication
        ids = [result.message_id for result in published.results]
        assert len(set(ids)) == 2
        assert None not in ids
        assert published.partitions == [-1, -1]
        assert [entry.metadata.schema_version for entry in await rest.stored()] == [bytes(8)] * 2
        assert published.schema_version == 0


async def test_a_refused_message_is_answered_alone() -> None:
    async with opened() as (bench, rest):
        held = Held(bench)
        publications = []
        for count, content in enumerate((b"a", b"b", b"c"), 1):
            publications.append(asyncio.create_task(rest.publish(content)))
            await until(lambda: held.count == count)  # noqa: B023
        held.runs.pop(1).refuse(NotAllowed("not this one"))
        held.go()
        [a], [b], [c] = [published.results for published in await asyncio.gather(*publications)]
        assert a.message_id is not None
        assert c.message_id is not None
        assert b.message_id is None
        assert b.error is not None
        assert failure_of(b.error) == (2, "not this one")


async def test_a_message_without_a_receipt_in_time_is_no_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "SEND_TIMEOUT_S", 0.05)
    async with opened() as (bench, rest):
        held = Held(bench)
        published = await rest.publish(b"a")
        [result] = published.results
        assert isinstance(result.error, SendTimeoutError)
        assert failure_of(result.error)[0] == 1
        held.go()


async def test_a_terminated_topic_is_each_messages_answer() -> None:
    async with opened() as (bench, rest):
        held = Held(bench)
        publication = asyncio.create_task(rest.publish(b"a"))
        await until(lambda: held.count == 1)
        held.runs.pop().refuse(TopicTerminated("Topic was already terminated"))
        [result] = (await publication).results
        assert result.error is not None
        assert failure_of(result.error) == (2, "Topic was already terminated")
        await bench.topic.terminate()
        [result] = (await rest.publish(b"b")).results
        assert result.error is not None
        assert failure_of(result.error)[0] == 2


async def test_requests_share_a_producer_that_leaves_when_it_is_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "IDLE_S", 0.01)
    async with opened() as (bench, rest):
        held = Held(bench)
        publications = [asyncio.create_task(rest.publish(b"%d" % number)) for number in range(20)]
        await until(lambda: held.count == 20)
        assert len(bench.topic.producers) == 1
        held.go()
        await asyncio.gather(*publications)
        await until(lambda: not bench.topic.producers)
        assert not rest.publisher._shared
        again = asyncio.create_task(rest.publish(b"again"))
        await until(lambda: held.count == 1)
        held.go()
        assert (await again).results[0].message_id is not None


async def test_a_shared_producer_stays_while_a_request_uses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "IDLE_S", 0.0)
    async with opened() as (bench, rest):
        held = Held(bench)
        first = asyncio.create_task(rest.publish(b"a"))
        await until(lambda: held.count == 1)
        second = asyncio.create_task(rest.publish(b"b"))
        await until(lambda: held.count == 2)
        held.runs.pop(0).refuse(NotAllowed("not this one"))
        await first
        [shared] = rest.publisher._shared.values()
        assert (shared.users, shared.idle) == (1, None)
        held.go()
        assert (await second).results[0].message_id is not None


async def test_a_topic_that_is_deleted_is_not_made_again_by_an_idle_producer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "IDLE_S", 60.0)
    async with opened() as (bench, rest):
        await rest.publish(b"a")
        [shared] = rest.publisher._shared.values()
        await bench.registry.deletions.delete(NAME, force=True)
        await until(lambda: not shared.producer.connected)
        assert not shared.usable
        assert shared.producer._attaching is None
        assert bench.registry.loaded(NAME) is None
        assert (await rest.publish(b"b")).results[0].message_id is not None


async def test_shared_producers_are_capped_and_the_longest_idle_one_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "PRODUCERS_MAX", 1)
    monkeypatch.setattr(publishing, "IDLE_S", 60.0)
    async with opened() as (bench, rest):
        await rest.publish(b"a")
        await rest.publish(b"b", schema=BYTES)
        await until(lambda: len(bench.topic.producers) == 1)
        held = Held(bench)
        publication = asyncio.create_task(rest.publish(b"c", schema=BYTES))
        await until(lambda: held.count == 1)
        with pytest.raises(NotReady, match="too many topics"):
            await rest.publish(b"d")
        held.go()
        assert (await publication).results[0].message_id is not None


async def test_too_many_waiting_bytes_refuse_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "IN_FLIGHT_BYTES_MAX", 1_000)
    async with opened() as (bench, rest):
        held = Held(bench)
        publication = asyncio.create_task(rest.publish(bytes(1_000)))
        await until(lambda: held.count == 1)
        with pytest.raises(NotReady, match="receipts"):
            await rest.publish(b"b")
        held.go()
        await publication
        again = asyncio.create_task(rest.publish(b"b"))
        await until(lambda: held.count == 1)
        held.go()
        await again


async def test_a_name_has_one_producer_at_a_time_which_leaves_before_the_answer() -> None:
    async with opened() as (bench, rest):
        answers = await asyncio.gather(*(rest.publish(b"%d" % n, name="p") for n in range(5)))
        assert all(answer.results[0].message_id is not None for answer in answers)
        assert not bench.topic.producers
        assert {entry.metadata.producer_name for entry in await rest.stored()} == {"p"}


async def test_a_name_that_another_client_has_is_a_conflict() -> None:
    async with opened() as (_, rest):
        link = await rest.publisher._client.owner(NAME.full)
        other = await RawProducer.open(link, NAME.full, name="p")
        with pytest.raises(Conflict, match="p"):
            await rest.publish(b"a", name="p")
        await other.close()
        assert (await rest.publish(b"a", name="p")).results[0].message_id is not None


async def test_messages_of_a_name_have_the_sequence_ids_that_were_given() -> None:
    async with opened() as (_, rest):
        messages = [Outgoing(OutgoingMessage(b"m"), number) for number in (5, 9)]
        await rest.publisher.publish([NAME], messages, STRING, "p")
        assert [entry.metadata.sequence_id for entry in await rest.stored()] == [5, 9]


async def test_a_schema_that_does_not_fit_the_topics_is_a_conflict() -> None:
    async with opened() as (_, rest):
        await rest.publish(b"a")
        with pytest.raises(Conflict):
            await rest.publish(b"\0\0\0\1", schema=INT32)
        assert (await rest.publish(b"b", schema=BYTES)).schema_version == NO_VERSION
        assert len(await rest.stored()) == 2


async def test_without_a_broker_nothing_is_reported_but_the_request_refused() -> None:
    client = client_of("pulsar://127.0.0.1:1", operation_timeout_s=0.05)
    publisher = Publisher(client)
    with pytest.raises(UnreachableError):
        await publisher.publish([NAME], [Outgoing(OutgoingMessage(b"a"))], STRING)
    await publisher.close()
    await client.close()


async def test_a_cancelled_caller_does_not_affect_the_others() -> None:
    async with opened() as (bench, rest):
        held = Held(bench)
        gone, stays = (asyncio.create_task(rest.publish(content)) for content in (b"a", b"b"))
        await until(lambda: held.count == 2)
        gone.cancel()
        await asyncio.wait([gone])
        held.go()
        assert (await stays).results[0].message_id is not None
        named = asyncio.create_task(rest.publish(b"c", name="p"))
        await until(lambda: held.count == 1)
        named.cancel()
        held.go()
        await asyncio.wait([named])
        again = asyncio.create_task(rest.publish(b"d", name="p"))
        await until(lambda: held.count == 1)
        held.go()
        assert (await again).results[0].message_id is not None


async def test_keys_choose_the_partition_and_messages_without_take_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topics = [NAME.partition_at(index) for index in range(3)]
    runs: dict[TopicName, list[bytes]] = {}

    async def publish(
        self: Publisher, topic: TopicName, run: list[Outgoing], *_: Any
    ) -> publishing._PartResult:
        runs[topic] = [outgoing.message.payload for outgoing in run]
        results = [SendResult(outgoing.message.payload, None) for outgoing in run]
        return publishing._PartResult(results, 0)

    monkeypatch.setattr(Publisher, "_publish", publish)
    publisher = Publisher(client_of("pulsar://127.0.0.1:1"))
    keyed = [Outgoing(OutgoingMessage(b"%d" % n, key="same")) for n in range(6)]
    published = await publisher.publish(topics, keyed, STRING)
    assert len(set(published.partitions)) == 1
    runs.clear()
    free = [Outgoing(OutgoingMessage(b"%d" % n)) for n in range(6)]
    published = await publisher.publish(topics, free, STRING)
    assert sorted(published.partitions) == [0, 0, 1, 1, 2, 2]
    assert [result.token for result in published.results] == [b"%d" % n for n in range(6)]
    assert [len(run) for run in runs.values()] == [2, 2, 2]


async def test_a_partition_that_cannot_be_attached_to_is_answered_for_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opens = PartitionProducer.open

    async def refuse_second(self: PartitionProducer) -> None:
        if self._partition == 1:
            raise UnreachableError("not there")
        await opens(self)

    monkeypatch.setattr(PartitionProducer, "open", refuse_second)
    async with opened() as (_, rest):
        topics = [NAME.partition_at(0), NAME.partition_at(1)]
        messages = [Outgoing(OutgoingMessage(b"%d" % n)) for n in range(4)]
        published = await rest.publisher.publish(topics, messages, STRING)
        for result, partition in zip(published.results, published.partitions, strict=True):
            assert (result.message_id is None) == (partition == 1)
            assert (result.error is None) == (partition == 0)
        with pytest.raises(UnreachableError):
            await rest.publisher.publish(topics[1:], messages[:1], STRING)
