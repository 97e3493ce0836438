"""Bounds of the names and numbers that a client sends; its claims are not trusted."""

from typing import Any, cast

import pytest

from engine.broker.connection import bounds
from engine.broker.connection.produce import ProduceCommands, refuse_send
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import BrokerError, NotAllowed, ProducerBusy
from engine.broker.outlet import ClientConnection
from engine.broker.topics.publish import Producer
from engine.managed.ledger import InitialPosition
from engine.wire import client_commands
from engine.wire import pulsar_pb2 as pb
from engine.wire.errors import ServerError
from engine.wire.events import Sends
from engine.wire.peer import Peer
from engine.wire.states import State
from tests.support.broker_bench import NAME, Bench, Client, opened, until
from tests.support.raw_client import entry_of

pytestmark = pytest.mark.virtual_time


@pytest.mark.parametrize("name", ["n" * 1024, "ü" * 512, ""])
def test_a_name_within_the_bound_is_accepted(name: str) -> None:
    assert bounds.check_name("producer_name", name) == name


@pytest.mark.parametrize("name", ["n" * 1025, "ü" * 513])
def test_a_name_beyond_the_bound_is_refused(name: str) -> None:
    with pytest.raises(NotAllowed, match=r"^producer_name of 102[56] bytes: at most 1024$"):
        bounds.check_name("producer_name", name)


@pytest.mark.parametrize("field", ["sequence_id", "highest_sequence_id"])
def test_a_sequence_id_beyond_int64_is_refused(field: str) -> None:
    body = pb.CommandSend(producer_id=1, sequence_id=2**63 - 1, highest_sequence_id=2**63 - 1)
    assert refuse_send(body) is None
    setattr(body, field, 2**63)
    if field == "sequence_id":
        body.highest_sequence_id = 2**63
    code, text = refuse_send(body) or (0, "")
    assert code == ServerError.MetadataError
    assert text == f"{field} {2**63}: must be at most {2**63 - 1}"


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"producer_name": "n" * 2000}, NotAllowed, "producer_name of 2000 bytes"),
        ({"topic_epoch": 1 << 63}, NotAllowed, f"topic_epoch {1 << 63}: at most {2**63 - 1}"),
        ({"initial_subscription_name": "s" * 9000}, ProducerBusy, "9000 bytes, at most 8192"),
        ({"initial_subscription_name": "pulsar.dedup"}, ProducerBusy, "reserved"),
    ],
)
async def test_a_producer_beyond_the_bounds_is_refused_without_side_effects(
    fields: dict[str, Any], error: type[BrokerError], text: str
) -> None:
    async with opened() as bench:
        connection = cast(ClientConnection, Client())
        commands = ProduceCommands(connection, bench.context, bench.registry, bench.schemas)
        body = pb.CommandProducer(topic=NAME.full, producer_id=1, request_id=1, **fields)
        with pytest.raises(error, match=text):
            await commands.producer(body)
        assert not bench.topic.producers
        assert not bench.topic.log.cursors


async def test_the_brokers_own_cursors_are_no_subscriptions_of_administrators() -> None:
    async with opened() as bench:
        with pytest.raises(NotAllowed, match="reserved for the broker"):
            await bench.topic.subscriptions.create("pulsar.dedup", InitialPosition.LATEST, {})
        assert not bench.topic.log.cursors


def test_subscription_properties_too_large_for_a_record_are_refused() -> None:
    fitting = [pb.KeyValue(key="k", value="v")]
    assert bounds.check_subscription_properties(fitting) == {"k": "v"}
    with pytest.raises(NotAllowed, match=r"subscription_properties: .* bytes, at most"):
        bounds.check_subscription_properties([pb.KeyValue(key="k", value="v" * (1 << 20))])


def publish(bench: Bench, data: bytes) -> None:
    """Execute the commands in a connected client's bytes, one after the other."""
    peer = Peer()
    peer.state = State.CONNECTED
    commands = ProduceCommands(
        cast(ClientConnection, bench.publisher), bench.context, bench.registry, bench.schemas
    )
    commands.producers[1] = Producer(bench.publisher, 1, "p", bench.topic, now_ms=0)
    for event in peer.receive(data):
        assert isinstance(event, Sends)
        commands.send(event)


async def test_a_send_that_claims_many_messages_does_not_starve_other_sends() -> None:
    async with opened() as bench:
        consumer, client = await bench.join(SubscriptionType.SHARED, permits=10)
        claims = client_commands.send(1, 0, entry_of(b"v"), num_messages=1_000_000)
        others = [client_commands.send(1, i, entry_of(b"v")) for i in range(1, 10)]
        publish(bench, claims + b"".join(others))
        await until(lambda: len(client.received) == 10)
        assert consumer.permits == 0
        assert bench.topic.published.messages.total == 10


async def test_a_send_with_a_sequence_id_beyond_int64_is_answered_and_not_stored() -> None:
    async with opened() as bench:
        publish(bench, client_commands.send(1, 2**64 - 2, entry_of(b"v")))
        ((sequence, code, text),) = bench.publisher.errors
        assert (sequence, code) == (2**64 - 2, ServerError.MetadataError)
        assert text.startswith("sequence_id 18446744073709551614: must be at most")
        assert not bench.topic.log.stats().entries
