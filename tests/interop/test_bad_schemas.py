"""Schemas that nobody honest brings, and parts of an instance that are away or lost while clients bring good ones: who
asked is told so in Pulsar's words, whoever publishes already notices nothing, and nothing hangs."""

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
"""What no answer may take, on a machine with other things to do."""
POLL_S = 0.2
LOST_BROKER = ("ServiceNotReady", "MetadataError")
"""Errors that clients try again on."""
_numbers = itertools.count()


@pytest.fixture(scope="module")
def instance(killed_instance: SharedInstance) -> Iterator[Instance]:
    with killed_instance.harmed() as made:
        yield made


@pytest.fixture(scope="module")
def publisher(instance: Instance) -> Iterator[Callable[[], None]]:
    """Publishes one message by a schema and has it back, over a producer that is attached all the time."""

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
        while received < number:  # earlier ones may come again when the broker's session ended
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


class Asking:
    """One connection that asks for schemas of one topic, which exists."""

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
        """Connect and look up anew."""
        self.wire.close()
        self.wire = self._connected()

    def _ask(self, field: str, **body: Any) -> dict[str, Any]:
        """The answer's body; that the broker lets go of producers is passed over."""
        answer = self.wire.ask(field, **body)
        while answer["type"] in ("CLOSE_PRODUCER", "CLOSE_CONSUMER"):
            more = self.wire.frame()
            assert more is not None
            answer = more
        return _body(answer)

    def look_up(self) -> dict[str, Any]:
        return self._ask("lookupTopic", topic=self.topic, request_id=0)

    def produce(self, schema: pb.Schema) -> dict[str, Any]:
        """The answer's body: ``schema_version``, or ``error`` and ``message``."""
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


Connect = Callable[..., Asking]


@pytest.fixture
def connect(instance: Instance) -> Iterator[Connect]:
    """Connections, closed in the end."""
    made: list[Asking] = []

    def one(topic: str = "") -> Asking:
        made.append(Asking(instance, topic))
        return made[-1]

    yield one
    for each in made:
        each.wire.close()


def _body(answer: dict[str, Any]) -> dict[str, Any]:
    (found,) = (body for key, body in answer.items() if key != "type")
    said: dict[str, Any] = dict(found)
    if "error_code" in said:
        said["error"], said["message"] = said["error_code"], said["error_message"]
    return said


def avro(*names: str) -> pb.Schema:
    fields = [{"name": name, "type": "int", "default": 0} for name in names]
    document = {"type": "record", "name": "R", "fields": fields}
    return pb.Schema(name="R", type=pb.Schema.Avro, schema_data=json.dumps(document).encode())


def test_definitions_that_are_none_are_refused_on_a_connection_that_goes_on(
    connect: Connect, publisher: Callable[[], None]
) -> None:
    asking = connect()
    refused = 0
    for data in DEFINITIONS.values():
        for kind in (pb.Schema.Avro, pb.Schema.Json, pb.Schema.ProtobufNative, pb.Schema.KeyValue):
            schema = pb.Schema(name="x", type=kind, schema_data=data)
            for ask in (asking.produce, asking.create):
                said = ask(schema)
                if "error" in said:
                    assert said["error"] == "IncompatibleSchema"
                    assert len(said["message"]) < 2000
                    refused += 1
    assert refused > 100
    publisher()
    assert (
        "error" not in asking.produce(avro("a"))
        or "exists schema type" in (asking.produce(avro("a"))["message"])
    )


def test_a_type_that_does_not_fit_is_refused(
    connect: Connect, publisher: Callable[[], None]
) -> None:
    asking = connect()
    assert "error" not in asking.produce(avro("a"))
    string = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
    text = pb.Schema(name="s", type=pb.Schema.Int32, schema_data=b"four")
    for schema in (string, text):
        for ask in (asking.produce, asking.subscribe, asking.create):
            said = ask(schema)
            assert said["error"] == "IncompatibleSchema", said
    publisher()


def test_a_definition_of_a_megabyte_is_kept_and_one_that_is_too_long_refused(
    connect: Connect, publisher: Callable[[], None]
) -> None:
    asking = connect()
    big = avro(*(f"field_{i}" for i in range(24_000)))
    assert len(big.schema_data) > 1_000_000
    assert "error" not in asking.produce(big)
    assert asking.get()["schema"]["type"] == "Avro"
    padded = pb.Schema(
        name="R",
        type=pb.Schema.Avro,
        schema_data=avro("a").schema_data + b" " * DEFINITION_BYTES_MAX,
    )
    said = asking.produce(padded)
    assert said["error"] == "IncompatibleSchema"
    assert f"at most {DEFINITION_BYTES_MAX}" in said["message"]
    publisher()
    beyond = pb.Schema(name="R", type=pb.Schema.Avro, schema_data=b" " * (6 << 20))
    with suppress(ConnectionError):  # while the rest of the frame is sent, or after it
        asking.wire.say("producer", topic=asking.topic, producer_id=0, request_id=0, schema=beyond)
        assert asking.wire.frame() is None, "a frame above the limit was taken"
    publisher()


