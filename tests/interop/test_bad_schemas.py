"""Invalid schemas, and valid ones while parts of an instance are unavailable or their data is lost.

The client is refused in Pulsar's words, producers that are already attached are not affected, and no request hangs.
"""

import base64
import itertools
import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import pulsar
import pytest
from kazoo.client import KazooClient

from engine.base.names import TopicName
from engine.metadata import paths
from engine.schema.locator import parse_locator
from engine.schema.schema_registry import DEFINITION_BYTES_MAX, schema_id
from engine.wire import pulsar_pb2 as pb
from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance
from tests.support.raw_client import Wire
from tests.support.waiting import until_blocking
from tests.unit.schema.test_hostile_definitions import DEFINITIONS

PATIENCE_S = 90
"""Bound of the time of any answer, on a busy machine."""
POLL_S = 0.2
LOST_BROKER = ("ServiceNotReady", "MetadataError")
"""Errors after which clients try again."""
_numbers = itertools.count()


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as killed:
        yield killed


@pytest.fixture(scope="module")
def publisher(instance: Instance) -> Iterator[Callable[[], None]]:
    """A function that publishes a message by a schema and receives it, over a producer that stays attached."""

    class Value(pulsar.schema.Record):  # type: ignore[misc]
        number = pulsar.schema.Integer()

    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    of = pulsar.schema.AvroSchema(Value)
    consumer = client.subscribe("publisher", "s", schema=of)
    producer = client.create_producer("publisher", schema=of, batching_enabled=False)

    def once() -> None:
        number = next(_numbers)
        producer.send(Value(number=number))
        received = -1
        # Earlier messages may be redelivered when the broker's session expired.
        while received < number:
            message = consumer.receive(PATIENCE_S * 1000)
            received = message.value().number
            consumer.acknowledge(message)
        assert received == number

    once()
    yield once
    once()
    client.close()


def new_topic() -> str:
    return f"persistent://public/default/bad-{next(_numbers)}"


class SchemaConnection:
    """A connection that requests schemas of one topic, which exists."""

    def __init__(self, instance: Instance, topic: str = "") -> None:
        self._instance = instance
        self.topic = topic or new_topic()
        instance.rest("PUT", f"/admin/v2/{quote(self.topic.replace('://', '/'))}")
        self.wire = self._connected()

    def _connected(self) -> Wire:
        """Return a new connection to the broker that serves the topic, once a lookup names it: a broker whose session
        ended serves no topic before the next lookup."""
        answer: dict[str, Any] = {}

        def is_served() -> bool:
            nonlocal wire, answer
            wire = Wire(self._instance.ports["BROKER"], answers_pings=True)
            wire.patience(PATIENCE_S)
            try:
                answer = wire.open().ask("lookupTopic", topic=self.topic, request_id=0)
                answer = answer.get("lookupTopicResponse", answer)
            except (OSError, AssertionError) as error:  # the broker closed the connection
                answer = {"response": repr(error)}
            if answer.get("response") == "Connect":
                return True
            wire.close()
            return False

        wire: Wire
        until_blocking(is_served, lambda: answer, PATIENCE_S, POLL_S)
        return wire

    def again(self) -> None:
        """Connect and look up the topic again."""
        self.wire.close()
        self.wire = self._connected()

    def _ask(self, field: str, **body: Any) -> dict[str, Any]:
        """Return the answer's body; notices that the broker closes producers or consumers are skipped."""
        answer = self.wire.ask(field, **body)
        while answer["type"] in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
            more = self.wire.frame()
            assert more is not None
            answer = more
        return _body(answer)

    def look_up(self) -> dict[str, Any]:
        return self._ask("lookupTopic", topic=self.topic, request_id=0)

    def produce(self, schema: pb.Schema) -> dict[str, Any]:
        """Attach a producer; return the answer's body: ``schema_version``, or ``error`` and ``message``."""
        at = next(_numbers)
        return self._ask("producer", topic=self.topic, producer_id=at, request_id=at, schema=schema)

    def subscribe(self, schema: pb.Schema) -> dict[str, Any]:
        at = next(_numbers)
        fields = {"subscription": f"s{at}", "subType": 0, "consumer_id": at, "request_id": at}
        return self._ask("subscribe", topic=self.topic, schema=schema, **fields)

    def create(self, schema: pb.Schema) -> dict[str, Any]:
        at = next(_numbers)
        return self._ask("getOrCreateSchema", topic=self.topic, request_id=at, schema=schema)

    def get(self) -> dict[str, Any]:
        return self._ask("getSchema", topic=self.topic, request_id=next(_numbers))


Connect = Callable[..., SchemaConnection]


@pytest.fixture
def connect(instance: Instance) -> Iterator[Connect]:
    """A function that opens connections, which are closed after the test."""
    opened: list[SchemaConnection] = []

    def open_connection(topic: str = "") -> SchemaConnection:
        opened.append(SchemaConnection(instance, topic))
        return opened[-1]

    yield open_connection
    for connection in opened:
        connection.wire.close()


