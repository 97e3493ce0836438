"""A metadata tree that tells observers of each value stored in it."""

from collections.abc import Callable

from engine.metadata.store import ANY_VERSION
from engine.metadata.tree import Tree

Tap = Callable[[str, bytes | None, bool], None]
"""Called with a path, its new value (None: it is gone), and whether its version was looked at."""


class TappedTree(Tree):
    """``taps`` are told in order, at once."""

    def __init__(self) -> None:
        super().__init__()
        self.taps: list[Tap] = []

    def create(
        self, path: str, value: bytes, owner: int, sequence: bool, now_ms: int
    ) -> tuple[str, list[str]]:
        created = super().create(path, value, owner, sequence, now_ms)
        self._tell(path, value, True)
        return created

    def put(self, path: str, value: bytes, version: int, now_ms: int) -> tuple[int, list[str]]:
        stored = super().put(path, value, version, now_ms)
        self._tell(path, value, version != ANY_VERSION)
        return stored

    def delete(self, path: str, version: int) -> list[str]:
        told = super().delete(path, version)
        self._tell(path, None, True)
        return told

    def _tell(self, path: str, value: bytes | None, conditional: bool) -> None:
        for tap in self.taps:
            tap(path, value, conditional)
