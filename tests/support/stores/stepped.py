"""Clients of one metadata tree whose calls are done one at a time, in an order that the test chooses."""

from collections.abc import Coroutine, Generator, Iterator
from typing import Any

from engine.metadata.store import NodeExistsError, NoNodeError, Stat
from engine.metadata.tree import Tree, parent_of


class _Step:
    def __await__(self) -> Generator[None, None, None]:
        yield


class CrashedError(BaseException):
    """The death of the client's process: none of its calls reaches the store any more."""


class SteppedStore:
    """One client of ``tree``; each of its calls waits for ``Actor.step``."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.crashed = False

    async def _turn(self) -> None:
        await _Step()
        if self.crashed:
            raise CrashedError

    async def get(self, path: str) -> tuple[bytes, Stat]:
        await self._turn()
        return self._tree.get(path)

    async def get_all(self, paths: list[str], parent: str | None = None) -> Any:
        await self._turn()
        records = []
        for path in paths:
            try:
                records.append(self._tree.get(path))
            except NoNodeError:
                records.append(None)
        return records, []

    async def exists(self, path: str) -> Stat | None:
        await self._turn()
        return self._tree.exists(path)

    async def children(self, path: str) -> list[str]:
        await self._turn()
        return self._tree.children(path)

    async def create(self, path: str, value: bytes = b"", *, make_parents: bool = False) -> str:
        if make_parents:
            await self._parents(parent_of(path))
        await self._turn()
        return self._tree.create(path, value, 0, False, 0)[0]

    async def _parents(self, path: str) -> None:
        if path == "/" or self._tree.exists(path) is not None:
            return
        await self._parents(parent_of(path))
        try:
            self._tree.create(path, b"", 0, False, 0)
        except NodeExistsError:
            return

    async def put(self, path: str, value: bytes, version: int = -1) -> Stat:
        await self._turn()
        return self._tree.put(path, value, version, 0)[0]

    async def delete(self, path: str, version: int = -1) -> None:
        await self._turn()
        self._tree.delete(path, version)


class Actor:
    """A coroutine on a ``SteppedStore``, driven without a loop."""

    def __init__(self, store: SteppedStore, work: Coroutine[Any, Any, Any]) -> None:
        self._store = store
        self._work = work
        self.done = False
        self.error: BaseException | None = None
        self.result: Any = None
        self.step()  # up to its first call

    def step(self) -> None:
        """Let the next call be done; do nothing once the work is done."""
        if self.done:
            return
        try:
            self._work.send(None)
        except StopIteration as stop:
            self.done, self.result = True, stop.value
        except (Exception, CrashedError) as error:
            self.done, self.error = True, error

    def finish(self) -> None:
        """Let all remaining calls be done."""
        while not self.done:
            self.step()

    def crash(self) -> None:
        """End the work at its present call."""
        self._store.crashed = True
        self.finish()


def two_switches(first_max: int, second_max: int) -> Iterator[tuple[int, int]]:
    """Yield orders of two actors: numbers of steps of the first and then of the second, before each is finished."""
    for first in range(first_max + 1):
        for second in range(second_max + 1):
            yield first, second
