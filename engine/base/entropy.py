"""Interface of the source of randomness. All random choices use it, so that a seed reproduces a run."""

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")


class Entropy(Protocol):
    """Source of randomness of one node."""

    def random(self) -> float:
        """Return a uniform number in [0, 1)."""
        ...

    def below(self, n: int) -> int:
        """Return a uniform integer in [0, n); n >= 1."""
        ...

    def bits(self, k: int) -> int:
        """Return k uniform bits, 1 <= k <= 128."""
        ...

    def hex(self, nbytes: int) -> str:
        """Return ``nbytes`` random bytes in hexadecimal, for names, ids and (in production) keys."""
        ...

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return a new list of the items in random order."""
        ...


class RandomEntropy:
    """Entropy from a ``random.Random``; the operating system's unless a seeded one is given."""

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
