"""What can be read again is kept up to a bound of bytes: what was not used for longest goes first (S4). Pure."""

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Kept(Generic[K, V]):
    """Values by key, each with its weight in bytes, as its owner estimates it."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self._bytes_max = bytes_max
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, weight: int) -> None:
        """In place of what ``key`` had; what is heavier than the bound is not kept."""
        self.drop(key)
        self._values[key] = value, weight
        self.bytes += weight
        while self.bytes > self._bytes_max:
            _, (_, gone) = self._values.popitem(last=False)
            self.bytes -= gone

    def drop(self, key: K) -> None:
        """``key`` need not be there."""
        found = self._values.pop(key, None)
        if found is not None:
            self.bytes -= found[1]
