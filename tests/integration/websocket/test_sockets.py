"""Pulsar's WebSocket endpoints of a real instance: answers of recorded sessions with Apache Pulsar, and misuse."""

import base64
import itertools
import json
import random
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pulsar
import pytest
from pulsar.schema import Integer, JsonSchema, Record
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.net.sealing import Sealer
from tests.support.net.sockets import (
    asked,
    closing,
    closing_code,
    encoded,
    opened,
    payloads,
    published,
    received,
    refused,
    silent,
    stats,
)
from tests.support.waiting import until_blocking

CAPTURE = Path(__file__).parents[2] / "golden" / "captures" / "websocket.jsonl"
NS = "persistent/ws/one"
PROVOKED: tuple[str, ...] = ()
_numbers = itertools.count()


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used(PROVOKED) as made:
        tenant = {"allowedClusters": ["standalone"]}
        assert made.rest("PUT", "/admin/v2/tenants/ws", tenant)[0] == 204
        assert made.rest("PUT", "/admin/v2/namespaces/ws/one")[0] == 204
        yield made


@pytest.fixture
def topic() -> str:
    """Path of a topic that only this test uses: ``persistent/ws/one/tN``."""
    return f"{NS}/t{next(_numbers)}"


# Producer


def test_a_non_persistent_topic_delivers_to_connected_consumers(
    instance: Instance, topic: str
) -> None:
    topic = f"non-{topic}"
    published(instance, topic, b"dropped")
    with (
        opened(instance, f"consumer/{topic}/s") as consumer,
        opened(instance, f"reader/{topic}?messageId=earliest") as reader,
    ):
        published(instance, topic, b"x")
        assert payloads(consumer, 1) == payloads(reader, 1) == [b"x"]
    assert set(stats(instance, topic)["subscriptions"]) <= {"s"}


def test_a_recorded_session_gets_the_recorded_answers(instance: Instance, topic: str) -> None:
    rows = [json.loads(line) for line in CAPTURE.read_text().splitlines()]
    rows = [row for row in rows if row.get("session") == "producer" and "frame" in row]
    with opened(instance, f"producer/{topic}?producerName=wp") as producer:
        for sent, answer in itertools.pairwise(rows):
            if (sent["dir"], answer["dir"]) != ("C>S", "S>C"):
                continue
            got, want = asked(producer, sent["frame"]), json.loads(answer["frame"])
            for frame in (got, want):  # ids and the texts of Java exceptions differ
                frame.pop("messageId", None)
                frame["errorMsg"] = "errorMsg" in frame
            assert got == want, sent["frame"]


def test_frame_errors_are_reported_and_keep_the_socket(instance: Instance, topic: str) -> None:
    bad: list[tuple[Any, str, str]] = [
        ({"payload": "eA==", "eventTime": "nonsense", "context": "a"}, "send-error:7", "eventTime"),
        ({"payload": "eA==", "eventTime": "2026-01-02T03:04:05"}, "send-error:7", "offset"),
        ({"payload": "***", "context": "b"}, "send-error:7", "Base64"),
        ({"context": "c"}, "send-error:7", "payload"),
        ("not json", "send-error:3", "JSON"),
        ("[" * 100_000, "send-error:3", "JSON"),
        ("[]", "send-error:3", "JSON object"),
        ('{"payload": "eA==", "properties": "str"}', "send-error:3", "properties"),
        ('{"payload": "eA==", "properties": {"a": []}}', "send-error:3", "properties"),
        ('{"payload": "eA==", "properties": {"a": null}}', "send-error:3", "properties"),
        ('{"payload": "eA==", "key": []}', "send-error:3", "key"),
        ('{"payload": "eA==", "replicationClusters": "x"}', "send-error:3", "replicationClusters"),
        ('{"payload": "eA==", "deliverAt": "x"}', "send-error:3", "deliverAt"),
    ]
    with opened(instance, f"producer/{topic}") as producer:
        for frame, result, word in bad:
            answer = asked(producer, frame)
            assert answer["result"] == result, frame
            assert word in answer["errorMsg"], answer
            context = frame.get("context") if isinstance(frame, dict) else None
            assert answer.get("context") == context
        assert asked(producer, {"payload": "eA=="})["result"] == "ok"