def _body(answer: dict[str, Any]) -> dict[str, Any]:
    (command,) = (value for key, value in answer.items() if key != "type")
    body: dict[str, Any] = dict(command)
    if "error_code" in body:
        body["error"], body["message"] = body["error_code"], body["error_message"]
    return body


def avro(*names: str) -> pb.Schema:
    fields = [{"name": name, "type": "int", "default": 0} for name in names]
    document = {"type": "record", "name": "R", "fields": fields}
    return pb.Schema(name="R", type=pb.Schema.Avro, schema_data=json.dumps(document).encode())


def test_invalid_definitions_are_refused_and_the_connection_stays_open(
    connect: Connect, publisher: Callable[[], None]
) -> None:
    connection = connect()
    refused = 0
    for data in DEFINITIONS.values():
        for kind in (pb.Schema.Avro, pb.Schema.Json, pb.Schema.ProtobufNative, pb.Schema.KeyValue):
            schema = pb.Schema(name="x", type=kind, schema_data=data)
            for request in (connection.produce, connection.create):
                answer = request(schema)
                if "error" in answer:
                    assert answer["error"] == "IncompatibleSchema"
                    assert len(answer["message"]) < 2000
                    refused += 1
    assert refused > 100
    publisher()
    assert (
        "error" not in connection.produce(avro("a"))
        or "exists schema type" in (connection.produce(avro("a"))["message"])
    )


def test_an_incompatible_type_is_refused(connect: Connect, publisher: Callable[[], None]) -> None:
    connection = connect()
    assert "error" not in connection.produce(avro("a"))
    string = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
    text = pb.Schema(name="s", type=pb.Schema.Int32, schema_data=b"four")
    for schema in (string, text):
        for request in (connection.produce, connection.subscribe, connection.create):
            answer = request(schema)
            assert answer["error"] == "IncompatibleSchema", answer
    publisher()


def test_a_definition_of_a_megabyte_is_stored_and_one_that_is_too_long_is_refused(
    connect: Connect, publisher: Callable[[], None]
) -> None:
    connection = connect()
    big = avro(*(f"field_{i}" for i in range(24_000)))
    assert len(big.schema_data) > 1_000_000
    assert "error" not in connection.produce(big)
    assert connection.get()["schema"]["type"] == "Avro"
    padded = pb.Schema(
        name="R",
        type=pb.Schema.Avro,
        schema_data=avro("a").schema_data + b" " * DEFINITION_BYTES_MAX,
    )
    answer = connection.produce(padded)
    assert answer["error"] == "IncompatibleSchema"
    assert f"at most {DEFINITION_BYTES_MAX}" in answer["message"]
    publisher()
    beyond = pb.Schema(name="R", type=pb.Schema.Avro, schema_data=b" " * (6 << 20))
    with suppress(ConnectionError):  # while the rest of the frame is sent, or after it
        connection.wire.say(
            "producer", topic=connection.topic, producer_id=0, request_id=0, schema=beyond
        )
        assert connection.wire.frame() is None, "a frame above the limit was accepted"
    publisher()


def test_rest_refuses_invalid_schemas(instance: Instance, publisher: Callable[[], None]) -> None:
    for name in ("rest", quote("тема"), "r%2Fest", "..."):
        path = f"/admin/v2/schemas/public/default/{name}/schema"
        for body in (
            {"type": "AVRO", "schema": "{", "properties": {}},
            {"type": "AVRO", "schema": '{"type":"\ud800"}', "properties": {}},
            {"type": "NONSENSE", "schema": "", "properties": {}},
            {"type": "STRING", "schema": "", "properties": {"\ud800": "x"}},
            {"type": "STRING", "schema": "", "properties": {"x": 1}},
            {"type": "AVRO", "schema": "[" * 100_000, "properties": {}},
            {"type": "AVRO", "schema": '"int"', "properties": {"x": "y" * DEFINITION_BYTES_MAX}},
            [],
        ):
            status, answer = instance.rest("POST", path, body)
            assert 400 <= status < 500, (body if len(str(body)) < 200 else "long", status, answer)
    publisher()


