"""The registry on real bookies: versions, races, deletions, and lost entries."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from engine.base.clock import LoopClock
from engine.base.names import TopicName
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.settings import LedgerConfig
from engine.metadata import paths
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind
from engine.schema.schema_registry import (
    IncompatibleError,
    OvertakenError,
    SchemaRegistry,
    schema_id,
)
from engine.schema.stored_versions import LostVersionError, UnreadableError
from engine.tenancy.strategy import Strategy
from tests.support.ledger_cluster import Cluster

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/a%b")
OTHER = TopicName.parse("persistent://public/default/other")
NODE = paths.schema(schema_id(TOPIC))
ONE = LedgerConfig(ensemble=1, write_quorum=1, ack_quorum=1)
FULL = Strategy.FULL


def avro(*names: str, **more: str) -> Schema:
    """Return a record of optional numbers with these names."""
    fields = [{"name": name, "type": "int", "default": 0} for name in names]
    document = {"type": "record", "name": "R", "fields": fields}
    return Schema(SchemaKind.AVRO, json.dumps(document).encode(), more)


def broken() -> Schema:
    """Return a schema that is not compatible with an ``avro`` with a field ``a``."""
    fields = [{"name": "a", "type": "string"}]
    document = {"type": "record", "name": "R", "fields": fields}
    return Schema(SchemaKind.AVRO, json.dumps(document).encode(), {})


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    await made.start("b0")
    yield made
    await made.close()


def registry(cluster: Cluster, store: MetadataStore | None = None) -> SchemaRegistry:
    store = store or cluster.store
    return SchemaRegistry(store, cluster.client(store=store), ONE, LoopClock())


async def ledgers(cluster: Cluster) -> int:
    """Return the number of ledgers."""

    async def below(path: str) -> int:
        names = await cluster.store.children(path)
        return sum([await below(f"{path}/{name}") for name in names]) if names else 1

    try:
        return await below("/ledgers/00")
    except Exception as error:  # the first makes the folder
        raise AssertionError(error) from error


async def test_versions_count_from_0_and_the_same_meaning_is_the_same_version(
    cluster: Cluster,
) -> None:
    ours = registry(cluster)
    assert await ours.latest(TOPIC) is None
    assert await ours.register(TOPIC, avro("a"), FULL) == 0
    assert await ours.register(TOPIC, avro("a", "b"), FULL) == 1
    spaced = Schema(SchemaKind.AVRO, json.dumps(json.loads(avro("a").data), indent=2).encode(), {})
    assert await ours.register(TOPIC, spaced, FULL) == 0
    other = registry(cluster)
    latest = await other.latest(TOPIC)
    assert latest is not None
    assert (latest.number, latest.registered.schema) == (1, avro("a", "b"))
    assert [version.number for version in await other.versions(TOPIC)] == [0, 1]
    assert await other.find(TOPIC, avro("b")) is None
    assert await ledgers(cluster) == 2


async def test_partitions_share_their_topics_schemas(cluster: Cluster) -> None:
    ours = registry(cluster)
    assert await ours.register(TOPIC.partition_at(1), avro("a"), FULL) == 0
    assert await ours.register(TOPIC.partition_at(2), avro("a"), FULL) == 0
    assert (await cluster.store.children("/schemas/public/default")) == [TOPIC.encoded_local]


async def test_an_incompatible_version_is_refused_and_leaves_nothing(cluster: Cluster) -> None:
    ours = registry(cluster)
    with pytest.raises(IncompatibleError, match="auto updating is disabled"):
        await ours.register(TOPIC, avro("a"), FULL, may_add=False)
    await ours.register(TOPIC, avro("a"), FULL)
    with pytest.raises(IncompatibleError, match="strategy FULL"):
        await ours.register(TOPIC, broken(), FULL)
    with pytest.raises(InvalidSchemaError):
        await ours.register(TOPIC, Schema(SchemaKind.AVRO, b"{", {}), FULL)
    with pytest.raises(IncompatibleError, match="auto updating is disabled"):
        await ours.register(TOPIC, avro("a", "b"), FULL, may_add=False)
    assert await ours.register(TOPIC, avro("a"), FULL, may_add=False) == 0
    with pytest.raises(IncompatibleError, match="disabled"):  # not the first either
        await ours.register(OTHER, avro("a"), FULL, may_add=False)
    assert await ours.refusal(TOPIC, broken(), FULL) is not None
    assert await ledgers(cluster) == 1


async def test_brokers_that_race_agree_on_one_version_for_each_schema(cluster: Cluster) -> None:
    brokers = [registry(cluster, cluster.server.session(10.0)) for _ in range(4)]
    schemas = [avro("a"), avro("a", "b"), avro("a", "c")]
    asked = [broker.register(TOPIC, schema, FULL) for schema in schemas for broker in brokers]
    numbers = await asyncio.gather(*asked)
    by_schema = [set(numbers[i : i + 4]) for i in range(0, 12, 4)]
    assert [len(agreed) for agreed in by_schema] == [1, 1, 1]
    assert sorted(number for agreed in by_schema for number in agreed) == [0, 1, 2]
    for schema, agreed in zip(schemas, by_schema, strict=True):
        (number,) = agreed
        version = await brokers[0].get(TOPIC, number)
        assert version is not None
        assert version.registered.schema == schema
    assert await ledgers(cluster) == 3


async def test_a_deletion_hides_what_was_and_counts_on(cluster: Cluster) -> None:
    ours = registry(cluster)
    await ours.register(TOPIC, avro("a"), FULL)
    assert await ours.delete(TOPIC) == 1
    for schemas in (ours, registry(cluster)):
        assert await schemas.latest(TOPIC) is None
        assert await schemas.versions(TOPIC) == []
        old = await schemas.get(TOPIC, 0)
        assert old is not None  # messages by it stay readable
        assert await schemas.get(TOPIC, 1) is None
    assert await ours.register(TOPIC, broken(), FULL) == 2


async def test_removal_deletes_the_ledgers_and_may_be_finished_later(cluster: Cluster) -> None:
    ours = registry(cluster)
    await ours.register(TOPIC, avro("a"), FULL)
    await ours.register(TOPIC, avro("a", "b"), FULL)
    first, second = await ours.index(TOPIC)
    await cluster.client().delete(first.ledger_id)  # an earlier removal was cut off here
    await ours.remove(TOPIC)
    assert await cluster.store.exists(NODE) is None
    with pytest.raises(NoSuchLedgerError):
        await cluster.client().open(second.ledger_id, recover=False)
    await ours.remove(TOPIC)
    assert await ours.register(TOPIC, broken(), FULL) == 0
    version = await ours.get(TOPIC, 0)
    assert version is not None
    assert version.registered.schema == broken()  # nothing of the first life is remembered


async def test_a_lost_version_hinders_only_what_needs_it(cluster: Cluster) -> None:
    ours = registry(cluster)
    for names in (("a",), ("a", "b"), ("a", "b", "c")):
        await ours.register(TOPIC, avro(*names), FULL)
    lost = (await ours.index(TOPIC))[0]
    await cluster.client().delete(lost.ledger_id)
    fresh = registry(cluster)
    assert await fresh.register(TOPIC, avro("a", "b"), FULL) == 1
    assert await fresh.register(TOPIC, avro("a", "d"), FULL) == 3
    with pytest.raises(UnreadableError, match="schema version 0"):
        await fresh.get(TOPIC, 0)
    with pytest.raises(UnreadableError):
        await fresh.register(TOPIC, avro("a", "e"), Strategy.FULL_TRANSITIVE)
    with pytest.raises(UnreadableError):
        await fresh.versions(TOPIC)


async def test_a_page_holds_the_last_of_those_that_were_not_deleted(cluster: Cluster) -> None:
    ours = registry(cluster)
    assert await ours.page(TOPIC, 5) == (0, -1, [])
    for names in (("a",), ("b",), ("c",), ("d",)):
        await ours.register(TOPIC, avro(*names), FULL)
    await cluster.client().delete((await ours.index(TOPIC))[1].ledger_id)
    fresh = registry(cluster)
    total, newest, versions = await fresh.page(TOPIC, 3)
    assert (total, newest, [number for number, _ in versions]) == (4, 3, [3, 2, 1])
    assert isinstance(versions[2][1], UnreadableError)
    total, newest, versions = await fresh.page(TOPIC, 3, before=1)
    assert (total, newest, [number for number, _ in versions]) == (4, 3, [0])
    await ours.delete(TOPIC)
    await ours.register(TOPIC, avro("e"), FULL)
    total, newest, versions = await fresh.page(TOPIC, 3)
    assert (total, newest, [number for number, _ in versions]) == (1, 5, [5])


async def test_an_unexpected_version_refuses_the_change(cluster: Cluster) -> None:
    ours = registry(cluster)
    with pytest.raises(OvertakenError, match="none is there now, version 0 was newest"):
        await ours.register(TOPIC, avro("a"), FULL, expected=0)
    assert await ours.register(TOPIC, avro("a"), FULL, expected=-1) == 0
    assert await ours.register(TOPIC, avro("a"), FULL, expected=-1) == 0, "it is what it is"
    with pytest.raises(OvertakenError, match="version 0 is now, none was newest"):
        await ours.register(TOPIC, avro("b"), FULL, expected=-1)
    with pytest.raises(OvertakenError):
        await ours.delete(TOPIC, expected=1)
    assert len(await ours.index(TOPIC)) == 1
    assert await ours.delete(TOPIC, expected=0) == 1


async def test_a_version_is_known_by_its_bytes_alone(cluster: Cluster) -> None:
    ours = registry(cluster)
    await ours.register(TOPIC, avro("a"), FULL)
    await ours.register(TOPIC, avro("b"), FULL)
    assert await ours.registered(TOPIC, avro("a")) == 0
    spaced = avro("a")._replace(data=avro("a").data + b" ")
    assert await ours.registered(TOPIC, spaced) is None


async def test_a_damaged_locator_is_reported(cluster: Cluster) -> None:
    ours = registry(cluster)
    await ours.register(TOPIC, avro("a"), FULL)
    await cluster.store.put(NODE, b"\x12")
    with pytest.raises(LostVersionError, match="public/default/a%25b"):
        await registry(cluster).register(TOPIC, avro("a"), FULL)
    with pytest.raises(LostVersionError):
        await ours.register(TOPIC, avro("a", "b"), FULL)
    assert await ours.register(TOPIC, avro("a"), FULL) == 0  # as it was read last
    assert await ours.latest(TOPIC) is not None
    await ours.remove(TOPIC)
    assert await ours.register(TOPIC, avro("a"), FULL) == 0


class LosesAnswers:
    """A store whose next write of the locator is done, or is not, and has no answer."""

    def __init__(self, store: MetadataStore, *, done: bool) -> None:
        self._store = store
        self._done = done
        self.left = 1

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def create(self, path: str, value: bytes = b"", **more: bool) -> str:
        if path != NODE or not self.left:
            return await self._store.create(path, value, **more)
        self.left -= 1
        if self._done:
            await self._store.create(path, value, **more)
        raise StoreUnavailableError("no answer")


async def test_a_write_whose_answer_is_lost_is_checked(cluster: Cluster) -> None:
    store = LosesAnswers(cluster.store, done=True)
    assert await registry(cluster, store).register(TOPIC, avro("a"), FULL) == 0  # type: ignore[arg-type]
    assert await ledgers(cluster) == 1


class OvertakenStore(LosesAnswers):
    """A store whose write is done and its answer lost; another broker adds a version; the repeated write fails."""

    def __init__(self, store: MetadataStore, other: SchemaRegistry) -> None:
        super().__init__(store, done=True)
        self._other = other

    async def create(self, path: str, value: bytes = b"", **more: bool) -> str:
        if path == NODE and self.left:
            with suppress(StoreUnavailableError):
                await super().create(path, value, **more)
            await self._other.register(TOPIC, avro("a", "b"), FULL)
        return await self._store.create(path, value, **more)


async def test_a_version_that_others_followed_already_keeps_its_ledger(cluster: Cluster) -> None:
    other = registry(cluster)
    ours = registry(cluster, OvertakenStore(cluster.store, other))  # type: ignore[arg-type]
    assert await ours.register(TOPIC, avro("a"), FULL) == 0
    assert [version.number for version in await registry(cluster).versions(TOPIC)] == [0, 1]


async def test_a_lost_write_is_reported_and_may_be_repeated(cluster: Cluster) -> None:
    ours = registry(cluster, LosesAnswers(cluster.store, done=False))  # type: ignore[arg-type]
    with pytest.raises(StoreUnavailableError):
        await ours.register(TOPIC, avro("a"), FULL)
    assert await ours.register(TOPIC, avro("a"), FULL) == 0


async def test_an_entry_is_read_from_its_ledger_once(cluster: Cluster) -> None:
    await registry(cluster).register(TOPIC, avro("a"), FULL)
    ours = registry(cluster)
    assert await ours.latest(TOPIC) is not None
    (place,) = await ours.index(TOPIC)
    await cluster.client().delete(place.ledger_id)
    assert await ours.latest(TOPIC) is not None
