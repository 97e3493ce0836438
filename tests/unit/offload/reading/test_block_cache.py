"""Blocks are requested once, kept within a budget, and read ahead for those who read on."""

import asyncio
from collections.abc import Callable

import pytest

from engine.offload.errors import ObjectStoreError
from engine.offload.reading.block_cache import BlockCache, BlockSource, ReadBlock
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

SIZE = 1 << 20


class Blocks:
    """An object of ten blocks of SIZE; ``requests`` are those that were made, as ranges of numbers."""

    def __init__(self) -> None:
        self.requests: list[tuple[int, int]] = []
        self.before: Callable[[int], None] = lambda number: None
        self.source = BlockSource("k", [SIZE * (i + 1) for i in range(10)], self.read)

    async def read(self, first: int, stop: int) -> list[ReadBlock]:
        self.requests.append((first, stop))
        await asyncio.sleep(0.1)
        self.before(first)
        return [ReadBlock(bytes([number]) * SIZE, []) for number in range(first, stop)]


async def numbers(cache: BlockCache, blocks: Blocks, first: int, stop: int) -> list[int]:
    return [block.data[0] for block in await cache.blocks(blocks.source, first, stop)]


async def test_a_block_is_requested_once_by_all_who_need_it() -> None:
    cache, blocks = BlockCache(8 * SIZE, 0), Blocks()
    read = await asyncio.gather(*(numbers(cache, blocks, 2, 4) for _ in range(3)))
    assert read == [[2, 3]] * 3
    assert await numbers(cache, blocks, 1, 5) == [1, 2, 3, 4]
    assert blocks.requests == [(2, 4), (1, 2), (4, 5)]


async def test_the_blocks_used_longest_ago_go_when_the_budget_is_used_up() -> None:
    cache, blocks = BlockCache(3 * SIZE, 0), Blocks()
    for number in (0, 1, 2, 0, 3):
        await numbers(cache, blocks, number, number + 1)
    assert cache.bytes == 3 * SIZE
    blocks.requests.clear()
    assert await numbers(cache, blocks, 0, 1) == [0]
    assert blocks.requests == []
    assert await numbers(cache, blocks, 1, 2) == [1]
    assert blocks.requests == [(1, 2)]


async def test_blocks_read_ahead_are_there_and_those_under_way_are_waited_for() -> None:
    cache, blocks = BlockCache(20 * SIZE, 8 * SIZE), Blocks()
    cache.read_ahead(blocks.source, 1, 5 * SIZE)
    await until(lambda: len(blocks.requests) == 2)
    assert blocks.requests == [(1, 5), (5, 6)]
    assert await numbers(cache, blocks, 1, 6) == [1, 2, 3, 4, 5]
    cache.read_ahead(blocks.source, 1, 5 * SIZE)
    assert len(blocks.requests) == 2


async def test_nothing_is_read_ahead_beyond_half_of_the_budget() -> None:
    cache, blocks = BlockCache(4 * SIZE, 8 * SIZE), Blocks()
    cache.read_ahead(blocks.source, 0, 8 * SIZE)
    assert cache.under_way_bytes <= 4 * SIZE
    await until(lambda: bool(blocks.requests))
    assert blocks.requests == [(0, 4)]


async def test_a_request_that_fails_is_made_again_by_those_who_waited_for_it() -> None:
    cache, blocks = BlockCache(8 * SIZE, 8 * SIZE), Blocks()

    def failing(number: int) -> None:
        if len(blocks.requests) == 1:
            raise ObjectStoreError("away")

    blocks.before = failing
    cache.read_ahead(blocks.source, 0, 2 * SIZE)
    assert await numbers(cache, blocks, 0, 2) == [0, 1]
    blocks.requests.clear()
    blocks.before = failing
    with pytest.raises(ObjectStoreError, match="away"):
        await numbers(cache, blocks, 4, 5)
    assert cache.under_way_bytes == 0


async def test_all_who_wait_for_a_failing_request_learn_of_it() -> None:
    cache, blocks = BlockCache(8 * SIZE, 0), Blocks()

    def failing(number: int) -> None:
        raise ObjectStoreError("away")

    blocks.before = failing
    results = await asyncio.gather(
        *(numbers(cache, blocks, 0, 2) for _ in range(3)), return_exceptions=True
    )
    assert [type(result) for result in results] == [ObjectStoreError] * 3
    assert cache.under_way_bytes == 0
    blocks.before = lambda number: None
    assert await numbers(cache, blocks, 0, 2) == [0, 1]


async def test_a_reader_that_is_cancelled_leaves_the_request_to_the_others() -> None:
    cache, blocks = BlockCache(8 * SIZE, 0), Blocks()
    others = [asyncio.ensure_future(numbers(cache, blocks, 0, 1)) for _ in range(2)]
    await until(lambda: bool(blocks.requests))
    others[0].cancel()
    assert await others[1] == [0]
    assert blocks.requests == [(0, 1)]


async def test_after_the_end_nothing_is_kept_and_waiting_reads_fail() -> None:
    cache, blocks = BlockCache(8 * SIZE, 0), Blocks()
    waiting = asyncio.ensure_future(numbers(cache, blocks, 0, 1))
    await until(lambda: bool(blocks.requests))
    await cache.close()
    with pytest.raises(ObjectStoreError, match="have ended"):
        await waiting
    assert cache.bytes == 0
