"""A metadata store in which a chosen call gets no answer, before or after it was done."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from engine.base.errors import MagnetarError
from engine.metadata.store import (
    ANY_VERSION,
    Found,
    MetadataStore,
    SessionState,
    Stat,
    StoreUnavailableError,
    Watch,
)

T = TypeVar("T")


def _every(operation: str, path: str) -> bool:
    return True


class FailingStore:
    """A MetadataStore over another one. Only calls through this object are counted and fail.

    ``counted(operation, path)`` chooses the calls (``get``, ``exists``, ``children``, ``create``, ``put``, ``delete``)
    that count; all others pass. ``calls`` is their number since ``fail_at`` or ``heal``;
    ``log`` has their names and paths.
    """

    def __init__(self, store: MetadataStore, counted: Callable[[str, str], bool] = _every) -> None:
        self.calls = 0
        self.failed = 0
        """Calls that got no answer since ``fail_at``."""
        self.log: list[tuple[str, str]] = []
        self._store = store
        self.counted = counted
        self._first = 0
        self._stop = 0
        self._lost_answer = False

    def fail_at(self, k: int, *, lost_answer: bool = False, calls: int = 1) -> None:
        """Let the ``k``-th call from now on (1: the next one) raise StoreUnavailableError.

        With ``lost_answer`` that call is done nevertheless. ``calls`` calls fail in all; the later ones are never done.
        """
        self.heal()
        self._first, self._stop = k, k + calls
        self._lost_answer = lost_answer

    def heal(self) -> None:
        """Answer every call from now on, and reset the counts."""
        self.calls = self.failed = self._first = self._stop = 0
        self.log = []

    async def _call(self, operation: str, path: str, call: Callable[[], Awaitable[T]]) -> T:
        if not self.counted(operation, path):
            return await call()
        self.calls += 1
        self.log.append((operation, path))
        number = self.calls
        if not self._first <= number < self._stop:
            return await call()
        self.failed += 1
        if self._lost_answer and number == self._first:
            with suppress(MagnetarError):  # a refusal is an answer, too
                await call()
        raise StoreUnavailableError(f"{operation} {path}: no answer (call {number})")

    @property
    def state(self) -> SessionState:
        return self._store.state

    @property
    def session_id(self) -> int:
        return self._store.session_id

    @property
    def session_proven(self) -> bool:
        return self._store.session_proven

    @property
    def session_proven_until_s(self) -> float:
        return self._store.session_proven_until_s

    @property
    def connection(self) -> int:
        return self._store.connection

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return await self._call("get", path, lambda: self._store.get(path, watch))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return await self._call("exists", path, lambda: self._store.exists(path, watch))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self._call("children", path, lambda: self._store.children(path, watch))

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        path = next(iter(paths), parent or "/")
        return await self._call("get_all", path, lambda: self._store.get_all(paths, parent))

    def unwatch(self, path: str, watch: Watch) -> None:
        self._store.unwatch(path, watch)

    async def create(
        self,
        path: str,
        value: bytes = b"",
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        make_parents: bool = False,
    ) -> str:
        def call() -> Awaitable[str]:
            return self._store.create(
                path, value, ephemeral=ephemeral, sequence=sequence, make_parents=make_parents
            )

        return await self._call("create", path, call)

    async def put(self, path: str, value: bytes, version: int = ANY_VERSION) -> Stat:
        return await self._call("put", path, lambda: self._store.put(path, value, version))

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self._call("delete", path, lambda: self._store.delete(path, version))

    def watch(self, path: str, callback: Callable[[str], None]) -> Callable[[], None]:
        return self._store.watch(path, callback)

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        return self._store.on_state(callback)

    async def close(self) -> None:
        await self._store.close()
