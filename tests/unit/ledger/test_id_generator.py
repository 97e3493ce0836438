"""Ledger ids: unique; short ids first, long ids permanently after the short ones are exhausted."""

import asyncio

import pytest

from engine.ledger.id_generator import LedgerIds
from engine.metadata import paths
from engine.metadata.memory import MemoryServer, MemoryStore
from tests.support.stores.failing import FailingStore
from tests.support.waiting import until


async def test_ids_increase_and_their_nodes_are_removed() -> None:
    store = MemoryServer().session()
    ids = LedgerIds(store)
    assert [await ids.next() for _ in range(3)] == [0, 1, 2]
    assert await store.children(paths.ID_GENERATOR) == []
    await store.close()


async def test_ids_of_many_sessions_differ() -> None:
    server = MemoryServer()
    stores = [server.session() for _ in range(4)]
    givers = [LedgerIds(store) for store in stores]
    ids = await asyncio.gather(*(givers[i % 4].next() for i in range(40)))
    assert len(set(ids)) == 40
    for store in stores:
        await store.close()


async def test_long_ids_are_used_once_their_node_exists() -> None:
    server = MemoryServer()
    store, other = server.session(), server.session()
    ids = LedgerIds(store)
    await ids.next()
    await other.create(paths.LONG_ID_GENERATOR)
    await until(lambda: ids._changes)  # the watch's event
    assert await ids.next() == 1 << 32
    assert await ids.next() == (1 << 32) + 1
    await store.create(paths.long_id_directory(2))
    assert await ids.next() == 2 << 32
    ids.close()
    await store.close()
    await other.close()


async def test_the_node_of_long_ids_is_read_once_while_nothing_changes() -> None:
    store = MemoryServer().session()
    counted = FailingStore(store, lambda operation, path: path == paths.LONG_ID_GENERATOR)
    ids = LedgerIds(counted)
    for _ in range(3):
        await ids.next()
    assert counted.log == [("exists", paths.LONG_ID_GENERATOR)]
    await store.close()


class Counters:
    """A store whose sequence nodes have the numbers of a server that has already assigned very many."""

    def __init__(self, store: MemoryStore, numbers: dict[str, list[int]]) -> None:
        self._store = store
        self._numbers = numbers
        self.exists, self.children, self.delete = store.exists, store.children, store.delete
        self.watch = store.watch

    async def create(self, path: str, value: bytes = b"", **options: bool) -> str:
        numbers = self._numbers.get(path)
        if not options.pop("sequence", False) or numbers is None:
            return await self._store.create(path, value, **options)
        return await self._store.create(f"{path}{numbers.pop(0):010d}", value, **options)


@pytest.mark.parametrize("overflow", [(1 << 31) - 1, -(1 << 31)])
async def test_long_ids_follow_permanently_when_short_ids_are_exhausted(overflow: int) -> None:
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
    giver = LedgerIds(counters)  # type: ignore[arg-type]
    ids = [await giver.next() for _ in range(4)]
    assert ids == [last, 1 << 32, (1 << 32) + 5, 2 << 32]
    for ledger_id in ids:
        assert paths.ledger_id(paths.ledger(ledger_id)) == ledger_id
    await store.close()


async def test_unknown_nodes_beside_the_long_ids_are_ignored() -> None:
    store = MemoryServer().session()
    await store.create(paths.LONG_ID_GENERATOR + "/notes", make_parents=True)
    await store.create(paths.LONG_ID_GENERATOR + "/HOB-x")
    assert await LedgerIds(store).next() == 1 << 32
    await store.close()