def test_messages_published_by_rest_with_a_schema_are_read_by_the_official_client(
    instance: Instance,
) -> None:
    class Order(pulsar.schema.Record):  # type: ignore[misc]
        number = pulsar.schema.Integer()
        text = pulsar.schema.String()

    of = pulsar.schema.AvroSchema(Order)
    topic = new_topic()
    path = topic.replace("://", "/")
    assert instance.rest("PUT", f"/admin/v2/{path}/partitions", 3)[0] == 204
    client = pulsar.Client(instance.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    consumer = client.subscribe(topic, "s", schema=of)
    info = of.schema_info()
    schema = {
        "name": "Order",
        "type": "AVRO",
        "schema": base64.b64encode(info.schema().encode()).decode(),
        "properties": {},
    }

    def message(number: int) -> dict[str, Any]:
        value = {"number": {"int": number}, "text": {"string": "é"}}
        more = {"key": f"k{number % 2}", "properties": {"a": "b"}, "eventTime": 123456}
        return {"payload": json.dumps(value), "sequenceId": number + 1, **more}

    body = {"valueSchema": json.dumps(schema), "producerName": "over-http"}
    body["messages"] = [message(number) for number in range(10)]
    status, answer = instance.rest("POST", f"/topics/{path}", body)
    assert status == 200, answer
    results = answer["messagePublishResults"]
    assert {result["errorCode"] for result in results} == {0}
    published = [tuple(map(int, result["messageId"].split(":"))) for result in results]

    received: dict[tuple[int, ...], Any] = {}
    for _ in results:
        item = consumer.receive(PATIENCE_S * 1000)
        consumer.acknowledge(item)
        at = item.message_id()
        received[at.ledger_id(), at.entry_id(), at.partition()] = item
    assert received.keys() == set(published)
    for number, place in enumerate(published):
        item = received[place]
        assert (item.value().number, item.value().text) == (number, "é")
        assert (item.partition_key(), item.properties()) == (f"k{number % 2}", {"a": "b"})
        assert (item.event_timestamp(), item.producer_name()) == (123456, "over-http")
    assert len({place[2] for place in published[::2]}) == 1, "a key has one partition"

    body["messages"] = [message(10), {"payload": "{}"}]
    body.pop("producerName")
    assert instance.rest("POST", f"/topics/{path}", body)[0] == 400
    number = {"messages": [{"payload": "1"}], "valueSchema": '{"type":"INT32","schema":""}'}
    assert instance.rest("POST", f"/topics/{path}", number)[0] == 409
    only = {"messages": [message(11)], "schemaVersion": answer["schemaVersion"]}
    status, answer = instance.rest("POST", f"/topics/{path}/partitions/2", only)
    assert status == 200, answer
    last = consumer.receive(PATIENCE_S * 1000)
    assert (last.value().number, last.message_id().partition()) == (11, 2)
    client.close()


def test_unusual_names_of_properties_are_returned_unchanged(
    connect: Connect, publisher: Callable[[], None]
) -> None:
    topic = f"{new_topic()}-тема ..%2f"
    connection = connect(topic)
    schema = avro("a")
    hostile = {"../..": "\x00", "ключ": "я" * 10_240, "": "", "n" * 10_240: "\u202e"}
    schema.properties.extend(pb.KeyValue(key=key, value=hostile[key]) for key in hostile)
    assert "error" not in connection.produce(schema)
    stored = connection.get()["schema"]["properties"]
    assert {pair["key"]: pair["value"] for pair in stored} == hostile
    publisher()


@pytest.mark.parametrize("part", ["bookie-1", "zookeeper"])
def test_during_an_outage_known_schemas_are_accepted_and_new_ones_are_refused_for_a_retry(
    instance: Instance, connect: Connect, publisher: Callable[[], None], part: str
) -> None:
    connection = connect()
    assert "error" not in connection.produce(avro("a"))
    instance.control("stop", part)
    try:
        began = time.monotonic()
        for response in (connection.create(avro("a")), connection.get()):
            # A broker whose session expires meanwhile has released its topics.
            assert response.get("error", LOST_BROKER[0]) == LOST_BROKER[0], response
            assert part == "zookeeper" or "error" not in response
        response = connection.produce(avro("a", "b"))
        assert response["error"] in LOST_BROKER, response
        assert time.monotonic() - began < PATIENCE_S
    finally:
        instance.control("start", part)
        instance.wait_running(part)
        connection.again()

    answer: dict[str, Any] = {}

    def is_produced() -> bool:
        """Produce after a lookup, as clients do: a broker whose session ended serves no topic before one."""
        nonlocal answer
        try:
            connection.look_up()
            answer = connection.produce(avro("a", "b"))
        except (OSError, AssertionError):  # the broker may have released its topics
            connection.again()
            answer = {"error": "closed"}
        return "error" not in answer

    until_blocking(is_produced, lambda: answer, PATIENCE_S, POLL_S)
    publisher()


def test_a_lost_ledger_refuses_only_the_clients_that_need_it(
    instance: Instance, connect: Connect, publisher: Callable[[], None]
) -> None:
    connection = connect()
    assert "error" not in connection.produce(avro("a"))
    assert "error" not in connection.produce(avro("a", "b"))
    name = schema_id(TopicName.parse(connection.topic))
    store = KazooClient(f"127.0.0.1:{instance.ports['ZOOKEEPER']}")
    store.start(PATIENCE_S)
    try:
        _, versions = parse_locator(store.get(paths.schema(name))[0])
        store.delete(paths.ledger(versions[1].ledger_id))
    finally:
        store.stop()
        store.close()
    instance.control("kill", "broker-1")
    instance.control("start", "broker-1")
    instance.wait_running("broker-1")
    connection.again()
    for known in (avro("a", "b"), avro("a")):
        assert "error" not in connection.produce(known)
    assert "error" not in connection.subscribe(avro("a", "b"))
    for answer in (
        connection.produce(avro("a", "c")),
        connection.get(),
        connection.subscribe(avro("a")),
    ):
        assert answer["error"] == "MetadataError", answer
        assert "schema version 1 is lost" in answer["message"]
    status, _ = instance.rest("DELETE", f"/admin/v2/schemas/{name}/schema")
    assert status == 200
    assert "error" not in connection.produce(avro("a", "c"))
    publisher()
