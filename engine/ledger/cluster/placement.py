"""Choice of bookies for an ensemble. Pure but for the entropy handed in; other policies implement ``Placement``.

The policy is named by the setting ``ensemble_placement_policy``: one of ``POLICIES``, or ``module:Class`` of one's own,
made with (entropy, settings).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from engine.base.entropy import Entropy
from engine.base.errors import MisuseError
from engine.ledger.errors import NotEnoughBookiesError
from engine.ledger.quorum import holds
from engine.ledger.settings import LedgerSettings

DEFAULT_RACK = "/default-region/default-rack"
"""Rack of every bookie that the rack map does not name (Pulsar's default)."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """The bookies as they are now. Only ``writable`` ones may be chosen; read-only and lost ones are not among them.

    ``suspect``: failed a moment ago. ``quarantined``: failed often. ``load`` counts the ledgers this process writes to
    each. ``racks`` maps bookie ids to racks, where an operator told.
    """

    writable: Sequence[str]
    suspect: Sequence[str] = ()
    quarantined: Sequence[str] = ()
    load: Mapping[str, int] = field(default_factory=dict)
    racks: Mapping[str, str] = field(default_factory=dict)

    def rack(self, bookie: str) -> str:
        return self.racks.get(bookie, DEFAULT_RACK)


class Placement(Protocol):
    """Chooses ensembles and who replaces a failed member."""

    def ensemble(self, size: int, write_quorum: int, candidates: Candidates) -> list[str]:
        """``size`` distinct bookies in ensemble order. Suspect and quarantined ones only when the others do not
        suffice. Raises NotEnoughBookiesError."""
        ...

    def replacements(
        self,
        positions: Sequence[int],
        ensemble: Sequence[str],
        write_quorum: int,
        candidates: Candidates,
    ) -> dict[int, str]:
        """Bookies for as many of ``positions`` of ``ensemble`` as possible, none of them suspect or a member that
        stays; quarantined ones only when there is nobody else."""
        ...


class SpreadPlacement:
    """Spreads ledgers whatever the racks: the least loaded first, equal ones by chance."""

    def __init__(self, entropy: Entropy, settings: LedgerSettings | None = None) -> None:
        self._entropy = entropy

    def ensemble(self, size: int, write_quorum: int, candidates: Candidates) -> list[str]:
        refuse_too_few(size, candidates)
        return self._entropy.shuffled(self._ordered(candidates)[:size])

    def replacements(
        self,
        positions: Sequence[int],
        ensemble: Sequence[str],
        write_quorum: int,
        candidates: Candidates,
    ) -> dict[int, str]:
        free = free_bookies(self._ordered(candidates), positions, ensemble, candidates)
        return dict(zip(positions, free, strict=False))

    def _ordered(self, candidates: Candidates) -> list[str]:
        return ordered(self._entropy, candidates)


class RackAwarePlacement:
    """Puts the copies of an entry on as many racks as there are, then spreads by load and chance.

    Every window of ``write_quorum`` neighbours (a write set) should touch ``min_racks_per_write_quorum`` racks; with
    ``enforce_min_racks`` an ensemble that does not is refused, else it is the best there is.
    """

    def __init__(self, entropy: Entropy, settings: LedgerSettings) -> None:
        self._entropy = entropy
        self._racks_min = settings.min_racks_per_write_quorum
        self._enforced = settings.enforce_min_racks_per_write_quorum

    def ensemble(self, size: int, write_quorum: int, candidates: Candidates) -> list[str]:
        refuse_too_few(size, candidates)
        chosen: list[str | None] = [None] * size
        rest = ordered(self._entropy, candidates)
        for position in range(size):
            self._seat(position, chosen, write_quorum, rest, candidates)
        members = [bookie for bookie in chosen if bookie is not None]
        if self._enforced and not self._enough_racks(members, write_quorum, candidates):
            raise NotEnoughBookiesError(
                f"no ensemble of {size} has {self._racks_min} racks in every write set of {write_quorum}"
            )
        return members

    def replacements(
        self,
        positions: Sequence[int],
        ensemble: Sequence[str],
        write_quorum: int,
        candidates: Candidates,
    ) -> dict[int, str]:
        rest = free_bookies(ordered(self._entropy, candidates), positions, ensemble, candidates)
        seats: list[str | None] = [
            None if position in positions else bookie for position, bookie in enumerate(ensemble)
        ]
        found: dict[int, str] = {}
        for position in positions:
            if not rest:
                break
            before = list(rest)
            bookie = self._seat(position, seats, write_quorum, rest, candidates)
            if self._enforced:
                known = [b for b in seats if b is not None]
                whole = len(known) == len(seats)
                if whole and not self._enough_racks(known, write_quorum, candidates):
                    seats[position], rest = None, before
                    break
            found[position] = bookie
        return found

    def _seat(
        self,
        position: int,
        seats: list[str | None],
        write_quorum: int,
        rest: list[str],
        candidates: Candidates,
    ) -> str:
        """Take from ``rest`` (best first) the bookie whose rack the neighbours in write sets have least."""
        size = len(seats)
        near = [
            candidates.rack(other)
            for place, other in enumerate(seats)
            if other is not None
            and place != position
            and _neighbours(place, position, size, write_quorum)
        ]

        def cost(bookie: str) -> tuple[bool, bool, int]:
            suspect, quarantined = candidates.suspect, candidates.quarantined
            return bookie in suspect, bookie in quarantined, near.count(candidates.rack(bookie))

        best = min(rest, key=cost)  # the first of equals: ``rest`` is in order of load and chance
        rest.remove(best)
        seats[position] = best
        return best

    def _enough_racks(
        self, members: Sequence[str], write_quorum: int, candidates: Candidates
    ) -> bool:
        size = len(members)
        needed = min(self._racks_min, write_quorum)
        for entry in range(size):
            racks = {
                candidates.rack(members[p]): None
                for p in range(size)
                if holds(p, entry, size, write_quorum)
            }
            if len(racks) < needed:
                return False
        return True


def _neighbours(a: int, b: int, size: int, write_quorum: int) -> bool:
    """Whether two positions share a write set."""
    return (a - b) % size < write_quorum or (b - a) % size < write_quorum


def refuse_too_few(size: int, candidates: Candidates) -> None:
    """Raise NotEnoughBookiesError when there are fewer writable bookies than ``size``."""
    if len(candidates.writable) < size:
        raise NotEnoughBookiesError(
            f"an ensemble of {size} needs {size} writable bookies, there are {len(candidates.writable)}"
        )


def ordered(entropy: Entropy, candidates: Candidates) -> list[str]:
    """Writable bookies, healthy ones first, then quarantined, then suspect ones; by load, equal ones by chance."""
    found = entropy.shuffled(sorted(candidates.writable))
    found.sort(
        key=lambda bookie: (
            bookie in candidates.suspect,
            bookie in candidates.quarantined,
            candidates.load.get(bookie, 0),
        )
    )
    return found


def free_bookies(
    bookies: Sequence[str],
    positions: Sequence[int],
    ensemble: Sequence[str],
    candidates: Candidates,
) -> list[str]:
    """Of ``bookies`` those that are no suspects and no members but of ``positions``."""
    staying = [bookie for place, bookie in enumerate(ensemble) if place not in positions]
    return [b for b in bookies if b not in staying and b not in candidates.suspect]


def own_seats(chosen: Mapping[int, str], ensemble: Sequence[str]) -> dict[int, str]:
    """``chosen`` by position, with every member that may sit again on its own seat.

    A failed member is free once it is no suspect any more. On the seat of another one it would be in the ensemble
    twice, unless its own is filled too.
    """
    own = {ensemble.index(bookie): bookie for bookie in chosen.values() if bookie in ensemble}
    others = {seat: bookie for seat, bookie in chosen.items() if bookie not in ensemble}
    kept = {seat: bookie for seat, bookie in others.items() if seat not in own}
    moved = [bookie for seat, bookie in others.items() if seat in own]
    free = [seat for seat in chosen if seat not in own and seat not in kept]
    return own | kept | dict(zip(free, moved, strict=False))


POLICIES: Mapping[str, Callable[[Entropy, LedgerSettings], Placement]] = {
    "rack-aware": RackAwarePlacement,
    "spread": SpreadPlacement,
}


def policy(name: str, entropy: Entropy, settings: LedgerSettings) -> Placement:
    """The policy called ``name``. Raises MisuseError when there is none."""
    known = POLICIES.get(name)
    if known is not None:
        return known(entropy, settings)
    module, colon, attribute = name.partition(":")
    try:
        if not colon:
            raise ImportError("no such policy")
        made: Placement = getattr(import_module(module), attribute)(entropy, settings)
    except (ImportError, AttributeError) as e:
        raise MisuseError(
            f"ensemble_placement_policy must be one of {', '.join(POLICIES)} or module:Class, not {name!r}: {e}"
        ) from e
    return made
