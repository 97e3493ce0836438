"""Ledger ids: unique, short ones first, long ones for good once those end."""

import asyncio

import pytest

from engine.ledger.id_generator import next_ledger_id
from engine.metadata import paths
from engine.metadata.memory import MemoryServer, MemoryStore


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


class Counters:
    """Sequence nodes as a server that has given out very many names them."""

    def __init__(self, store: MemoryStore, numbers: dict[str, list[int]]) -> None:
        self._store = store
        self._numbers = numbers
        self.exists, self.children, self.delete = store.exists, store.children, store.delete

    async def create(self, path: str, value: bytes = b"", **options: bool) -> str:
        numbers = self._numbers.get(path)
        if not options.pop("sequence", False) or numbers is None:
            return await self._store.create(path, value, **options)
        return await self._store.create(f"{path}{numbers.pop(0):010d}", value, **options)


@pytest.mark.parametrize("overflow", [(1 << 31) - 1, -(1 << 31)])
async def test_short_ids_end_and_long_ones_follow_for_good(overflow: int) -> None:
    store = MemoryServer().session()
    last = (1 << 31) - 2
    long = f"{paths.long_id_directory(1)}/ID-"
    full = f"{paths.long_id_directory(2)}/ID-"
    numbers = {
        paths.ID_GENERATOR_PREFIX: [last, overflow],
        long: [0, 5, overflow],
        full: [0],
    }
    counters = Counters(store, numbers)
    ids = [await next_ledger_id(counters) for _ in range(4)]  # type: ignore[arg-type]
    assert ids == [last, 1 << 32, (1 << 32) + 5, 2 << 32]
    for ledger_id in ids:
        assert paths.ledger_id(paths.ledger(ledger_id)) == ledger_id
    await store.close()


async def test_strange_nodes_beside_the_long_ids_do_not_matter() -> None:
    store = MemoryServer().session()
    await store.create(paths.LONG_ID_GENERATOR + "/notes", make_parents=True)
    await store.create(paths.LONG_ID_GENERATOR + "/HOB-x")
    assert await next_ledger_id(store) == 1 << 32
    await store.close()
