"""A node kept in memory, dropped by its watch and read again on demand."""

from collections.abc import Callable
from typing import Generic, TypeVar

from engine.metadata.store import MetadataStore, NoNodeError, Stat

T = TypeVar("T")


class CachedNode(Generic[T]):
    """Decoded value of one path. Changes, reconnects and lost sessions drop it (the watch tells all three).

    A value may be older than the store's by the time a watch event takes; who decides by it must compare-and-set.
    """

    def __init__(self, store: MetadataStore, path: str, decode: Callable[[bytes], T]) -> None:
        self.path = path
        self._store = store
        self._decode = decode
        self._value: tuple[T, Stat] | None = None
        self._known = False
        self._changes = 0
        self._listeners: list[Callable[[], None]] = []
        self._stop = store.watch(path, self._dropped)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call after every drop; the next ``get`` reads anew."""
        self._listeners.append(callback)

    def _dropped(self, _path: str) -> None:
        self._changes += 1
        self._known = False
        for callback in list(self._listeners):
            callback()

    def peek(self) -> T | None:
        """What is in memory, without reading: None when the node is missing or not known now."""
        return self._value[0] if self._known and self._value is not None else None

    async def get(self) -> T | None:
        """The value, None when the node is missing. Raises what decoding and the store raise; cancel-safe."""
        found = await self.get_with_stat()
        return None if found is None else found[0]

    async def get_with_stat(self) -> tuple[T, Stat] | None:
        """As ``get``, with the stat for a compare-and-set."""
        if self._known:
            return self._value
        changes = self._changes
        try:
            data, stat = await self._store.get(self.path)
            value: tuple[T, Stat] | None = (self._decode(data), stat)
        except NoNodeError:
            value = None
        if (
            changes == self._changes
        ):  # else it changed while we read: good for this caller, not to keep
            self._value = value
            self._known = True
        return value

    def close(self) -> None:
        """Stop watching."""
        self._stop()
        self._known = False
        self._changes += 1
