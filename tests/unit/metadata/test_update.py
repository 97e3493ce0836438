"""Concurrent updates of a node: none is lost or refused, and they apply in the order of their calls."""

import asyncio
import json

from engine.metadata.cached import CachedStore
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.metadata.update import ATTEMPTS_MAX, update

AT_ONCE = 3 * ATTEMPTS_MAX


async def add(store: MetadataStore, who: str) -> None:
    await update(
        *(store, "/list", lambda value: json.dumps([*json.loads(value), who]).encode()),
        create=lambda: json.dumps([who]).encode(),
    )


def test_more_concurrent_updates_than_attempts_all_apply_in_their_order() -> None:
    async def play() -> list[str]:
        store = CachedStore(MemoryServer().session())
        async with asyncio.TaskGroup() as several:
            for i in range(AT_ONCE):
                several.create_task(add(store, str(i)))
        return json.loads((await store.get("/list"))[0])

    assert asyncio.run(play()) == [str(i) for i in range(AT_ONCE)]


def test_updates_of_two_processes_are_not_lost() -> None:
    async def play() -> list[str]:
        server = MemoryServer()
        stores = [CachedStore(server.session()) for _ in range(2)]
        async with asyncio.TaskGroup() as several:
            for i in range(AT_ONCE):
                several.create_task(add(stores[i % 2], str(i)))
        return json.loads((await server.session().get("/list"))[0])

    assert sorted(asyncio.run(play()), key=int) == [str(i) for i in range(AT_ONCE)]


def test_cancelled_updates_do_not_delay_others() -> None:
    async def play() -> list[str]:
        store = CachedStore(MemoryServer().session())
        async with asyncio.TaskGroup() as several:
            tasks = [several.create_task(add(store, str(i))) for i in range(9)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
        await add(store, "last")
        return json.loads((await store.get("/list"))[0])

    writers = asyncio.run(play())
    assert {"1", "3", "5", "7", "last"} <= set(writers)
