"""Pulsar's REST produce: what bodies mean, what is refused before anything is sent, and how results are answered."""

import json
import threading
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engine.base.errors import InvalidField, Unprocessable
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.client.errors import LostError
from engine.client.message_ids import MessageId
from engine.client.producing.partition_producer import SendResult, SendTimeoutError
from engine.schema.kinds import Schema, SchemaKind, key_value
from engine.tenancy import topics as metadata
from engine.wire import pulsar_pb2 as pb
from gateway.clusters.cluster import Cluster
from gateway.rest.produce import views
from gateway.rest.produce.request import MESSAGES_MAX, ProduceRequest, parse_request
from gateway.services.engine_link import EngineLink
from gateway.services.publishing import Outgoing, Published

Call = Callable[..., Any]
NOW = 1_700_000_000_000
PATH = "/topics/persistent/public/default/t"
AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


def parsed(**body: Any) -> ProduceRequest:
    return parse_request({"messages": [], **body}, NOW)


def info(kind: str, definition: str = "", **properties: str) -> str:
    data = b64encode(definition.encode()).decode()
    return json.dumps({"name": "", "type": kind, "schema": data, "properties": properties})


def test_a_request_without_schema_writes_strings() -> None:
    request = parsed(messages=[{"payload": "a"}])
    assert (request.name, request.schema_version) == (None, None)
    assert request.schema == Schema(SchemaKind.STRING, b"", {"__charset": "UTF-8"})


def test_all_members_of_a_message_are_parsed() -> None:
    body = {
        "payload": 5,
        "key": True,
        "properties": {"a": "b"},
        "eventTime": "1603045262772",
        "deliverAfterMs": 1_000,
        "replicationClusters": ["standalone"],
        "sequenceId": 7,
        "context": "of the WebSocket service's, passed over",
    }
    message = parsed(messages=[body], producerName="p").messages[0]
    assert (message.payload, message.key, message.properties) == ("5", "true", {"a": "b"})
    assert (message.event_ms, message.deliver_at_ms) == (1603045262772, NOW + 1_000)
    assert (message.replicate_to, message.sequence_id) == (["standalone"], 7)
    both = {"payload": "", "deliverAt": 5, "deliverAfterMs": 9, "disableReplication": True}
    message = parsed(messages=[both]).messages[0]
    assert (message.deliver_at_ms, message.replicate_to) == (5, ["__local__"])


def test_unset_members_of_the_java_client_are_absent() -> None:
    """Read unset members of ProducerMessage as absent."""
    unset = {
        "properties": None,
        "context": None,
        "key": None,
        "replicationClusters": None,
        "eventTime": None,
        "sequenceId": 0,
        "disableReplication": False,
        "deliverAt": 0,
        "deliverAfterMs": 0,
    }
    messages = [{"payload": "a", **unset}, {"payload": "b", **unset}]
    body = {"schemaVersion": -1, "keySchema": None, "producerName": "p"}
    for message in parsed(messages=messages, **body).messages:
        assert (message.key, message.properties, message.event_ms, message.deliver_at_ms) == (
            None,
            {},
            0,
            0,
        )
        assert (message.replicate_to, message.sequence_id) == ([], None)


def test_sequence_ids_without_a_producer_name_are_ignored() -> None:
    assert parsed(messages=[{"payload": "a", "sequenceId": 3}]).messages[0].sequence_id is None


def test_schemas_of_key_and_value_are_one_with_the_key_apart() -> None:
    schema = parsed(keySchema=info("INT32"), valueSchema=info("AVRO", AVRO)).schema
    assert schema.properties["kv.encoding.type"] == "SEPARATED"
    parts = key_value(schema)
    assert (parts.key.kind, parts.value.kind) == (SchemaKind.INT32, SchemaKind.AVRO)
    assert parts.value.data == AVRO.encode()
    schema = parsed(keySchema=info("BYTES")).schema
    parts = key_value(schema)
    assert (parts.key.kind, parts.value.kind) == (SchemaKind.NONE, SchemaKind.STRING)
    assert schema.properties["key.schema.type"] == "BYTES"


