"""The record that a topic's owner writes: what it knows of the children after a write."""

from collections.abc import Sequence

from engine.base.entropy import RandomEntropy
from engine.managed.settings import ManagedSettings
from engine.managed.stored.node import StoredNode
from engine.metadata.memory import MemoryServer
from engine.metadata.store import ANY_VERSION, Found, MetadataStore, Stat


class Uncounted:
    """A store that does not count the changes of children, as etcd."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        rows, names = await self._store.get_all(paths, parent)
        return [row and (row[0], _uncounted(row[1])) for row in rows], names

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        return _uncounted(await self._store.put(path, value, version))


def _uncounted(stat: Stat) -> Stat:
    return stat._replace(children_version=None)


async def node_of(store: MetadataStore | Uncounted) -> StoredNode:
    node = StoredNode(store, "/a", RandomEntropy(), ManagedSettings())  # type: ignore[arg-type]
    await node.read_with_children()
    return node


async def test_children_hold_after_a_write_until_one_is_created() -> None:
    store = MemoryServer().session(5.0)
    await store.create("/a")
    node = await node_of(store)
    await node.write(b"1")
    assert node.children_hold
    await store.create("/a/b")
    await node.write(b"2")
    assert not node.children_hold
    await store.close()


async def test_children_never_hold_in_a_store_that_does_not_count_their_changes() -> None:
    store = MemoryServer().session(5.0)
    await store.create("/a")
    node = await node_of(Uncounted(store))
    await store.create("/a/b")
    await node.write(b"1")
    assert not node.children_hold
    await store.close()