def test_binary_frames_are_ignored(instance: Instance, topic: str) -> None:
    with opened(instance, f"producer/{topic}") as producer:
        producer.send(b"\x01\x02")
        assert silent(producer)
        assert asked(producer, {"payload": "eA=="})["result"] == "ok"


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_message_above_a_mebibyte_closes_with_1009(
    instance: Instance, topic: str, pieces: int
) -> None:
    most = json.dumps({"payload": encoded(b"x" * 700_000)}).ljust(1 << 20)
    with opened(instance, f"producer/{topic}") as producer:
        assert asked(producer, most)["result"] == "ok"
        size = (1 << 18) + 1
        parts = ["x" * size * 4] if pieces == 1 else ["x" * size] * pieces
        with suppress(ConnectionClosed):  # the server may close before the last piece is sent
            producer.send(parts[0] if pieces == 1 else iter(parts))
        code, reason = closing(producer)
    assert code == 1009
    limit = "is too large for configured max of [1048576]"
    assert reason == f"Resulting message size [{size * 4}] {limit}"
    until_blocking(lambda: not stats(instance, topic)["publishers"])


def test_compression_batching_and_all_documented_parameters(instance: Instance, topic: str) -> None:
    query = (
        "batchingEnabled=true&batchingMaxMessages=10&batchingMaxPublishDelay=50&maxPendingMessages=500"
        "&compressionType=LZ4&messageRoutingMode=RoundRobinPartition&hashingScheme=Murmur3_32Hash"
        "&sendTimeoutMillis=5000&initialSequenceId=7&producerName=params&zzz=1"
    )
    with opened(instance, f"producer/{topic}?{query}") as producer:
        for _ in range(10):
            producer.send(json.dumps({"payload": encoded(b"bat" * 50)}))
        ids = {received(producer)["messageId"] for _ in range(10)}
    assert len(ids) == 10
    assert stats(instance, topic)["msgInCounter"] == 10
    with opened(instance, f"reader/{topic}?messageId=earliest") as reader:
        assert payloads(reader, 10) == [b"bat" * 50] * 10


def test_a_thousand_messages_through_one_socket(instance: Instance, topic: str) -> None:
    count = 1000
    with (
        opened(instance, f"consumer/{topic}/s") as consumer,
        opened(instance, f"producer/{topic}") as producer,
    ):
        began = time.monotonic()
        for number in range(count):
            producer.send(json.dumps({"payload": encoded(b"%d" % number), "context": str(number)}))
        answers = [received(producer) for _ in range(count)]
        publish_s = time.monotonic() - began
        began = time.monotonic()
        got = []
        for _ in range(count):
            frame = received(consumer)
            got.append(frame["payload"])
            consumer.send(json.dumps({"messageId": frame["messageId"]}))
        consume_s = time.monotonic() - began
    print(f"websocket: published {count / publish_s:.0f}/s, consumed {count / consume_s:.0f}/s")
    assert [answer["context"] for answer in answers] == [str(number) for number in range(count)]
    assert {answer["result"] for answer in answers} == {"ok"}
    assert got == [encoded(b"%d" % number) for number in range(count)]
    until_blocking(lambda: stats(instance, topic)["subscriptions"]["s"]["msgBacklog"] == 0)


# Consumer


def test_push_mode_sends_no_more_than_the_queue_size(instance: Instance, topic: str) -> None:
    with opened(instance, f"consumer/{topic}/s"):
        pass
    ids = published(instance, topic, *(b"%d" % number for number in range(6)))
    query = "receiverQueueSize=3&subscriptionType=Shared&negativeAckRedeliveryDelay=300"
    with opened(instance, f"consumer/{topic}/s?{query}") as consumer:
        assert [received(consumer)["messageId"] for _ in range(3)] == ids[:3]
        assert silent(consumer)
        assert asked(consumer, {"messageId": ids[0]})["messageId"] == ids[3]
        assert asked(consumer, {"type": "bogus", "messageId": ids[1]})["messageId"] == ids[4]
        consumer.send(json.dumps({"type": "permit", "permitMessages": 2}))
        assert silent(consumer), "permits mean nothing in push mode"
        answer = asked(consumer, {"type": "negativeAcknowledge", "messageId": ids[2]})
        assert answer["messageId"] == ids[5]
        assert asked(consumer, {"messageId": ids[3]})["messageId"] == ids[2]
        assert asked(consumer, {"type": "isEndOfTopic"}) == {"endOfTopic": False}


