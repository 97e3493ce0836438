"""Reads of one topic are counted, bounded and timed; failures are kept until the next read succeeds."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from engine.base.measures.byte_rate import ByteRate
from engine.offload.bucket import S3, Bucket
from engine.offload.errors import ObjectStoreError
from engine.offload.meters import Meters
from engine.offload.stores.metered_stores import MeteredStores
from tests.support.stores.memory_objects import MemoryObjectStores

pytestmark = pytest.mark.virtual_time

BUCKET = Bucket(S3, "cold")


async def one(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def test_reads_and_deletions_are_counted() -> None:
    stores, meters = MemoryObjectStores(), Meters()
    store = MeteredStores(stores, lambda: meters, ByteRate(0)).open(BUCKET)
    await store.put("k", one(b"12345"), {"a": "b"})
    assert (await store.get("k")).data == b"12345"
    assert await store.get_ranges("k", (1, 3)) == [b"23"]
    assert await store.attributes("k") == {"a": "b"}
    assert [listed.key async for listed in store.listed()] == ["k"]
    assert (meters.read_bytes, meters.index_reads.count, meters.data_reads.count) == (2, 1, 1)
    await store.delete(["k-index"])
    await store.delete(["k"])
    assert (meters.deleted, meters.not_deleted) == (1, 0)


async def test_a_failure_is_kept_with_its_kind_until_a_read_succeeds() -> None:
    stores, meters = MemoryObjectStores(), Meters()
    store = MeteredStores(stores, lambda: meters, ByteRate(0)).open(BUCKET)
    await store.put("k", one(b"12345"), {})
    stores.open(BUCKET).fail = lambda method, _key: True
    for failing in (store.get("k"), store.get_ranges("k", (0, 1)), store.delete(["k"])):
        with pytest.raises(ObjectStoreError):
            await failing
    assert (meters.read_errors, meters.not_deleted) == (2, 1)
    assert meters.read_error == "failed: get_ranges of k failed"
    stores.open(BUCKET).fail = lambda method, _key: False
    await store.get_ranges("k", (0, 1))
    assert meters.read_error == ""


async def test_ranges_wait_for_the_bound_of_the_process() -> None:
    stores, meters = MemoryObjectStores(), Meters()
    store = MeteredStores(stores, lambda: meters, ByteRate(1000)).open(BUCKET)
    await store.put("k", one(bytes(4000)), {})
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(store.get_ranges("k", (0, 1000)) for _ in range(4)))
    assert 2.9 < asyncio.get_running_loop().time() - began < 3.2
