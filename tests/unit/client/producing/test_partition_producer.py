"""A producer that reconnects: no message is lost, reordered or answered twice, whatever ends its link."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest

from engine.base.budget import Budget
from engine.broker.errors import BrokerError, NotAllowed, PersistenceError, TopicTerminated
from engine.client.broker_link import BrokerLink
from engine.client.client import PulsarClient
from engine.client.errors import (
    MessageTooLargeError,
    RefusedError,
    ServerError,
    UnexpectedError,
)
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import (
    BatchSettings,
    PartitionProducer,
    ProducerSettings,
    SendResult,
    SendTimeoutError,
)
from engine.client.raw_reader import RawReader
from engine.schema.kinds import version_bytes
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import EntryMessages, unpack_entry
from tests.support.broker_bench import NAME, Bench, served, until
from tests.unit.client.test_client import client_of

pytestmark = pytest.mark.virtual_time


class Publisher:
    """A producer and the results of its messages."""

    def __init__(self, client: PulsarClient, settings: ProducerSettings) -> None:
        self.client = client
        self.results: list[SendResult] = []
        self.budget = Budget(1 << 30)
        self.producer = PartitionProducer(
            client, NAME.full, settings, self.budget, self.results.extend
        )

    def send(self, *contents: bytes, **fields: Any) -> None:
        self.producer.send([OutgoingMessage(content, content, **fields) for content in contents])

    async def answers(self, count: int) -> list[SendResult]:
        await until(lambda: len(self.results) >= count)
        assert len(self.results) == count, "a message was answered twice"
        return self.results

    @property
    def link(self) -> BrokerLink:
        assert self.producer._raw is not None
        return self.producer._raw.link


@asynccontextmanager
async def publishing(
    settings: ProducerSettings | None = None,
) -> AsyncIterator[tuple[Bench, Publisher]]:
    async with served() as (bench, _, url):
        client = client_of(url)
        publisher = Publisher(client, settings or ProducerSettings())
        await publisher.producer.open()
        yield bench, publisher
        await publisher.producer.close()
        assert (publisher.budget.bytes, publisher.budget.items) == (0, 0)
        await client.close()


async def stored(publisher: Publisher) -> list[EntryMessages]:
    """Return all entries of the topic."""
    link = await publisher.client.owner(NAME.full)
    reader = await RawReader.open(link, NAME.full, name="test")
    entries = [unpack_entry(message.entry) for message in await reader.rest()]
    await reader.consumer.close()
    return entries


async def contents(publisher: Publisher) -> list[bytes | None]:
    return [message.value for entry in await stored(publisher) for message in entry.messages]


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"%d" % number for number in range(start, stop)]


async def test_messages_are_stored_in_order_and_each_answered_once() -> None:
    async with publishing() as (bench, publisher):
        publisher.send(*numbered(0, 300))
        publisher.send(*numbered(300, 500))
        assert publisher.budget.items == 500
        results = await publisher.answers(500)
        assert [result.token for result in results] == numbered(0, 500)
        ids = [result.message_id for result in results]
        assert all(message_id is not None and message_id.batch_index == -1 for message_id in ids)
        assert [message_id.position for message_id in ids if message_id] == sorted(
            {message_id.position for message_id in ids if message_id}
        )
        assert publisher.budget.items == 0
        assert await contents(publisher) == numbered(0, 500)
        [entry, *_] = await stored(publisher)
        assert (entry.producer_name, entry.messages[0].sequence_id) == (publisher.producer.name, 0)
        assert list(bench.topic.producers) == [publisher.producer.name]


async def test_everything_of_a_message_is_stored() -> None:
    async with publishing() as (_, publisher):
        publisher.send(
            b"x",
            key="k",
            ordering_key=b"o",
            properties={"a": "1", "ü": "ö"},
            event_ms=7,
            deliver_at_ms=9,
            replicate_to=["r1", "r2"],
        )
        await publisher.answers(1)
        [entry] = await stored(publisher)
        [message] = entry.messages
        assert (message.key, message.ordering_key, message.event_ms) == ("k", b"o", 7)
        assert message.properties == {"a": "1", "ü": "ö"}
        assert entry.metadata.deliver_at_time == 9
        assert list(entry.metadata.replicate_to) == ["r1", "r2"]


@pytest.mark.parametrize("kind", [0, 1, 2, 3, 4])
async def test_batches_are_full_or_late_and_their_messages_are_numbered(kind: int) -> None:
    settings = ProducerSettings(batching=BatchSettings(4, 100, 0.01), compression=kind)
    async with publishing(settings) as (bench, publisher):
        publisher.send(*(b"%d" % n for n in range(10)), key="k", properties={"a": "b"})
        publisher.send(b"x" * 200)
        publisher.send(b"later", deliver_at_ms=1)
        results = await publisher.answers(12)
        entries = await stored(publisher)
        assert [len(entry.messages) for entry in entries] == [4, 4, 3, 1]
        assert [message.value for entry in entries for message in entry.messages] == [
            *numbered(0, 10),
            b"x" * 200,
            b"later",
        ]
        numbers = [message.sequence_id for entry in entries for message in entry.messages]
        assert numbers == list(range(12))
        assert entries[0].metadata.highest_sequence_id == 3
        assert entries[0].metadata.partition_key == "k"
        assert entries[0].messages[1].properties == {"a": "b"}
        ids = [result.message_id for result in results]
        assert [(message_id.batch_index, message_id.batch_size) for message_id in ids if message_id][:5] == [
            (0, 4), (1, 4), (2, 4), (3, 4), (0, 4),
        ]  # fmt: skip
        [producer] = bench.topic.producers.values()
        assert producer.published.messages.total == 12


async def test_a_batch_without_a_delay_has_what_one_turn_of_the_loop_sent() -> None:
    settings = ProducerSettings(batching=BatchSettings(delay_s=0.0))
    async with publishing(settings) as (_, publisher):
        for turn in (1, 2):
            for number in numbered(0, 3):
                publisher.send(number)
            assert publisher.producer._batch, "it waits for the rest of the turn"
            await asyncio.sleep(0)
            assert not publisher.producer._batch, "it waits for no timer"
            await publisher.answers(3 * turn)
        assert [len(entry.messages) for entry in await stored(publisher)] == [3, 3]


async def test_messages_without_a_receipt_are_resent_after_any_loss() -> None:
    async with publishing() as (bench, publisher):
        sent = 0
        for round_ in range(12):
            publisher.send(*numbered(sent, sent + 40))
            sent += 40
            match round_ % 4:
                case 0:
                    publisher.link.abort()
                case 1:
                    await asyncio.sleep(0)
                    await bench.registry.unload(NAME)
                case 2:
                    await bench.kill()
            await until(lambda: publisher.producer.connected)
        results = await publisher.answers(sent)
        assert [result.token for result in results] == numbered(0, sent)
        assert all(result.message_id is not None for result in results)
        values = await contents(publisher)
        first_seen = list(dict.fromkeys(values))
        assert first_seen == numbered(0, sent), "lost, or out of order"


async def test_sequence_ids_continue_from_the_brokers_or_the_callers() -> None:
    settings = ProducerSettings(name="mine", initial_sequence_id=41)
    async with publishing(settings) as (_, publisher):
        publisher.send(b"a", b"b")
        await publisher.answers(2)
        entries = await stored(publisher)
        assert [entry.metadata.sequence_id for entry in entries] == [42, 43]
        assert publisher.producer.name == "mine"


async def test_a_name_in_use_is_refused_at_once() -> None:
    settings = ProducerSettings(name="mine")
    async with publishing(settings) as (_, publisher):
        other = Publisher(client_of(f"pulsar://{publisher.link.peer_name}"), settings)
        async with asyncio.timeout(60):
            with pytest.raises(RefusedError, match="already connected") as caught:
                await other.producer.open()
        assert caught.value.code is ServerError.ProducerBusy
        await other.client.close()


def refusing(bench: Bench, error: BrokerError, at: int) -> None:
    """Make the topic refuse the run that is published after ``at`` others."""
    count = 0

    def refuse(run: Any) -> None:
        nonlocal count
        count += 1
        if count == at + 1:
            run.refuse(error)
        else:
            publish(run)

    publish = bench.publish_by(refuse)


async def test_a_message_refused_for_itself_harms_no_other() -> None:
    async with publishing() as (bench, publisher):
        refusing(bench, NotAllowed("too rare"), 1)
        name = publisher.producer.name
        for count, content in enumerate(numbered(0, 4), 1):
            publisher.send(content)
            await publisher.answers(count)
        results = {result.token: result for result in await publisher.answers(4)}
        assert isinstance(results[b"1"].error, RefusedError)
        assert [results[n].error for n in (b"0", b"2", b"3")] == [None] * 3
        assert await contents(publisher) == [b"0", b"2", b"3"]
        assert publisher.producer.name == name


async def test_after_a_passing_refusal_messages_are_sent_again() -> None:
    async with publishing() as (bench, publisher):
        refusing(bench, PersistenceError("not now"), 0)
        publisher.send(*numbered(0, 3))
        results = await publisher.answers(3)
        assert [result.error for result in results] == [None] * 3
        assert list(dict.fromkeys(await contents(publisher))) == numbered(0, 3)


async def test_a_terminated_topic_answers_everything_for_good() -> None:
    async with publishing() as (bench, publisher):
        refusing(bench, TopicTerminated("Topic was already terminated"), 0)
        publisher.send(b"a")
        [result] = await publisher.answers(1)
        assert isinstance(result.error, RefusedError)
        assert result.error.code is ServerError.TopicTerminatedError
        publisher.send(b"b")
        assert len(publisher.results) == 2
        assert publisher.producer.error is result.error


async def test_without_receipts_in_time_pending_messages_fail_once() -> None:
    settings = ProducerSettings(send_timeout_s=0.2)
    async with publishing(settings) as (bench, publisher):
        held: list[Any] = []
        publish = bench.publish_by(held.append)
        publisher.send(b"a", b"b")
        results = await publisher.answers(2)
        assert all(isinstance(result.error, SendTimeoutError) for result in results)
        assert publisher.budget.items == 0
        bench.publish_by(publish)
        for run in held:
            publish(run)
        publisher.send(b"c")
        assert (await publisher.answers(3))[2].error is None
        assert await contents(publisher) == [b"a", b"b", b"c"], "late is not lost"


async def test_a_message_too_large_is_refused_or_sent_in_chunks() -> None:
    async with publishing() as (_, publisher):
        publisher.link.max_message_size = 3000
        publisher.send(b"a", b"b" * 7000, b"c")
        results = {result.token[:1]: result for result in await publisher.answers(3)}
        assert isinstance(results[b"b"].error, MessageTooLargeError)
        assert await contents(publisher) == [b"a", b"c"]
        settings = replace(publisher.producer._settings, chunking=True)
        chunking = Publisher(publisher.client, settings)
        await chunking.producer.open()
        chunking.send(b"d" * 7000, b"e")
        big, small = await chunking.answers(2)
        assert big.message_id is not None
        assert big.message_id.first_chunk is not None
        assert small.message_id is not None
        assert small.message_id.first_chunk is None
        entries = (await stored(publisher))[2:]
        chunks = [entry.metadata for entry in entries[:-1]]
        assert [chunk.chunk_id for chunk in chunks] == list(range(chunks[0].num_chunks_from_msg))
        assert {chunk.total_chunk_msg_size for chunk in chunks} == {7000}
        assert b"".join(entry.messages[0].value or b"" for entry in entries[:-1]) == b"d" * 7000
        await chunking.producer.close()


async def detached(publisher: Publisher) -> None:
    """Abort the producer's link and wait until the producer is disconnected."""
    publisher.link.abort()
    while publisher.producer.connected:
        await asyncio.sleep(0)


