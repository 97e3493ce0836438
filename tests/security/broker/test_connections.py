"""Clients of a judged broker that act on what other connections opened, or claim more than a connection may hold."""

from collections.abc import AsyncIterator, Callable

import pytest

from engine.base.names import TopicName
from engine.net.handshake import VERSION_LENGTH_MAX
from engine.wire import client_commands as say
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_frame
from engine.wire.errors import ServerError
from tests.support.access.guarded_broker import OTHER, Guarded, Wire, guarded
from tests.support.broker_bench import NAME, until

pytestmark = pytest.mark.virtual_time

SHARED = pb.CommandSubscribe.Shared


@pytest.fixture
async def broker() -> AsyncIterator[Guarded]:
    """A broker at which ``victim`` and ``app`` may publish and consume in the same namespace."""
    async with guarded() as broker:
        for role in ("victim", "app"):
            await broker.grant(role, "produce", "consume")
        yield broker


async def with_messages(broker: Guarded) -> tuple[Wire, list[pb.CommandMessage]]:
    """Return a client with consumer 1, and the messages that it has received and not acknowledged."""
    victim = broker.client("victim")
    await victim.consume()
    await victim.produce()
    for sequence in range(3):
        victim.publish(sequence)
    await until(lambda: len(victim.bodies("message")) == 3)
    return victim, victim.bodies("message")


FOREIGN: dict[str, Callable[[pb.MessageIdData, int], bytes]] = {
    "ack": lambda at, request: command_frame(
        "ack", consumer_id=1, ack_type=0, message_id=[at], request_id=request
    ),
    "cumulative ack": lambda at, request: command_frame(
        "ack", consumer_id=1, ack_type=1, message_id=[at]
    ),
    "plain ack": lambda at, request: command_frame(
        "ack", consumer_id=1, ack_type=0, message_id=[at]
    ),
    "flow": lambda at, request: say.flow(1, 1000),
    "redeliver": lambda at, request: command_frame(
        "redeliverUnacknowledgedMessages", consumer_id=1
    ),
    "seek": lambda at, request: command_frame(
        "seek", consumer_id=1, request_id=request, message_id=at
    ),
    "unsubscribe": lambda at, request: command_frame(
        "unsubscribe", consumer_id=1, request_id=request
    ),
    "close": lambda at, request: say.close_consumer(1, request),
    "statistics": lambda at, request: command_frame(
        "consumerStats", consumer_id=1, request_id=request
    ),
    "last message": lambda at, request: command_frame(
        "getLastMessageId", consumer_id=1, request_id=request
    ),
    "close producer": lambda at, request: say.close_producer(1, request),
}
"""Commands that name the ids of another connection's consumer and producer."""


@pytest.mark.parametrize("name", FOREIGN)
async def test_the_ids_of_another_connection_mean_nothing(name: str, broker: Guarded) -> None:
    victim, messages = await with_messages(broker)
    subscription = broker.bench.topic.subscriptions["s"]
    before = (subscription.cursor.mark_delete, len(victim.received))
    app = broker.client("app")
    app.send(FOREIGN[name](messages[0].message_id, 7))
    await app.ask(lambda request: say.lookup(NAME.full, request))  # what was sent before is done
    assert (subscription.cursor.mark_delete, len(victim.received)) == before
    assert not victim.session.closing
    assert (victim.session.producers, victim.session.consumers) == (1, 1)
    assert list(broker.bench.topic.subscriptions) == ["s"]
    assert all(answer.error_message for answer in app.bodies("consumerStatsResponse"))
    assert all(answer.message for answer in app.bodies("ackResponse"))
    assert app.bodies("getLastMessageIdResponse") == []
    assert app.bodies("message") == []


async def test_a_message_of_another_connections_producer_ends_the_connection(
    broker: Guarded,
) -> None:
    victim, _ = await with_messages(broker)
    stored = broker.bench.topic.log.last_confirmed
    app = broker.client("app")
    app.publish(9)
    assert app.session.closing
    assert broker.bench.topic.log.last_confirmed == stored
    assert not victim.session.closing


async def test_the_name_of_a_producer_gives_a_role_without_the_right_nothing(
    broker: Guarded,
) -> None:
    """Refuse before the producer of that name is fenced or its sequence advanced."""
    victim = broker.client("victim")
    await victim.produce(producer_name="orders")
    thief = broker.client("thief")
    for epoch in (0, 5, 2**62):
        answer = await thief.ask(
            lambda request, epoch=epoch: command_frame(  # type: ignore[misc]
                "producer",
                topic=NAME.full,
                producer_id=1,
                request_id=request,
                producer_name="orders",
                user_provided_producer_name=True,
                epoch=epoch,
            )
        )
        assert answer.error == ServerError.AuthorizationError
    victim.publish(1)
    await until(lambda: len(victim.bodies("send_receipt")) == 1)
    assert victim.session.producers == 1
    assert list(broker.bench.topic.producers) == ["orders"]


