"""Work that follows the metadata: at once, after each change, retried until the store answers, and periodically."""

import asyncio
from collections.abc import Callable

import pytest

from engine.metadata.follow import RETRY_S, MetadataFollower
from engine.metadata.memory import Fault, MemoryServer
from engine.metadata.store import MetadataStore, NoNodeError

pytestmark = pytest.mark.virtual_time
NODE = "/followed"


async def reached(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


def following(
    store: MetadataStore, seen: list[bytes], every_s: float | None = None
) -> MetadataFollower:
    async def work() -> None:
        try:
            value, _ = await store.get(NODE)
        except NoNodeError:
            value = b""
        seen.append(value)
        if value == b"unreadable":
            raise ValueError("of another kind")

    return MetadataFollower(store, "a test", [NODE], work, every_s=every_s)


async def test_work_runs_at_once_and_after_each_change_until_the_follower_is_closed() -> None:
    store, seen = MemoryServer().session(), []
    follower = following(store, seen)
    follower.start()
    follower.start()
    await reached(lambda: seen == [b""])
    await store.create(NODE, b"one")
    await reached(lambda: seen == [b"", b"one"])
    await follower.close()
    await store.put(NODE, b"two")
    await asyncio.sleep(10 * RETRY_S)
    assert seen == [b"", b"one"]
    await store.close()


async def test_work_is_retried_while_the_store_or_its_value_cannot_be_read() -> None:
    armed = [Fault(lose_request=True)] * 3
    server = MemoryServer(on_call=lambda _s, op, _p: armed.pop() if op == "get" and armed else None)
    store, seen = server.session(), []
    await store.create(NODE, b"unreadable")
    follower = following(store, seen)
    follower.start()
    await reached(lambda: len(seen) == 3)
    assert armed == []
    await store.put(NODE, b"good")
    await reached(lambda: seen[-1] == b"good")
    often = len(seen)
    await asyncio.sleep(10 * RETRY_S)
    assert len(seen) == often
    await follower.close()
    await store.close()


async def test_work_runs_at_least_once_per_interval() -> None:
    store, seen = MemoryServer().session(), []
    follower = following(store, seen, every_s=60.0)
    follower.start()
    await asyncio.sleep(150.0)
    assert len(seen) == 3
    await follower.close()
    await store.close()


async def test_the_follower_continues_after_an_unexpected_exception() -> None:
    store = MemoryServer().session()
    turns: list[int] = []

    async def work() -> None:
        turns.append(len(turns))
        if len(turns) < 3:
            raise ZeroDivisionError("planted")

    follower = MetadataFollower(store, "a test", [NODE], work)
    follower.start()
    await reached(lambda: len(turns) == 3)
    await follower.close()
    await store.close()
