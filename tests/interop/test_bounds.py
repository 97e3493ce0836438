"""Bounds of the resources that a client may use, and isolation of other clients from one that breaks the protocol."""

import struct
from collections.abc import Iterator
from typing import Any

import pytest

from engine.wire.commands import command_frame
from tests.support.raw_client import Wire, send_of
from tests.support.standalone import Standalone

TOPIC = "persistent://public/default/{}"


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """A broker with small bounds."""
    instance = Standalone(
        tmp_path_factory.mktemp("tight"),
        keep_alive_interval_seconds="1",
        connection_liveness_check_timeout_millis="300",
        max_unacked_messages_per_consumer="10",
        max_pending_publish_bytes_per_connection="65536",
        max_producers_per_connection="3",
        max_consumers_per_connection="3",
    )
    yield instance
    instance.close()


@pytest.fixture
def wire(tight: Standalone) -> Iterator[Wire]:
    new_wire = Wire(tight.port, answers_pings=True).open()
    yield new_wire
    new_wire.close()


def _producer(wire: Wire, topic: str, producer_id: int = 1) -> None:
    wire.ask("lookupTopic", topic=topic, request_id=90)
    got = wire.ask("producer", topic=topic, producer_id=producer_id, request_id=91)
    assert got["type"] == "PRODUCER_SUCCESS", got


def _subscribe(wire: Wire, topic: str, kind: int, consumer_id: int = 1) -> dict[str, Any]:
    wire.ask("lookupTopic", topic=topic, request_id=92)
    return wire.ask(
        "subscribe",
        topic=topic,
        subscription="s",
        subType=kind,
        consumer_id=consumer_id,
        request_id=93,
    )


def _publish(wire: Wire, count: int, size: int = 10) -> None:
    wire.send(b"".join(send_of(1, i, b"v" * size) for i in range(count)))
    for i in range(count):
        got = wire.frame()
        assert got is not None
        assert got["send_receipt"].get("sequence_id", "0") == str(i)


def _messages(wire: Wire, count: int) -> list[tuple[int, int]]:
    out = []
    while len(out) < count:
        got = wire.frame()
        assert got is not None
        if got["type"] == "MESSAGE":
            message_id = got["message"]["message_id"]
            out.append((int(message_id["ledgerId"]), int(message_id["entryId"])))
    return out


def _quiet(wire: Wire, wait_s: float = 0.3) -> bool:
    """Return whether no frame arrives within ``wait_s``."""
    return wire.silent(wait_s)


def test_shared_stops_at_the_limit_of_unacknowledged_messages_and_continues_at_half(
    tight: Standalone,
) -> None:
    topic = TOPIC.format("unacked")
    consumer, publisher = (
        Wire(tight.port, answers_pings=True).open(),
        Wire(tight.port, answers_pings=True).open(),
    )
    assert _subscribe(consumer, topic, 1)["type"] == "SUCCESS"
    _producer(publisher, topic)
    _publish(publisher, 30)
    consumer.say("flow", consumer_id=1, messagePermits=100)
    first = _messages(consumer, 10)
    assert _quiet(consumer)
    for ledger, entry in first[:4]:
        consumer.say(
            "ack", consumer_id=1, ack_type=0, message_id=[{"ledgerId": ledger, "entryId": entry}]
        )
    assert _quiet(consumer, 0.2)
    ledger, entry = first[4]
    consumer.say(
        "ack", consumer_id=1, ack_type=0, message_id=[{"ledgerId": ledger, "entryId": entry}]
    )
    assert len(_messages(consumer, 5)) == 5
    consumer.close()
    publisher.close()


def test_no_more_messages_than_permitted_are_sent(tight: Standalone) -> None:
    topic = TOPIC.format("permits")
    wire = Wire(tight.port, answers_pings=True).open()
    assert _subscribe(wire, topic, 0)["type"] == "SUCCESS"
    _producer(wire, topic)
    _publish(wire, 10)
    wire.say("flow", consumer_id=1, messagePermits=3)
    assert len(_messages(wire, 3)) == 3
    assert _quiet(wire)
    wire.say("flow", consumer_id=1, messagePermits=7)
    assert len(_messages(wire, 7)) == 7
    wire.close()


def test_an_unresponsive_exclusive_consumer_is_replaced(tight: Standalone) -> None:
    topic = TOPIC.format("silent")
    old = Wire(tight.port).open()
    assert _subscribe(old, topic, 0)["type"] == "SUCCESS"
    new = Wire(tight.port, answers_pings=True).open()
    assert _subscribe(new, topic, 0)["type"] == "SUCCESS"  # old never answered the PING
    new.close()
    old.close()


def test_an_unresponsive_producer_is_replaced_by_one_of_the_same_name(tight: Standalone) -> None:
    topic = TOPIC.format("silent-producer")
    wires = [Wire(tight.port).open() for _ in range(2)]
    for wire in wires:
        wire.ask("lookupTopic", topic=topic, request_id=1)
        got = wire.ask("producer", topic=topic, producer_id=1, request_id=2, producer_name="same")
        assert got["type"] == "PRODUCER_SUCCESS"
    for wire in wires:
        wire.close()


def test_a_connection_that_never_answers_a_ping_is_closed(tight: Standalone) -> None:
    wire = Wire(tight.port).open()
    got = wire.frame()
    assert got is not None
    assert got["type"] == "PING"
    assert wire.frame() is None
    wire.close()