async def test_an_unexpected_error_during_reconnection_fails_pending_messages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with publishing() as (_, publisher):

        async def broken(topic: str) -> BrokerLink:
            raise ZeroDivisionError

        monkeypatch.setattr(publisher.client, "owner", broken)
        await detached(publisher)
        publisher.send(b"a")
        [result] = await publisher.answers(1)
        assert isinstance(result.error, UnexpectedError)
        assert publisher.producer.error is result.error


async def test_a_message_too_large_that_is_sent_while_detached_costs_no_connection() -> None:
    async with served() as (_, sessions, url):
        client = client_of(url)
        publisher = Publisher(client, ProducerSettings())
        await publisher.producer.open()
        await detached(publisher)
        large = bytes(publisher.producer._bytes_max or 0)
        publisher.send(large, b"behind it")
        results = {result.token: result for result in await publisher.answers(2)}
        assert isinstance(results[large].error, MessageTooLargeError)
        assert results[b"behind it"].error is None
        assert sessions.accepted == 2, "one connection, and one more after it was lost"
        await publisher.producer.close()
        await client.close()


async def test_pending_messages_are_checked_against_the_next_brokers_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ProducerSettings(chunking=True)
    async with publishing(settings) as (_, publisher):
        real = BrokerLink._complete_handshake

        def lower(link: BrokerLink, body: Any) -> None:
            real(link, body)
            link.max_message_size = 2000

        monkeypatch.setattr(BrokerLink, "_complete_handshake", lower)
        publisher.producer._bytes_max = 4000
        await detached(publisher)
        publisher.send(b"a", b"b" * 3000, b"c" * 9000, b"d")
        results = await publisher.answers(4)
        failed = [result.token[:1] for result in results if result.error is not None]
        assert failed == [b"b", b"c"]
        assert all(isinstance(result.error, MessageTooLargeError) for result in results[:2])
        assert await contents(publisher) == [b"a", b"d"]


