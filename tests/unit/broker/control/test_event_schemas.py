"""Registered schemas of a log: records equal Apache's to the byte, and events of other versions are not damaged."""

import json
from pathlib import Path
from typing import Any

import pytest

from engine.base.clock import LoopClock
from engine.base.names import NamespaceName
from engine.broker.control.event_schemas import OUR_HASH, EventSchemas
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.schema.locator import parse_entry, parse_locator
from engine.schema.schema_registry import SchemaRegistry
from engine.tenancy.avro import AvroError, AvroSchema
from engine.tenancy.change_events import (
    SCHEMA,
    SCHEMA_TEXT,
    log_topic,
    new_event,
    policies_of,
    with_policies,
)
from tests.support.admin.later_release import newer, register
from tests.support.ledger_cluster import Cluster

pytestmark = pytest.mark.virtual_time

GOLDEN = Path(__file__).resolve().parents[3] / "golden/change_events/apache.json"
APACHE: dict[str, Any] = json.loads(GOLDEN.read_text())
NAMESPACE = NamespaceName.parse("public/pol")
NODE = paths.schema("public/pol/__change_events")
TOPIC = NAMESPACE.topic("t")
ONE = LedgerConfig(ensemble=1, write_quorum=1, ack_quorum=1)


def version(number: int) -> bytes:
    return number.to_bytes(8, "big")


def made(cluster: Cluster) -> EventSchemas:
    registry = SchemaRegistry(cluster.store, cluster.client(), ONE, LoopClock())
    return EventSchemas(log_topic(NAMESPACE), registry)


async def test_the_first_to_write_registers_our_schema_once() -> None:
    cluster = Cluster()
    await cluster.start("b0")
    first, second = made(cluster), made(cluster)
    assert not await first.load()
    await first.ensure()
    value, _ = await cluster.store.get(NODE)
    await second.ensure()
    assert (await cluster.store.get(NODE))[0] == value
    newest, versions = parse_locator(value)
    assert (newest, [stored.hash for stored in versions]) == (0, [OUR_HASH])
    reader = await cluster.client().open(versions[0].ledger_id, recover=False)
    (run,) = await reader.read(0, 0, 1 << 20)
    assert parse_entry(run.entry(0)).schema.data.decode() == SCHEMA_TEXT
    assert second.encode(new_event(TOPIC, "c"))[0] == version(0)
    await cluster.close()


async def test_fields_of_a_newer_schema_are_kept_and_written_with_it() -> None:
    cluster = Cluster()
    await cluster.start("b0")
    await register(cluster, NAMESPACE, SCHEMA_TEXT, newer())
    schemas = made(cluster)
    with pytest.raises(AvroError, match="version 1 is not known"):
        schemas.decode(version(1), b"")
    await schemas.load()
    event = with_policies(new_event(TOPIC, "c"), {"zNewPolicy": 5, "maxMessageSize": 1})
    payload = AvroSchema(json.loads(newer())).encode(event)
    decoded = schemas.decode(version(1), payload)
    changed = with_policies(decoded, {**policies_of(decoded), "maxMessageSize": 2})
    written_by, written = schemas.encode(changed)
    assert written_by == version(1)
    again = schemas.decode(written_by, written)
    assert policies_of(again) == {"zNewPolicy": 5, "maxMessageSize": 2}
    old = SCHEMA.encode(with_policies(new_event(TOPIC, "c"), {"maxMessageSize": 3}))
    for number in (b"", version(0)):
        assert policies_of(schemas.decode(number, old)) == {"maxMessageSize": 3}
    await cluster.close()


async def test_a_field_that_the_newest_schema_lacks_is_refused() -> None:
    cluster = Cluster()
    await cluster.start("b0")
    await register(cluster, NAMESPACE, newer(), SCHEMA_TEXT)
    schemas = made(cluster)
    await schemas.load()
    event = with_policies(new_event(TOPIC, "c"), {"zNewPolicy": 5})
    with pytest.raises(AvroError, match="TopicPolicies has no field zNewPolicy"):
        schemas.encode(event)
    await cluster.close()


async def test_an_unreadable_definition_affects_only_events_written_with_it() -> None:
    cluster = Cluster()
    await cluster.start("b0")
    await register(cluster, NAMESPACE, '{"type": "nothing"}', "{", SCHEMA_TEXT)
    schemas = made(cluster)
    await schemas.load()
    event = new_event(TOPIC, "c")
    for number in (0, 1):
        with pytest.raises(AvroError, match=f"schema version {number} cannot be read"):
            schemas.decode(version(number), SCHEMA.encode(event))
    assert schemas.decode(version(2), SCHEMA.encode(event)) == event
    with pytest.raises(AvroError, match="not known"):
        schemas.decode(b"123", SCHEMA.encode(event))
    await cluster.close()
