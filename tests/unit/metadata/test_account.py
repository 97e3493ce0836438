"""An account lists the changes of its opener's own work, and no others."""

import asyncio

import pytest

from engine.metadata import account
from engine.metadata.cached import CachedStore
from engine.metadata.memory import MemoryServer
from engine.metadata.store import BadVersionError
from engine.metadata.update import update


def test_each_write_is_listed_with_the_old_and_the_new_value() -> None:
    async def play() -> list[account.Change]:
        store = CachedStore(MemoryServer().session())
        await store.create("/before", b"not listed")
        with account.opened() as kept:
            await store.create("/a", b"1")
            await update(store, "/a", lambda value: value + b"2")
            async with asyncio.TaskGroup() as several:
                several.create_task(store.delete("/a"))
            with pytest.raises(BadVersionError):
                await store.put("/before", b"lost", 7)
        await store.put("/before", b"after")
        return kept.changes

    assert asyncio.run(play()) == [
        ("/a", None, b"1"),
        ("/a", b"1", b"12"),
        ("/a", b"12", None),
    ]


def test_an_update_that_lost_a_race_lists_its_final_change() -> None:
    async def play() -> list[account.Change]:
        server = MemoryServer()
        store, other = CachedStore(server.session()), server.session()
        await store.create("/a", b"1")
        with account.opened() as kept:
            await store.get("/a")
            await other.put("/a", b"2")
            await update(store, "/a", lambda value: value + b"!")
        return kept.changes

    assert asyncio.run(play()) == [("/a", b"2", b"2!")]


def test_changes_beyond_the_limit_are_only_counted() -> None:
    with account.opened() as kept:
        for i in range(account.CHANGES_MAX + 3):
            kept.add(f"/{i}", None, b"")
    assert len(kept.changes) == account.CHANGES_MAX
    assert kept.more == 3
    assert account.current() is None
