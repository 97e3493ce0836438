"""A metadata tree that reports each stored value to observers."""

from collections.abc import Callable

from engine.metadata.store import ANY_VERSION, Stat
from engine.metadata.tree import Tree

Tap = Callable[[str, bytes | None, bool], None]
"""Called with a path, its new value (None: it is gone), and whether its version was checked."""


class TappedTree(Tree):
    """A tree whose ``taps`` are called in order, before the change returns."""

    def __init__(self) -> None:
        super().__init__()
        self.taps: list[Tap] = []

    def create(
        self, path: str, value: bytes, owner: int, sequence: bool, now_ms: int
    ) -> tuple[str, list[str]]:
        created = super().create(path, value, owner, sequence, now_ms)
        self._report(path, value, True)
        return created

    def put(self, path: str, value: bytes, version: int, now_ms: int) -> tuple[Stat, list[str]]:
        stored = super().put(path, value, version, now_ms)
        self._report(path, value, version != ANY_VERSION)
        return stored

    def delete(self, path: str, version: int) -> list[str]:
        changed_paths = super().delete(path, version)
        self._report(path, None, version != ANY_VERSION)
        return changed_paths

    def _report(self, path: str, value: bytes | None, conditional: bool) -> None:
        for tap in self.taps:
            tap(path, value, conditional)
