"""Shadow topics beside Apache's: ids, messages, acknowledgements, statistics and refusals of one script."""

import json
import time
from typing import Any

import pulsar
import pytest

from tests.oracle.conftest import Side

BASE = "/admin/v2/persistent/public/default"
NAME = "persistent://public/default"
SILENT = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
COUNT = 20


def received(client: pulsar.Client, topic: str, subscription: str, count: int) -> list[Any]:
    """Return the first ``count`` messages of a subscription, acknowledged."""
    earliest = pulsar.InitialPosition.Earliest
    consumer = client.subscribe(topic, subscription, initial_position=earliest)
    messages = [consumer.receive(20_000) for _ in range(count)]
    for message in messages:
        consumer.acknowledge(message)
    consumer.close()
    return messages


def contents(messages: list[Any]) -> list[tuple[str, bytes, str, dict[str, str], int]]:
    return [
        (
            f"{m.message_id().ledger_id()}:{m.message_id().entry_id()}:{m.message_id().batch_index()}",
            m.data(),
            m.partition_key(),
            m.properties(),
            m.event_timestamp(),
        )
        for m in messages
    ]


def outcome(side: Side) -> dict[str, Any]:
    """Return the answers and statistics of the script on one side."""
    made = {"PULSAR.SHADOW_SOURCE": f"{NAME}/shadowed"}
    answers = {
        "source": side.call("PUT", f"{BASE}/shadowed")[0],
        "never": side.call("GET", f"{BASE}/shadowed/shadowTopics"),
        "shadow": side.call("PUT", f"{BASE}/its-shadow", made)[0],
        "policy": side.call("PUT", f"{BASE}/shadowed/shadowTopics", [f"{NAME}/its-shadow"])[0],
        "unknown": side.call("PUT", f"{BASE}/shadowed/shadowTopics", [f"{NAME}/nothing"]),
        "none": side.call("PUT", f"{BASE}/shadowed/shadowTopics", []),
    }
    answers["unknown"] = (answers["unknown"][0], json.loads(answers["unknown"][1])["reason"])
    answers["none"] = (answers["none"][0], json.loads(answers["none"][1])["reason"])
    client = pulsar.Client(side.url, logger=SILENT, operation_timeout_seconds=30)
    producer = client.create_producer(f"{NAME}/shadowed", producer_name="p")
    sent = client.create_producer(
        f"{NAME}/shadowed",
        batching_enabled=True,
        batching_max_messages=5,
        batching_max_publish_delay_ms=1000,
    )
    for i in range(COUNT // 2):
        producer.send(b"%d" % i, {"i": str(i)}, partition_key=f"k{i % 3}", event_timestamp=1 + i)
    for i in range(COUNT // 2, COUNT):
        sent.send_async(b"%d" % i, lambda *_: None)
    sent.flush()
    source = received(client, f"{NAME}/shadowed", "s", COUNT)
    shadow = received(client, f"{NAME}/its-shadow", "of-shadow", COUNT)
    assert contents(shadow) == contents(source)
    stats = json.loads(side.call("GET", f"{BASE}/shadowed/stats")[1])
    of_shadow = json.loads(side.call("GET", f"{BASE}/its-shadow/stats")[1])
    assert list(of_shadow["subscriptions"]) == ["of-shadow"]
    assert list(stats["subscriptions"]) == ["s"]
    answers |= {
        "list": json.loads(side.call("GET", f"{BASE}/shadowed/shadowTopics")[1]),
        "properties": json.loads(side.call("GET", f"{BASE}/its-shadow/properties")[1]),
        "producers": [row["producerName"] for row in of_shadow["publishers"]],
        "replication": (stats["replication"], of_shadow["replication"]),
        "backlog": of_shadow["subscriptions"]["of-shadow"]["msgBacklog"],
        "terminate": side.call("POST", f"{BASE}/its-shadow/terminate")[0] >= 400,
    }
    # what is published while the shadow topic has a consumer arrives at once
    consumer = client.subscribe(f"{NAME}/its-shadow", "of-shadow")
    began = time.monotonic()
    last = producer.send(b"late")
    message = consumer.receive(20_000)
    assert time.monotonic() - began < 10
    assert (message.message_id().entry_id(), message.data()) == (last.entry_id(), b"late")
    consumer.acknowledge(message)
    consumer.seek(pulsar.MessageId.earliest)
    again = [consumer.receive(20_000) for _ in range(COUNT + 1)]
    assert contents(again[:COUNT]) == contents(source)
    client.close()
    answers["removed"] = side.call("DELETE", f"{BASE}/shadowed/shadowTopics")[0]
    answers["left"] = side.call("GET", f"{BASE}/shadowed/shadowTopics")
    return answers


@pytest.mark.timeout(300)
def test_a_shadow_topic_behaves_as_apaches(sides: tuple[Side, Side]) -> None:
    theirs, ours = (outcome(side) for side in sides)
    assert ours == theirs
