"""Results that requests share: selections, and other lists in an order. Pure."""

from collections.abc import Callable
from typing import ClassVar, Protocol, TypeVar

from engine.auth.viewer import Viewer
from gateway.services.index.selection import Chosen

SELECTIONS_MAX = 64
ORDERS_MAX = 16
"""Filters and orders of which the result is kept, for those who look at the same list."""

K = TypeVar("K")
V = TypeVar("V")


class KeptResults(dict[K, V]):
    """Results by what was asked, the least recently requested one first, at most ``kept_max``."""

    kept_max: ClassVar[int] = ORDERS_MAX

    def get_or_make(self, asked: K, make: Callable[[], V]) -> V:
        """Return the result, made when it is not kept."""
        kept = self.pop(asked, None)
        if kept is None:
            kept = make()
            if len(self) >= self.kept_max:
                del self[next(iter(self))]
        self[asked] = kept
        return kept


class Kept(Protocol):
    """A kept selection; ``is_used``: requested since the last ``drop_unused``."""

    is_used: bool


T = TypeVar("T", bound=Kept)


class KeptSelections(KeptResults[tuple[Viewer, Chosen], T]):
    """Selections by viewer and choice."""

    kept_max = SELECTIONS_MAX

    def request(self, viewer: Viewer, chosen: Chosen, make: Callable[[], T]) -> T:
        """Return the selection, made when it is not kept."""
        kept = self.get_or_make((viewer, chosen), make)
        kept.is_used = True
        return kept

    def drop_unused(self) -> None:
        """Drop the selections that were not requested since the last call."""
        for key, kept in list(self.items()):
            if not kept.is_used:
                del self[key]
            kept.is_used = False
