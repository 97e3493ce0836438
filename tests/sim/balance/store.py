"""A metadata store of brokers that balance load: every call is answered at once, except while its process is paused."""

import asyncio
from collections.abc import Callable

from engine.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    Stat,
)


class InstantTree:
    """Nodes with versions and the sessions that own ephemeral ones."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int, int]] = {}
        """Value, version and owning session (0: none) by path."""
        self.sessions = 0

    def children(self, path: str) -> list[str]:
        prefix = f"{path}/"
        names = {
            name[len(prefix) :].split("/")[0] for name in self.nodes if name.startswith(prefix)
        }
        return sorted(names)

    def end(self, session: int) -> None:
        """Remove the nodes of a session."""
        self.nodes = {path: node for path, node in self.nodes.items() if node[2] != session}


class InstantStore:
    """The part of MetadataStore that load balance uses, for one process.

    ``resumed`` is set while the process runs. A session that ended while it was paused is replaced by a new one.
    """

    def __init__(self, tree: InstantTree) -> None:
        self._tree = tree
        self.resumed = asyncio.Event()
        self.resumed.set()
        self.expired = False
        self.renew()

    def renew(self) -> None:
        """Begin a new session."""
        self._tree.sessions += 1
        self.session_id = self._tree.sessions
        self.expired = False

    def expire(self) -> None:
        """End the session; the process notices it at its next call."""
        self._tree.end(self.session_id)
        self.expired = True

    @property
    def session_proven(self) -> bool:
        return not self.expired

    @property
    def session_proven_until_s(self) -> float:
        return float("inf")

    async def _turn(self) -> None:
        if not self.resumed.is_set():
            await self.resumed.wait()
        if self.expired:
            self.renew()
            raise SessionExpiredError("the session expired")

    async def get(
        self, path: str, watch: Callable[[str], None] | None = None
    ) -> tuple[bytes, Stat]:
        await self._turn()
        value, version, owner = self._node(path)
        return value, _stat(version, owner)

    async def exists(self, path: str, watch: Callable[[str], None] | None = None) -> Stat | None:
        await self._turn()
        if path not in self._tree.nodes and not self._tree.children(path):
            return None
        _, version, owner = self._tree.nodes.get(path, (b"", 0, 0))
        return _stat(version, owner)

    async def children(self, path: str, watch: Callable[[str], None] | None = None) -> list[str]:
        await self._turn()
        names = self._tree.children(path)
        if not names:
            raise NoNodeError(path)
        return names

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        await self._turn()
        if path in self._tree.nodes:
            raise NodeExistsError(path)
        self._tree.nodes[path] = value, 0, self.session_id if ephemeral else 0
        return path

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        await self._turn()
        _, present, owner = self._node(path)
        if version not in (ANY_VERSION, present):
            raise BadVersionError(path)
        self._tree.nodes[path] = value, present + 1, owner
        return _stat(present + 1, owner)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._turn()
        _, present, _ = self._node(path)
        if version not in (ANY_VERSION, present):
            raise BadVersionError(path)
        del self._tree.nodes[path]

    def _node(self, path: str) -> tuple[bytes, int, int]:
        node = self._tree.nodes.get(path)
        if node is None:
            raise NoNodeError(path)
        return node


def _stat(version: int, owner: int) -> Stat:
    return Stat(version, owner, 0, 0, 0, None)
