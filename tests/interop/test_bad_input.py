"""Invalid input, sent to a real broker and a real bookie.

The sender is answered or disconnected, the log has one line about it, and a producer and a consumer on another
connection are not affected.
"""

import itertools
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest

from engine.wire import bookie_commands, frames
from engine.wire import pulsar_pb2 as pb
from engine.wire.commands import command_bytes, command_frame
from tests.support.instance import Instance, running_instance
from tests.support.raw_client import Wire, entry_of, send_of

KEEP_ALIVE_S = 2
MEMORY_KB = 24_000
TOPIC = "persistent://public/default/attacked"
_numbers = itertools.count()


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    folder = tmp_path_factory.mktemp("bad")
    with running_instance(
        folder, MAGNETAR_KEEP_ALIVE_INTERVAL_SECONDS=str(KEEP_ALIVE_S)
    ) as running:
        yield running


class Innocent:
    """A producer and a consumer that are connected before any invalid input is sent."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        self._client = pulsar.Client(instance.url, logger=quiet)
        self._consumer = self._client.subscribe("innocent", "s")
        self._producer = self._client.create_producer("innocent", batching_enabled=False)
        self._since = self._connected()
        self._numbers = itertools.count()

    def _connected(self) -> tuple[str, str]:
        status, answer = self._instance.rest(
            "GET", "/admin/v2/persistent/public/default/innocent/stats"
        )
        assert status == 200, answer
        consumer = answer["subscriptions"]["s"]["consumers"][0]
        return answer["publishers"][0]["connectedSince"], consumer["connectedSince"]

    def check(self) -> None:
        """Check that messages are still delivered, on the same connection."""
        value = b"%d" % next(self._numbers)
        self._producer.send(value)
        message = self._consumer.receive(5000)
        assert message.data() == value
        self._consumer.acknowledge(message)
        assert self._connected() == self._since, "other clients were disconnected"

    def close(self) -> None:
        self._client.close()


@pytest.fixture(scope="module")
def innocent(instance: Instance) -> Iterator[Innocent]:
    new_innocent = Innocent(instance)
    yield new_innocent
    new_innocent.close()


@contextmanager
def unharmed(instance: Instance, innocent: Innocent, name: str = "broker-1") -> Iterator[None]:
    """Check that the process, its memory and the other clients are not affected while the context is open."""
    before = instance.child(name)
    size = resident_kb(before["pid"])
    yield
    innocent.check()
    after = instance.child(name)
    assert (after["pid"], after["restarts"]) == (before["pid"], before["restarts"])
    assert resident_kb(after["pid"]) - size < MEMORY_KB


def resident_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def log_lines(instance: Instance, name: str, word: str) -> list[str]:
    text = (instance.data_dir / "logs" / f"{name}.log").read_text()
    return [line for line in text.splitlines() if word in line]


def only_line(instance: Instance, name: str, address: str) -> str:
    """Return the log line about a peer once it is written; fail when there are several."""
    end = time.monotonic() + 60
    while not (lines := log_lines(instance, name, f"{address}")) and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.05)
    lines = log_lines(instance, name, f"{address}")
    assert len(lines) == 1, lines
    return lines[0]


def address_of(sock: socket.socket) -> str:
    host, port = sock.getsockname()
    return f"{host}:{port}"


def raw(instance: Instance, port: str = "BROKER") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", instance.ports[port]), 5)
    sock.settimeout(KEEP_ALIVE_S * 4)
    return sock


def is_closed(sock: socket.socket) -> bool:
    """Read until the peer closes and return True. Raises TimeoutError when it does not close."""
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionResetError:
        pass
    return True


def wire(instance: Instance) -> Wire:
    return Wire(instance.ports["BROKER"], answers_pings=True)


def sock_of(connection: Wire) -> socket.socket:
    return connection._socket


def owner_connection(instance: Instance) -> Wire:
    """Create the topic and return a connection to its owner."""
    connection = wire(instance).open()
    instance.rest("PUT", f"/admin/v2/{TOPIC.replace('://', '/')}")
    answer = connection.ask("lookupTopic", topic=TOPIC, request_id=0)
    assert answer["lookupTopicResponse"]["response"] == "Connect", answer
    return connection


def producer_connection(instance: Instance) -> Wire:
    """Return a connection with producer 1 on the topic."""
    connection = owner_connection(instance)
    answer = connection.ask("producer", topic=TOPIC, producer_id=1, request_id=1)
    assert answer["type"] == "PRODUCER_SUCCESS", answer
    return connection


def consumer_connection(instance: Instance, subscription: str) -> Wire:
    """Return a connection with consumer 1 on the topic."""
    connection = owner_connection(instance)
    answer = connection.ask(
        "subscribe",
        topic=TOPIC,
        subscription=subscription,
        subType=pb.CommandSubscribe.Shared,
        consumer_id=1,
        request_id=1,
    )
    assert answer["type"] == "SUCCESS", answer
    return connection


CONNECT = command_frame("connect", client_version="bad", protocol_version=20)


def sized(size: int, body: bytes = b"") -> bytes:
    return struct.pack(">I", size) + body


BEFORE_CONNECT = {
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100f5010000f10303") + bytes(240),
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "an empty frame": sized(4, sized(0)),
    "a command longer than its frame": sized(8, sized(100, b"\x08\x02\x12\x00")),
    "a huge frame": sized(0x7FFFFFFF),
    "a negative frame": sized(0xFFFFFFFF),
    "no protobuf": sized(12, sized(8, b"\xff" * 8)),
    "a producer before CONNECT": command_frame("producer", topic="t", producer_id=1, request_id=1),
    "a message before CONNECT": send_of(1, 0, b"x"),
    "what only brokers send": command_frame("success", request_id=1),
    "an unknown command": frames.frame(b"\x08\xe7\x07"),
}
AFTER_CONNECT = {
    "CONNECT again": CONNECT,
    "what only brokers send": command_frame("success", request_id=1),
    "an unknown command": frames.frame(b"\x08\xe7\x07"),
    "a command without its body": frames.frame(b"\x08\x05"),
    "a command without required fields": frames.frame(b"\x08\x05\x32\x00"),
    "a truncated body": frames.frame(b"\x08\x05\x32\x7f\x0a"),
    "a frame above the limit": sized(6 << 20),
    "a message of an unknown producer": send_of(99, 0, b"x"),
}


@pytest.mark.parametrize("name", BEFORE_CONNECT)
def test_invalid_input_before_connect_closes_the_connection(
    instance: Instance, innocent: Innocent, name: str
) -> None:
    with unharmed(instance, innocent), raw(instance) as sock:
        sock.sendall(BEFORE_CONNECT[name])
        assert is_closed(sock)
        line = only_line(instance, "broker-1", address_of(sock))
        assert "Traceback" not in line


@pytest.mark.parametrize("name", AFTER_CONNECT)
def test_invalid_input_after_connect_closes_the_connection(
    instance: Instance, innocent: Innocent, name: str
) -> None:
    with unharmed(instance, innocent):
        connection = wire(instance).open()
        connection.send(AFTER_CONNECT[name])
        while connection.frame() is not None:
            pass
        only_line(instance, "broker-1", address_of(sock_of(connection)))
        connection.close()


def test_an_incomplete_handshake_ends_at_its_deadline(
    instance: Instance, innocent: Innocent
) -> None:
    """Send nothing, half a frame, and single bytes at intervals: none of these keeps a connection open."""
    with (
        unharmed(instance, innocent),
        raw(instance) as mute,
        raw(instance) as half,
        raw(instance) as slow,
    ):
        began = time.monotonic()
        half.sendall(CONNECT[:-3])
        for byte in CONNECT[:6]:
            slow.sendall(bytes([byte]))
            time.sleep(0.1)  # time: the interval between bytes
        assert is_closed(mute)
        assert is_closed(half)
        assert is_closed(slow)
        assert time.monotonic() - began < 3 * KEEP_ALIVE_S
        for sock in (mute, half, slow):
            assert "no CONNECT" in only_line(instance, "broker-1", address_of(sock))


def test_a_client_that_stops_answering_is_closed(instance: Instance, innocent: Innocent) -> None:
    with unharmed(instance, innocent), raw(instance) as sock:
        sock.sendall(CONNECT)
        assert is_closed(sock)
        assert "no answer to PING" in only_line(instance, "broker-1", address_of(sock))


def test_a_wrong_checksum_is_refused_and_stores_nothing(
    instance: Instance, innocent: Innocent
) -> None:
    entry = bytearray(entry_of(b"payload"))
    entry[-1] ^= 1
    command = command_bytes("send", {"producer_id": 1, "sequence_id": 0})
    with unharmed(instance, innocent):
        connection = producer_connection(instance)
        connection.send(frames.payload_frame(command, bytes(entry)))
        answer = connection.frame()
        assert answer is not None
        assert answer["send_error"]["error"] == "ChecksumError"
        connection.send(send_of(1, 1, b"good"))
        answer = connection.frame()
        assert answer is not None
        assert answer["type"] == "SEND_RECEIPT"
        connection.close()


@pytest.mark.parametrize("permits", [0, 0xFFFFFFFF, 1 << 31])
def test_a_flow_with_unusual_permits_is_handled(
    instance: Instance, innocent: Innocent, permits: int
) -> None:
    """Send unusual permits: 0 closes the connection, as in Pulsar; a number that is negative there is large here."""
    with unharmed(instance, innocent):
        connection = consumer_connection(instance, f"flow-{permits}")
        connection.send(command_frame("flow", consumer_id=1, messagePermits=permits) * 100)
        if permits == 0:
            assert connection.frame() is None
            only_line(instance, "broker-1", address_of(sock_of(connection)))
        else:
            assert connection.ask("consumerStats", consumer_id=1, request_id=7)["type"] == (
                "CONSUMER_STATS_RESPONSE"
            )
        connection.close()


def test_acks_and_seeks_of_positions_that_do_not_exist_are_handled(
    instance: Instance, innocent: Innocent
) -> None:
    top = (1 << 64) - 1
    with unharmed(instance, innocent):
        connection = consumer_connection(instance, "positions")
        for ledger, entry in ((0, top), (top, 0), (top, top), (1 << 63, 1 << 63), (5, 1 << 40)):
            place = {"ledgerId": ledger, "entryId": entry}
            connection.say(
                "ack", consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[place]
            )
            connection.say(
                "ack", consumer_id=1, ack_type=pb.CommandAck.Cumulative, message_id=[place]
            )
            connection.say("redeliverUnacknowledgedMessages", consumer_id=1, message_ids=[place])
        answer = connection.ask(
            "seek", consumer_id=1, request_id=9, message_id={"ledgerId": top, "entryId": top}
        )
        while answer is not None and answer["type"] == "CLOSE_CONSUMER":
            answer = connection.frame()  # type: ignore[assignment]
        assert answer is None or answer["type"] in ("SUCCESS", "ERROR")
        connection.close()


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "persistent://",
        "persistent://public/default/",
        "persistent://public/default/..",
        "persistent://pub lic/default/x",
        "persistent://public/../x",
        "bogus://public/default/x",
        "persistent://public/default/" + "x" * 100_000,
        "persistent://nobody/nothing/x",
    ],
)
def test_invalid_names_are_refused_with_an_error(
    instance: Instance, innocent: Innocent, topic: str
) -> None:
    with unharmed(instance, innocent):
        connection = wire(instance).open()
        for field, extra in (
            ("producer", {"producer_id": 1}),
            ("lookupTopic", {}),
            ("partitionMetadata", {}),
            ("subscribe", {"subscription": "s", "subType": 0, "consumer_id": 1}),
        ):
            answer = connection.ask(field, topic=topic, request_id=3, **extra)
            response = next(body for key, body in answer.items() if key != "type")
            assert response.get("error"), (field, answer)
            assert response["request_id"] == "3"
            assert len(response.get("message", "")) < 20_000
        connection.close()


def test_many_unread_requests_and_silent_sockets_use_bounded_memory(
    instance: Instance, innocent: Innocent
) -> None:
    """Send many requests without reading their answers, and open many silent sockets: memory stays bounded."""
    with unharmed(instance, innocent):
        sockets = [raw(instance) for _ in range(300)]
        flood = raw(instance)
        flood.sendall(CONNECT)
        flood.settimeout(1)
        request = command_frame("lookupTopic", topic=TOPIC, request_id=1) * 500
        try:
            for _ in range(200):
                flood.sendall(request)
        except OSError:
            pass  # the broker stopped reading, or closed the connection
        innocent.check()
        for sock in (flood, *sockets):
            sock.close()


def test_altered_frames_do_not_crash_the_broker(instance: Instance, innocent: Innocent) -> None:
    """Send valid frames with bytes changed, cut and repeated, by a fixed rule: any answer is accepted, but no crash."""
    valid = b"".join(
        (
            CONNECT,
            command_frame("producer", topic=TOPIC, producer_id=1, request_id=1),
            send_of(1, 0, b"x" * 50),
            command_frame("flow", consumer_id=1, messagePermits=10),
            command_frame("lookupTopic", topic=TOPIC, request_id=2),
        )
    )
    with unharmed(instance, innocent):
        for number in range(120):
            data = bytearray(valid)
            place = (number * 7919) % len(data)
            if number % 3 == 0:
                data[place] ^= 1 << (number % 8)
            elif number % 3 == 1:
                del data[place : place + number % 11 + 1]
            else:
                data[place:place] = data[: number % 17]
            with raw(instance) as sock:
                try:
                    sock.sendall(data)
                    sock.shutdown(socket.SHUT_WR)
                    is_closed(sock)
                except OSError:
                    pass
    assert not log_lines(instance, "broker-1", "Traceback")


# The bookie


BOOKIE = {
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "zeros": bytes(64),
    "a huge frame": sized(0x7FFFFFFF),
    "a negative frame": sized(0xFFFFFFFF),
    "an empty frame": sized(0),
    "a short header": sized(2, b"\x02\x01"),
    "an unknown version": sized(4, struct.pack(">I", 9 << 24)),
    "an unknown operation": sized(4, struct.pack(">I", (2 << 24) | (200 << 16))),
    "an add without its key": sized(8, struct.pack(">II", (2 << 24) | (1 << 16), 0)),
    "a read cut short": bookie_commands.read_request(1, 0)[:10],
}


@pytest.mark.parametrize("name", BOOKIE)
def test_invalid_input_at_a_bookie_closes_only_its_own_connection(
    instance: Instance, innocent: Innocent, name: str
) -> None:
    with unharmed(instance, innocent, "bookie-1"), raw(instance, "BOOKIE") as sock:
        sock.sendall(BOOKIE[name])
        sock.shutdown(socket.SHUT_WR)
        assert is_closed(sock)
        assert len(log_lines(instance, "bookie-1", address_of(sock))) <= 1
    assert not log_lines(instance, "bookie-1", "Traceback")


def test_an_add_and_a_fence_with_a_wrong_ledger_key_are_refused(
    instance: Instance, innocent: Innocent
) -> None:
    """Add and fence with a wrong ledger key: both are refused, and the ledger stays writable for its owner."""
    _, internal_stats = instance.rest(
        "GET", "/admin/v2/persistent/public/default/innocent/internalStats"
    )
    ledger = internal_stats["ledgers"][-1]["ledgerId"]
    with unharmed(instance, innocent, "bookie-1"), raw(instance, "BOOKIE") as sock:
        entry = struct.pack(">qqqq", ledger, 1 << 40, -1, 8) + b"checksum" + b"junk"
        sock.sendall(bookie_commands.add_request(ledger, 1 << 40, os.urandom(20), entry))
        reply = sock.recv(1 << 12)
        code = struct.unpack_from(">i", reply, 8)[0]
        assert code == bookie_commands.ResultCode.EUA
        sock.sendall(bookie_commands.fence_request(ledger, os.urandom(20)))
        reply = sock.recv(1 << 12)
        assert struct.unpack_from(">i", reply, 8)[0] == bookie_commands.ResultCode.EUA


def test_connections_with_invalid_input_leave_nothing_behind(
    instance: Instance, innocent: Innocent
) -> None:
    """Check that connections with invalid input left no producer and no consumer behind."""
    end = time.monotonic() + 4 * KEEP_ALIVE_S
    while True:
        status, topic_stats = instance.rest(
            "GET", "/admin/v2/persistent/public/default/attacked/stats"
        )
        assert status == 200
        consumers: list[Any] = [sub["consumers"] for sub in topic_stats["subscriptions"].values()]
        if not topic_stats["publishers"] and not any(consumers):
            break
        assert time.monotonic() < end, topic_stats
        time.sleep(0.1)
    innocent.check()
    for name in ("broker-1", "bookie-1"):
        assert not log_lines(instance, name, "Traceback")
        assert not log_lines(instance, name, " ERROR ")
