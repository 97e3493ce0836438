"""Objects that no record names are found and deleted, and no others, whatever happens meanwhile (U5)."""

import uuid
from collections.abc import Awaitable, Callable

import pytest

from engine.offload.errors import ObjectStoreError
from engine.offload.object_names import ObjectName, attributes_of
from engine.offload.object_store import StoredObject
from engine.offload.orphans import find_orphans, remove_orphans
from tests.support.stores.memory_objects import MemoryObjects

NAMES = [ObjectName(uuid.UUID(int=number), number) for number in range(4)]


def put(store: MemoryObjects, name: ObjectName, cluster: str = "c") -> None:
    for key in (name.data_key, name.index_key):
        store.objects[key] = StoredObject(b"12345", attributes_of(cluster, "0"))


def naming(*names: ObjectName) -> Callable[[], Awaitable[set[ObjectName]]]:
    async def named() -> set[ObjectName]:
        return set(names)

    return named


async def test_objects_that_no_record_names_are_deleted_and_no_others() -> None:
    store = MemoryObjects()
    for name in NAMES[:3]:
        put(store, name)
    put(store, NAMES[3], "another-cluster")
    store.objects["notes.txt"] = StoredObject(b"x", {})
    scan = await find_orphans(store, naming(NAMES[0]), cluster="c", older_than_ms=1)
    assert set(scan.orphans) == {NAMES[1], NAMES[2]}
    assert (scan.objects, scan.bytes, scan.others, scan.foreign) == (8, 40, 1, 2)
    assert scan.orphan_bytes == 20
    await remove_orphans(store, scan)
    assert set(store.objects) == {
        "notes.txt",
        *(key for name in (NAMES[0], NAMES[3]) for key in (name.data_key, name.index_key)),
    }


async def test_an_object_that_may_be_written_now_is_too_young_for_a_verdict() -> None:
    store = MemoryObjects()
    put(store, NAMES[1])
    store.modified_ms = 1000
    scan = await find_orphans(store, naming(), cluster="c", older_than_ms=1000)
    assert (scan.young, scan.orphans) == (2, {})


async def test_the_records_are_read_after_the_bucket_was_listed() -> None:
    store = MemoryObjects()

    async def named() -> set[ObjectName]:
        assert [method for method, _ in store.requests] == ["listed"]
        put(store, NAMES[2])
        return {NAMES[1]}

    put(store, NAMES[1])
    scan = await find_orphans(store, named, cluster="c", older_than_ms=1)
    assert scan.orphans == {}


async def test_in_a_store_without_attributes_every_object_is_of_the_cluster() -> None:
    store = MemoryObjects()
    store.keeps_attributes = False
    put(store, NAMES[1], "")
    scan = await find_orphans(store, naming(), cluster="c", older_than_ms=1)
    assert set(scan.orphans) == {NAMES[1]}


async def test_objects_that_go_meanwhile_are_left_alone_and_a_failing_store_is_an_error() -> None:
    store = MemoryObjects()
    put(store, NAMES[1])

    async def going() -> set[ObjectName]:
        store.objects.clear()
        return set()

    scan = await find_orphans(store, going, cluster="c", older_than_ms=1)
    assert scan.orphans == {}
    store.fail = lambda method, _key: method == "listed"
    with pytest.raises(ObjectStoreError):
        await find_orphans(store, naming(), cluster="c", older_than_ms=1)
