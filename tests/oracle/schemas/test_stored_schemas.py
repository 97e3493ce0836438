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
    Script,
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
    "json": tuple(schema._replace(kind=pb.Schema.Json) for schema in (A, A_B)),
    "string": (STRING,),
    "timestamp": (PRIMITIVES["Timestamp"],),
    "none": (BYTES,),
    "pair": (pair(STRING, INT32),),
    "separated": (pair(A, A_B, "SEPARATED"), pair(A_B, A_B_C, "SEPARATED")),
    "native": (native("M", ("a", "int32")), native("M", ("a", "int32"), ("b", "string"))),
    "a blank ü": (A, A_B),
}


def order(**fields: Any) -> Any:
    """Return a class of Python's client for records of the name Order."""
    return type("Order", (Record,), fields)


One = order(number=Integer(required=True))
Two = order(
    number=Integer(required=True), word=String(default="-", required=True, required_default=True)
)


class Turns(Mixed):
    """Apache's broker and ours by turns, with our REST beside them."""

    def __init__(self, work: Any, zk: str) -> None:
        super().__init__(work, zk)
        self.gateway = OurGateway(work, "gateway", zk)

    @property
    def side(self) -> Side:
        """The side that runs now."""
        if self.running is self.apache:
            return Side("apache", self.apache.url, self.apache.http)
        return Side("ours", self.ours.url, self.gateway.http)

    def start_script(self) -> Script:
        return Script(self.side, NAMESPACE)


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


def register_all(script: Script, whose: str) -> None:
    """Register schemas by producers, by GET_OR_CREATE and by REST; delete one topic's and register them again."""
    for topic, schemas in TOPICS.items():
        name = f"{whose}-{topic}"
        assert script.produce(name, schemas[0])[-1] == version_bytes(0).hex()
        for number, schema in enumerate(schemas[1:], 1):
            made = (
                script.create(name, schema)[-1]
                if number == 1
                else script.register(name, schema)[-1]
            )
            assert made in (version_bytes(number).hex(), {"version": {"version": number}})
    script.register(f"{whose}-again", A)
    script.schemas("DELETE", f"{whose}-again", "schema")
    script.register(f"{whose}-again", STRING)
    script.leave()


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
    """Return all messages as the newer programs decode them."""
    values: list[Any] = []
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
                values.append(value if isinstance(value, str) else (value.number, value.word))
            consumer.close()
    return values


def parsed(raw: bytes) -> Any:
    """Parse REST's answer; return text that is not JSON as it is."""
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode()


def answers(script: Script) -> dict[str, Any]:
    """Return all answers about all topics by REST and to clients, with times and ledgers."""
    results: dict[str, Any] = {}
    for whose in ("theirs", "ours"):
        for topic in (*TOPICS, "again", "python-avro", "python-json", "python-string", "nobody"):
            name = f"{whose}-{topic}"
            path = f"/admin/v2/{script.schemas_path(name)}"
            for what in ("schema", "schema/0", "schema/1", "schema/9", "schemas", "metadata"):
                status, raw = script.side.call("GET", f"{path}/{what}")
                results[f"{name} {what}"] = status, parsed(raw)
            # Apache does not know Python's strings, whose definition is "null", by Java's, which have none.
            strings = () if topic == "python-string" else (STRING,)
            for candidate in (A_B, A_TEXT, *strings):
                status, raw = script.side.call("POST", f"{path}/version", candidate.payload)
                results[f"{name} version of {candidate.payload}"] = status, parsed(raw)
            results[f"{name} verdict"] = [
                script.verdict(name, candidate)[3] for candidate in (A_B_C, A_TEXT)
            ]
            results[f"{name} get"] = sorted_properties(script.get(name)[3:])
    return results


def sorted_properties(answer: tuple[Any, ...]) -> tuple[Any, ...]:
    """Sort the properties, which Apache returns in the order of a hash table."""
    for part in answer:
        if isinstance(part, dict):
            part.get("properties", []).sort(key=lambda pair: str(pair["key"]))
    return answer


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
            for version in versions:
                reader = await ledgers.open(version.ledger_id, recover=False)
                (run,) = await reader.read(version.entry_id, version.entry_id, 1 << 20)
                entries.append(bytes(run.entry(0)))
                custom.append(dict(reader.metadata.custom))
        return Stored(node, entries, custom)

    return asyncio.run(read())


