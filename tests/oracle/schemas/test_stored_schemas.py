"""Schemas go over from Apache's broker to ours and back: each reads to the byte what the other stored, answers the same
about it, adds versions to it and deletes it."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import pulsar
import pytest
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String, StringSchema

from engine.base.names import TopicName
from engine.metadata import paths
from engine.schema.kinds import version_bytes
from engine.schema.locator import entry, locator, parse_entry, parse_locator
from engine.schema.schema_registry import schema_id
from engine.wire import pulsar_pb2 as pb
from tests.oracle.conftest import Side
from tests.oracle.schemas.script import (
    BYTES,
    INT32,
    PRIMITIVES,
    STRING,
    Given,
    Told,
    native,
    pair,
    record,
)
from tests.oracle.servers import OurGateway
from tests.oracle.story import client_of
from tests.oracle.test_apache_broker import Mixed
from tests.oracle.test_ledgers_both_sides import ours as our_ledgers
from tests.oracle.znodes import dump

pytestmark = [pytest.mark.slow, pytest.mark.long]

NAMESPACE = "schemas/turns"
A = record(("a", "int"))
A_B = record(("a", "int"), ("b", "int", 0))
A_B_C = record(("a", "int"), ("b", "int", 0), ("c", ["null", "string"], None))
A_TEXT = record(("a", "string"))
READ = [(1, "-"), (2, "w"), (1, "-"), (2, "w"), "word 0", "word 1"]
PROPERTIES = {"p": "q", "": "ü", "z": ""}
TOPICS: dict[str, tuple[Given, ...]] = {
    "avro": (A, A_B._replace(properties=PROPERTIES), A_B_C),
    "json": tuple(one._replace(kind=pb.Schema.Json) for one in (A, A_B)),
    "string": (STRING,),
    "timestamp": (PRIMITIVES["Timestamp"],),
    "none": (BYTES,),
    "pair": (pair(STRING, INT32),),
    "separated": (pair(A, A_B, "SEPARATED"), pair(A_B, A_B_C, "SEPARATED")),
    "native": (native("M", ("a", "int32")), native("M", ("a", "int32"), ("b", "string"))),
    "a blank ü": (A, A_B),
}


def order(**fields: Any) -> Any:
    """A class of Python's client, of records of that name."""
    return type("Order", (Record,), fields)


One = order(number=Integer(required=True))
Two = order(
    number=Integer(required=True), word=String(default="-", required=True, required_default=True)
)


class Turns(Mixed):
    """With REST of ours beside it."""

    def __init__(self, work: Any, zk: str) -> None:
        super().__init__(work, zk)
        self.gateway = OurGateway(work, "gateway", zk)

    @property
    def side(self) -> Side:
        """Whose turn it is."""
        if self.running is self.apache:
            return Side("apache", self.apache.url, self.apache.http)
        return Side("ours", self.ours.url, self.gateway.http)

    def told(self) -> Told:
        return Told(self.side, NAMESPACE)


@pytest.fixture(scope="module")
def turns(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turns]:
    made = Turns(tmp_path_factory.mktemp("turns"), f"{zookeeper}/turns")
    with made.bookies:
        try:
            with ThreadPoolExecutor(1) as beside:
                gateway = beside.submit(made.gateway.start, 90)
                made.apache.start()
                gateway.result()
            yield made
        finally:
            made.gateway.kill()
            made.running.stop()


def register_all(told: Told, whose: str) -> None:
    """By producers, by GET_OR_CREATE and by REST; one topic's are deleted and begun anew."""
    for topic, schemas in TOPICS.items():
        name = f"{whose}-{topic}"
        assert told.produce(name, schemas[0])[-1] == version_bytes(0).hex()
        for number, one in enumerate(schemas[1:], 1):
            made = told.create(name, one)[-1] if number == 1 else told.register(name, one)[-1]
            assert made in (version_bytes(number).hex(), {"version": {"version": number}})
    told.register(f"{whose}-again", A)
    told.schemas("DELETE", f"{whose}-again", "schema")
    told.register(f"{whose}-again", STRING)
    told.leave()


