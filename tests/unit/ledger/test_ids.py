"""Ledger ids: unique, short ones first, long ones for good once those end."""

import asyncio

from engine.ledger.ids import next_ledger_id
from engine.metadata import paths
from engine.metadata.memory import MemoryServer


async def test_ids_count_up_and_leave_no_nodes() -> None:
    store = MemoryServer().session()
    assert [await next_ledger_id(store) for _ in range(3)] == [0, 1, 2]
    assert await store.children(paths.ID_GENERATOR) == []
    await store.close()


async def test_ids_of_many_sessions_differ() -> None:
    server = MemoryServer()
    stores = [server.session() for _ in range(4)]
    ids = await asyncio.gather(*(next_ledger_id(stores[i % 4]) for i in range(40)))
    assert len(set(ids)) == 40
    for store in stores:
        await store.close()


async def test_long_ids_once_their_node_is_there() -> None:
    store = MemoryServer().session()
    await next_ledger_id(store)
    await store.create(paths.LONG_ID_GENERATOR)
    assert await next_ledger_id(store) == 1 << 32
    assert await next_ledger_id(store) == (1 << 32) + 1
    await store.create(paths.long_id_directory(2))
    assert await next_ledger_id(store) == 2 << 32
    await store.close()