def same_bytes(turns: Turns, topic: str) -> None:
    """Check that stored schemas are the bytes that ours would write, and that both sides' are alike."""
    by_side = {whose: stored(turns, f"{whose}-{topic}") for whose in ("theirs", "ours")}
    for whose, side_stored in by_side.items():
        newest, versions = parse_locator(side_stored.node)
        assert newest == len(versions) - 1
        assert locator(versions) == side_stored.node
        name = schema_id(TopicName.parse(f"persistent://{NAMESPACE}/{whose}-{topic}"))
        for number, raw in enumerate(side_stored.entries):
            assert entry(name, parse_entry(raw), versions[:number]) == raw, (whose, topic, number)
    theirs, ours = (by_side[whose] for whose in ("theirs", "ours"))
    assert [version.hash for version in parse_locator(theirs.node)[1]] == [
        version.hash for version in parse_locator(ours.node)[1]
    ]
    plain = [
        [replace(parse_entry(raw), at_ms=0) for raw in by_side[whose].entries]
        for whose in ("theirs", "ours")
    ]
    assert plain[0] == plain[1]
    for mine_custom, other in zip(theirs.custom, ours.custom, strict=True):
        name = mine_custom["pulsar/schemaId"].replace(b"/theirs-", b"/ours-")
        plain_of_ours = {key: other[key] for key in other if not key.startswith("magnetar/")}
        assert {**mine_custom, "pulsar/schemaId": name} == plain_of_ours


def add_a_version(script: Script, topic: str) -> None:
    """Add a version on top of those that the other side stored."""
    known = script.schemas("GET", topic, "schemas")[-1]["getSchemaResponses"]
    made = script.produce(
        topic, record(("a", "int"), ("b", "int", 0), (script.side.name, "int", 1))
    )
    assert made[-1] == version_bytes(len(known)).hex()
    assert script.create(topic, A_TEXT)[-1] == "IncompatibleSchema"
    assert script.create(topic, A)[-1] == version_bytes(0).hex()
    script.leave()


@pytest.mark.timeout(300)
def test_schemas_change_sides_and_back(turns: Turns) -> None:
    script = turns.start_script()
    register_all(script, "theirs")
    python_programs(turns, "theirs")
    script.close()

    turns.change_to(turns.ours)
    script = turns.start_script()
    register_all(script, "ours")
    python_programs(turns, "ours")
    assert read_by_python(turns, "theirs") == READ
    by_ours = answers(script)
    for topic in (*TOPICS, "again", "python-avro", "python-json", "python-string"):
        same_bytes(turns, topic)
    add_a_version(script, "theirs-avro")
    script.close()

    turns.change_to(turns.apache)
    script = turns.start_script()
    assert read_by_python(turns, "ours") == READ
    add_a_version(script, "theirs-avro")
    add_a_version(script, "ours-avro")
    by_apache = answers(script)
    changed = [
        f"{what}\n  ours   {by_ours[what]}\n  apache {by_apache[what]}"
        for what in by_ours
        if by_ours[what] != by_apache[what] and "-avro " not in what
    ]
    assert not changed, "\n".join(changed)
    assert script.schemas("DELETE", "ours-json", "schema")[-1] == {"version": 2}
    assert script.schemas("DELETE", "ours-string", "schema?force=true")[-1] == {"version": -1}
    script.close()

    turns.change_to(turns.ours)
    script = turns.start_script()
    add_a_version(script, "ours-avro")
    numbers = [
        [
            answer["version"]
            for answer in script.schemas("GET", topic, "schemas")[-1]["getSchemaResponses"]
        ]
        for topic in ("theirs-avro", "ours-avro", "ours-json", "ours-string")
    ]
    assert numbers == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [], []]
    assert script.produce("ours-json", STRING)[-1] == version_bytes(3).hex()
    assert script.schemas("DELETE", "theirs-json", "schema")[-1] == {"version": 2}
    script.close()
