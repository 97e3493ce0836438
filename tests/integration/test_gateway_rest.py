"""The gateway of a real instance: recorded calls replayed, messages peeked, the console's numbers and live feed."""

import http.client
import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.net.promtool import complaints
from tests.support.waiting import until_blocking

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "rest"
PROVOKED = ("live feed closed: the reader is too slow",)
TOPICS = "/admin/v2/persistent"
JSON = {"content-type": "application/json"}
SETUP: list[tuple[str, str, str | None]] = [
    ("PUT", "/admin/v2/tenants/t1", '{"allowedClusters": ["standalone"]}'),
    ("PUT", "/admin/v2/namespaces/t1/ns1", None),
]
FOR_SUBSCRIPTIONS: list[tuple[str, str, str | None]] = [
    ("PUT", f"{TOPICS}/t1/ns1/tp", None),
    ("PUT", f"{TOPICS}/t1/ns1/tnull", None),
    ("PUT", f"{TOPICS}/t1/ns1/pt3/partitions", "3"),
    ("PUT", f"{TOPICS}/t1/ns1/pt3/subscription/psub", None),
    ("PUT", f"{TOPICS}/t1/ns1/pt3/subscription/pnew", None),
    ("PUT", f"{TOPICS}/t1/ns1/tp/subscription/sub1", None),
    ("PUT", f"{TOPICS}/t1/ns1/tp/subscription/s-strl", None),
    (
        "PUT",
        f"{TOPICS}/t1/ns1/tp/subscription/s-props",
        '{"ledgerId": -1, "entryId": -1, "properties": {"sp": "v"}}',
    ),
    ("PUT", f"{TOPICS}/t1/ns1/tp/subscription/a%252Fb", None),
]
# The recorded server had messages, clients or topics that this replay does not create.
OTHER_STATE = {
    "earliest 1", "latest 1", "latest 2 (batch entry)", "beyond", "batch", "delayed", "active",
    "force (active clients)",
    "1", "11 (batch)", "ok, backlog there", "active consumers",
}  # fmt: skip
OTHER_STATE_AT = {
    ("GET", f"{TOPICS}/t1/ns1/tp/ledger/9/entry/0"),
    ("DELETE", f"{TOPICS}/t1/ns1/polt"),
    ("DELETE", f"{TOPICS}/t1/ns1/pt3/partitions"),
    ("DELETE", f"{TOPICS}/t1/ns1/tp/partitions"),
    ("POST", f"{TOPICS}/t1/ns1/pt3/subscription/psub/expireMessages/1"),
}
# Pulsar creates a subscription that is peeked, accepts skipping -2 messages, and answers 500 for the stored data of a
# missing topic; this gateway does none of these.
OURS = {"missing sub (gets created)": 404, "negative": 400, "missing topic (fails)": 404}


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used(PROVOKED) as shared:
        yield shared