def python_programs(turns: Turns, whose: str) -> None:
    """Publish one message by each version."""
    kinds: tuple[tuple[str, Any, Any], ...] = (
        ("avro", AvroSchema(One), AvroSchema(Two)),
        ("json", JsonSchema(One), JsonSchema(Two)),
        ("string", StringSchema(), StringSchema()),
    )
    with client_of(turns.side.url) as client:
        for topic, *schemas in kinds:
            name = f"persistent://{NAMESPACE}/{whose}-python-{topic}"
            for number, schema in enumerate(schemas):
                producer = client.create_producer(name, schema=schema)
                if topic == "string":
                    producer.send(f"word {number}")
                else:
                    producer.send(One(number=1) if number == 0 else Two(number=2, word="w"))
                producer.close()


def read_by_python(turns: Turns, whose: str) -> list[Any]:
    """What the newer programs make of all messages."""
    found: list[Any] = []
    with client_of(turns.side.url) as client:
        for topic, schema in (
            ("avro", AvroSchema(Two)),
            ("json", JsonSchema(Two)),
            ("string", StringSchema()),
        ):
            consumer = client.subscribe(
                f"persistent://{NAMESPACE}/{whose}-python-{topic}",
                f"by-{turns.side.name}",
                schema=schema,
                initial_position=pulsar.InitialPosition.Earliest,
            )
            for _ in range(2):
                value = consumer.receive(30_000).value()
                found.append(value if isinstance(value, str) else (value.number, value.word))
            consumer.close()
    return found


def parsed(raw: bytes) -> Any:
    """What REST answered; text as it is."""
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode()


def answers(told: Told) -> dict[str, Any]:
    """Of all topics: all that REST and clients are told, times and ledgers too."""
    found: dict[str, Any] = {}
    for whose in ("theirs", "ours"):
        for topic in (*TOPICS, "again", "python-avro", "python-json", "python-string", "nobody"):
            name = f"{whose}-{topic}"
            path = f"/admin/v2/{told.schemas_path(name)}"
            for what in ("schema", "schema/0", "schema/1", "schema/9", "schemas", "metadata"):
                status, raw = told.side.call("GET", f"{path}/{what}")
                found[f"{name} {what}"] = status, parsed(raw)
            # Apache does not know Python's strings, whose definition is "null", by Java's, which have none.
            strings = () if topic == "python-string" else (STRING,)
            for candidate in (A_B, A_TEXT, *strings):
                status, raw = told.side.call("POST", f"{path}/version", candidate.payload)
                found[f"{name} version of {candidate.payload}"] = status, parsed(raw)
            found[f"{name} verdict"] = [told.verdict(name, one)[3] for one in (A_B_C, A_TEXT)]
            found[f"{name} get"] = sorted_properties(told.get(name)[3:])
    return found


def sorted_properties(told: tuple[Any, ...]) -> tuple[Any, ...]:
    """Apache tells them in the order of a hash table."""
    for one in told:
        if isinstance(one, dict):
            one.get("properties", []).sort(key=lambda pair: str(pair["key"]))
    return told


class Stored(NamedTuple):
    """``/schemas/…`` of a topic, and of each version its ledger's entry and custom metadata."""

    node: bytes
    entries: list[bytes]
    custom: list[dict[str, bytes]]


def stored(turns: Turns, topic: str) -> Stored:
    async def read() -> Stored:
        name = schema_id(TopicName.parse(f"persistent://{NAMESPACE}/{topic}"))
        path = paths.schema(name)
        node = (await dump(turns.zk, path))[path]
        _, versions = parse_locator(node)
        entries, custom = [], []
        async with our_ledgers(turns.bookies) as ledgers:
            for one in versions:
                reader = await ledgers.open(one.ledger_id, recover=False)
                (run,) = await reader.read(one.entry_id, one.entry_id, 1 << 20)
                entries.append(bytes(run.entry(0)))
                custom.append(dict(reader.metadata.custom))
        return Stored(node, entries, custom)

    return asyncio.run(read())


