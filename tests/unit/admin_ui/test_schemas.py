"""The schema of a topic through the console's reads, and a candidate rehearsed on a broker's messages."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.test import RequestFactory

from admin_ui.audit.recording import is_change
from admin_ui.schemas import selectors, shapes
from engine.admin.api.schemas import GivenSchema
from engine.base.errors import Conflict, InvalidField, NotFound, Unprocessable
from engine.base.names import NamespaceName, TopicName
from engine.schema.kinds import version_bytes
from engine.tenancy.policies.table import BY_NAME
from engine.wire.batches import Message, pack_entry
from gateway.services.admin import policies, schemas, topics
from tests.support.admin.bench import AdminBench
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink

TOPIC = TopicName.parse("persistent://public/default/orders")
STRATEGY = BY_NAME["schemaCompatibilityStrategy"]


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    yield made
    await made.close()


def avro(*fields: dict[str, Any]) -> GivenSchema:
    document = {"type": "record", "name": "R", "fields": list(fields)}
    return GivenSchema(TOPIC, "AVRO", json.dumps(document), {"made": "here"})


ID = {"name": "id", "type": "int"}
NOTE = {"name": "note", "type": "string", "default": ""}
BARE = {"name": "note", "type": "string"}


def holds(shape: Any, body: dict[str, Any]) -> None:
    """Assert that the body has the fields of its shape and no others."""
    assert body.keys() == shape().fields.keys()


async def test_versions_are_returned_by_page_and_definitions_by_number(bench: AdminBench) -> None:
    engine = bench.engine
    nothing = await selectors.versions(engine, TOPIC, {})
    assert (nothing["total"], nothing["newest"], nothing["versions"]) == (0, -1, [])
    assert nothing["strategy"] == {"value": "FULL", "level": "broker"}
    await schemas.register(engine, avro(ID))
    await schemas.register(engine, avro(ID, NOTE))
    page = await selectors.versions(engine, TOPIC.partition_at(0), {"limit": "1"})
    holds(shapes.VersionsAnswer, page)
    holds(shapes.VersionRow, page["versions"][0])
    assert (page["total"], page["newest"]) == (2, 1)
    assert [row["version"] for row in page["versions"]] == [1]
    older = await selectors.versions(engine, TOPIC, {"before": "1"})
    assert [(row["version"], row["reason"]) for row in older["versions"]] == [(0, None)]
    definition = await selectors.version(engine, TOPIC, "0")
    holds(shapes.VersionAnswer, definition)
    assert definition["definition"] == json.dumps(json.loads(avro(ID).definition), indent=2)
    assert definition["properties"] == {"made": "here"}
    for text, field in (("x", "version"), ("-1", "version")):
        with pytest.raises(InvalidField, match=field):
            await selectors.version(engine, TOPIC, text)
    with pytest.raises(NotFound, match="Schema version 9 is not there"):
        await selectors.version(engine, TOPIC, "9")
    with pytest.raises(InvalidField, match="limit: must be a whole number from 1 to 100"):
        await selectors.versions(engine, TOPIC, {"limit": "101"})


async def test_a_verdict_has_the_strategy_and_a_later_version_conflicts_with_it(
    bench: AdminBench,
) -> None:
    engine = bench.engine
    await schemas.register(engine, avro(ID))
    verdict = await selectors.verdict(engine, avro(ID, BARE))
    holds(shapes.VerdictShape, verdict)
    assert (verdict["compatible"], verdict["newest"], verdict["version"]) == (False, 0, None)
    assert "field note" in verdict["reason"]
    same = await selectors.verdict(engine, avro(ID))
    assert (same["compatible"], same["version"], same["reason"]) == (True, 0, None)
    await policies.set_on_namespace(
        engine, NamespaceName.of("public", "default"), STRATEGY, "ALWAYS_COMPATIBLE"
    )
    free = await selectors.verdict(engine, avro(ID, BARE))
    while not free["compatible"]:  # brokers know by watch
        free = await selectors.verdict(engine, avro(ID, BARE))
    assert free["strategy"] == {"value": "ALWAYS_COMPATIBLE", "level": "namespace"}
    assert await schemas.register(engine, avro(ID, NOTE), expected=0) == 1
    with pytest.raises(Conflict, match="version 1 is now, version 0 was newest"):
        await schemas.register(engine, avro(ID, BARE), expected=free["newest"])
    with pytest.raises(Unprocessable):
        await selectors.verdict(engine, GivenSchema(TOPIC, "AVRO", "{"))


def written(version: int, content: bytes, publish_ms: int, producer: str) -> bytes:
    return pack_entry(
        [Message(content)],
        producer_name=producer,
        publish_ms=publish_ms,
        extra={"schema_version": version_bytes(version)},
    )


async def test_a_rehearsal_names_field_producer_and_count_and_leaves_no_trace(
    bench: AdminBench,
) -> None:
    engine = bench.engine
    await schemas.register(engine, avro(ID))
    await schemas.register(engine, avro(ID, NOTE))
    entries = [written(0, b"\x02", 1_000 + n, "old") for n in range(4)]
    entries += [written(1, b"\x04\x06abc", 2_000 + n, "new") for n in range(6)]
    entries += [written(7, b"\x02", 3_000, "lost")]
    sink = Sink()
    log = (await bench.loaded(TOPIC)).log
    log.append(run_of(*entries), sink)
    await sink.settle(len(entries))
    rehearsal = await selectors.rehearsal(engine, avro(ID, BARE), 100)
    holds(shapes.Rehearsal, rehearsal)
    for shape, rows in (
        (shapes.Failure, rehearsal["failures"]),
        (shapes.LeftOut, rehearsal["left_out"]),
        (shapes.Sample, rehearsal["samples"]),
    ):
        holds(shape, rows[0])
    assert (rehearsal["messages"], rehearsal["decoded"], rehearsal["failed"]) == (11, 6, 4)
    assert rehearsal["stopped"] == "begin"
    assert rehearsal["span"] == {"from": 1_000, "to": 3_000}
    (failure,) = rehearsal["failures"]
    assert (failure["producer"], failure["version"], failure["count"]) == ("old", 0, 4)
    assert failure["id"] == "{}:{}".format(*sink.positions[3]), "the newest failing message"
    assert [(group["why"], group["count"]) for group in rehearsal["left_out"]] == [("version", 1)]
    assert json.loads(rehearsal["samples"][0]["value"]) == {"id": 2, "note": "abc"}
    some = await selectors.rehearsal(engine, avro(ID, NOTE), 8)
    assert (some["decoded"], some["failed"], some["stopped"]) == (7, 0, "asked")
    assert (await bench.loaded(TOPIC)).subscriptions == {}
    assert log.cursors == {}
    with pytest.raises(Unprocessable, match="not valid JSON"):
        await selectors.rehearsal(engine, GivenSchema(TOPIC, "AVRO", "{"), 1)


@pytest.mark.parametrize(
    ("path", "changes"),
    [("schemas/verdict", False), ("schemas/rehearsal", False), ("schemas", True)],
)
def test_only_schema_calls_that_change_something_are_recorded(path: str, changes: bool) -> None:
    where = "/api/v1/clusters/c/topics/persistent/public/default/orders"
    assert is_change(RequestFactory().post(f"{where}/{path}")) is changes


def test_numbers_of_a_definition_are_returned_unchanged() -> None:
    long = '{"default": 9223372036854775807, "name": "Grüße"}'
    assert json.loads(selectors.pretty(long)) == json.loads(long)
    assert "9223372036854775807" in selectors.pretty(long)
    assert "Grüße" in selectors.pretty(long)
    assert selectors.pretty("{") == "{"
