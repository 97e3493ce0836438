"""Messages sent twice on both brokers: answered, stored once, and recognised after an unload."""

from typing import Any

import pulsar

from tests.oracle.conftest import Side

NAMESPACE = "public/deduplicated"
TOPIC = f"persistent://{NAMESPACE}/t"


def sends(producer: Any, *ids: int) -> list[tuple[int, bool]]:
    """Sequence id, and whether it got a place."""
    return [
        (sequence_id, producer.send(b"%d" % sequence_id, sequence_id=sequence_id).ledger_id() >= 0)
        for sequence_id in ids
    ]


def tell(side: Side) -> list[Any]:
    assert side.put(f"/admin/v2/namespaces/{NAMESPACE}") in (204, 409)
    assert side.post(f"/admin/v2/namespaces/{NAMESPACE}/deduplication", True) == 204
    story: list[Any] = []
    client = pulsar.Client(
        side.url,
        operation_timeout_seconds=75,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        reader = client.create_reader(TOPIC, pulsar.MessageId.earliest)
        for ids in ((3, 4, 4, 1, 9), (9, 8, 10, 11), (11, 12)):
            producer = client.create_producer(
                TOPIC, producer_name="twice", batching_enabled=False, send_timeout_millis=75_000
            )
            story.append(("last", producer.last_sequence_id()))
            story += sends(producer, *ids)
            story.append(("last", producer.last_sequence_id()))
            producer.close()
            assert side.put(f"/admin/v2/persistent/{NAMESPACE}/t/unload") == 204
        other = client.create_producer(TOPIC, producer_name="another", batching_enabled=False)
        story.append(("another", other.last_sequence_id()))
        story += sends(other, 3)
        messages = []
        while reader.has_message_available():
            message = reader.read_next(75_000)
            messages.append((message.producer_name(), message.data()))
        story.append(messages)
    finally:
        client.close()
    return story


def test_a_message_sent_twice_is_stored_once_on_both(sides: tuple[Side, Side]) -> None:
    theirs, ours = (tell(side) for side in sides)
    assert ours == theirs
    assert [value for _, value in ours[-1]] == [b"3", b"4", b"9", b"10", b"11", b"12", b"3"]
