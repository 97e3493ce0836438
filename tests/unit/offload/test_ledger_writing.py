"""A ledger that was written to an object store is read back entry by entry, and damage is never returned as entries."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.slices import Slice
from engine.ledger.errors import NoSuchEntryError
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment
from engine.ledger.reading.scan import Scan
from engine.offload.errors import (
    DamagedObjectError,
    MissingObjectError,
    ObjectStoreError,
    OffloadError,
)
from engine.offload.index_object import encode_index
from engine.offload.ledger_writing import write_ledger
from engine.offload.object_names import ObjectName, attributes_of
from engine.offload.object_store import StoredObject
from engine.offload.reading.block_cache import BlockCache
from engine.offload.reading.object_reader import ENTRIES_AT_ONCE, ObjectReader, read_index
from tests.support.ledger_cluster import payloads_of, run_of
from tests.support.stores.memory_objects import MemoryObjects

NAME = ObjectName(uuid.UUID(int=5), 42)
ATTRIBUTES = attributes_of("c1", "0")
PADDING = bytes.fromhex("FEDCDEAD")


class ListedLedger:
    """A closed ledger of ``payloads``, which are read three at a time."""

    def __init__(self, payloads: list[bytes]) -> None:
        self.ledger_id = NAME.ledger_id
        self.payloads = payloads
        length = sum(map(len, payloads))
        self.metadata = LedgerMetadata(
            1, 1, 1, (Segment(0, ("b",)),), LedgerState.CLOSED, len(payloads) - 1, length
        )

    async def read(self, first: int, last: int, bytes_max: int) -> list[Slice]:
        run = run_of(*self.payloads[first : min(last + 1, first + 3)])
        run.first = first
        return [run]

    def entries_in(self, size: int) -> int:
        return 3

    def scan(self, first: int, last: int, bytes_max: int, ranges: int = 3) -> Scan:
        return Scan(self, first, last, bytes_max, ranges)


async def read_all(reader: ObjectReader, first: int, bytes_max: int) -> list[bytes]:
    payloads: list[bytes] = []
    while (at := first + len(payloads)) <= reader.last_confirmed:
        runs = await reader.read(at, reader.last_confirmed, bytes_max)
        assert runs[0].first == at
        assert all(run.ledger_id == NAME.ledger_id for run in runs)
        payloads += payloads_of(runs)
    return payloads


async def written(
    payloads: list[bytes], block_bytes: int, *, checksums: bool = True
) -> MemoryObjects:
    store = MemoryObjects()
    await write_ledger(store, NAME, ListedLedger(payloads), ATTRIBUTES, block_bytes)
    if not checksums:
        bare = encode_index(replace(await read_index(store, NAME), checksums=()))
        store.objects[NAME.index_key] = store.objects[NAME.index_key]._replace(data=bare)
    return store


@given(
    st.lists(st.binary(max_size=400), min_size=1, max_size=40),
    st.integers(140, 2000),
    st.integers(0, 3000),
    st.booleans(),
    st.data(),
)
async def test_entries_are_read_from_any_place_on(
    payloads: list[bytes], block_bytes: int, bytes_max: int, checksums: bool, data: st.DataObject
) -> None:
    store = await written(payloads, block_bytes, checksums=checksums)
    reader = await ObjectReader.open(store, NAME)
    assert reader.metadata.length == sum(map(len, payloads))
    for first in data.draw(st.lists(st.integers(0, len(payloads) - 1), min_size=1, max_size=4)):
        assert await read_all(reader, first, bytes_max) == payloads[first:]


async def test_a_read_ends_at_the_last_entry_asked_for_and_refuses_one_beyond_the_end() -> None:
    payloads = [b"%d" % i for i in range(9)]
    for checksums in (True, False):
        store = await written(payloads, 170, checksums=checksums)
        reader = await ObjectReader.open(store, NAME)
        read = payloads_of(await reader.read(4, 5, 1 << 20))
        assert read == payloads[4 : 4 + len(read)]
        assert 1 <= len(read) <= 2
        with pytest.raises(NoSuchEntryError, match="entry 9 of ledger 42 is beyond 8"):
            await reader.read(9, 9, 1)


async def test_blocks_within_the_budget_are_read_by_one_request() -> None:
    store = await written([b"x" * 100 for _ in range(20)], 600)
    reader = await ObjectReader.open(store, NAME)
    store.requests.clear()
    runs = await reader.read(0, 19, 1 << 20)
    assert sum(run.count for run in runs) == 20
    assert store.requests == [("get_ranges", NAME.data_key)]


async def test_a_block_in_memory_does_not_keep_the_others_of_its_request_there() -> None:
    store = await written([b"x" * 100 for _ in range(20)], 600)
    reader = await ObjectReader.open(store, NAME)
    runs = await reader.read(0, 19, 1 << 20)
    bounds = [*(block.offset for block in reader.index.blocks), reader.index.data_bytes]
    assert len(runs) > 1
    assert [run.held for run in runs] == [high - low for low, high in pairwise(bounds)]


async def test_a_block_with_more_entries_than_one_turn_finds_has_all_of_them() -> None:
    for count in (ENTRIES_AT_ONCE, 2 * ENTRIES_AT_ONCE + 1):
        payloads = [b"%d" % i for i in range(count)]
        store = await written(payloads, 1 << 20)
        reader = await ObjectReader.open(store, NAME)
        assert len(reader.index.blocks) == 1
        assert await read_all(reader, 0, 1 << 20) == payloads


async def test_a_changed_byte_anywhere_is_damage_that_names_object_and_block() -> None:
    payloads = [b"payload %d" % i for i in range(12)]
    for at in range(0, 400, 7):
        store = await written(payloads, 200)
        reader = await ObjectReader.open(store, NAME)
        before = store.objects[NAME.data_key].data[at]
        store.damage(NAME.data_key, at, bytes([before ^ 1]))
        with pytest.raises(DamagedObjectError, match=rf"object {NAME.data_key}: block \d"):
            await read_all(reader, 0, 1)


async def test_a_damaged_answer_is_requested_once_more() -> None:
    payloads = [b"payload %d" % i for i in range(12)]
    for checksums in (True, False):
        store = await written(payloads, 200, checksums=checksums)
        reader = await ObjectReader.open(store, NAME)
        whole = store.objects[NAME.data_key]
        store.fail = partial(
            replacing, store, iter([whole._replace(data=b"?" * len(whole.data))]), whole
        )
        assert await read_all(reader, 0, 1) == payloads


def replacing(
    store: MemoryObjects,
    objects: Iterator[StoredObject],
    last: StoredObject,
    _method: str,
    _key: str,
) -> bool:
    """Put the next of ``objects``, then ``last``, in place of the data at each request."""
    store.objects[NAME.data_key] = next(objects, last)
    return False


async def test_a_reader_that_reads_on_is_read_ahead_of_and_reads_nothing_twice() -> None:
    payloads = [b"%04d" % i * 25 for i in range(400)]
    store = await written(payloads, 1000)
    cache = BlockCache(1 << 20, 8 << 10)
    reader = await ObjectReader.open(store, NAME, cache)
    store.requests.clear()
    assert await read_all(reader, 0, 1500) == payloads
    assert len(store.requests) < len(reader.index.blocks) // 2
    assert cache.hits > cache.misses
    store.requests.clear()
    assert await read_all(reader, 0, 1500) == payloads
    assert store.requests == []


async def test_an_object_that_is_cut_or_gone_is_an_error_and_never_fewer_entries() -> None:
    payloads = [b"x" * 50 for _ in range(12)]
    for checksums in (True, False):
        store = await written(payloads, 300, checksums=checksums)
        reader = await ObjectReader.open(store, NAME)
        cut = store.objects[NAME.data_key].data[:-20]
        store.objects[NAME.data_key] = store.objects[NAME.data_key]._replace(data=cut)
        with pytest.raises(DamagedObjectError):
            await read_all(reader, 0, 1)
        await store.delete([NAME.data_key])
        with pytest.raises(MissingObjectError):
            await reader.read(0, 1, 1)
        await store.delete([NAME.index_key])
        with pytest.raises(MissingObjectError):
            await ObjectReader.open(store, NAME)


async def test_padding_up_to_the_next_block_is_passed_over() -> None:
    payloads = [b"x" * 50, b"y" * 50]
    store = await written(payloads, 200, checksums=False)
    index = await read_index(store, NAME)
    cut = index.blocks[1].offset
    data = store.objects[NAME.data_key].data
    moved = index.blocks[1]._replace(offset=cut + 10)
    changed = replace(index, blocks=(index.blocks[0], moved), data_bytes=index.data_bytes + 10)
    filled = data[:cut] + (PADDING * 3)[:10] + data[cut:]
    store.objects[NAME.data_key] = store.objects[NAME.data_key]._replace(data=filled)
    stored = store.objects[NAME.index_key]
    store.objects[NAME.index_key] = stored._replace(data=encode_index(changed))
    reader = await ObjectReader.open(store, NAME)
    assert await read_all(reader, 0, 1 << 20) == payloads


async def test_an_object_of_another_format_version_is_not_opened() -> None:
    store = await written([b"x"], 200)
    store.objects[NAME.index_key] = store.objects[NAME.index_key]._replace(attributes={})
    with pytest.raises(DamagedObjectError, match="format version None"):
        await ObjectReader.open(store, NAME)
    store.keeps_attributes = False
    await ObjectReader.open(store, NAME)


async def test_bytes_that_the_store_changed_fail_the_writing() -> None:
    store = MemoryObjects()

    def tampered(method: str, key: str) -> bool:
        if method == "put" and key == NAME.index_key:
            store.damage(NAME.data_key, 300, b"!")
        return False

    store.fail = tampered
    with pytest.raises(DamagedObjectError, match="another checksum"):
        await write_ledger(store, NAME, ListedLedger([b"x" * 500]), ATTRIBUTES, 200)


async def test_a_ledger_that_is_open_empty_or_of_another_length_is_not_written() -> None:
    store = MemoryObjects()
    ledger = ListedLedger([])
    with pytest.raises(OffloadError, match="ledger 42 is empty or not closed"):
        await write_ledger(store, NAME, ledger, ATTRIBUTES)
    ledger = ListedLedger([b"x"])
    ledger.metadata = replace(ledger.metadata, length=2)
    with pytest.raises(OffloadError, match="read 1 entries of 1 bytes, not 1 of 2"):
        await write_ledger(store, NAME, ledger, ATTRIBUTES)
    assert NAME.index_key not in store.objects


@pytest.mark.parametrize("method", ["put", "get", "get_ranges"])
async def test_a_store_that_fails_fails_the_writing(method: str) -> None:
    store = MemoryObjects()
    store.fail = lambda asked, _key: asked == method
    with pytest.raises(ObjectStoreError):
        await write_ledger(store, NAME, ListedLedger([b"x"]), ATTRIBUTES)
