"""Selections that requests share. Pure."""

from collections.abc import Callable
from typing import Protocol, TypeVar

from engine.auth.viewer import Viewer
from gateway.services.index.selection import Chosen

SELECTIONS_MAX = 64


class Kept(Protocol):
    """A kept selection; ``is_used``: requested since the last ``drop_unused``."""

    is_used: bool


T = TypeVar("T", bound=Kept)


class KeptSelections(dict[tuple[Viewer, Chosen], T]):
    """Selections by viewer and choice, the least recently requested one first, at most SELECTIONS_MAX."""

    def request(self, viewer: Viewer, chosen: Chosen, make: Callable[[], T]) -> T:
        """Return the selection, made when it is not kept."""
        key = viewer, chosen
        kept = self.pop(key, None)
        if kept is None:
            kept = make()
            if len(self) >= SELECTIONS_MAX:
                del self[next(iter(self))]
        self[key] = kept
        kept.is_used = True
        return kept

    def drop_unused(self) -> None:
        """Drop the selections that were not requested since the last call."""
        for key, kept in list(self.items()):
            if not kept.is_used:
                del self[key]
            kept.is_used = False
