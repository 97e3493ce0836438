"""What a console says needs attention: nothing of topics that are well."""

import time
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

TOPICS = [f"persistent://public/default/healthy-{number}" for number in range(3)]
HELD_BACK_S = 25.0
"""Brokers and gateway hold a cause back for ten seconds each."""
SETTLED_S = 120.0
"""At most so long until an empty list means that there is nothing."""


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as made:
        yield made


def attention(instance: Instance) -> dict[str, Any]:
    status, body = instance.rest("GET", "/api/v1/clusters/standalone/overview")
    assert status == 200, body
    found: dict[str, Any] = body["attention"]
    return found


def test_topics_that_are_well_need_no_attention(instance: Instance) -> None:
    """300 messages a second, consumers of all types, for longer than any cause is held back."""
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    kinds = (
        pulsar.ConsumerType.Shared,
        pulsar.ConsumerType.Exclusive,
        pulsar.ConsumerType.KeyShared,
    )
    try:
        for topic, kind in zip(TOPICS, kinds, strict=True):
            client.subscribe(
                *(topic, "s", kind),
                message_listener=lambda consumer, message: consumer.acknowledge(message),
            )
        producers = [client.create_producer(topic) for topic in TOPICS]
        began = asked = time.monotonic()
        is_settled = False
        while not is_settled or time.monotonic() < began + HELD_BACK_S:
            assert time.monotonic() < began + SETTLED_S
            for producer in producers:
                producer.send_async(b"x" * 100, lambda *sent: None, partition_key=str(time.time()))
            time.sleep(0.01)  # time: the rate of what is published
            if time.monotonic() > asked + 1:
                asked = time.monotonic()
                found = attention(instance)
                assert [item for item in found["items"] if item["topic"] in TOPICS] == []
                is_settled = found["settled"]
    finally:
        client.close()
