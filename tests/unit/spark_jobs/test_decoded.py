"""Values decoded by schemas from real bookies, by the version of each message, and the reasons where they are not."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.base.clock import SystemClock
from engine.base.names import TopicName
from engine.base.slices import Slice
from engine.managed.settings import LedgerConfig
from engine.metadata.store import StoreUnavailableError
from engine.schema.kinds import Schema, SchemaKind, joined, version_bytes
from engine.schema.locator import SchemaVersion
from engine.schema.offloader import Offloader
from engine.schema.schema_registry import SchemaRegistry
from engine.schema.stored_versions import Node, StoredVersions, UnreadableError, Version
from engine.schema.wire_form import to_wire
from engine.tenancy.strategy import Strategy
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from engine.wire.errors import REFUSALS, ServerError
from spark_jobs.pulsar_source import decoded, patience
from spark_jobs.pulsar_source.batch import rows
from spark_jobs.pulsar_source.brokers.access import BrokerAccess
from spark_jobs.pulsar_source.columns import EntryColumns, Opened
from spark_jobs.pulsar_source.decoded import TopicSchemas
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.support.ledger_cluster import Cluster

TOPIC = "persistent://public/default/orders"
NAME = TopicName.parse(TOPIC)
NAMES = ("schema_version", "decoded", "decode_error")
AVRO = Schema(
    SchemaKind.AVRO,
    b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}',
    {},
)
TEXT = Schema(SchemaKind.STRING, b"", {})
PAIR = Schema(
    SchemaKind.KEY_VALUE,
    joined(b"", b""),
    {
        "key.schema.type": "STRING",
        "value.schema.type": "INT8",
        "kv.encoding.type": "SEPARATED",
    },
)
opened_first = EntryColumns(TopicSchemas.wanted).take()
"""pyarrow loads pandas at its first array: not while sessions wait."""


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    made = Cluster(tmp_path)
    await made.start("b0")
    yield made
    await made.close()


@pytest.fixture
async def registry(cluster: Cluster) -> SchemaRegistry:
    config = LedgerConfig(ensemble=1, write_quorum=1, ack_quorum=1)
    return SchemaRegistry(cluster.store, cluster.client(), config, SystemClock())


@pytest.fixture
async def stored(cluster: Cluster) -> StoredVersions:
    return StoredVersions(cluster.store, cluster.client(), Offloader())


def opened(*messages: tuple[Message, int | None], **extra: object) -> Opened:
    """Return the columns of the messages, each in an entry of its own with its schema version."""
    columns = EntryColumns(TopicSchemas.wanted)
    parts = [
        pack_entry(
            [message],
            producer_name="p",
            publish_ms=1,
            extra=extra | ({} if version is None else {"schema_version": version_bytes(version)}),
        )
        for message, version in messages
    ]
    spans, at = [], 0
    for part in parts:
        spans += [at, at + len(part)]
        at += len(part)
    assert list(columns.add(Slice(b"".join(parts), spans, at, ledger_id=1, first=0))) == []
    return columns.take()


async def read(
    stored: StoredVersions, columns: Opened, brokers: BrokerAccess | None = None
) -> list[tuple[object, ...]]:
    schemas = TopicSchemas(TOPIC)
    await schemas.load(columns, stored, brokers)
    whole = LedgerRange(1, 0, columns.entries.num_rows - 1)
    return [
        tuple(row.values())
        for start, part in schemas.decoded(columns)
        for row in rows(columns, whole, NAMES, start, part).to_pylist()
    ]


async def test_each_message_is_decoded_by_its_version(
    registry: SchemaRegistry, stored: StoredVersions
) -> None:
    for schema in (AVRO, TEXT, PAIR):
        await registry.register(NAME, schema, Strategy.ALWAYS_COMPATIBLE)
    columns = opened(
        (Message(b"\x06"), 0),
        (Message("ä".encode()), 1),
        (Message(b"\x07", key="k"), 2),
        (Message(b"\x06\x06"), 0),
        (Message(b"raw"), None),
        (Message(None), 0),
        (Message(b"?"), 9),
    )
    assert await read(stored, columns) == [
        (0, '{"a":3}', None),
        (1, '"ä"', None),
        (2, '{"key":"k","value":7}', None),
        (0, None, "1 bytes are left behind it"),
        (None, None, "its producer named no schema version"),
        (0, None, None),
        (9, None, "the topic has no schema version 9"),
    ]


class SchemasOfBroker:
    """A client of brokers, which have the schemas by number."""

    def __init__(self, *schemas: Schema) -> None:
        self._schemas = schemas

    async def schema(self, topic: str, version: bytes) -> pb.Schema:
        number = int.from_bytes(version)
        assert topic == TOPIC
        if number >= len(self._schemas):
            raise REFUSALS[ServerError.TopicNotFound]("no schema")
        return to_wire("orders", self._schemas[number])

    async def patiently(self, attempt: Any, *, timeout_s: float) -> Any:
        return await attempt()


@pytest.mark.parametrize("alone", [True, False])
async def test_schemas_are_those_of_brokers_where_bookies_are_not_read_or_silent(
    registry: SchemaRegistry,
    stored: StoredVersions,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    alone: bool,
) -> None:
    for schema in (AVRO, TEXT):
        await registry.register(NAME, schema, Strategy.ALWAYS_COMPATIBLE)
    monkeypatch.setattr(patience, "WAITS_S", ())
    for name in list(cluster.bookies):
        await cluster.stop(name)
    messages = ((Message(b"\x06"), 0), (Message(b"a"), 1), (Message(b"\x06\x06"), 0))
    columns = opened(*messages)
    client: Any = SchemasOfBroker(AVRO, TEXT)
    assert await read(stored, columns, BrokerAccess(lambda: client, alone)) == [
        (0, '{"a":3}', None),
        (1, '"a"', None),
        (0, None, "1 bytes are left behind it"),
    ]
    unknown = opened((Message(b"?"), 9))
    [row] = await read(stored, unknown, BrokerAccess(lambda: client, alone))
    assert row == (9, None, "the topic has no schema version 9")


async def test_messages_by_a_deleted_schema_are_still_decoded(
    registry: SchemaRegistry, stored: StoredVersions
) -> None:
    await registry.register(NAME, AVRO, Strategy.FULL)
    await registry.delete(NAME)
    columns = opened((Message(b"\x06"), 0), (Message(b"\x06"), 1))
    assert await read(stored, columns) == [
        (0, '{"a":3}', None),
        (1, None, "schema version 1 is a deletion"),
    ]


async def test_messages_that_were_not_opened_have_a_reason(
    registry: SchemaRegistry, stored: StoredVersions
) -> None:
    await registry.register(NAME, AVRO, Strategy.FULL)
    encrypted = opened((Message(b"x"), 0), encryption_keys=[{"key": "k", "value": b"v"}])
    assert await read(stored, encrypted) == [(0, None, "encrypted")]
    chunk = opened((Message(b"x"), 0), num_chunks_from_msg=2, chunk_id=0, uuid="u")
    assert await read(stored, chunk) == [(0, None, "a chunk of a message")]


async def test_a_version_is_read_once_and_only_when_a_message_names_it(
    registry: SchemaRegistry, stored: StoredVersions, monkeypatch: pytest.MonkeyPatch
) -> None:
    for schema in (AVRO, TEXT):
        await registry.register(NAME, schema, Strategy.ALWAYS_COMPATIBLE)
    asked: list[object] = []
    live, node = stored.live, stored.node

    async def counted(place: SchemaVersion) -> Version | None:
        asked.append(place.version)
        return await live(place)

    async def counted_node(name: str) -> Node:
        asked.append(name)
        return await node(name)

    monkeypatch.setattr(stored, "live", counted)
    monkeypatch.setattr(stored, "node", counted_node)
    schemas = TopicSchemas(TOPIC)
    await schemas.load(opened((Message(b"raw"), None)), stored)
    assert asked == []
    for version in (1, 1, 0, 1):
        columns = opened((Message(b"\x06"), version), (Message(b"\x06"), version))
        await schemas.load(columns, stored)
    assert asked == ["public/default/orders", 1, 0]


async def test_a_definition_that_is_lost_costs_its_own_messages_only(
    cluster: Cluster, registry: SchemaRegistry, stored: StoredVersions
) -> None:
    for schema in (AVRO, TEXT):
        await registry.register(NAME, schema, Strategy.ALWAYS_COMPATIBLE)
    [first, _] = await registry.index(NAME)
    await cluster.client().delete(first.ledger_id)
    [lost, kept] = await read(stored, opened((Message(b"\x06"), 0), (Message(b"t"), 1)))
    assert lost[:2] == (0, None)
    assert "schema version 0 is lost" in str(lost[2])
    assert kept == (1, '"t"', None)


async def test_bookies_that_stay_unavailable_are_waited_for_once(
    cluster: Cluster,
    registry: SchemaRegistry,
    stored: StoredVersions,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for schema in (AVRO, TEXT):
        await registry.register(NAME, schema, Strategy.ALWAYS_COMPATIBLE)
    asked: list[int] = []

    async def away(place: SchemaVersion) -> Version | None:
        asked.append(place.version)
        raise UnreadableError(f"version {place.version} cannot be read now")

    monkeypatch.setattr(stored, "live", away)
    monkeypatch.setattr(patience, "WAITS_S", (0.0, 0.0))
    whole = await read(stored, opened((Message(b"\x06"), 0), (Message(b"\x06"), 1)))
    assert [row[2] for row in whole] == [
        "version 0 cannot be read now",
        "version 1 cannot be read now",
    ]
    assert asked == [0, 0, 0, 1]


async def test_a_store_that_stays_unavailable_fails_the_task(
    stored: StoredVersions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail instead of returning rows without values: a range must have the same rows each time it is read."""

    async def away(name: str) -> Node:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(stored, "node", away)
    monkeypatch.setattr(patience, "WAITS_S", (0.0,))
    with pytest.raises(StoreUnavailableError):
        await TopicSchemas(TOPIC).load(opened((Message(b"x"), 0)), stored)


async def test_large_texts_of_small_values_are_decoded_in_several_runs(
    registry: SchemaRegistry, stored: StoredVersions, monkeypatch: pytest.MonkeyPatch
) -> None:
    await registry.register(NAME, TEXT, Strategy.FULL)
    monkeypatch.setattr(decoded, "TEXT_CHARS_MAX", 5)
    columns = opened(*[(Message(b"abc"), 0)] * 5)
    schemas = TopicSchemas(TOPIC)
    await schemas.load(columns, stored)
    assert [(start, len(part.values)) for start, part in schemas.decoded(columns)] == [
        (0, 2),
        (2, 2),
        (4, 1),
    ]
    assert await read(stored, columns) == [(0, '"abc"', None)] * 5
