"""A cache of values that can be read again, bounded in bytes; the least recently used is evicted (S4). Pure."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key, each with its weight in bytes as estimated by its owner."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        row = self._values.get(key)
        if row is None:
            return None
        self._values.move_to_end(key)
        return row[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """Replace the value of ``key``. A value heavier than the bound is not kept."""
        self.drop(key)
        self._values[key] = value, weight
        self.bytes += weight
        while self.bytes > self._bytes_max:
            _, (_, evicted) = self._values.popitem(last=False)
            self.bytes -= evicted

    def drop(self, key: K) -> None:
        """Remove ``key`` if it is there."""
        row = self._values.pop(key, None)
        if row is not None:
            self.bytes -= row[1]
