"""Schemas that producers and consumers may register with a topic, by its policies and by what it already has."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from engine.base.names import TopicName
from engine.broker.dispatch.consumer import SubscriptionType
from engine.broker.errors import IncompatibleSchema
from engine.broker.topics.schema_rules import (
    NO_VERSION,
    given_schema,
    version_number,
)
from engine.schema.kinds import SchemaKind, version_bytes
from engine.schema.wire_form import to_wire
from engine.tenancy.strategy import Strategy
from engine.wire import pulsar_pb2 as pb
from tests.support.broker_bench import NAME, Bench, opened

pytestmark = pytest.mark.virtual_time

STRING = pb.Schema(name="s", type=pb.Schema.String, schema_data=b"")
NONE = pb.Schema(name="", type=pb.Schema.None_, schema_data=b"")
CHANGE_EVENTS = TopicName.parse("persistent://public/default/__change_events")
AUTO = pb.Schema(name="", type=pb.Schema.AutoConsume, schema_data=b"")


def avro(*fields: tuple[str, Any]) -> pb.Schema:
    document = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": of} for name, of in fields],
    }
    return pb.Schema(name="R", type=pb.Schema.Avro, schema_data=json.dumps(document).encode())


def number(count: int) -> bytes:
    return version_bytes(count)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with opened() as made:
        yield made


async def test_a_producers_schema_gets_a_version(bench: Bench) -> None:
    rules = bench.schemas
    assert await rules.for_producer(bench.topic, None) == NO_VERSION
    assert await rules.for_producer(bench.topic, avro(("a", "int"))) == number(0)
    assert await rules.for_producer(bench.topic, avro(("a", "int"))) == number(0)
    with pytest.raises(IncompatibleSchema, match="field b"):
        await rules.for_producer(bench.topic, avro(("a", "int"), ("b", "int")))
    bench.topic.policies = replace(
        bench.topic.policies, schema=replace(bench.topic.policies.schema, strategy=Strategy.FORWARD)
    )
    assert await rules.for_producer(bench.topic, avro(("a", "int"), ("b", "int"))) == number(1)


async def test_policies_decide_who_may_add_and_who_must_have_one(bench: Bench) -> None:
    rules = bench.schemas
    bench.topic.policies = replace(
        bench.topic.policies,
        schema=replace(bench.topic.policies.schema, auto_update=False, enforced=True),
    )
    assert await rules.for_producer(bench.topic, None) == NO_VERSION  # the topic has none
    with pytest.raises(IncompatibleSchema, match="auto updating is disabled"):
        await rules.for_producer(bench.topic, avro(("a", "int")))
    with pytest.raises(IncompatibleSchema, match="auto updating is disabled"):
        await rules.for_consumer(bench.topic, avro(("a", "int")))
    bench.topic.policies = replace(
        bench.topic.policies, schema=replace(bench.topic.policies.schema, auto_update=True)
    )
    assert await rules.for_producer(bench.topic, avro(("a", "int"))) == number(0)
    bench.topic.policies = replace(
        bench.topic.policies, schema=replace(bench.topic.policies.schema, auto_update=False)
    )
    assert await rules.for_producer(bench.topic, avro(("a", "int"))) == number(0)
    for ask in (rules.for_producer(bench.topic, None), rules.for_version(bench.topic, NONE)):
        with pytest.raises(IncompatibleSchema, match="SchemaValidationEnforced"):
            await ask


async def test_topics_written_by_brokers_are_under_no_policy_of_users(bench: Bench) -> None:
    """Exempt them: topics of such a namespace could get no own policies otherwise."""
    system = await bench.registry.get(CHANGE_EVENTS, create=True)
    strict = replace(
        system.policies,
        schema=replace(
            system.policies.schema,
            auto_update=False,
            enforced=True,
            strategy=Strategy.ALWAYS_INCOMPATIBLE,
        ),
    )
    system.policies = strict
    assert await bench.schemas.for_producer(system, avro(("a", "int"))) == number(0)
    assert await bench.schemas.for_producer(system, avro(("a", "string"))) == number(1)
    assert await bench.schemas.for_producer(system, None) == NO_VERSION


async def test_none_is_a_schema_of_producers_and_consumers_that_name_it(bench: Bench) -> None:
    rules = bench.schemas
    assert await rules.for_version(bench.topic, NONE) == NO_VERSION
    assert await rules.latest(bench.topic) is None
    assert await rules.for_producer(bench.topic, NONE) == number(0)
    with pytest.raises(IncompatibleSchema, match="exists schema type NONE, new schema type STRING"):
        await rules.for_producer(bench.topic, STRING)
    await rules.for_consumer(bench.topic, NONE)


async def test_the_first_consumer_gives_an_untouched_topic_its_schema(bench: Bench) -> None:
    rules = bench.schemas
    assert await rules.for_consumer(bench.topic, AUTO) is None
    assert await rules.for_consumer(bench.topic, None) is None
    assert await rules.latest(bench.topic) is None
    assert await rules.for_consumer(bench.topic, avro(("a", "int"))) == 0
    newest = await rules.latest(bench.topic)
    assert newest is not None
    assert newest.registered.schema.kind is SchemaKind.AVRO


async def test_a_topic_of_bytes_accepts_no_schema_from_a_consumer(bench: Bench) -> None:
    await bench.publish(1)
    with pytest.raises(IncompatibleSchema, match=r"empty\(BYTES\) schema: new schema type STRING"):
        await bench.schemas.for_consumer(bench.topic, STRING)


async def test_a_topic_with_a_consumer_of_bytes_accepts_no_schema_from_a_consumer(
    bench: Bench,
) -> None:
    consumer, _ = await bench.join(SubscriptionType.SHARED)
    with pytest.raises(IncompatibleSchema, match="empty"):
        await bench.schemas.for_consumer(bench.topic, STRING)
    consumer.reads_any_schema = True
    await bench.schemas.for_consumer(bench.topic, STRING)


async def test_a_consumer_with_an_incompatible_schema_is_refused(bench: Bench) -> None:
    rules = bench.schemas
    await rules.for_producer(bench.topic, avro(("a", "int")))
    await rules.for_consumer(bench.topic, avro(("a", "long")))  # reads ints; is not registered
    with pytest.raises(IncompatibleSchema, match="field b"):
        await rules.for_consumer(bench.topic, avro(("b", "int")))
    with pytest.raises(IncompatibleSchema, match="exists schema type AVRO, new schema type STRING"):
        await rules.for_consumer(bench.topic, STRING)
    bench.topic.policies = replace(
        bench.topic.policies,
        schema=replace(bench.topic.policies.schema, strategy=Strategy.ALWAYS_COMPATIBLE),
    )
    await rules.for_consumer(bench.topic, STRING)
    newest = await rules.latest(bench.topic)
    assert newest is not None
    assert newest.number == 0


async def test_the_version_of_a_consumers_schema_is_found_by_its_bytes(bench: Bench) -> None:
    rules = bench.schemas
    bench.topic.policies = replace(
        bench.topic.policies,
        schema=replace(bench.topic.policies.schema, strategy=Strategy.BACKWARD),
    )
    for of in ("int", "long", "double"):
        await rules.for_producer(bench.topic, avro(("a", of)))
    bench.topic.policies = replace(
        bench.topic.policies,
        schema=replace(bench.topic.policies.schema, strategy=Strategy.ALWAYS_COMPATIBLE),
    )
    for version, of in enumerate(("int", "long", "double")):
        assert await rules.for_consumer(bench.topic, avro(("a", of))) == version
    assert await rules.for_consumer(bench.topic, avro(("a", "string"))) is None


async def test_schemas_are_deleted_with_their_topic(bench: Bench) -> None:
    await bench.schemas.for_producer(bench.topic, avro(("a", "int")))
    await bench.registry.deletions.delete(NAME, force=True)
    assert await bench.schemas.version(NAME, None) is None
    await bench.load()
    assert await bench.schemas.for_producer(bench.topic, STRING) == number(0)


def test_a_schema_of_a_client_is_decoded_and_encoded_again() -> None:
    body = pb.Schema(
        name="x",
        type=pb.Schema.KeyValue,
        schema_data=b"d",
        properties=[pb.KeyValue(key="k", value="v")],
    )
    schema = given_schema(body)
    assert (schema.kind, schema.properties) == (SchemaKind.KEY_VALUE, {"k": "v"})
    body.name = "t/n/x"
    assert to_wire("t/n/x", schema) == body
    assert given_schema(NONE).kind is SchemaKind.NONE
    with pytest.raises(IncompatibleSchema):
        given_schema(pb.Schema(name="", type=pb.Schema.External, schema_data=b""))


def test_versions_are_eight_bytes_or_the_old_sixty_four() -> None:
    assert version_number(number(7)) == 7
    assert version_number(number(7) + bytes(56)) == 7
    for odd in (b"", b"x", bytes(9)):
        with pytest.raises(IncompatibleSchema):
            version_number(odd)
