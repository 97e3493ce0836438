"""Many who update a node at once: nothing is lost, nobody is turned away, and they come in the order of their calls."""

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


def test_more_than_anyone_tries_all_come_through_in_their_order() -> None:
    async def play() -> list[str]:
        store = CachedStore(MemoryServer().session())
        async with asyncio.TaskGroup() as several:
            for i in range(AT_ONCE):
                several.create_task(add(store, str(i)))
        return json.loads((await store.get("/list"))[0])

    assert asyncio.run(play()) == [str(i) for i in range(AT_ONCE)]


def test_of_two_processes_neither_loses_anything() -> None:
    async def play() -> list[str]:
        server = MemoryServer()
        stores = [CachedStore(server.session()) for _ in range(2)]
        async with asyncio.TaskGroup() as several:
            for i in range(AT_ONCE):
                several.create_task(add(stores[i % 2], str(i)))
        return json.loads((await server.session().get("/list"))[0])

    assert sorted(asyncio.run(play()), key=int) == [str(i) for i in range(AT_ONCE)]


def test_who_gives_up_holds_nobody() -> None:
    async def play() -> list[str]:
        store = CachedStore(MemoryServer().session())
        async with asyncio.TaskGroup() as several:
            tasks = [several.create_task(add(store, str(i))) for i in range(9)]
            await asyncio.sleep(0)
            for task in tasks[::2]:
                task.cancel()
        await add(store, "last")
        return json.loads((await store.get("/list"))[0])

    found = asyncio.run(play())
    assert {"1", "3", "5", "7", "last"} <= set(found)
