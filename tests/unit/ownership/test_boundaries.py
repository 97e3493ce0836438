"""Boundaries of a namespace are cached until they change, not longer; bundles that are none any more are lost."""

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


async def split(one: Broker) -> None:
    """Another broker cuts the namespace into two."""
    edges = {"boundaries": ["0x00000000", "0x80000000", "0xffffffff"], "numBundles": 2}
    await one.store.put(PATH, json.dumps({"bundles": edges}).encode())


@pytest.mark.parametrize("holding", [False, True])
async def test_changed_boundaries_are_read_again(server: MemoryServer, holding: bool) -> None:
    one = Broker(server.session(), "one")
    assert len(await one.ownership.bundles(TOPIC.namespace)) == 4
    if holding:
        assert await one.take()
    for _ in range(50):  # nothing is under way any more
        await asyncio.sleep(0)
    await split(one)

    async def two() -> bool:
        return len(await one.ownership.bundles(TOPIC.namespace)) == 2

    async def lost() -> bool:
        return len(one.lost) == holding

    await until(two)
    await until(lost)
    assert not one.ownership.serves(TopicName.parse("public/default/x"))


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


async def test_a_namespace_that_was_deleted_is_not_remembered(server: MemoryServer) -> None:
    one = Broker(server.session(), "one")
    await one.ownership.bundles(TOPIC.namespace)
    await one.store.delete("/admin/policies/public/default")
    await one.store.delete(PATH)

    async def gone() -> bool:
        try:
            await one.ownership.bundles(NamespaceName.of("public", "default"))
        except NoNamespaceError:
            return True
        return False

    await until(gone)


POLICIES = "/admin/policies/public/default"


class Gate:
    """Holds up one kind of call of a store while it is shut; ``reached``: somebody waits there."""

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


async def test_bundles_of_a_namespace_that_was_made_again_stay_held(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Word of the deletion is acted upon when the namespace is there again, with the boundaries it had."""
    one, admin = Broker(server.session(), "one"), server.session()
    assert await one.take()
    gate = Gate(one.store, "get", monkeypatch)
    stored = await delete_namespace(admin)
    await gate.reached.wait()
    await admin.create(POLICIES, stored)
    gate.open.set()

    async def stored_again() -> bool:
        return await admin.exists(PATH) is not None

    await until(stored_again)
    for _ in range(50):
        await asyncio.sleep(0)
    assert one.lost == []
    assert one.ownership.serves(TOPIC)


async def test_a_bundle_taken_again_while_what_was_left_of_it_is_removed_is_kept(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks while the broker is giving up a deleted namespace is not told that it serves what it then loses."""
    one, admin = Broker(server.session(), "one"), server.session()
    assert await one.take()
    gate = Gate(one.store, "delete", monkeypatch)
    stored = await delete_namespace(admin)
    await gate.reached.wait()
    assert not one.ownership.serves(TOPIC)
    await admin.create(POLICIES, stored)
    taking = asyncio.create_task(one.take())
    for _ in range(50):
        await asyncio.sleep(0)
    gate.open.set()
    assert await taking
    for _ in range(50):
        await asyncio.sleep(0)
    assert one.ownership.serves(TOPIC)
    assert await admin.exists(await path_of(one)) is not None


async def test_no_boundaries_are_stored_of_a_namespace_that_is_being_deleted(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the namespace that is made next under its name would have the boundaries of this one."""
    one, admin = Broker(server.session(), "one"), server.session()
    stored, _ = await admin.get(POLICIES)
    marked = json.dumps({**json.loads(stored), "deleted": True}).encode()
    gate = Gate(one.store, "create", monkeypatch)
    reading = asyncio.create_task(one.ownership.bundles(TOPIC.namespace))
    await gate.reached.wait()
    await admin.put(POLICIES, marked)
    gate.open.set()
    with pytest.raises(NoNamespaceError):
        await reading
    assert await admin.exists(PATH) is None
    with pytest.raises(NoNamespaceError):
        await one.ownership.bundles(TOPIC.namespace)
