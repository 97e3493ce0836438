"""Lost, damaged or unavailable parts of the registry: an operation that needs them fails, others do not, none hangs."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from engine.base.names import TopicName
from engine.ledger.errors import LedgerError
from engine.managed.cursors.cursor_ledger import CursorLedger
from engine.metadata import paths
from engine.metadata.store import MetadataStore, SessionState, StoreUnavailableError
from engine.schema.kinds import InvalidSchemaError, Schema, SchemaKind
from engine.schema.locator import Registered, SchemaVersion, digest_of, entry, locator
from engine.schema.schema_registry import (
    DEFINITION_BYTES_MAX,
    VERSIONS_MAX,
    IncompatibleError,
    SchemaRegistry,
    schema_id,
)
from engine.schema.stored_versions import KIND, LostVersionError, UnreadableError
from engine.tenancy.strategy import Strategy
from tests.sim.kit.disk import FaultDisk
from tests.support.ledger_cluster import Cluster, run_of
from tests.unit.schema.test_schema_registry import FULL, ONE, avro, ledgers, registry

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/lost")
OTHER = TopicName.parse("persistent://public/default/other")
NODE = paths.schema(schema_id(TOPIC))
WITHIN_S = 60.0
"""Far above every timeout of the ledger client in these tests."""


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    made = Cluster()
    await made.start("b0")
    yield made
    await made.close()


async def place_of(ours: SchemaRegistry, number: int) -> SchemaVersion:
    return (await ours.index(TOPIC))[number]


async def relist(cluster: Cluster, ours: SchemaRegistry, changed: SchemaVersion) -> None:
    """Store the node with another record of one version."""
    versions = [
        changed if version.version == changed.version else version
        for version in await ours.index(TOPIC)
    ]
    await cluster.store.put(NODE, locator(versions))


async def stored(cluster: Cluster, *payloads: bytes, custom: dict[str, bytes] | None = None) -> int:
    """Write the entries to a new ledger; return its id."""
    ledger = await CursorLedger.create(cluster.client(), ONE, custom or {})
    for payload in payloads:
        await ledger.append(payload)
    await ledger.close()
    return ledger.ledger_id


async def deleted_ledger(cluster: Cluster, ours: SchemaRegistry) -> None:
    await cluster.client().delete((await place_of(ours, 1)).ledger_id)


async def no_such_ledger(cluster: Cluster, ours: SchemaRegistry) -> None:
    place = await place_of(ours, 1)
    await relist(cluster, ours, SchemaVersion(1, 1 << 40, 0, place.hash))


async def no_such_entry(cluster: Cluster, ours: SchemaRegistry) -> None:
    place = await place_of(ours, 1)
    await relist(cluster, ours, SchemaVersion(1, place.ledger_id, 7, place.hash))


async def another_definition(cluster: Cluster, ours: SchemaRegistry) -> None:
    place = await place_of(ours, 1)
    wrong = entry(schema_id(TOPIC), Registered(avro("z"), 1))
    custom = {KIND: b"AVRO"}
    ledger_id = await stored(cluster, wrong, custom=custom)
    await relist(cluster, ours, SchemaVersion(1, ledger_id, 0, place.hash))


async def no_schema_at_all(cluster: Cluster, ours: SchemaRegistry) -> None:
    place = await place_of(ours, 1)
    ledger_id = await stored(cluster, b"\xff" * 100)
    await relist(cluster, ours, SchemaVersion(1, ledger_id, 0, place.hash))


async def unreadable_ledger_metadata(cluster: Cluster, ours: SchemaRegistry) -> None:
    await cluster.store.put(paths.ledger((await place_of(ours, 1)).ledger_id), b"nothing")


Loss = Callable[[Cluster, SchemaRegistry], Awaitable[None]]
LOSSES: list[Loss] = [
    deleted_ledger,
    no_such_ledger,
    no_such_entry,
    another_definition,
    no_schema_at_all,
    unreadable_ledger_metadata,
]


@pytest.mark.parametrize("lose", LOSSES)
async def test_a_lost_newest_version_fails_only_operations_that_need_its_definition(
    cluster: Cluster, lose: Loss
) -> None:
    before = registry(cluster)
    for names in (("a",), ("a", "b")):
        await before.register(TOPIC, avro(*names), FULL)
    await before.register(OTHER, avro("q"), FULL)
    await lose(cluster, before)
    ours = registry(cluster)
    for schema, number in ((avro("a", "b"), 1), (avro("a"), 0)):
        assert await ours.register(TOPIC, schema, FULL) == number
        assert await ours.register(TOPIC, schema, Strategy.FULL_TRANSITIVE, may_add=False) == number
    json_kind = avro("a", "b")._replace(kind=SchemaKind.JSON)
    for needs_it in (
        ours.latest(TOPIC),
        ours.get(TOPIC, 1),
        ours.versions(TOPIC),
        ours.register(TOPIC, avro("a", "c"), FULL),
        ours.register(TOPIC, json_kind, FULL),
        ours.refusal(TOPIC, avro("a", "c"), Strategy.BACKWARD_TRANSITIVE),
    ):
        with pytest.raises(LostVersionError, match="version 1 is lost"):
            await needs_it
    like = await ours.latest(TOPIC, avro("a", "b"))  # a consumer that brings it
    assert like is not None
    assert (like.number, like.registered.schema) == (1, avro("a", "b"))
    with pytest.raises(LostVersionError):
        await ours.latest(TOPIC, avro("a"))
    assert (await ours.get(TOPIC, 0)) is not None
    page = await ours.page(TOPIC, 10)
    assert [isinstance(version, LostVersionError) for _, version in page.versions] == [True, False]
    assert await ours.register(OTHER, avro("q", "r"), FULL) == 1
    # The way out that the text names; no version is numbered again.
    assert await ours.delete(TOPIC) == 2
    assert await ours.register(TOPIC, avro("a", "b"), FULL) == 3


async def test_flipped_bytes_in_a_bookies_log_are_detected_and_reported(cluster: Cluster) -> None:
    before = registry(cluster)
    await before.register(TOPIC, avro("a"), FULL)
    await cluster.stop("b0")
    disk = cluster.disks["b0"]
    assert isinstance(disk, FaultDisk)
    places = disk.find(avro("a").data)
    ((log, at),) = [(path, at) for path, at in places if path.endswith(".log")]
    for offset in range(at, at + 8):
        disk.damage(log, offset, 0xFF)
    await cluster.start("b0")
    ours = registry(cluster)
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(UnreadableError):
            await ours.latest(TOPIC)
        assert await ours.register(TOPIC, avro("a"), FULL) == 0
        with pytest.raises(UnreadableError):
            await ours.register(TOPIC, avro("a", "b"), FULL)
        other_kind = avro("a")._replace(kind=SchemaKind.JSON)
        with pytest.raises(UnreadableError):
            await ours.register(TOPIC, other_kind, FULL)
        assert await ours.register(OTHER, avro("q"), FULL) == 0


async def test_known_schemas_are_accepted_while_bookies_are_unavailable_and_new_ones_are_retriable(
    cluster: Cluster,
) -> None:
    ours = registry(cluster)
    await ours.register(TOPIC, avro("a"), FULL)
    await cluster.stop("b0")
    fresh = registry(cluster)
    async with asyncio.timeout(WITHIN_S):
        for schemas in (ours, fresh):
            assert await schemas.register(TOPIC, avro("a"), FULL) == 0
            with pytest.raises((UnreadableError, LedgerError)) as refusal:
                await schemas.register(TOPIC, avro("a", "b"), FULL)
            assert refusal.value.retriable
        assert await ours.latest(TOPIC) is not None
        with pytest.raises(UnreadableError):
            await fresh.latest(TOPIC)
    await cluster.start("b0")
    async with asyncio.timeout(WITHIN_S):
        while True:  # until the clients see the bookie again
            try:
                assert await fresh.register(TOPIC, avro("a", "b"), FULL) == 1
            except (UnreadableError, LedgerError):
                await asyncio.sleep(0.05)
            else:
                break


async def test_apaches_ledgers_do_not_record_the_kind_and_refusals_are_retriable(
    cluster: Cluster,
) -> None:
    schema = avro("a")
    ledger_id = await stored(cluster, entry(schema_id(TOPIC), Registered(schema, 1)))
    value = locator([SchemaVersion(0, ledger_id, 0, digest_of(schema))])
    await cluster.store.create(NODE, value, make_parents=True)
    await cluster.stop("b0")
    with pytest.raises(UnreadableError) as refusal:
        await registry(cluster).register(TOPIC, schema, FULL)
    assert refusal.value.retriable


class Away:
    """A store that does not answer while ``away``."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self.away = False
        self.state = SessionState.CONNECTED
        self.asked = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    async def get(self, path: str, *more: object) -> object:
        self.asked += 1
        if self.away:
            raise StoreUnavailableError("no answer")
        return await self._store.get(path, *more)  # type: ignore[arg-type]

    async def create(self, path: str, value: bytes = b"", **more: bool) -> str:
        if self.away:
            raise StoreUnavailableError("no answer")
        return await self._store.create(path, value, **more)