def test_a_connection_without_connect_is_closed(tight: Standalone) -> None:
    wire = Wire(tight.port)
    assert wire.frame() is None
    wire.close()


def test_producers_and_consumers_per_connection_are_bounded(wire: Wire) -> None:
    topic = TOPIC.format("many")
    wire.ask("lookupTopic", topic=topic, request_id=1)
    for i in range(3):
        got = wire.ask("producer", topic=topic, producer_id=i, request_id=2)
        assert got["type"] == "PRODUCER_SUCCESS"
        got = wire.ask(
            "subscribe", topic=topic, subscription="s", subType=1, consumer_id=i, request_id=3
        )
        assert got["type"] == "SUCCESS"
    got = wire.ask("producer", topic=topic, producer_id=9, request_id=4)
    assert got["error"]["error"] == "TooManyRequests"
    got = wire.ask(
        "subscribe", topic=topic, subscription="s", subType=1, consumer_id=9, request_id=5
    )
    assert got["error"]["error"] == "TooManyRequests"


def test_publishes_beyond_the_pending_limit_are_stored_by_backpressure(
    wire: Wire,
) -> None:
    topic = TOPIC.format("pressure")
    _producer(wire, topic)
    _publish(wire, 400, size=4000)


def test_a_client_that_does_not_read_does_not_delay_another(tight: Standalone) -> None:
    topic = TOPIC.format("slow")
    slow, quick, publisher = (Wire(tight.port, answers_pings=True).open() for _ in range(3))
    assert _subscribe(slow, topic, 0)["type"] == "SUCCESS"
    quick.ask("lookupTopic", topic=topic, request_id=1)
    got = quick.ask(
        "subscribe", topic=topic, subscription="q", subType=0, consumer_id=1, request_id=2
    )
    assert got["type"] == "SUCCESS"
    for wire in (slow, quick):
        wire.say("flow", consumer_id=1, messagePermits=100_000)
    _producer(publisher, topic)
    for _ in range(100):  # one by one, so that PINGs are answered in time
        _publish(publisher, 1, size=500_000)
        assert len(_messages(quick, 1)) == 1
    for wire in (slow, quick, publisher):
        wire.close()


@pytest.mark.parametrize(
    "junk",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00" * 64,
        b"\xff" * 64,
        struct.pack(">II", 12, 100) + b"12345678",
        struct.pack(">II", 6, 2) + b"\x08\x06",
    ],
    ids=["http", "zeros", "ones", "long command", "no body"],
)
def test_invalid_bytes_close_only_their_own_connection(tight: Standalone, junk: bytes) -> None:
    other, bad = (
        Wire(tight.port, answers_pings=True).open(),
        Wire(tight.port, answers_pings=True).open(),
    )
    bad.send(junk)
    while (got := bad.frame()) is not None:
        assert got["type"] == "PING"
    assert other.ask("ping")["type"] == "PONG"
    other.close()
    bad.close()


def test_unsupported_fields_of_a_send_are_refused_one_by_one(wire: Wire) -> None:
    _producer(wire, TOPIC.format("rare"))
    position = {"ledgerId": 1, "entryId": 1}
    for i, (fields, error) in enumerate(
        [
            ({"message_id": position}, "NotAllowedError"),
            ({"txnid_most_bits": 1, "txnid_least_bits": 1}, "NotAllowedError"),
            ({"marker": True}, "NotAllowedError"),
            ({"highest_sequence_id": 0}, "MetadataError"),
            ({"num_messages": 0}, "MetadataError"),
        ]
    ):
        wire.send(send_of(1, i + 1, b"v", **fields))
        got = wire.frame()
        assert got is not None
        assert got["send_error"]["error"] == error
        assert got["send_error"]["sequence_id"] == str(i + 1)
    wire.send(send_of(1, 9, b"v"))
    got = wire.frame()
    assert got is not None
    assert got["type"] == "SEND_RECEIPT"


def test_a_cumulative_acknowledgement_after_the_end_is_refused(wire: Wire) -> None:
    topic = TOPIC.format("cumulative")
    assert _subscribe(wire, topic, 0)["type"] == "SUCCESS"
    got = wire.ask(
        "ack",
        consumer_id=1,
        ack_type=1,
        message_id=[{"ledgerId": 1 << 40, "entryId": 5}],
        request_id=7,
    )
    assert got["ackResponse"]["error"] == "MetadataError"


def test_commands_in_one_segment_with_connect_are_handled_in_order(tight: Standalone) -> None:
    topic = TOPIC.format("segment")
    wire = Wire(tight.port, answers_pings=True)
    first = [
        command_frame("connect", client_version="raw", protocol_version=20),
        command_frame("lookupTopic", topic=topic, request_id=1),
        command_frame("producer", topic=topic, producer_id=1, request_id=2),
    ]
    wire.send(b"".join(first))
    kinds = [got["type"] for got in (wire.frame(), wire.frame()) if got is not None]
    assert kinds == ["CONNECTED", "LOOKUP_RESPONSE"]
    got = wire.frame()
    assert got is not None
    # PRODUCER may be handled before the lookup has made this broker the topic's owner.
    if got["type"] == "ERROR":
        assert got["error"]["error"] == "ServiceNotReady"
        got = wire.ask("producer", topic=topic, producer_id=1, request_id=3)
    assert got["type"] == "PRODUCER_SUCCESS"
    _publish(wire, 1)
    wire.close()