def test_redelivered_messages_release_their_budget(instance: Instance, topic: str) -> None:
    with opened(instance, f"consumer/{topic}/s?receiverQueueSize=4") as consumer:
        ids = published(instance, topic, b"0", b"1")
        assert [received(consumer)["messageId"] for _ in ids] == ids
        assert instance.rest("PUT", f"/admin/v2/{topic}/unload")[0] == 204
        assert [received(consumer)["messageId"] for _ in ids] == ids, "nothing was acknowledged"
        for message_id in ids * 2:  # a client answers every frame
            consumer.send(json.dumps({"messageId": message_id}))
        until_blocking(lambda: stats(instance, topic)["subscriptions"]["s"]["msgBacklog"] == 0)
        more = published(instance, topic, b"2", b"3", b"4", b"5")
        assert [received(consumer)["messageId"] for _ in more] == more


def test_a_negatively_acknowledged_message_is_redelivered_with_its_count(
    instance: Instance, topic: str
) -> None:
    path = f"consumer/{topic}/s?subscriptionType=Shared&negativeAckRedeliveryDelay=100"
    with opened(instance, path) as consumer:
        published(instance, topic, b"x")
        for count in range(3):
            got = received(consumer)
            assert got["redeliveryCount"] == count
            nack = {"type": "negativeAcknowledge", "messageId": got["messageId"]}
            consumer.send(json.dumps(nack))
        consumer.send(json.dumps({"messageId": received(consumer)["messageId"]}))
        until_blocking(lambda: stats(instance, topic)["subscriptions"]["s"]["msgBacklog"] == 0)


def test_pull_mode_sends_what_was_permitted(instance: Instance, topic: str) -> None:
    ids = published(instance, topic, b"0", b"1", b"2", b"3")
    path = f"consumer/{topic}/s?subscriptionInitialPosition=Earliest&pullMode=true"
    with opened(instance, path) as consumer:
        assert silent(consumer)
        consumer.send(json.dumps({"type": "permit", "permitMessages": 2}))
        assert [received(consumer)["messageId"] for _ in range(2)] == ids[:2]
        consumer.send(json.dumps({"messageId": ids[1]}))
        assert silent(consumer), "an acknowledgement permits nothing here"
        got = asked(consumer, {"type": "permit", "permitMessages": 1})
        assert got["messageId"] == ids[2]


@pytest.mark.parametrize(
    ("count", "code"),
    [
        (0, 1007),
        (-1, 1007),
        (2_000_000, 1007),
        (True, 1006),
        (None, 1006),
        (1 << 70, 1006),
        ("x", 1006),
    ],
)
def test_invalid_permits_close_the_socket(
    instance: Instance, topic: str, count: Any, code: int
) -> None:
    with opened(instance, f"consumer/{topic}/s?pullMode=true") as consumer:
        consumer.send(json.dumps({"type": "permit", "permitMessages": count}))
        assert closing_code(consumer) == code


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ({"messageId": "***"}, 1011),
        ({"messageId": "eHh4"}, 1006),
        ({"messageId": 5}, 1011),
        ({}, 1011),
        ("null", 1011),
        ({"messageId": ["eHh4"]}, 1006),
        ("not json", 1006),
        ("[]", 1006),
    ],
)
def test_an_unusable_answer_closes_only_its_own_socket(
    instance: Instance, topic: str, frame: Any, code: int
) -> None:
    with (
        opened(instance, f"consumer/{topic}/s?subscriptionType=Shared") as other,
        opened(instance, f"consumer/{topic}/s?subscriptionType=Shared") as consumer,
    ):
        consumer.send(frame if isinstance(frame, str) else json.dumps(frame))
        assert closing_code(consumer) == code
        published(instance, topic, b"x")
        assert payloads(other, 1) == [b"x"]


def test_unsubscribing_is_silent_and_removes_the_subscription(
    instance: Instance, topic: str
) -> None:
    with opened(instance, f"consumer/{topic}/s") as consumer:
        published(instance, topic, b"x")
        got = received(consumer)
        consumer.send(json.dumps({"type": "unsubscribe"}))
        until_blocking(lambda: "s" not in stats(instance, topic)["subscriptions"])
        consumer.send(json.dumps({"messageId": got["messageId"]}))
        assert silent(consumer)