def test_rest_refuses_what_is_none_by_its_field(
    instance: Instance, publisher: Callable[[], None]
) -> None:
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
            status, said = instance.rest("POST", path, body)
            assert 400 <= status < 500, (body if len(str(body)) < 200 else "long", status, said)
    publisher()


def test_what_rest_publishes_by_a_schema_is_what_the_official_client_reads(
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
    assert {one["errorCode"] for one in results} == {0}
    published = [tuple(map(int, one["messageId"].split(":"))) for one in results]

    received: dict[tuple[int, ...], Any] = {}
    for _ in results:
        one = consumer.receive(PATIENCE_S * 1000)
        consumer.acknowledge(one)
        at = one.message_id()
        received[at.ledger_id(), at.entry_id(), at.partition()] = one
    assert received.keys() == set(published)
    for number, place in enumerate(published):
        one = received[place]
        assert (one.value().number, one.value().text) == (number, "é")
        assert (one.partition_key(), one.properties()) == (f"k{number % 2}", {"a": "b"})
        assert (one.event_timestamp(), one.producer_name()) == (123456, "over-http")
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


def test_hostile_names_of_properties_come_back_as_they_were(
    connect: Connect, publisher: Callable[[], None]
) -> None:
    topic = f"{new_topic()}-тема ..%2f"
    asking = connect(topic)
    schema = avro("a")
    hostile = {"../..": "\x00", "ключ": "я" * 10_240, "": "", "n" * 10_240: "\u202e"}
    schema.properties.extend(pb.KeyValue(key=key, value=hostile[key]) for key in hostile)
    assert "error" not in asking.produce(schema)
    found = asking.get()["schema"]["properties"]
    assert {one["key"]: one["value"] for one in found} == hostile
    publisher()


@pytest.mark.parametrize("part", ["bookie-1", "zookeeper"])
def test_while_a_part_is_away_known_schemas_come_in_and_new_ones_are_told_to_try_again(
    instance: Instance, connect: Connect, publisher: Callable[[], None], part: str
) -> None:
    asking = connect()
    assert "error" not in asking.produce(avro("a"))
    instance.control("stop", part)
    try:
        began = time.monotonic()
        for said in (asking.create(avro("a")), asking.get()):
            # A session that is over before takes the topics along.
            assert said.get("error", LOST_BROKER[0]) == LOST_BROKER[0], said
            assert part == "zookeeper" or "error" not in said
        said = asking.produce(avro("a", "b"))
        assert said["error"] in LOST_BROKER, said
        assert time.monotonic() - began < PATIENCE_S
    finally:
        instance.control("start", part)
        instance.wait_running(part)
        asking.again()

    answer: dict[str, Any] = {}

    def is_produced() -> bool:
        """Produce after a lookup, as clients do: a broker whose session ended serves no topic before one."""
        nonlocal answer
        try:
            asking.look_up()
            answer = asking.produce(avro("a", "b"))
        except (OSError, AssertionError):  # the broker may have released its topics
            asking.again()
            answer = {"error": "closed"}
        return "error" not in answer

    until_blocking(is_produced, lambda: answer, PATIENCE_S, POLL_S)
    publisher()


def test_a_lost_ledger_keeps_out_only_who_needs_it(
    instance: Instance, connect: Connect, publisher: Callable[[], None]
) -> None:
    asking = connect()
    assert "error" not in asking.produce(avro("a"))
    assert "error" not in asking.produce(avro("a", "b"))
    name = schema_id(TopicName.parse(asking.topic))
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
    asking.again()
    for known in (avro("a", "b"), avro("a")):
        assert "error" not in asking.produce(known)
    assert "error" not in asking.subscribe(avro("a", "b"))
    for said in (asking.produce(avro("a", "c")), asking.get(), asking.subscribe(avro("a"))):
        assert said["error"] == "MetadataError", said
        assert "schema version 1 is lost" in said["message"]
    status, _ = instance.rest("DELETE", f"/admin/v2/schemas/{name}/schema")
    assert status == 200
    assert "error" not in asking.produce(avro("a", "c"))
    publisher()
