"""A bookie or a broker stops while the official client is connected: no confirmed message is lost, and pending ones are
stored later."""

import time
from collections.abc import Iterator

import pulsar
import pytest

from engine.base.names import TopicName
from engine.broker.errors import ServiceNotReady
from engine.broker.topics.topic import Topic
from tests.support.standalone import Standalone
from tests.support.waiting import stays_blocking

QUIET = pulsar.LoggerLevel.Error


@pytest.fixture
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """An instance for one test, which stops its parts."""
    instance = Standalone(tmp_path_factory.mktemp("own"))
    yield instance
    instance.close()


def _drain(consumer: pulsar.Consumer, until: bytes, deadline_s: float = 60.0) -> list[bytes]:
    out: list[bytes] = []
    end = time.monotonic() + deadline_s
    while until not in out and time.monotonic() < end:
        try:
            message = consumer.receive(500)
        except pulsar.Timeout:
            continue
        out.append(message.data())
        consumer.acknowledge(message)
    return out


@pytest.mark.parametrize("victim", ["bookie", "broker"])
def test_messages_sent_during_an_outage_are_stored_after_it(own: Standalone, victim: str) -> None:
    client = pulsar.Client(own.url, logger=pulsar.ConsoleLogger(QUIET))
    topic = "persistent://public/default/away"
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    receipts: list[pulsar.Result] = []
    for i in range(20):
        producer.send(b"%d" % i)
    own.run(getattr(own, f"stop_{victim}")())
    for i in range(20, 40):
        producer.send_async(b"%d" % i, lambda result, _: receipts.append(result))
    stays_blocking(lambda: receipts == [], 0.5)
    own.run(getattr(own, f"start_{victim}")())
    got = _drain(consumer, b"39")
    # Without deduplication a message whose receipt was lost may be there twice, but none is missing or out of order.
    first_seen = list(dict.fromkeys(got))
    assert first_seen == [b"%d" % i for i in range(40)]
    producer.flush()
    assert receipts == [pulsar.Result.Ok] * 20
    client.close()


def test_a_refused_first_subscription_is_repeated(own: Standalone) -> None:
    """Refuse the first SUBSCRIBE of a consumer twice; the broker's CLOSE_CONSUMER makes the client subscribe again.

    By itself, the C++ library keeps the connection of a refused SUBSCRIBE and never subscribes again on it.
    """
    assert own.broker is not None
    registry = own.broker.running.registry
    real, refused = registry.get, 0

    async def get(name: TopicName, *, create: bool) -> Topic:
        nonlocal refused
        if refused < 2:
            refused += 1
            raise ServiceNotReady(f"Topic {name} is being unloaded")
        return await real(name, create=create)

    registry.get = get  # type: ignore[method-assign]
    quiet = pulsar.ConsoleLogger(QUIET)
    client = pulsar.Client(own.url, operation_timeout_seconds=10, logger=quiet)
    topic = "persistent://public/default/refused"
    consumer = client.subscribe(topic, "s")
    assert refused == 2
    client.create_producer(topic).send(b"m")
    assert _drain(consumer, b"m") == [b"m"]
    client.close()