def call(
    instance: Instance, method: str, target: str, body: str | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Send a request with its target unchanged; return status, headers with lower-case names, and body."""
    connection = http.client.HTTPConnection("127.0.0.1", instance.ports["HTTP"], timeout=60)
    try:
        connection.request(method, target, body.encode() if body is not None else None, headers)
        answer = connection.getresponse()
        fields = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, fields, answer.read()
    finally:
        connection.close()


def make(instance: Instance, steps: list[tuple[str, str, str | None]]) -> None:
    for method, target, body in steps:
        status, _, answer = call(instance, method, target, body, **JSON)
        assert status in (204, 409), (target, answer)


def shape(value: Any) -> Any:
    """Return names and types only, since numbers, ids and times differ from run to run."""
    if isinstance(value, dict):
        return {name: shape(part) for name, part in value.items()}
    if isinstance(value, list):
        return "list"
    if isinstance(value, bool | str):
        return type(value).__name__
    return "null" if value is None else "number"


@pytest.mark.parametrize("group", ["topics", "subscriptions", "lookup"])
def test_recorded_calls_are_answered_as_recorded(instance: Instance, group: str) -> None:
    make(instance, SETUP)
    if group != "topics":
        make(instance, FOR_SUBSCRIPTIONS)
    differences: list[str] = []
    compared = 0
    for sample in json.loads((GOLDEN / f"{group}.json").read_text())["samples"]:
        method, target = sample["request"].split(" ", 1)
        headers = {}
        if sample.get("request_content_type"):
            headers["content-type"] = sample["request_content_type"]
        status, _, body = call(instance, method, target, sample.get("request_body"), **headers)
        if sample["case"] in OTHER_STATE or (method, target) in OTHER_STATE_AT:
            assert status < 500, (target, body)
            continue
        compared += 1
        expected = OURS.get(sample["case"], sample["status"])
        if status != expected:
            differences.append(f"{sample['case']} {sample['request']}: {status} {body[:200]!r}")
        elif (
            status >= 400 and status == sample["status"] and "reason" in (sample.get("body") or ())
        ):
            if json.loads(body)["reason"] != sample["body"]["reason"]:
                differences.append(f"{sample['case']} {sample['request']}: {body[:300]!r}")
        elif (
            status == 200
            and isinstance(sample.get("body"), dict)
            and "tats" not in target
            and shape(json.loads(body)) != shape(sample["body"])
        ):
            differences.append(f"{sample['case']} {sample['request']}: {body[:300]!r}")
    assert not differences, "\n".join(differences)
    assert compared >= 5


def backlog_of_published(instance: Instance) -> tuple[int, int]:
    """Return how many messages the topic of ``busy`` was sent, and how many its subscription has still."""
    stats = instance.rest("GET", f"{TOPICS}/public/default/busy/stats")[1]
    return stats["msgInCounter"], stats["subscriptions"]["s"]["msgBacklog"]


@pytest.fixture(scope="module")
def busy(instance: Instance) -> Iterator[str]:
    """A topic with 20 messages, a producer, and a subscription that acknowledged five."""
    name = "persistent://public/default/busy"
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name, batching_enabled=False)
    for number in range(20):
        producer.send(b"x%d" % number, properties={"n": str(number)}, partition_key="k")
    for _ in range(5):
        consumer.acknowledge(consumer.receive(5000))
    # Acknowledgements are sent in groups. A row may show the moment at which 15 messages were published.
    until_blocking(lambda: backlog_of_published(instance) == (20, 15))
    yield name
    client.close()


def recorded_stats() -> dict[str, Any]:
    samples = json.loads((GOLDEN / "topics.json").read_text())["samples"]
    sample = next(s for s in samples if s["case"] == "ok" and s["request"].endswith("/tp/stats"))
    body: dict[str, Any] = sample["body"]
    return body


def test_stats_have_every_member_that_pulsar_sends(instance: Instance, busy: str) -> None:
    status, body = instance.rest("GET", f"{TOPICS}/public/default/busy/stats")
    assert status == 200
    recorded = recorded_stats()
    missing = set(recorded) - set(body) - {"oldestBacklogMessageSubscriptionName", "topicEpoch"}
    assert not missing
    assert not set(recorded["publishers"][0]) - set(body["publishers"][0])
    theirs = next(iter(recorded["subscriptions"].values()))
    assert (
        not set(theirs) - set(body["subscriptions"]["s"]) - {"activeConsumerName", "keySharedMode"}
    )


def test_a_peeked_message_is_returned_raw_with_its_metadata_in_headers(
    instance: Instance, busy: str
) -> None:
    target = f"{TOPICS}/public/default/busy/subscription/s/position/1"
    status, headers, body = call(instance, "GET", target)
    assert (status, body) == (200, b"x5")
    assert json.loads(headers["x-pulsar-property"]) == {"n": "5"}
    assert headers["x-pulsar-partition-key"] == "k"
    assert headers["x-pulsar-message-id"].endswith(":5")


def test_a_topic_in_use_is_not_deleted(instance: Instance, busy: str) -> None:
    assert instance.rest("DELETE", f"{TOPICS}/public/default/busy")[0] == 412
    assert instance.rest("DELETE", f"{TOPICS}/public/default/busy/subscription/s")[0] == 412


def wait_for_row(instance: Instance, topic: str, **wanted: Any) -> dict[str, Any]:
    """Return the row of a topic once it has these values; fail after 60 s."""
    row: dict[str, Any] = {}
    until = time.monotonic() + 60
    while time.monotonic() < until:
        rows = instance.rest("GET", f"/api/v1/clusters/standalone/topics?q={topic}")[1]["rows"]
        row = rows[0] if rows else {}
        if all(row.get(name) == value for name, value in wanted.items()):
            return row
        time.sleep(0.1)
    raise AssertionError(f"{topic}: wanted {wanted}, last {row}")


def test_the_console_shows_producers_consumers_and_backlog(instance: Instance, busy: str) -> None:
    wait_for_row(instance, busy, backlog=15, producers=1, consumers=1, subscriptions=1)
    body = instance.rest(
        "GET", "/api/v1/clusters/standalone/topics/persistent/public/default/busy"
    )[1]
    assert body["owner"]
    assert [item["backlog"] for item in body["subscriptions"]] == [15]
    assert sum(ledger["entries"] for ledger in body["ledgers"]) == 20
    assert len(body["producers"]) == 1
    overview = instance.rest("GET", "/api/v1/clusters/standalone/overview")[1]
    assert [broker["state"] for broker in overview["brokers"]] == ["up"]
    assert [bookie["state"] for bookie in overview["bookies"]] == ["writable"]


def test_a_change_does_what_its_preview_showed(instance: Instance, busy: str) -> None:
    where = "/api/v1/clusters/standalone/topics/persistent/public/default/busy/subscriptions/s"
    preview = instance.rest("POST", f"{where}/skip", {"preview": True, "count": 4})[1]
    assert preview["affected"] == 4
    before = instance.rest(
        "GET", "/api/v1/clusters/standalone/topics/persistent/public/default/busy"
    )[1]
    done = instance.rest("POST", f"{where}/skip", {"token": preview["token"]})[1]
    assert (done["done"], done["lost"]) == (True, 4)
    after = instance.rest(
        "GET", "/api/v1/clusters/standalone/topics/persistent/public/default/busy"
    )[1]
    backlogs = [body["subscriptions"][0]["backlog"] for body in (before, after)]
    assert backlogs[0] - backlogs[1] == 4
    audit = instance.rest("GET", "/api/v1/audit?q=busy&limit=1")[1]["rows"][0]
    assert (audit["target"], audit["status"]) == (f"{where}/skip", 200)


def test_the_live_feed_pushes_the_rows_that_a_get_returns(instance: Instance, busy: str) -> None:
    url = f"ws://127.0.0.1:{instance.ports['HTTP']}/api/v1/live"
    place = {"cluster": "standalone", "domain": "persistent", "tenant": "public"}
    topic = {**place, "namespace": "default", "topic": "busy"}
    with connect(url) as feed:
        command = {"op": "subscribe", "id": "t", "channel": "topic", "params": topic}
        feed.send(json.dumps(command))

        def pushed_row() -> Any:
            while (message := json.loads(feed.recv(30))).get("id") != "t":
                assert message["op"] == "beat"
            return message["data"]["row"]

        first = pushed_row()
        assert first["name"] == busy
        skip_all = "/api/v1/clusters/standalone/topics/persistent/public/default/busy/subscriptions/s/skip-all"
        token = instance.rest("POST", skip_all, {"preview": True})[1]["token"]
        instance.rest("POST", skip_all, {"token": token})
        backlog = first["backlog"]
        while backlog:
            backlog = pushed_row()["backlog"]


def test_a_client_that_does_not_read_the_live_feed_is_disconnected(instance: Instance) -> None:
    namespace = f"{TOPICS}/public/default"
    for number in range(40):
        instance.rest("PUT", f"{namespace}/many-{number}-{'x' * 200}/partitions", 1)
    url = f"ws://127.0.0.1:{instance.ports['HTTP']}/api/v1/live"
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    plain.connect(("127.0.0.1", instance.ports["HTTP"]))
    until = time.monotonic() + 60
    with connect(url, sock=plain, max_queue=1, close_timeout=1) as feed:

        def subscribe_without_reading() -> None:
            while time.monotonic() < until:
                for number in range(32):
                    command = {"op": "subscribe", "id": str(number), "channel": "topics"}
                    params = {"cluster": "standalone", "limit": 200, "q": "many"}
                    feed.send(json.dumps({**command, "params": params}))
                time.sleep(0.05)

        with pytest.raises(ConnectionClosed):
            subscribe_without_reading()


def test_metrics_of_gateway_and_broker_are_one_document(instance: Instance) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    for target in ("/metrics", "/metrics/"):
        status, headers, body = call(instance, "GET", target, accept="text/plain")
        assert status == 200
        assert headers["content-type"].startswith("text/plain; version=0.0.4")
        families = {family.name: family for family in text_string_to_metric_families(body.decode())}
        assert "magnetar_gateway_requests" in families
        assert [sample.value for sample in families["magnetar_gateway_broker_up"].samples] == [1.0]
        # Described also while no topic is loaded.
        assert (
            families["pulsar_topics_count"].type == families["pulsar_msg_backlog"].type == "gauge"
        )
        assert families["pulsar_broker_topics_count"].samples


def test_promtool_reads_the_pages_of_the_gateway_and_of_a_bookie(instance: Instance) -> None:
    call(instance, "PUT", "/admin/v2/persistent/public/default/measured")
    _, _, page = call(instance, "GET", "/metrics", accept="text/plain")
    assert complaints(page.decode()) == []
    port = instance.ports["BOOKIE_HTTP"]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        assert complaints(answer.read().decode()) == []