async def test_known_schemas_are_accepted_while_the_store_is_unavailable_and_new_ones_are_retriable(
    cluster: Cluster,
) -> None:
    store = Away(cluster.store)
    ours = registry(cluster, store)  # type: ignore[arg-type]
    await ours.register(TOPIC, avro("a"), FULL)
    store.away = True
    assert await ours.register(TOPIC, avro("a"), FULL) == 0
    for number in (None, 0):
        assert await ours.live(TOPIC, number) is not None
    assert await ours.get(TOPIC, 0) is not None
    for refused in (
        ours.register(TOPIC, avro("a", "b"), FULL),
        ours.register(OTHER, avro("a"), FULL),
        ours.latest(OTHER),
        ours.delete(TOPIC),
    ):
        with pytest.raises(StoreUnavailableError) as error:
            await refused
        assert error.value.retriable
    store.state, asked = SessionState.SUSPENDED, store.asked
    assert await ours.register(TOPIC, avro("a"), FULL) == 0
    assert await ours.latest(TOPIC) is not None
    assert store.asked == asked  # without a session no request waits for the store
    store.away, store.state = False, SessionState.CONNECTED
    assert await ours.register(TOPIC, avro("a", "b"), FULL) == 1


async def test_a_removed_schema_is_not_cached_while_the_store_is_unavailable(
    cluster: Cluster,
) -> None:
    store = Away(cluster.store)
    ours = registry(cluster, store)  # type: ignore[arg-type]
    await ours.register(TOPIC, avro("a"), FULL)
    await ours.remove(TOPIC)
    store.away = True
    with pytest.raises(StoreUnavailableError):
        await ours.register(TOPIC, avro("a"), FULL)


