"""A lock that counts the tasks that hold or await it."""

import asyncio

import pytest

from engine.broker.topics.counted_lock import CountedLock


async def test_the_lock_counts_its_holder_and_its_waiters() -> None:
    lock, counts = CountedLock(), []

    async def use() -> None:
        async with lock:
            await asyncio.sleep(0)
            counts.append(lock.users)

    await asyncio.gather(use(), use(), use())
    assert counts == [3, 2, 1]
    assert lock.users == 0


async def test_a_cancelled_wait_is_not_counted_any_more() -> None:
    lock = CountedLock()
    async with lock:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0), lock:
                pass
        assert lock.users == 1
    assert lock.users == 0