@pytest.mark.parametrize("kind", ["Shared", "Exclusive", "Key_Shared"])
def test_messages_held_by_a_closed_socket_are_delivered_to_the_next(
    instance: Instance, topic: str, kind: str
) -> None:
    path = f"consumer/{topic}/s?subscriptionType={kind}"
    with opened(instance, path):
        pass
    ids = published(instance, topic, b"0", b"1", b"2")
    until_blocking(lambda: not stats(instance, topic)["subscriptions"]["s"]["consumers"])
    with opened(instance, path) as first:
        assert payloads(first, 3) == [b"0", b"1", b"2"]
        assert stats(instance, topic)["subscriptions"]["s"]["type"] == kind
        first.send(json.dumps({"messageId": ids[1]}))
        until_blocking(lambda: stats(instance, topic)["subscriptions"]["s"]["msgBacklog"] == 2)
    until_blocking(lambda: not stats(instance, topic)["subscriptions"]["s"]["consumers"])
    with opened(instance, path) as second:
        assert payloads(second, 2) == [b"0", b"2"]


def test_a_message_of_an_earlier_socket_can_be_acknowledged(instance: Instance, topic: str) -> None:
    path = f"consumer/{topic}/s?subscriptionType=Shared"
    with opened(instance, path):
        pass
    (message_id,) = published(instance, topic, b"x")
    until_blocking(lambda: not stats(instance, topic)["subscriptions"]["s"]["consumers"])
    with opened(instance, f"{path}&pullMode=true") as consumer:
        consumer.send(json.dumps({"messageId": message_id}))
        until_blocking(lambda: stats(instance, topic)["subscriptions"]["s"]["msgBacklog"] == 0)


def test_dead_letters_after_the_allowed_redeliveries(instance: Instance, topic: str) -> None:
    query = (
        "subscriptionType=Shared&maxRedeliverCount=2&negativeAckRedeliveryDelay=100"
        f"&deadLetterTopic={quote(f'{topic}-dead'.replace('/', '://', 1))}"
    )
    with (
        opened(instance, f"consumer/{topic}-dead/d") as dead,
        opened(instance, f"consumer/{topic}/s?{query}") as consumer,
    ):
        published(instance, topic, b"poison")
        for _ in range(3):
            got = received(consumer)
            consumer.send(
                json.dumps({"type": "negativeAcknowledge", "messageId": got["messageId"]})
            )
        letter = received(dead)
    assert base64.b64decode(letter["payload"]) == b"poison"


def test_the_end_of_a_terminated_topic(instance: Instance, topic: str) -> None:
    (message_id,) = published(instance, topic, b"last")
    path = f"consumer/{topic}/s?subscriptionInitialPosition=Earliest"
    with (
        opened(instance, path) as consumer,
        opened(instance, f"reader/{topic}?messageId=earliest") as reader,
    ):
        received(consumer)
        assert instance.rest("POST", f"/admin/v2/{topic}/terminate")[0] == 200
        assert asked(consumer, {"type": "isEndOfTopic"}) == {"endOfTopic": False}
        consumer.send(json.dumps({"messageId": message_id}))
        until_blocking(lambda: asked(consumer, {"type": "isEndOfTopic"}) == {"endOfTopic": True})
        received(reader)
        until_blocking(lambda: asked(reader, {"type": "isEndOfTopic"}) == {"endOfTopic": True})


def test_several_topics_in_one_socket(instance: Instance) -> None:
    names = [f"{NS}/many-{letter}" for letter in "ab"]
    for name in names:
        published(instance, name, name.encode())
    full = [name.replace("/", "://", 1) for name in names]
    base = f"ws://127.0.0.1:{instance.ports['HTTP']}/ws/v3/consumer"
    for query in (f"topics={','.join(full)}", "topicsPattern=persistent://ws/one/many-.*"):
        path = f"{base}/s-{query[6]}?subscriptionInitialPosition=Earliest&{query}"
        with connect(path) as consumer:
            frames = [received(consumer) for _ in names]
            got = {base64.b64decode(frame["payload"]).decode() for frame in frames}
            for frame in frames:
                consumer.send(json.dumps({"messageId": frame["messageId"]}))
            for name in names:
                until_blocking(
                    lambda n=name, q=query: (
                        stats(instance, n)["subscriptions"][f"s-{q[6]}"]["msgBacklog"] == 0
                    )
                )
        assert got == set(names)