def test_a_schema_version_wins_over_a_schema() -> None:
    assert parsed(schemaVersion=2, valueSchema="junk").schema_version == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": None}, "messages"),
        ({"messages": [{"payload": ""}] * (MESSAGES_MAX + 1)}, "messages"),
        ({"messages": [None]}, "messages[0]"),
        ({"messages": [{"payload": "a"}, {}]}, "messages[1].payload"),
        ({"messages": [{"payload": {}}]}, "messages[0].payload"),
        ({"messages": [{"payload": "a", "key": []}]}, "messages[0].key"),
        ({"messages": [{"payload": "a", "properties": {"a": None}}]}, "messages[0].properties"),
        ({"messages": [{"payload": "a", "eventTime": "x"}]}, "messages[0].eventTime"),
        ({"messages": [{"payload": "a", "eventTime": -1}]}, "messages[0].eventTime"),
        ({"messages": [{"payload": "a", "deliverAt": 1 << 63}]}, "messages[0].deliverAt"),
        (
            {"messages": [{"payload": "a", "deliverAfterMs": (1 << 63) - 1}]},
            "messages[0].deliverAfterMs",
        ),
        (
            {"messages": [{"payload": "a", "replicationClusters": "r"}]},
            "messages[0].replicationClusters",
        ),
        (
            {"messages": [{"payload": "a", "disableReplication": 1}]},
            "messages[0].disableReplication",
        ),
        ({"messages": [{"payload": "a", "sequenceId": -1}]}, "messages[0].sequenceId"),
        (
            {"messages": [{"payload": "a", "sequenceId": 2}, {"payload": "a", "sequenceId": 2}]},
            "messages[1].sequenceId",
        ),
        (
            {"messages": [{"payload": "a", "sequenceId": 2}, {"payload": "a"}]},
            "messages[1].sequenceId",
        ),
        ({"schemaVersion": -2}, "schemaVersion"),
        ({"producerName": "  "}, "producerName"),
        ({"producerName": "é" * 513}, "producerName"),
        ({"valueSchema": {}}, "valueSchema"),
        ({"valueSchema": "junk"}, "valueSchema"),
        ({"valueSchema": "[]"}, "valueSchema"),
        ({"valueSchema": '{"type":"ZZ"}'}, "valueSchema.type"),
        ({"valueSchema": '{"type":"AUTO_CONSUME"}'}, "valueSchema.type"),
        ({"valueSchema": '{"type":"AVRO","schema":"{}"}'}, "valueSchema.schema"),
        ({"keySchema": info("KEY_VALUE")}, "keySchema.type"),
    ],
)
def test_a_wrong_member_is_refused_by_its_name(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidField) as error:
        parsed(**body)
    assert error.value.field == field


def test_a_definition_that_is_none_of_its_kind_is_unprocessable() -> None:
    with pytest.raises(Unprocessable, match="AVRO"):
        parsed(valueSchema=info("AVRO", "{"))


class Publisher:
    """A publisher that records the messages instead of publishing them."""

    def __init__(self) -> None:
        self.messages: Sequence[Outgoing] = ()
        self.topics: Sequence[TopicName] = ()
        self.errors: dict[int, Any] = {}

    async def publish(
        self, topics: Sequence[TopicName], messages: Sequence[Outgoing], schema: Schema, name: Any
    ) -> Published:
        self.topics, self.messages = topics, messages
        results = [
            SendResult(None, None, self.errors[index])
            if index in self.errors
            else SendResult(None, MessageId(Position(5, index), topics[0].partition))
            for index in range(len(messages))
        ]
        return Published(results, [topics[0].partition] * len(messages), 3)


@pytest.fixture
def publisher(cluster: Cluster, engine: EngineLink) -> Publisher:
    """The publisher that replaces the cluster's; the topic of PATH exists."""
    path = metadata.ledger_path(TopicName.parse("persistent://public/default/t"))
    engine.run(lambda known: known.store.create(path, b"", make_parents=True))
    made = Publisher()
    cluster.publisher = made  # type: ignore[assignment]
    return made


def test_each_message_is_answered_for_itself(call: Call, publisher: Publisher) -> None:
    publisher.errors = {1: LostError("gone"), 2: SendTimeoutError("No receipt within 10 s")}
    answer = call("POST", PATH, {"messages": [{"payload": str(n)} for n in range(3)]})
    assert answer.status == 200
    assert answer.json == {
        "messagePublishResults": [
            {"messageId": "5:0:-1", "errorCode": 0, "schemaVersion": 3},
            {"messageId": "-1", "errorCode": 1, "errorMsg": "gone", "schemaVersion": 3},
            {
                "messageId": "-1",
                "errorCode": 1,
                "errorMsg": "No receipt within 10 s: the message may be stored",
                "schemaVersion": 3,
            },
        ],
        "schemaVersion": 3,
    }
    assert [outgoing.message.payload for outgoing in publisher.messages] == [b"0", b"1", b"2"]


