"""A node changes its owner between the read and the removal."""

import pytest

from engine.metadata.memory import MemoryServer, MemoryStore
from engine.ownership.registration import claim

PATH = "/owner"


class Raced:
    """A store in which another owner writes just before the first deletion arrives."""

    def __init__(self, store: MemoryStore, theirs: bytes) -> None:
        self.create, self.get = store.create, store.get
        self.session_id = store.session_id
        self._store = store
        self._theirs: bytes | None = theirs

    async def delete(self, path: str, version: int = -1) -> None:
        if self._theirs is not None:
            theirs, self._theirs = self._theirs, None
            await self._store.put(path, theirs)
        await self._store.delete(path, version)


@pytest.mark.parametrize(("theirs", "taken"), [(b"another", False), (b"ours", True)])
async def test_a_node_with_a_new_owner_is_not_removed_by_a_claim(
    theirs: bytes, taken: bool
) -> None:
    server = MemoryServer()
    earlier, now = server.session(), server.session()
    await earlier.create(PATH, b"ours", ephemeral=True)
    assert await claim(Raced(now, theirs), PATH, b"ours") is taken  # type: ignore[arg-type]
    value, stat = await now.get(PATH)
    assert value == theirs
    assert (stat.ephemeral_owner == now.session_id) is taken