async def test_the_name_of_a_producer_elsewhere_is_another_producer(broker: Guarded) -> None:
    """Keep names and sequences by topic: a role that may publish elsewhere reaches no other topic's."""
    victim = broker.client("victim")
    await victim.produce(producer_name="orders")
    await broker.grant("thief", "produce", namespace=OTHER)
    thief = broker.client("thief")
    elsewhere = TopicName.parse(f"persistent://{OTHER}/d")
    answer = await thief.produce(elsewhere, producer_name="orders")
    assert answer.producer_name == "orders"
    thief.publish(2**62)
    await until(lambda: len(thief.bodies("send_receipt")) == 1)
    victim.publish(1)
    await until(lambda: len(victim.bodies("send_receipt")) == 1)
    assert broker.bench.topic.last_sequence("orders") < 2**62


async def test_an_id_that_is_in_use_opens_nothing_more(broker: Guarded) -> None:
    app = broker.client("app")
    for _ in range(5):
        await app.produce()
        await app.consume()
    assert (app.session.producers, app.session.consumers) == (1, 1)
    assert len(list(broker.bench.topic.producers)) == 1
    assert len(broker.bench.topic.subscriptions["s"].consumers) == 1


async def test_a_long_version_of_a_client_is_cut(broker: Guarded) -> None:
    app = broker.bench.sessions().accept()
    wire = Wire(app)
    wire.send(say.connect("v" * (4 << 20), auth_method_name="stated", auth_data=b"app"))
    assert wire.kinds() == ["CONNECTED"]
    assert len(app.client_version) == VERSION_LENGTH_MAX
    app.closed(None)


def nested(depth: int) -> bytes:
    """Return a command whose unknown field holds groups within groups."""
    return b"\x08\x12" + b"\x9b\x06" * depth + b"\x9c\x06" * depth


def lengths(depth: int) -> bytes:
    """Return a field of messages within messages."""
    data = b""
    for _ in range(depth):
        size = len(data)
        encoded = bytearray()
        while size > 127:
            encoded.append(size & 127 | 128)
            size >>= 7
        data = b"\x9a\x06" + bytes([*encoded, size]) + data
    return b"\x08\x12" + data


BROKEN: dict[str, bytes] = {
    "an unknown command": b"\x08\xe7\x07",
    "a negative command": b"\x08" + b"\xff" * 9 + b"\x01",
    "a command that is a text": b"\x0a\x05hello",
    "a number in place of a body": b"\x08\x05\x30\x01",
    "a body in place of a number": b"\x0a\x00\x32\x00",
    "an endless number": b"\x08" + b"\x80" * 40,
    "a length beyond the frame": b"\x08\x05\x32\xff\xff\xff\xff\x07",
    "field 0": b"\x08\x12\x00\x00",
    "wire type 7": b"\x08\x12\x0f",
    "an end without a beginning": b"\x08\x12\x0c",
    "deep groups": nested(20_000),
}
HARMLESS: dict[str, bytes] = {
    "messages within an unknown field": lengths(2_000),
    "a million unknown fields": b"\x08\x12" + b"\x98\x06\x01" * 1_000_000,
    "a million bodies of one ping": b"\x08\x12" + b"\x92\x01\x00" * 1_000_000,
}


@pytest.mark.parametrize("name", BROKEN)
async def test_bytes_that_are_no_command_end_the_connection(name: str, broker: Guarded) -> None:
    app, other = broker.client("app"), broker.client("victim")
    app.send(frames.frame(BROKEN[name]))
    assert app.session.closing
    await other.ask(lambda request: say.lookup(NAME.full, request))


@pytest.mark.parametrize("name", HARMLESS)
async def test_a_command_with_more_than_it_needs_is_answered_or_ends_the_connection(
    name: str, broker: Guarded
) -> None:
    app, other = broker.client("app"), broker.client("victim")
    app.send(frames.frame(HARMLESS[name]))
    assert app.session.closing or app.kinds()[-1] == "PONG"
    await other.ask(lambda request: say.lookup(NAME.full, request))


async def test_a_million_properties_of_a_producer_are_refused(broker: Guarded) -> None:
    app = broker.client("app")
    pairs = [pb.KeyValue(key="k", value="v")] * 300_000
    answer = await app.ask(
        lambda request: command_frame(
            "producer", topic=NAME.full, producer_id=1, request_id=request, metadata=pairs
        )
    )
    assert answer.error == ServerError.MetadataError
    assert "metadata of 600000 bytes" in answer.message
    assert list(broker.bench.topic.producers) == []


async def test_acknowledgements_of_what_does_not_exist_grow_nothing(broker: Guarded) -> None:
    victim, messages = await with_messages(broker)
    subscription = broker.bench.topic.subscriptions["s"]
    at = messages[0].message_id
    before = (subscription.cursor.mark_delete, subscription.cursor.backlog_entries())
    future = [
        pb.MessageIdData(ledgerId=at.ledgerId + ledger, entryId=entry)
        for ledger, entry in [(0, 1000 + 2 * i) for i in range(50_000)]
        + [(1 + i, 2**63 + i) for i in range(1000)]
        + [(2**62, 7), (2**63, 2**64 - 1 - at.ledgerId)]
    ]
    victim.send(command_frame("ack", consumer_id=1, ack_type=0, message_id=future))
    await victim.ask(lambda request: say.lookup(NAME.full, request))
    assert (subscription.cursor.mark_delete, subscription.cursor.backlog_entries()) == before
    assert not victim.session.closing
    assert len(subscription.cursor.state()) < 1000