def test_messages_go_to_the_partitions_that_the_path_names(
    call: Call, publisher: Publisher
) -> None:
    assert call("PUT", "/admin/v2/persistent/public/default/p/partitions", 2).status == 204
    body = {"messages": [{"payload": "a"}]}
    path = "/topics/persistent/public/default/p"
    assert call("POST", path, body).status == 200
    assert [topic.partition for topic in publisher.topics] == [0, 1]
    answer = call("POST", f"{path}/partitions/1", body)
    assert answer.json["messagePublishResults"][0]["messageId"] == "5:0:1"
    assert [str(topic) for topic in publisher.topics] == [
        "persistent://public/default/p-partition-1"
    ]


def test_the_key_of_a_pair_is_the_messages_in_base64(call: Call, publisher: Publisher) -> None:
    body = {
        "keySchema": info("INT32"),
        "valueSchema": info("STRING"),
        "messages": [{"payload": "v", "key": "5"}],
    }
    assert call("POST", PATH, body).status == 200
    [sent] = publisher.messages
    assert (sent.message.key, sent.message.payload) == ("AAAABQ==", b"v")
    assert pb.MessageMetadata.FromString(
        b"\x0a\x00\x10\x00\x18\x00" + sent.message.metadata()
    ).partition_key_b64_encoded


def test_a_payload_that_is_none_of_the_schemas_stops_the_whole_request(
    call: Call, publisher: Publisher
) -> None:
    messages = [{"payload": '{"a":1}'}, {"payload": '{"a":"x"}'}]
    answer = call("POST", PATH, {"messages": messages, "valueSchema": info("AVRO", AVRO)})
    assert answer.status == 400
    assert answer.json["field"] == "messages[1].payload.a"
    assert not publisher.messages
    answer = call("POST", PATH, {"messages": messages, "valueSchema": info("PROTOBUF", AVRO)})
    assert answer.status == 422
    assert "PROTOBUF" in answer.json["reason"]


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/topics/persistent/public/default/none", 404, "Topic persistent://public/default/none not found"),
        ("/topics/non-persistent/public/default/none/partitions/0", 404, "not found"),
        ("/topics/persistent/public/none/t", 404, "not found"),
        ("/topics/persistent/none/none/t", 404, "not found"),
        ("/topics/persistent/public/bad%20name/t", 412, "not valid"),
        ("/topics/persistent/public/default/t/partitions/0", 404, "t-partition-0 not found"),
        ("/topics/persistent/public/default/p/partitions/2", 404, "p-partition-2 not found"),
        ("/topics/persistent/public/default/p/partitions/-1", 404, "p-partition--1 not found"),
        ("/topics/persistent/public/default/p-partition-1/partitions/1", 400, "suffix"),
    ],
)  # fmt: skip
def test_paths_of_missing_topics_are_refused_in_pulsars_words(
    call: Call, publisher: Publisher, path: str, status: int, reason: str
) -> None:
    call("PUT", "/admin/v2/persistent/public/default/p/partitions", 2)
    answer = call("POST", path, {"messages": [{"payload": "a"}]})
    assert answer.status == status
    assert reason in answer.json["reason"]
    assert not publisher.messages


def test_a_long_request_is_encoded_beside_the_loop(
    call: Call, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    encode = views._encode

    def encoded(*given: Any) -> list[Outgoing]:
        threads.append(threading.get_ident())
        return encode(*given)

    monkeypatch.setattr(views, "_encode", encoded)
    assert call("POST", PATH, {"messages": [{"payload": "a"}]}).status == 200
    long = {"messages": [{"payload": "a" * views.TURN_CHARS}, {"payload": "b"}]}
    assert call("POST", PATH, long).status == 200
    assert threads[0] == threading.get_ident() != threads[1]
    assert [len(outgoing.message.payload) for outgoing in publisher.messages] == [
        views.TURN_CHARS,
        1,
    ]


def test_invalid_bodies_are_refused(call: Call, publisher: Publisher) -> None:
    for body in (None, b"null", b"[]", b"{", b"{}"):
        assert call("POST", PATH, body).status == 400
    assert call("POST", PATH, b"hi", content_type="text/plain").status == 415
    assert call("POST", f"{PATH}/partitions/x", {"messages": []}).status == 404
    assert call("POST", PATH, {"messages": []}).json["messagePublishResults"] == []