def test_a_message_encrypted_by_a_client_is_decrypted_with_the_key(
    instance: Instance, topic: str, tmp_path: Path
) -> None:
    sealer = Sealer(tmp_path)
    keys = quote(encoded(json.dumps(sealer.keys()).encode()), safe="")
    reads = pulsar.CryptoKeyReader(str(sealer.public_file), str(sealer.private_file))
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        official = client.subscribe(topic.replace("/", "://", 1), "o", crypto_key_reader=reads)
        with (
            opened(instance, f"consumer/{topic}/s?cryptoFailureAction=CONSUME") as consumer,
            opened(instance, f"consumer/{topic}/none?cryptoFailureAction=DISCARD") as discarding,
            opened(instance, f"producer/{topic}?encryptionKeys={keys}") as producer,
        ):
            sealed, nonce = sealer.seal(b"secret")
            frame = {"payload": encoded(sealed), "encryptionParam": encoded(nonce)}
            assert asked(producer, frame)["result"] == "ok"
            got = received(consumer)
            published(instance, topic, b"open")
            assert payloads(discarding, 1) == [b"open"]
        assert official.receive(10_000).data() == b"secret"
    finally:
        client.close()
    context = got["encryptionContext"]
    wrapped = base64.b64decode(context["keys"][sealer.name]["keyValue"])
    assert context["param"] == encoded(nonce)
    assert sealer.opened(base64.b64decode(got["payload"]), nonce, wrapped) == b"secret"


# Reader


def test_a_reader_continues_only_after_acknowledgements(instance: Instance, topic: str) -> None:
    ids = published(instance, topic, b"0", b"1", b"2", b"3")
    with opened(instance, f"reader/{topic}?messageId=earliest&receiverQueueSize=2") as reader:
        assert [received(reader)["messageId"] for _ in range(2)] == ids[:2]
        assert silent(reader)
        assert asked(reader, {"messageId": ids[0]})["messageId"] == ids[2]
        assert asked(reader, {"messageId": ids[2]})["messageId"] == ids[3]
        assert asked(reader, {"type": "isEndOfTopic"}) == {"endOfTopic": False}


def test_a_reader_starts_after_a_message_id_or_at_the_end(instance: Instance, topic: str) -> None:
    ids = published(instance, topic, b"0", b"1")
    with (
        opened(instance, f"reader/{topic}?messageId={quote(ids[0], safe='')}") as behind,
        opened(instance, f"reader/{topic}") as latest,
    ):
        assert payloads(behind, 1) == [b"1"]
        published(instance, topic, b"new")
        assert payloads(latest, 1) == [b"new"]
        assert payloads(behind, 1) == [b"new"]
    until_blocking(lambda: not stats(instance, topic)["subscriptions"])


# Refusals


REFUSED = [
    ("producer/{t}?compressionType=BOGUS", 400, "Invalid compressionType BOGUS"),
    ("producer/{t}?sendTimeoutMillis=abc", 400, "For input string: &quot;abc&quot;"),
    ("producer/{t}?messageRoutingMode=BOGUS", 400, "Invalid messageRoutingMode BOGUS"),
    ("producer/{t}?hashingScheme=BOGUS", 400, "Invalid hashingScheme BOGUS"),
    ("producer/{t}?encryptionKeys=eyIiOnsia2V5VmFsdWUiOiIifX0=", 400, "Empty param encryptionKeys.key"),
    ("producer/bogus/ws/one/t", 500, "Invalid topic domain: bogus"),
    ("producer/persistent/ws/t", 500, "Invalid topic name format"),
    ("producer/persistent/ws/one/", 500, "Topic local name must not be blank"),
    ("producer/persistent/ws/nons/t", 404, "Namespace not found"),
    ("producer/persistent/noten/ns/t", 404, "Namespace not found"),
    ("producer/persistent/ws/one/%2e%2e", 400, "must not be"),
    ("producer/persistent/ws/one/..%2F..%2Fx", 400, "Invalid topic name"),
    ("producer/persistent/ws/one/%ff%fe", 400, "not UTF-8"),
    ("bogus/{t}", 404, "Not Found"),
    ("pingpong", 404, "Not Found"),
    ("consumer/{t}", 400, "Invalid topic name format"),
    ("consumer/{t}/s?subscriptionType=BOGUS", 400, "Invalid subscriptionType BOGUS"),
    ("consumer/{t}/s?receiverQueueSize=abc", 400, "For input string: &quot;abc&quot;"),
    ("consumer/{t}/s?receiverQueueSize=-1", 400, "receiverQueueSize must be from 0"),
    ("consumer/{t}/s?subscriptionInitialPosition=zz", 400, "Invalid subscriptionInitialPosition zz"),
    ("consumer/{t}/s?ackTimeoutMillis=999", 400, "Ack timeout should be greater than 1000 ms"),
    ("consumer/{t}/s?consumerName=", 400, "consumerName cannot be blank"),
    ("consumer/{t}/s?subscriptionMode=zz", 400, "Invalid subscriptionMode zz"),
    ("consumer/{t}/s?priorityLevel=-1", 400, "priorityLevel must be from 0"),
    ("consumer/{t}/s?maxRedeliverCount=0", 400, "MaxRedeliverCount must be &gt; 0."),
    ("consumer/{t}/s?deadLetterTopic=d", 400, "MaxRedeliverCount must be &gt; 0."),
    ("consumer/persistent/ws/nons/t/s", 404, "Namespace not found"),
    ("reader/{t}?messageId=zzz", 500, "Failed to create reader"),
    ("reader/persistent/ws/nons/t", 500, "Failed to create reader: Namespace not found"),
    ("reader/{t}?messageId=***", 500, "Failed to create reader"),
    ("reader/{t}?receiverQueueSize=abc", 500, "For input string: &quot;abc&quot;"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "status", "text"), REFUSED)
