"""Boundaries of a namespace, cached until they change; bundles that no longer exist are reported as lost."""

import asyncio
import json

import pytest

from engine.base.names import NamespaceName, TopicName
from engine.metadata.memory import MemoryServer, MemoryStore
from engine.ownership.owner import NoNamespaceError
from tests.support.waiting import until
from tests.unit.ownership.test_owner import TOPIC, Broker, path_of, server

__all__ = ["server"]
PATH = "/admin/local-policies/public/default"


async def split(broker: Broker) -> None:
    """Split the namespace in two, as another broker does."""
    edges = {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2}
    await broker.store.put(PATH, json.dumps({"bundles": edges}).encode())


@pytest.mark.parametrize("holding", [False, True])
async def test_changed_boundaries_are_read_again(server: MemoryServer, holding: bool) -> None:
    broker = Broker(server.session(), "one")
    assert len(await broker.ownership.bundles(TOPIC.namespace)) == 4
    if holding:
        assert await broker.take()
    for _ in range(50):  # nothing is under way any more
        await asyncio.sleep(0)
    await split(broker)

    async def two() -> bool:
        return len(await broker.ownership.bundles(TOPIC.namespace)) == 2

    async def lost() -> bool:
        return len(broker.lost) == holding

    await until(two)
    await until(lost)
    assert not broker.ownership.serves(TopicName.parse("public/default/x"))


async def test_a_bundle_acquired_without_its_namespace_in_the_cache_is_lost_by_a_split(
    server: MemoryServer,
) -> None:
    other = Broker(server.session(), "other")
    owner = Broker(server.session(), "owner")
    bundle = (await other.ownership.bundles(TOPIC.namespace)).of_topic(TOPIC)
    assert await owner.ownership.acquire(bundle)
    for _ in range(50):  # the check that follows the acquisition has ended
        await asyncio.sleep(0)
    await split(other)
    await until(lambda: owner.lost == [bundle])


async def test_a_deleted_namespace_is_not_cached(server: MemoryServer) -> None:
    broker = Broker(server.session(), "one")
    await broker.ownership.bundles(TOPIC.namespace)
    await broker.store.delete("/admin/policies/public/default")
    await broker.store.delete(PATH)

    async def gone() -> bool:
        try:
            await broker.ownership.bundles(NamespaceName.of("public", "default"))
        except NoNamespaceError:
            return True
        return False

    await until(gone)


POLICIES = "/admin/policies/public/default"


class Gate:
    """Holds up one kind of call of a store while it is shut; ``reached`` is set once a call waits there."""

    def __init__(self, store: MemoryStore, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.reached = asyncio.Event(), asyncio.Event()
        do = getattr(store, call)

        async def gated(*args: object, **options: object) -> object:
            self.reached.set()
            await self.open.wait()
            return await do(*args, **options)

        monkeypatch.setattr(store, call, gated)


async def delete_namespace(store: MemoryStore) -> bytes:
    stored, _ = await store.get(POLICIES)
    await store.delete(PATH)
    await store.delete(POLICIES)
    return stored


async def test_bundles_of_a_recreated_namespace_stay_owned(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handle the deletion's event when the namespace exists again with the boundaries it had."""
    broker, admin = Broker(server.session(), "one"), server.session()
    assert await broker.take()
    gate = Gate(broker.store, "get", monkeypatch)
    stored = await delete_namespace(admin)
    await gate.reached.wait()
    await admin.create(POLICIES, stored)
    gate.open.set()

    async def stored_again() -> bool:
        return await admin.exists(PATH) is not None

    await until(stored_again)
    for _ in range(50):
        await asyncio.sleep(0)
    assert broker.lost == []
    assert broker.ownership.serves(TOPIC)


async def test_a_bundle_acquired_again_during_its_removal_is_kept(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report no ownership to a caller that acquires the bundle while the broker gives up a deleted namespace."""
    broker, admin = Broker(server.session(), "one"), server.session()
    assert await broker.take()
    gate = Gate(broker.store, "delete", monkeypatch)
    stored = await delete_namespace(admin)
    await gate.reached.wait()
    assert not broker.ownership.serves(TOPIC)
    await admin.create(POLICIES, stored)
    taking = asyncio.create_task(broker.take())
    for _ in range(50):
        await asyncio.sleep(0)
    gate.open.set()
    assert await taking
    for _ in range(50):
        await asyncio.sleep(0)
    assert broker.ownership.serves(TOPIC)
    assert await admin.exists(await path_of(broker)) is not None


async def test_no_boundaries_are_stored_for_a_namespace_being_deleted(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leave no boundaries for a later namespace of the same name."""
    broker, admin = Broker(server.session(), "one"), server.session()
    stored, _ = await admin.get(POLICIES)
    marked = json.dumps({**json.loads(stored), "deleted": True}).encode()
    gate = Gate(broker.store, "create", monkeypatch)
    reading = asyncio.create_task(broker.ownership.bundles(TOPIC.namespace))
    await gate.reached.wait()
    await admin.put(POLICIES, marked)
    gate.open.set()
    with pytest.raises(NoNamespaceError):
        await reading
    assert await admin.exists(PATH) is None
    with pytest.raises(NoNamespaceError):
        await broker.ownership.bundles(TOPIC.namespace)