def same_bytes(turns: Turns, topic: str) -> None:
    """What is stored of a topic's schemas is what ours would write of it, and both sides' are alike."""
    found = {whose: stored(turns, f"{whose}-{topic}") for whose in ("theirs", "ours")}
    for whose, one in found.items():
        newest, versions = parse_locator(one.node)
        assert newest == len(versions) - 1
        assert locator(versions) == one.node
        name = schema_id(TopicName.parse(f"persistent://{NAMESPACE}/{whose}-{topic}"))
        for number, raw in enumerate(one.entries):
            assert entry(name, parse_entry(raw), versions[:number]) == raw, (whose, topic, number)
    theirs, ours = (found[whose] for whose in ("theirs", "ours"))
    assert [one.hash for one in parse_locator(theirs.node)[1]] == [
        one.hash for one in parse_locator(ours.node)[1]
    ]
    plain = [
        [replace(parse_entry(raw), at_ms=0) for raw in found[whose].entries]
        for whose in ("theirs", "ours")
    ]
    assert plain[0] == plain[1]
    for one, other in zip(theirs.custom, ours.custom, strict=True):
        name = one["pulsar/schemaId"].replace(b"/theirs-", b"/ours-")
        plain_of_ours = {key: other[key] for key in other if not key.startswith("magnetar/")}
        assert {**one, "pulsar/schemaId": name} == plain_of_ours


def add_a_version(told: Told, topic: str) -> None:
    """On top of what the other has laid down."""
    known = told.schemas("GET", topic, "schemas")[-1]["getSchemaResponses"]
    made = told.produce(topic, record(("a", "int"), ("b", "int", 0), (told.side.name, "int", 1)))
    assert made[-1] == version_bytes(len(known)).hex()
    assert told.create(topic, A_TEXT)[-1] == "IncompatibleSchema"
    assert told.create(topic, A)[-1] == version_bytes(0).hex()
    told.leave()


@pytest.mark.timeout(300)
def test_schemas_change_sides_and_back(turns: Turns) -> None:
    told = turns.told()
    register_all(told, "theirs")
    python_programs(turns, "theirs")
    told.close()

    turns.change_to(turns.ours)
    told = turns.told()
    register_all(told, "ours")
    python_programs(turns, "ours")
    assert read_by_python(turns, "theirs") == READ
    by_ours = answers(told)
    for topic in (*TOPICS, "again", "python-avro", "python-json", "python-string"):
        same_bytes(turns, topic)
    add_a_version(told, "theirs-avro")
    told.close()

    turns.change_to(turns.apache)
    told = turns.told()
    assert read_by_python(turns, "ours") == READ
    add_a_version(told, "theirs-avro")
    add_a_version(told, "ours-avro")
    by_apache = answers(told)
    changed = [
        f"{what}\n  ours   {by_ours[what]}\n  apache {by_apache[what]}"
        for what in by_ours
        if by_ours[what] != by_apache[what] and "-avro " not in what
    ]
    assert not changed, "\n".join(changed)
    assert told.schemas("DELETE", "ours-json", "schema")[-1] == {"version": 2}
    assert told.schemas("DELETE", "ours-string", "schema?force=true")[-1] == {"version": -1}
    told.close()

    turns.change_to(turns.ours)
    told = turns.told()
    add_a_version(told, "ours-avro")
    numbers = [
        [one["version"] for one in told.schemas("GET", topic, "schemas")[-1]["getSchemaResponses"]]
        for topic in ("theirs-avro", "ours-avro", "ours-json", "ours-string")
    ]
    assert numbers == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [], []]
    assert told.produce("ours-json", STRING)[-1] == version_bytes(3).hex()
    assert told.schemas("DELETE", "theirs-json", "schema")[-1] == {"version": 2}
    told.close()