def test_a_handshake_is_refused_with_its_own_status_and_text(
    instance: Instance, topic: str, path: str, status: int, text: str
) -> None:
    began = time.monotonic()
    got, page = refused(instance, path.format(t=topic))
    assert got == status, page
    assert text in page[page.index("<title>") : page.index("</title>")]
    assert time.monotonic() - began < 2, "a refusal must not wait for a timeout"


def test_a_busy_name_or_subscription_is_a_conflict(instance: Instance, topic: str) -> None:
    with opened(instance, f"producer/{topic}?producerName=same"):
        status, page = refused(instance, f"producer/{topic}?producerName=same")
        assert (status, "already connected" in page) == (409, True)
    with opened(instance, f"consumer/{topic}/ex"):
        assert refused(instance, f"consumer/{topic}/ex")[0] == 409
        assert refused(instance, f"consumer/{topic}/ex?subscriptionType=Shared")[0] == 409
        published(instance, topic, b"x")


def test_the_official_client_and_sockets_share_a_topic(instance: Instance, topic: str) -> None:
    name = topic.replace("/", "://", 1)
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(instance.url, logger=quiet)
    try:
        consumer = client.subscribe(name, "native")
        with opened(instance, f"consumer/{topic}/socket") as socket:
            published(instance, topic, b"from the socket")
            client.create_producer(name).send(b"from the client", partition_key="k")
            got = [consumer.receive(5000).data() for _ in range(2)]
            assert got == [b"from the socket", b"from the client"]
            first, second = received(socket), received(socket)
        assert ("key" in first, second["key"]) == (False, "k")
    finally:
        client.close()


@pytest.fixture(scope="module")
def official(instance: Instance) -> Iterator[pulsar.Client]:
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


