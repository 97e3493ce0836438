"""Schemas through the services of REST: versions, verdicts, deletions, and what follows from policies."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.admin.api import GivenSchema
from engine.base.errors import Conflict, InvalidField, NotFound, Unprocessable
from engine.base.names import NamespaceName, TopicName
from engine.broker.administration.schema_operations import given
from engine.schema.kinds import SchemaKind, key_value
from engine.tenancy.policies import BY_NAME
from gateway.services import policies, schemas, topics
from tests.support.admin.bench import AdminBench

NAMESPACE = NamespaceName.of("public", "default")
TOPIC = TopicName.parse("persistent://public/default/t")
STRATEGY = BY_NAME["schemaCompatibilityStrategy"]


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[AdminBench]:
    bench = AdminBench(tmp_path)
    await bench.start()
    yield bench
    await bench.close()


def avro(*fields: tuple[str, Any], topic: TopicName = TOPIC) -> GivenSchema:
    named = [{"name": name, "type": of} for name, of in fields]
    definition = json.dumps({"type": "record", "name": "R", "fields": named})
    return GivenSchema(topic, "AVRO", definition, {"p": "q"})


ONE = avro(("a", "int"))
TWO = avro(("a", "int"), ("b", "int"))


async def test_versions_are_registered_listed_and_found(bench: AdminBench) -> None:
    engine = bench.engine
    with pytest.raises(NotFound, match="Schema not found"):
        await schemas.latest(engine, TOPIC)
    assert await schemas.versions(engine, TOPIC) == []
    assert await schemas.metadata(engine, TOPIC) == {}
    assert await schemas.find(engine, ONE) == -1
    assert await schemas.register(engine, ONE) == 0
    assert await schemas.register(engine, ONE) == 0
    found = await schemas.latest(engine, TOPIC)
    assert found.pop("timestamp") > 0
    assert found == {"version": 0, "type": "AVRO", "data": ONE.definition, "properties": {"p": "q"}}
    assert await schemas.find(engine, ONE) == 0
    places = await schemas.metadata(engine, TOPIC)
    assert places["index"] == [places["info"]]
    assert (await schemas.version(engine, TOPIC.partition_at(1), 0))["data"] == ONE.definition
    with pytest.raises(NotFound):
        await schemas.version(engine, TOPIC, 1)


async def test_what_may_not_follow_is_said_and_a_verdict_changes_nothing(bench: AdminBench) -> None:
    engine = bench.engine
    await schemas.register(engine, ONE)
    verdict = await schemas.check(engine, TWO)
    assert (verdict["compatibility"], verdict["schemaCompatibilityStrategy"]) == (False, "FULL")
    assert "field b" in verdict["reason"]
    with pytest.raises(Conflict, match="field b"):
        await schemas.register(engine, TWO)
    await policies.set_on_namespace(engine, NAMESPACE, STRATEGY, "FORWARD")
    async with asyncio.timeout(1):  # brokers know by watch
        while not (await schemas.check(engine, TWO))["compatibility"]:
            await asyncio.sleep(0.01)
    assert len(await schemas.versions(engine, TOPIC)) == 1
    assert await schemas.register(engine, TWO) == 1
    await topics.create(engine, TOPIC, {})
    await policies.set_on_topic(engine, TOPIC, STRATEGY, "BACKWARD")
    assert (await schemas.check(engine, ONE))["schemaCompatibilityStrategy"] == "BACKWARD"


async def test_deletion_hides_and_force_removes(bench: AdminBench) -> None:
    engine = bench.engine
    assert await schemas.delete(engine, TOPIC, force=False) == -1
    await schemas.register(engine, ONE)
    assert await schemas.delete(engine, TOPIC, force=False) == 1
    assert await schemas.delete(engine, TOPIC, force=False) == 1
    assert await schemas.versions(engine, TOPIC) == []
    assert len((await schemas.metadata(engine, TOPIC))["index"]) == 2
    assert await schemas.register(engine, avro(("c", "string"))) == 2
    assert await schemas.delete(engine, TOPIC, force=True) == -1
    assert await schemas.metadata(engine, TOPIC) == {}


async def test_without_the_namespace_there_is_nothing_to_register(bench: AdminBench) -> None:
    lost = TopicName.parse("persistent://public/nope/t")
    with pytest.raises(NotFound, match="Namespace"):
        await schemas.register(bench.engine, avro(("a", "int"), topic=lost))


def test_a_key_value_is_told_as_json_of_both_parts() -> None:
    text = '{"key":{"type":"record","name":"K","fields":[]},"value":""}'
    properties = {"key.schema.type": "AVRO", "value.schema.type": "STRING"}
    schema = given(GivenSchema(TOPIC, "KEY_VALUE", text, properties))
    parts = key_value(schema)
    assert parts.key.kind is SchemaKind.AVRO
    assert json.loads(parts.key.data)["name"] == "K"
    assert parts.value.data == b""


@pytest.mark.parametrize(
    ("kind", "definition", "error", "said"),
    [
        ("BOGUS", "", InvalidField, "^type: expected one of NONE, STRING"),
        ("AUTO_CONSUME", "", Unprocessable, "client-side"),
        ("AVRO", "{", Unprocessable, "not valid JSON"),
        ("AVRO", "\ud800", InvalidField, "^schema: "),
        ("KEY_VALUE", "x", Unprocessable, "not valid JSON"),
        ("KEY_VALUE", "{}", Unprocessable, "key and value"),
        ("INT8", "x", Unprocessable, "length of schema data should be zero"),
    ],
)
def test_bad_bodies_are_refused_by_name(
    kind: str, definition: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        given(GivenSchema(TOPIC, kind, definition))
