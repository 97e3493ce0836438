"""Policies of a namespace are kept until they change, not longer."""

import asyncio
from typing import Any

from engine.base.names import NamespaceName
from engine.broker.control import catalog
from engine.broker.control.catalog import Catalog
from engine.metadata import paths
from engine.metadata.memory import MemoryServer

NAME = NamespaceName.parse("public/default")
PATH = paths.namespace_policies(str(NAME))


async def made(monkeypatch: Any) -> tuple[Any, Catalog]:
    """A store with policies, and a catalog that takes their bytes for them."""
    store = MemoryServer().session()
    await store.create(PATH, b"old", make_parents=True)

    async def read(store: Any, name: NamespaceName) -> bytes:
        return bytes((await store.get(paths.namespace_policies(str(name))))[0])

    monkeypatch.setattr(catalog, "get_policies", read)
    monkeypatch.setattr(catalog, "effective", lambda stored, node: stored)
    node: Any = None
    return store, Catalog(store, node)


async def seen(found: Catalog, value: bytes) -> None:
    async with asyncio.timeout(5):
        while await found.namespace(NAME) != value:
            await asyncio.sleep(0)


async def test_changed_policies_are_read_again(monkeypatch: Any) -> None:
    store, found = await made(monkeypatch)
    assert await found.namespace(NAME) == b"old"
    reads = len(found._known)
    assert reads == 1
    await store.put(PATH, b"new")
    await seen(found, b"new")
    await store.put(PATH, b"newer")
    await seen(found, b"newer")


async def test_policies_that_change_while_they_are_read_are_not_kept(monkeypatch: Any) -> None:
    store, found = await made(monkeypatch)
    read = catalog.get_policies

    async def slow(store_: Any, name: NamespaceName) -> Any:
        value = await read(store_, name)
        await store.put(PATH, b"new")
        for _ in range(50):
            await asyncio.sleep(0)
        monkeypatch.setattr(catalog, "get_policies", read)
        return value

    monkeypatch.setattr(catalog, "get_policies", slow)
    await found.namespace(NAME)
    assert await found.namespace(NAME) == b"new"
