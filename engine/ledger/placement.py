"""Choice of bookies for an ensemble. Pure but for the entropy handed in; other policies implement ``Placement``."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from engine.base.entropy import Entropy
from engine.ledger.errors import NotEnoughBookiesError


class Placement(Protocol):
    """Chooses among writable bookies. ``load`` counts how much this process already writes to each."""

    def ensemble(
        self, size: int, writable: Sequence[str], suspect: Sequence[str], load: Mapping[str, int]
    ) -> list[str]:
        """``size`` distinct bookie ids; suspects only when the others do not suffice. Raises NotEnoughBookiesError."""
        ...

    def replacements(
        self,
        count: int,
        ensemble: Sequence[str],
        writable: Sequence[str],
        suspect: Sequence[str],
        load: Mapping[str, int],
    ) -> list[str]:
        """``count`` bookie ids outside ``ensemble`` and ``suspect``, fewer when there are no more."""
        ...


class SpreadPlacement:
    """Spreads ledgers: the least loaded first, equal ones by chance."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def ensemble(
        self, size: int, writable: Sequence[str], suspect: Sequence[str], load: Mapping[str, int]
    ) -> list[str]:
        if len(writable) < size:
            raise NotEnoughBookiesError(
                f"an ensemble of {size} needs {size} writable bookies, there are {len(writable)}"
            )
        shuffled = self._entropy.shuffled(sorted(writable))
        shuffled.sort(key=lambda bookie: (bookie in suspect, load.get(bookie, 0)))
        return self._entropy.shuffled(shuffled[:size])

    def replacements(
        self,
        count: int,
        ensemble: Sequence[str],
        writable: Sequence[str],
        suspect: Sequence[str],
        load: Mapping[str, int],
    ) -> list[str]:
        free = [b for b in sorted(writable) if b not in ensemble and b not in suspect]
        free = self._entropy.shuffled(free)
        free.sort(key=lambda bookie: load.get(bookie, 0))
        return free[:count]
