"""Entropy seam: every choice by chance goes through here, so that a seed replays a run."""

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Entropy(Protocol):
    """Source of chance of one node."""

    def random(self) -> float:
        """Uniform in [0, 1)."""
        ...

    def below(self, n: int) -> int:
        """Uniform integer in [0, n); n >= 1."""
        ...

    def bits(self, k: int) -> int:
        """k uniform bits, 1 <= k <= 128."""
        ...

    def hex(self, nbytes: int) -> str:
        """``nbytes`` random bytes in hexadecimal; for names and ids, and for keys when shipped."""
        ...

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """A new list in random order."""
        ...


class RandomEntropy:
    """Entropy over a ``random.Random``; the operating system's unless a seeded one is given."""

    def __init__(self, source: random.Random | None = None) -> None:
        self._source = source if source is not None else random.SystemRandom()

    def random(self) -> float:
        return self._source.random()

    def below(self, n: int) -> int:
        return self._source.randrange(n)

    def bits(self, k: int) -> int:
        return self._source.getrandbits(k)

    def hex(self, nbytes: int) -> str:
        return self._source.getrandbits(8 * nbytes).to_bytes(nbytes, "big").hex()

    def shuffled(self, items: Sequence[T]) -> list[T]:
        out = list(items)
        self._source.shuffle(out)
        return out
