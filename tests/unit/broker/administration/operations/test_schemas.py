"""Schemas through the services of REST: versions, compatibility checks, deletions, and the effect of policies."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.schemas import (
    DELETE_SCHEMA,
    SCHEMA_PAGE,
    STORED_SCHEMAS,
    DeleteSchema,
    GivenSchema,
    SchemaPage,
    StoredSchemas,
)
from engine.base.errors import Conflict, NotFound
from engine.base.names import NamespaceName, TopicName
from engine.metadata import account
from engine.tenancy.policies.table import BY_NAME
from gateway.services.admin import policies, schemas, topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName.of("public", "default")
TOPIC = TopicName.parse("persistent://public/default/t")
STRATEGY = BY_NAME["schemaCompatibilityStrategy"]


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    bench = AdminBench()
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
    latest = await schemas.latest(engine, TOPIC)
    assert latest.pop("timestamp") > 0
    assert latest == {
        "version": 0,
        "type": "AVRO",
        "data": ONE.definition,
        "properties": {"p": "q"},
    }
    assert await schemas.find(engine, ONE) == 0
    places = await schemas.metadata(engine, TOPIC)
    assert places["index"] == [places["info"]]
    assert (await schemas.version(engine, TOPIC.partition_at(1), 0))["data"] == ONE.definition
    with pytest.raises(NotFound):
        await schemas.version(engine, TOPIC, 1)


async def test_an_incompatible_schema_is_reported_and_a_check_changes_nothing(
    bench: AdminBench,
) -> None:
    engine = bench.engine
    await schemas.register(engine, ONE)
    verdict = await schemas.check(engine, TWO)
    assert (verdict["compatibility"], verdict["schemaCompatibilityStrategy"]) == (False, "FULL")
    assert "field b" in verdict["reason"]
    with pytest.raises(Conflict, match="field b"):
        await schemas.register(engine, TWO)
    await policies.set_on_namespace(engine, NAMESPACE, STRATEGY, "FORWARD")
    async with asyncio.timeout(60):  # brokers learn of it by a watch
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


async def test_the_audit_log_receives_the_newest_version_before_and_after(
    bench: AdminBench,
) -> None:
    with account.opened() as accounted:
        await schemas.register(bench.engine, ONE)
        await schemas.register(bench.engine, ONE)
        await schemas.delete(bench.engine, TOPIC, force=True)
    changes = [change for change in accounted.changes if not change.where.startswith("/")]
    newest = [(change.before or {}).get("version") for change in changes]
    assert newest == [None, 0, 0]
    assert [change.after.get("now", {}).get("version") for change in changes] == [0, 0, None]
    assert changes[2].before["type"] == "AVRO"


async def test_pages_list_versions_and_deleted_ones_can_still_be_read(
    bench: AdminBench,
) -> None:
    engine = bench.engine
    await schemas.register(engine, ONE, expected=-1)
    with pytest.raises(Conflict, match="changed meanwhile"):
        await schemas.register(engine, avro(("c", "int")), expected=3)
    page = await engine.call(SCHEMA_PAGE, SchemaPage(TOPIC, 10))
    (line,) = page["versions"]
    assert (page["total"], page["newest"]) == (1, 0)
    assert (line["version"], line["type"], line["size"]) == (0, "AVRO", len(ONE.definition))
    with pytest.raises(Conflict, match="changed meanwhile"):
        await engine.call(DELETE_SCHEMA, DeleteSchema(TOPIC, expected=4))
    await engine.call(DELETE_SCHEMA, DeleteSchema(TOPIC, expected=0))
    page = await engine.call(SCHEMA_PAGE, SchemaPage(TOPIC, 10))
    assert page == {"total": 0, "newest": -1, "versions": []}
    stored = await engine.call(STORED_SCHEMAS, StoredSchemas(TOPIC, [0, 1, 2]))
    assert (stored[0]["data"], stored[0]["properties"]) == (
        base64.b64encode(ONE.definition.encode()).decode(),
        {"p": "q"},
    )
    assert [schema.get("reason") for schema in stored[1:]] == [
        f"schema version {number} is not there" for number in (1, 2)
    ]


async def test_a_schema_of_a_missing_namespace_is_not_registered(bench: AdminBench) -> None:
    lost = TopicName.parse("persistent://public/nope/t")
    with pytest.raises(NotFound, match="Namespace"):
        await schemas.register(bench.engine, avro(("a", "int"), topic=lost))
