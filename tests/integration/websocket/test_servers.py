"""WebSocket behaviour that depends on the ASGI server, under Daphne and uvicorn: the handshake, large frames, clients
that do not read, ends of connections. Frames and endpoints do not depend on it: see ``test_sockets.py``."""

import http.client
import itertools
import json
import resource
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.support.instance import Instance, healthy_instance
from tests.support.instances.shared import SharedInstance
from tests.support.net.sockets import (
    asked,
    closing_code,
    encoded,
    opened,
    payloads,
    received,
    refused,
    stats,
)
from tests.support.waiting import until_blocking

NS = "persistent/servers/ns"
PROVOKED: tuple[str, ...] = ()
SECOND = {"MAGNETAR_ASGI_SERVER": "uvicorn"}
_numbers = itertools.count()


@pytest.fixture(scope="module", params=["daphne", "uvicorn"])
def instance(
    request: pytest.FixtureRequest,
    shared_instance: SharedInstance,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Instance]:
    """The shared instance under Daphne; its own instance under uvicorn, with two gateways behind one port."""
    used = (
        shared_instance.used(PROVOKED)
        if request.param == "daphne"
        else healthy_instance(tmp_path_factory.mktemp("servers"), PROVOKED, gateways=2, **SECOND)
    )
    with used as gateway_instance:
        tenant = {"allowedClusters": ["standalone"]}
        assert gateway_instance.rest("PUT", "/admin/v2/tenants/servers", tenant)[0] == 204
        assert gateway_instance.rest("PUT", "/admin/v2/namespaces/servers/ns")[0] == 204
        yield gateway_instance


@pytest.fixture
def topic() -> str:
    """Path of a topic that only this test uses."""
    return f"{NS}/t{next(_numbers)}"


def test_all_fields_of_a_message_arrive(instance: Instance, topic: str) -> None:
    with opened(instance, f"consumer/{topic}/s") as consumer:
        frame = {
            "payload": encoded(b"hello"),
            "properties": {"k": "v", "ü": "ö"},
            "context": "c1",
            "key": "kk",
            "eventTime": "2026-01-02T03:04:05.678+01:00",
        }
        with opened(instance, f"producer/{topic}?producerName=wp") as producer:
            answer = asked(producer, frame)
        got = received(consumer)
    assert answer == {
        "result": "ok",
        "messageId": got["messageId"],
        "context": "c1",
        "errorCode": 0,
        "schemaVersion": 0,
    }
    assert got["payload"] == frame["payload"]
    assert (got["properties"], got["key"]) == ({"k": "v", "ü": "ö"}, "kk")
    assert (got["eventTime"], got["redeliveryCount"]) == ("2026-01-02T02:04:05.678Z", 0)
    age = datetime.now(UTC) - datetime.fromisoformat(got["publishTime"])
    assert 0 <= age.total_seconds() < 30
    assert "encryptionContext" not in got


def test_a_frame_of_a_gigabyte_is_refused_without_buffering_it(
    instance: Instance, topic: str
) -> None:
    children = instance.control("status")["children"]
    gateways = [child["pid"] for child in children if child["name"].startswith("gateway")]

    def resident_kb() -> int:
        pages = [Path(f"/proc/{pid}/statm").read_text().split()[1] for pid in gateways]
        return sum(map(int, pages)) * resource.getpagesize() // 1024

    with opened(instance, f"producer/{topic}") as producer:
        assert asked(producer, {"payload": "eA=="})["result"] == "ok"
        before = resident_kb()
        producer.socket.sendall(b"\x81\xff" + (1 << 30).to_bytes(8, "big") + b"mask")
        sent = 0
        try:
            while sent < 64 << 20:
                sent += producer.socket.send(b"x" * (1 << 20))
        except OSError:
            pass  # the server closed the connection, as it should
        until_blocking(lambda: not stats(instance, topic)["publishers"])
        assert resident_kb() - before < 30_000


def test_messages_above_a_mebibyte_are_delivered(instance: Instance, topic: str) -> None:
    big = bytes(range(256)) * 12_000
    with opened(instance, f"consumer/{topic}/s", max_size=None) as consumer:
        quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
        client = pulsar.Client(instance.url, logger=quiet)
        try:
            producer = client.create_producer(topic.replace("/", "://", 1))
            for _ in range(3):
                producer.send(big)
        finally:
            client.close()
        assert payloads(consumer, 3) == [big] * 3


def test_names_with_a_slash_are_sent_encoded(instance: Instance, topic: str) -> None:
    with opened(instance, f"consumer/{topic}/a%2Fb"):
        assert list(stats(instance, topic)["subscriptions"]) == ["a/b"]


def test_a_foreign_origin_is_refused(instance: Instance, topic: str) -> None:
    status, _ = refused(instance, f"producer/{topic}", origin="http://evil.example")
    assert status == 403
    own = f"http://127.0.0.1:{instance.ports['HTTP']}"
    with opened(instance, f"producer/{topic}", origin=own):
        pass


@pytest.mark.parametrize("path", ["producer/{t}", "consumer/{t}/s", "reader/{t}"])
def test_a_plain_get_is_the_wrong_method(instance: Instance, topic: str, path: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", instance.ports["HTTP"], timeout=60)
    connection.request("GET", f"/ws/v2/{path.format(t=topic)}")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 405


def test_many_closed_sockets_leave_no_producer_or_consumer(instance: Instance, topic: str) -> None:
    path = f"consumer/{topic}/s?subscriptionType=Shared"

    def session(number: int) -> None:
        with (
            opened(instance, f"producer/{topic}", close_timeout=0.1) as producer,
            opened(instance, path, close_timeout=0.1) as consumer,
            opened(instance, f"reader/{topic}", close_timeout=0.1) as reader,
        ):
            asked(producer, {"payload": "eA=="})
            if number % 2:  # disconnected without a closing handshake
                for socket in (producer, consumer, reader):
                    socket.socket.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(session, range(24)))

    def empty() -> bool:
        now = stats(instance, topic)
        consumers = [len(sub["consumers"]) for sub in now["subscriptions"].values()]
        return not now["publishers"] and consumers == [0]

    until_blocking(empty)


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("producer/{t}?compressionType=BOGUS", 400, "Invalid compressionType BOGUS"),
        ("pingpong", 404, "Not Found"),
        ("reader/{t}?messageId=***", 500, "Failed to create reader"),
    ],
)
def test_a_refused_handshake_has_its_status_and_text(
    instance: Instance, topic: str, path: str, status: int, text: str
) -> None:
    got, page = refused(instance, path.format(t=topic))
    assert got == status, page
    assert text in page[page.index("<title>") : page.index("</title>")]


@pytest.mark.parametrize(("count", "code"), [(0, 1007), (None, 1006)])
def test_a_socket_is_closed_with_a_code_or_without_one(
    instance: Instance, topic: str, count: Any, code: int
) -> None:
    with opened(instance, f"consumer/{topic}/s?pullMode=true") as consumer:
        consumer.send(json.dumps({"type": "permit", "permitMessages": count}))
        assert closing_code(consumer) == code


def test_a_message_above_a_mebibyte_closes_with_1009(instance: Instance, topic: str) -> None:
    with opened(instance, f"producer/{topic}") as producer:
        producer.send("x" * ((1 << 20) + 1))
        assert closing_code(producer) == 1009
    until_blocking(lambda: not stats(instance, topic)["publishers"])