async def test_a_version_that_no_bookie_stores_leaves_no_ledger(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = registry(cluster)
    await ours.register(OTHER, avro("a"), FULL)

    async def fail(self: CursorLedger, payload: bytes) -> int:
        raise LedgerError("no bookie takes it")

    with monkeypatch.context() as patched:
        patched.setattr(CursorLedger, "append", fail)
        with pytest.raises(LedgerError):
            await ours.register(TOPIC, avro("a"), FULL)
    assert await ledgers(cluster) == 1
    assert await ours.register(TOPIC, avro("a"), FULL) == 0


class Dies(Away):
    """A store whose broker ends before it lists a version."""

    def __init__(self, store: MetadataStore) -> None:
        super().__init__(store)
        self.reached = asyncio.Event()

    async def create(self, path: str, value: bytes = b"", **more: bool) -> str:
        if path == NODE:
            self.reached.set()
            await asyncio.Event().wait()
        return await self._store.create(path, value, **more)


async def test_a_ledger_that_was_never_listed_names_its_topic(cluster: Cluster) -> None:
    store = Dies(cluster.store)
    dying = asyncio.create_task(registry(cluster, store).register(TOPIC, avro("a"), FULL))  # type: ignore[arg-type]
    async with asyncio.timeout(WITHIN_S):
        await store.reached.wait()
    dying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dying
    assert await registry(cluster).latest(TOPIC) is None
    assert await registry(cluster).register(TOPIC, avro("a"), FULL) == 0
    assert await ledgers(cluster) == 2
    named = (await place_of(registry(cluster), 0)).ledger_id
    left = await cluster.client().metadata(named - 1)
    assert left.custom["component"] == b"schema"
    assert left.custom["pulsar/schemaId"] == schema_id(TOPIC).encode()


def wide(name: str, size: int) -> Schema:
    """Return a record whose definition has about ``size`` bytes."""
    fields = [{"name": f"{name}{i}", "type": "int", "default": 0} for i in range(size // 48)]
    document = {"type": "record", "name": "R", "fields": fields}
    return Schema(SchemaKind.AVRO, json.dumps(document).encode(), {})


async def test_a_definition_of_a_megabyte_is_taken_and_one_beyond_the_bound_refused(
    cluster: Cluster,
) -> None:
    ours = registry(cluster)
    big = wide("f", 1 << 20)
    assert len(big.data) > 1_000_000
    assert await ours.register(TOPIC, big, FULL) == 0
    spaced = big._replace(data=big.data.replace(b", ", b",  "))
    assert await ours.register(TOPIC, spaced, FULL) == 0
    assert await ours.register(TOPIC, wide("g", 1 << 20), FULL) == 1
    (version, _) = await registry(cluster).versions(TOPIC)
    assert version.registered.schema == big
    for beyond in (
        Schema(SchemaKind.AVRO, b" " * DEFINITION_BYTES_MAX + big.data, {}),
        avro("a", more="x" * DEFINITION_BYTES_MAX),
        avro("a", **{"x" * DEFINITION_BYTES_MAX: ""}),
    ):
        with pytest.raises(InvalidSchemaError, match=f"at most {DEFINITION_BYTES_MAX}"):
            await ours.register(TOPIC, beyond, FULL)
    with pytest.raises(InvalidSchemaError, match="properties: half of a character"):
        await ours.register(TOPIC, avro("a", more="\ud800"), FULL)
    assert await ledgers(cluster) == 2


@pytest.mark.parametrize(
    "local", ["a b", "...", "тема", "a/b%2Fc", "%2e%2e", "n" * 1000, "\U0001f600"]
)
async def test_topics_of_any_name_have_their_schemas(cluster: Cluster, local: str) -> None:
    topic = TopicName.parse(f"persistent://public/default/{local}")
    ours = registry(cluster)
    properties = {"ключ/..": "значение" * 1000, "": "\x00\n"}
    schema = avro("a", **properties)
    assert await ours.register(topic, schema, FULL) == 0
    assert await ours.register(TOPIC, avro("b"), FULL) == 0
    latest = await registry(cluster).latest(topic)
    assert latest is not None
    assert latest.registered.schema == schema
    assert await ours.remove(topic)
    assert await registry(cluster).latest(TOPIC) is not None


async def many(cluster: Cluster, count: int) -> None:
    """Store a topic with ``count`` versions, all in one ledger."""
    writer = await cluster.client().create(1, 1, 1)
    versions, payloads = [], []
    for number in range(count):
        schema = avro(f"f{number}")
        versions.append(SchemaVersion(number, writer.ledger_id, number, digest_of(schema)))
        payloads.append(entry(schema_id(TOPIC), Registered(schema, 1), versions[:1]))
    writer.append(run_of(*payloads))
    await writer.close()
    await cluster.store.create(NODE, locator(versions), make_parents=True)


async def test_many_versions_are_read_once_and_then_none_to_check_a_new_one(
    cluster: Cluster,
) -> None:
    count = 300
    await many(cluster, count)
    ours = registry(cluster)
    assert await ours.register(TOPIC, avro("f0", "x"), Strategy.FULL_TRANSITIVE) == count
    first = await place_of(ours, 0)
    await cluster.client().delete(first.ledger_id)
    assert await ours.register(TOPIC, avro("f0", "y"), Strategy.FULL_TRANSITIVE) == count + 1
    spaced = avro("f7")._replace(data=avro("f7").data + b" ")
    assert await ours.find(TOPIC, spaced) == 7
    assert [version.number for version in await ours.versions(TOPIC)] == [*range(count + 2)]


async def test_versions_have_a_bound(cluster: Cluster) -> None:
    versions = [SchemaVersion(number, 1, 0, b"") for number in range(VERSIONS_MAX)]
    await cluster.store.create(NODE, locator(versions), make_parents=True)
    ours = registry(cluster)
    with pytest.raises(IncompatibleError, match=f"has {VERSIONS_MAX} versions"):
        await ours.register(TOPIC, avro("a"), FULL)
    assert await ours.latest(TOPIC) is None


async def test_the_cache_of_large_definitions_is_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.schema.stored_versions.ENTRIES_BYTES", 300_000)
    ours = registry(cluster)
    for name in "abcdef":
        await ours.register(TOPIC, wide(name, 100_000), FULL)
    entries = ours._stored._entries
    assert 0 < entries.bytes <= 300_000
    assert len(await ours.versions(TOPIC)) == 6
    assert entries.bytes <= 300_000
