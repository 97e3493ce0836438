"""The console's list of what needs attention does not list healthy topics."""

import time
from collections.abc import Iterator
from typing import Any

import pulsar
import pytest

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

TOPICS = [f"persistent://public/default/healthy-{number}" for number in range(3)]
HELD_BACK_S = 25.0
"""Duration of the test: brokers and gateway hold a cause back for ten seconds each."""
SETTLED_S = 120.0
"""Bound of the time until the list is settled: before that, an empty list may be incomplete."""


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as shared:
        yield shared


def attention(instance: Instance) -> dict[str, Any]:
    status, body = instance.rest("GET", "/api/v1/clusters/standalone/overview")
    assert status == 200, body
    items: dict[str, Any] = body["attention"]
    return items


def test_healthy_topics_need_no_attention(instance: Instance) -> None:
    """Publish 300 messages a second to consumers of three types, for longer than any cause is held back."""
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
        began = requested_at = time.monotonic()
        is_settled = False
        while not is_settled or time.monotonic() < began + HELD_BACK_S:
            assert time.monotonic() < began + SETTLED_S
            for producer in producers:
                producer.send_async(b"x" * 100, lambda *sent: None, partition_key=str(time.time()))
            time.sleep(0.01)  # time: the rate of what is published
            if time.monotonic() > requested_at + 1:
                requested_at = time.monotonic()
                answer = attention(instance)
                assert [item for item in answer["items"] if item["topic"] in TOPICS] == []
                is_settled = answer["settled"]
    finally:
        client.close()
