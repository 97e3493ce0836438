"""Messages that are redelivered too often go to another topic, whole and with their origin; no failure loses them."""

from collections.abc import AsyncIterator

import pytest

from engine.client.client import PulsarClient
from engine.client.consuming.dead_letters import DeadLetters
from engine.client.consuming.incoming import Incoming
from engine.client.errors import LostError
from engine.client.raw_consumer import SHARED
from engine.wire.batches import Message
from tests.support.broker_bench import NAME, Bench
from tests.unit.client.consuming.client_bench import Publisher, backlog, client_of, consuming, until
from tests.unit.client.consuming.test_attachment import chunked

pytestmark = pytest.mark.virtual_time

DEAD = f"{NAME.full}-s-DLQ"


@pytest.fixture
async def bench() -> AsyncIterator[tuple[Bench, PulsarClient]]:
    async with client_of() as made:
        yield made


async def test_a_dead_letter_is_the_message_with_its_origin(
    bench: tuple[Bench, PulsarClient],
) -> None:
    broker, client = bench
    publisher = await Publisher.to(client)
    await publisher.entry(Message(b"poison", "AAE=", True, b"o", {"p": "v"}, 77))
    settings = {"kind": SHARED, "nack_delay_s": 0.0, "redeliveries_max": 2}
    async with (
        consuming(client, topics=[DEAD], subscription="d") as (_, letters),
        consuming(client, **settings) as (consumer, taken),
    ):
        for count in range(3):
            await until(lambda count=count: len(taken.messages) == count + 1)
            consumer.refuse(taken.messages[count])
        await until(lambda: letters.messages)
        await until(lambda: backlog(broker) == 0)
        letter, sent = letters.messages[0], taken.messages[0]
        origin = f"{sent.position}:-1"
        assert letter.properties == {
            "p": "v",
            "REAL_TOPIC": NAME.full,
            "REAL_SUBSCRIPTION": "s",
            "ORIGIN_MESSAGE_ID": origin,
            "ORIGIN_MESSAGE_IDY_TIME": origin,
        }
        assert (letter.content, letter.key, letter.key_is_base64) == (b"poison", "AAE=", True)
        assert (letter.ordering_key, letter.event_ms) == (b"o", 77)
        assert [message.redelivery_count for message in taken.messages] == [0, 1, 2]


@pytest.mark.parametrize("letter_bytes_max", [None, 2000])
async def test_a_message_in_chunks_is_one_dead_letter_and_all_chunks_are_acknowledged(
    bench: tuple[Bench, PulsarClient],
    monkeypatch: pytest.MonkeyPatch,
    letter_bytes_max: int | None,
) -> None:
    """Limit the broker's message size to ``letter_bytes_max``: the dead letter is sent in chunks as well."""
    broker, client = bench
    publisher = await Publisher.to(client)
    value = bytes(range(250)) * 20
    settings = {"kind": SHARED, "nack_delay_s": 0.0, "redeliveries_max": 1}
    async with (
        consuming(client, topics=[DEAD], subscription="d") as (_, letters),
        consuming(client, **settings) as (consumer, taken),
    ):
        await chunked(publisher, value, 1000)
        await until(lambda: len(taken.messages) == 1)
        if letter_bytes_max is not None:
            (link,) = client._links._open.values()
            monkeypatch.setattr(link, "max_message_size", letter_bytes_max)
        consumer.refuse(taken.messages[0])
        await until(lambda: len(taken.messages) == 2)
        consumer.refuse(taken.messages[1])
        await until(lambda: letters.messages)
        await until(lambda: backlog(broker) == 0)
        assert letters.values == [value]
        assert (letters.messages[0].chunks is None) is (letter_bytes_max is None)
        assert letters.messages[0].properties["REAL_TOPIC"] == NAME.full


async def test_an_acknowledged_message_is_no_dead_letter(bench: tuple[Bench, PulsarClient]) -> None:
    broker, client = bench
    await broker.publish(1)
    settings = {"kind": SHARED, "nack_delay_s": 0.0, "redeliveries_max": 1}
    async with (
        consuming(client, topics=[DEAD], subscription="d") as (_, letters),
        consuming(client, **settings) as (consumer, taken),
    ):
        await until(lambda: taken.messages)
        consumer.refuse(taken.messages[0])
        await until(lambda: len(taken.messages) == 2)
        consumer.acknowledge(taken.messages[1])
        await until(lambda: backlog(broker) == 0)
        assert letters.messages == []


async def test_a_dead_letter_that_cannot_be_stored_is_redelivered_until_it_can(
    bench: tuple[Bench, PulsarClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, client = bench
    await broker.publish(1)
    failures = []

    async def fail_twice(self: DeadLetters, letter: Incoming) -> None:
        if len(failures) < 2:
            failures.append(letter)
            raise LostError("the broker is away")
        await publish(self, letter)

    publish = DeadLetters._publish
    monkeypatch.setattr(DeadLetters, "_publish", fail_twice)
    settings = {"kind": SHARED, "nack_delay_s": 0.0, "redeliveries_max": 1}
    async with (
        consuming(client, topics=[DEAD], subscription="d") as (_, letters),
        consuming(client, **settings) as (consumer, taken),
    ):
        for count in range(2):
            await until(lambda count=count: len(taken.messages) == count + 1)
            consumer.refuse(taken.messages[count])
        await until(lambda: letters.messages)
        await until(lambda: backlog(broker) == 0)
        assert (len(failures), len(letters.messages), len(taken.messages)) == (2, 1, 2)