@pytest.mark.parametrize("codec", ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"])
@pytest.mark.parametrize("form", ["single", "batched", "chunked"])
def test_a_socket_receives_messages_of_the_official_client(
    instance: Instance, official: pulsar.Client, topic: str, codec: str, form: str
) -> None:
    chunked = form == "chunked"
    producer = official.create_producer(
        topic.replace("/", "://", 1),
        compression_type=getattr(pulsar.CompressionType, codec),
        batching_enabled=form == "batched",
        batching_max_publish_delay_ms=100,
        chunking_enabled=chunked,
    )
    contents = [random.Random(i).randbytes(6 << 20 if chunked else 50) for i in range(3)]
    path = f"consumer/{topic}/s"
    with (
        opened(instance, path, max_size=None) as consumer,
        opened(instance, f"reader/{topic}?messageId=earliest", max_size=None) as reader,
    ):
        for number, content in enumerate(contents):
            about: dict[str, Any] = {} if chunked else {"ordering_key": "o"}
            producer.send_async(
                content,
                lambda *_: None,
                properties={"n": str(number), "ü": "ö"},
                partition_key=f"k{number}",
                event_timestamp=1000 + number,
                **about,
            )
        producer.flush()
        frames = [received(consumer) for _ in contents]
        assert [base64.b64decode(frame["payload"]) for frame in frames] == contents
        assert [frame["key"] for frame in frames] == ["k0", "k1", "k2"]
        assert [frame["properties"] for frame in frames] == [
            {"n": str(number), "ü": "ö"} for number in range(3)
        ]
        assert frames[2]["eventTime"] == "1970-01-01T00:00:01.002Z"
        read_frames = [received(reader) for _ in contents]
        assert read_frames == frames
        for frame in frames:
            consumer.send(json.dumps({"messageId": frame["messageId"]}))
        until_blocking(lambda: stats(instance, topic)["subscriptions"]["s"]["msgBacklog"] == 0)
    producer.close()


def test_a_socket_reads_all_partitions(
    instance: Instance, official: pulsar.Client, topic: str
) -> None:
    assert instance.rest("PUT", f"/admin/v2/{topic}/partitions", 3)[0] == 204
    producer = official.create_producer(topic.replace("/", "://", 1))
    with opened(instance, f"consumer/{topic}/s?subscriptionType=Shared") as consumer:
        for number in range(12):
            producer.send(b"%d" % number, partition_key=str(number))
        frames = [received(consumer) for _ in range(12)]
        assert {base64.b64decode(frame["payload"]) for frame in frames} == {
            b"%d" % number for number in range(12)
        }
        for frame in frames:
            consumer.send(json.dumps({"messageId": frame["messageId"]}))
        with opened(instance, f"reader/{topic}?messageId=earliest") as reader:
            assert {received(reader)["messageId"] for _ in range(12)} == {
                frame["messageId"] for frame in frames
            }
        until_blocking(
            lambda: all(
                stats(instance, f"{topic}-partition-{index}")["subscriptions"]["s"]["msgBacklog"]
                == 0
                for index in range(3)
            )
        )


def test_a_message_not_acknowledged_in_time_is_redelivered(instance: Instance, topic: str) -> None:
    path = f"consumer/{topic}/s?subscriptionType=Shared&ackTimeoutMillis=1000"
    with opened(instance, path) as consumer:
        published(instance, topic, b"x")
        assert [received(consumer)["redeliveryCount"] for _ in range(3)] == [0, 1, 2]


def test_a_non_durable_subscription_is_deleted_with_its_socket(
    instance: Instance, topic: str
) -> None:
    path = f"consumer/{topic}/s?subscriptionMode=NonDurable&subscriptionInitialPosition=Earliest"
    published(instance, topic, b"0", b"1")
    with opened(instance, path) as consumer:
        assert payloads(consumer, 2) == [b"0", b"1"]
        assert instance.rest("PUT", f"/admin/v2/{topic}/unload")[0] == 204
        published(instance, topic, b"2")
        assert payloads(consumer, 1) == [b"2"], "it did not continue at its position"
    until_blocking(lambda: "s" not in stats(instance, topic)["subscriptions"])


def test_a_higher_priority_is_served_first(instance: Instance, topic: str) -> None:
    path = f"consumer/{topic}/s?subscriptionType=Shared&priorityLevel"
    with opened(instance, f"{path}=1") as second, opened(instance, f"{path}=0") as first:
        published(instance, topic, b"0", b"1")
        assert payloads(first, 2) == [b"0", b"1"]
        assert silent(second)


def test_sockets_receive_values_decoded_by_the_schema_of_each_message_on_request(
    instance: Instance, topic: str
) -> None:
    class Order(Record):  # type: ignore[misc]
        id = Integer()

    with (
        opened(instance, f"consumer/{topic}/values?decode=true") as decoded,
        opened(instance, f"consumer/{topic}/plain") as plain,
    ):
        client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        name = topic.replace("/", "://", 1)
        client.create_producer(name, schema=JsonSchema(Order)).send(Order(id=5))
        client.close()
        published(instance, topic, b"raw")
        first, second = received(decoded), received(decoded)
        assert (first["schemaVersion"], first["value"]) == (0, {"id": 5})
        assert json.loads(base64.b64decode(first["payload"])) == {"id": 5}
        assert second["decodeError"] == "its producer named no schema version"
        assert second["payload"] == encoded(b"raw")
        added = {"schemaVersion", "value", "decodeError"}
        assert [received(plain).keys() & added for _ in range(2)] == [set(), set()]