async def test_a_producer_that_is_not_awaited_any_more_leaves_the_topic() -> None:
    async with publishing() as (bench, publisher):
        for turns in range(40):
            other = Publisher(publisher.client, ProducerSettings(name=f"gone{turns}"))
            opening = asyncio.ensure_future(other.producer.open())
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            with suppress(asyncio.CancelledError):
                await opening
                await other.producer.close()
        await publisher.client.partitions(NAME.full)  # earlier requests are answered
        await until(lambda: len(bench.topic.producers) == 1)


async def test_a_closed_producer_answers_what_was_stored_and_leaves() -> None:
    settings = ProducerSettings(batching=BatchSettings(delay_s=60.0))
    async with publishing(settings) as (bench, publisher):
        publisher.send(b"a", b"b")
        await publisher.producer.close()
        assert [result.error for result in await publisher.answers(2)] == [None, None]
        assert bench.topic.producers == {}
        assert await contents(publisher) == [b"a", b"b"]


async def test_a_schema_is_registered_when_the_producer_attaches() -> None:
    schema = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
    async with publishing(ProducerSettings(schema=schema)) as (bench, publisher):
        registered = await bench.schemas.version(NAME, None)
        assert registered is not None
        assert publisher.producer.schema_version == version_bytes(registered.number)
        version = pb.MessageMetadata(schema_version=publisher.producer.schema_version)
        publisher.send(b"a", extra_metadata=version.SerializePartialToString())
        await publisher.answers(1)
        [entry] = await stored(publisher)
        assert entry.metadata.schema_version == publisher.producer.schema_version


async def test_messages_may_have_sequence_ids_of_the_callers() -> None:
    settings = ProducerSettings(name="p", batching=BatchSettings(delay_s=60.0))
    async with publishing(settings) as (_, publisher):
        publisher.send(b"a", b"b")
        publisher.producer.send_as(OutgoingMessage(b"c", b"c"), 40)
        publisher.send(b"d")
        publisher.producer.send_as(OutgoingMessage(b"e", b"e"), 70)
        publisher.producer.flush()
        assert [result.token for result in await publisher.answers(5)] == [
            b"a",
            b"b",
            b"c",
            b"d",
            b"e",
        ]
        entries = await stored(publisher)
        assert [entry.metadata.sequence_id for entry in entries] == [0, 40, 70]
