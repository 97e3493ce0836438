"""The official client publishes and consumes."""

import pulsar
import pytest


def test_what_is_published_is_consumed_in_order(client: pulsar.Client, topic: str) -> None:
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for i in range(100):
        producer.send(f"m{i}".encode())
    for i in range(100):
        message = consumer.receive(5000)
        assert message.data() == f"m{i}".encode()
        consumer.acknowledge(message)
