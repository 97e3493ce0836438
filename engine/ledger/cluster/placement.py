"""Placement policies, which choose the bookies of an ensemble. Pure except for the given entropy.

The setting ``ensemble_placement_policy`` names the policy: one of ``POLICIES``, or ``module:Class`` for a class that
implements ``Placement`` and is created with (entropy, settings). With ``region_aware`` it is ``RegionAwarePlacement``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Protocol

from engine.base.entropy import Entropy
from engine.base.errors import MisuseError
from engine.ledger.errors import NotEnoughBookiesError
from engine.ledger.quorum import holds, write_set
from engine.ledger.settings import LedgerSettings

DEFAULT_RACK = "/default-region/default-rack"
"""Rack of every bookie that is missing from the rack map (Pulsar's default)."""


def region_of(rack: str) -> str:
    """Return the region of a rack: the first part of ``/region/rack``."""
    return rack.strip("/").partition("/")[0]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The bookies at one moment. Only ``writable`` ones may be chosen; read-only and lost ones are not among them.

    ``suspect`` ones failed recently, ``quarantined`` ones often. ``load`` counts the ledgers that this process writes
    to each. ``racks`` maps bookie ids to the racks that an operator set.
    """

    writable: Sequence[str]
    suspect: Sequence[str] = ()
    quarantined: Sequence[str] = ()
    load: Mapping[str, int] = field(default_factory=dict)
    racks: Mapping[str, str] = field(default_factory=dict)

    def rack(self, bookie: str) -> str:
        return self.racks.get(bookie, DEFAULT_RACK)

    def region(self, bookie: str) -> str:
        return region_of(self.rack(bookie))


class Placement(Protocol):
    """A policy that chooses ensembles and the replacements of failed members."""

    def ensemble(self, size: int, write_quorum: int, candidates: Candidates) -> list[str]:
        """Choose ``size`` distinct bookies in ensemble order, suspect and quarantined ones only when the others do not
        suffice. Raises NotEnoughBookiesError."""
        ...

    def replacements(
        self,
        positions: Sequence[int],
        ensemble: Sequence[str],
        write_quorum: int,
        candidates: Candidates,
    ) -> dict[int, str]:
        """Choose bookies for as many of ``positions`` of ``ensemble`` as possible, none of them suspect or a remaining
        member; quarantined ones only when there is no other."""
        ...


class SpreadPlacement:
    """Placement regardless of racks: the least loaded bookies first, equal ones by chance."""

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
    """Placement of an entry's copies on as many racks as possible, then by load and chance.

    Every window of ``write_quorum`` neighbours (a write set) should touch ``min_racks_per_write_quorum`` racks. With
    ``enforce_min_racks_per_write_quorum`` an ensemble that does not is refused; otherwise the best one is used.
    """

    def __init__(self, entropy: Entropy, settings: LedgerSettings) -> None:
        self._entropy = entropy
        self._racks_min = settings.min_racks_per_write_quorum
        self._enforced = settings.enforce_min_racks_per_write_quorum

    def ensemble(self, size: int, write_quorum: int, candidates: Candidates) -> list[str]:
        refuse_too_few(size, candidates)
        chosen: list[str | None] = [None] * size
        free = ordered(self._entropy, candidates)
        for position in range(size):
            self._choose(position, chosen, write_quorum, free, candidates)
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
        free = free_bookies(ordered(self._entropy, candidates), positions, ensemble, candidates)
        members: list[str | None] = [
            None if position in positions else bookie for position, bookie in enumerate(ensemble)
        ]
        chosen: dict[int, str] = {}
        for position in positions:
            if not free:
                break
            before = list(free)
            bookie = self._choose(position, members, write_quorum, free, candidates)
            if self._enforced:
                known = [bookie for bookie in members if bookie is not None]
                complete = len(known) == len(members)
                if complete and not self._enough_racks(known, write_quorum, candidates):
                    members[position], free = None, before
                    break
            chosen[position] = bookie
        return chosen

    def _choose(
        self,
        position: int,
        members: list[str | None],
        write_quorum: int,
        free: list[str],
        candidates: Candidates,
    ) -> str:
        """Move the best bookie of ``free`` (ordered by load and chance) to ``position`` of ``members``, and return it.

        The best is the one whose rack is rarest among the neighbours that share a write set with the position.
        """
        size = len(members)
        near_racks = [
            candidates.rack(other)
            for place, other in enumerate(members)
            if other is not None
            and place != position
            and _neighbours(place, position, size, write_quorum)
        ]

        def cost(bookie: str) -> tuple[bool, bool, int]:
            suspect, quarantined = candidates.suspect, candidates.quarantined
            return (
                bookie in suspect,
                bookie in quarantined,
                near_racks.count(candidates.rack(bookie)),
            )

        # ``free`` is ordered by load and chance, so the first of equal ones is the best.
        best = min(free, key=cost)
        free.remove(best)
        members[position] = best
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


class RegionAwarePlacement:
    """Placement of an entry's copies in several regions, then on as many racks as possible, then by load and chance.

    Every write set touches at least ``regions_min`` regions, of those that ``regions_to_write`` names, if any. What
    cannot have them is refused: without enough regions no entry could be confirmed (I41).
    """

    def __init__(self, entropy: Entropy, settings: LedgerSettings) -> None:
        self._entropy = entropy
        self._regions_min = settings.regions_min
        self._named = {name.strip() for name in settings.regions_to_write.split(";")} - {""}

    def ensemble(self, size: int, write_quorum: int, candidates: Candidates) -> list[str]:
        free = self._allowed(ordered(self._entropy, candidates), candidates)
        if len(free) < size:
            raise NotEnoughBookiesError(
                f"an ensemble of {size} needs {size} writable bookies{self._place}, there are {len(free)}"
            )
        chosen = self._filled([None] * size, range(size), write_quorum, free, candidates)
        if chosen is None:
            regions = {candidates.region(bookie) for bookie in free}
            raise NotEnoughBookiesError(
                f"no ensemble of {size} has {self._regions_min} regions in every write set of {write_quorum}: there "
                f"are writable bookies in {', '.join(sorted(regions))}"
            )
        return chosen

    def replacements(
        self,
        positions: Sequence[int],
        ensemble: Sequence[str],
        write_quorum: int,
        candidates: Candidates,
    ) -> dict[int, str]:
        free = free_bookies(ordered(self._entropy, candidates), positions, ensemble, candidates)
        free = self._allowed(free, candidates)
        due = list(positions)
        # What cannot be replaced stays a member: its region counts, although it does not answer.
        while due:
            members = [None if p in due else bookie for p, bookie in enumerate(ensemble)]
            if len(free) >= len(due):
                chosen = self._filled(members, due, write_quorum, free, candidates)
                if chosen is not None:
                    return {position: chosen[position] for position in due}
            due.pop()
        return {}

    @property
    def _place(self) -> str:
        return f" in the regions {', '.join(sorted(self._named))}" if self._named else ""

    def _allowed(self, bookies: Sequence[str], candidates: Candidates) -> list[str]:
        return [b for b in bookies if not self._named or candidates.region(b) in self._named]

    def _filled(
        self,
        members: Sequence[str | None],
        positions: Sequence[int],
        write_quorum: int,
        free: Sequence[str],
        candidates: Candidates,
    ) -> list[str] | None:
        """Return the members with the best of ``free`` at ``positions``; None when write sets have too few regions.

        Quarantined bookies are chosen only for regions that would have no copy without them, as all bookies of a region
        that was away are in quarantine; suspect ones only where the others do not have enough regions.
        """
        any_failed, suspect_only, none_avoided = (
            self._chosen(members, positions, write_quorum, free, candidates, avoided)
            for avoided in (2, 1, 0)
        )
        most = max(
            any_failed, suspect_only, key=lambda m: self._regions(m, write_quorum, candidates)
        )
        for chosen in (most, none_avoided):
            if self.enough(chosen, write_quorum, candidates):
                return chosen
        return None

    def _chosen(
        self,
        members: Sequence[str | None],
        positions: Sequence[int],
        write_quorum: int,
        free: Sequence[str],
        candidates: Candidates,
        avoided: int,
    ) -> list[str]:
        """Return the members with the best of ``free``, which is ordered by load and chance, at ``positions``.

        ``avoided`` is what the spread over regions does not use where there are other bookies: 2 suspect and
        quarantined ones, 1 suspect ones, 0 none.
        """
        chosen, left = list(members), list(free)
        size = len(members)
        for position in positions:
            near = [
                other
                for place, other in enumerate(chosen)
                if other is not None and _neighbours(place, position, size, write_quorum)
            ]
            regions = [candidates.region(other) for other in near]
            racks = [candidates.rack(other) for other in near]

            def cost(
                bookie: str, regions: list[str] = regions, racks: list[str] = racks
            ) -> list[int]:
                costs = [bookie in candidates.suspect, bookie in candidates.quarantined]
                same_region = regions.count(candidates.region(bookie))
                same_rack = racks.count(candidates.rack(bookie))
                return [*costs[:avoided], same_region, *costs[avoided:], same_rack]

            best = min(left, key=cost)
            left.remove(best)
            chosen[position] = best
        return [bookie for bookie in chosen if bookie is not None]

    def enough(self, members: Sequence[str], write_quorum: int, candidates: Candidates) -> bool:
        """Return whether every write set of ``members`` touches enough regions."""
        return self._regions(members, write_quorum, candidates)[0] >= self._regions_min

    def _regions(
        self, members: Sequence[str], write_quorum: int, candidates: Candidates
    ) -> tuple[int, int]:
        """Return the regions of the poorest write set and of the ensemble."""
        size = len(members)
        regions = [candidates.region(bookie) for bookie in members]
        write_sets = (write_set(entry, size, write_quorum) for entry in range(size))
        return min(len({regions[p] for p in places}) for places in write_sets), len(set(regions))


def _neighbours(a: int, b: int, size: int, write_quorum: int) -> bool:
    """Return whether two positions share a write set."""
    return (a - b) % size < write_quorum or (b - a) % size < write_quorum


def refuse_too_few(size: int, candidates: Candidates) -> None:
    """Raise NotEnoughBookiesError when there are fewer writable bookies than ``size``."""
    if len(candidates.writable) < size:
        raise NotEnoughBookiesError(
            f"an ensemble of {size} needs {size} writable bookies, there are {len(candidates.writable)}"
        )


def ordered(entropy: Entropy, candidates: Candidates) -> list[str]:
    """Return the writable bookies: healthy ones, then quarantined, then suspect ones; by load, equal ones by chance."""
    bookies = entropy.shuffled(sorted(candidates.writable))
    bookies.sort(
        key=lambda bookie: (
            bookie in candidates.suspect,
            bookie in candidates.quarantined,
            candidates.load.get(bookie, 0),
        )
    )
    return bookies


def free_bookies(
    bookies: Sequence[str],
    positions: Sequence[int],
    ensemble: Sequence[str],
    candidates: Candidates,
) -> list[str]:
    """Return the ``bookies`` that are not suspect and not members at other positions than ``positions``."""
    staying = [bookie for place, bookie in enumerate(ensemble) if place not in positions]
    return [
        bookie for bookie in bookies if bookie not in staying and bookie not in candidates.suspect
    ]


def own_positions(chosen: Mapping[int, str], ensemble: Sequence[str]) -> dict[int, str]:
    """Return ``chosen`` rearranged so that every chosen member of ``ensemble`` returns to its own position.

    A failed member may be chosen again once it is no longer suspect. At the position of another failed member it would
    be in the ensemble twice, unless its own position were filled too.
    """
    own = {ensemble.index(bookie): bookie for bookie in chosen.values() if bookie in ensemble}
    others = {position: bookie for position, bookie in chosen.items() if bookie not in ensemble}
    unmoved = {position: bookie for position, bookie in others.items() if position not in own}
    displaced = [bookie for position, bookie in others.items() if position in own]
    free = [position for position in chosen if position not in own and position not in unmoved]
    return own | unmoved | dict(zip(free, displaced, strict=False))


POLICIES: Mapping[str, Callable[[Entropy, LedgerSettings], Placement]] = {
    "rack-aware": RackAwarePlacement,
    "spread": SpreadPlacement,
}


def policy(entropy: Entropy, settings: LedgerSettings) -> Placement:
    """Return a new policy as the settings name it. Raises MisuseError when there is none."""
    if settings.region_aware:
        return RegionAwarePlacement(entropy, settings)
    name = settings.ensemble_placement_policy
    built_in = POLICIES.get(name)
    if built_in is not None:
        return built_in(entropy, settings)
    module, colon, attribute = name.partition(":")
    try:
        if not colon:
            raise ImportError("no such policy")
        placement: Placement = getattr(import_module(module), attribute)(entropy, settings)
    except (ImportError, AttributeError) as e:
        raise MisuseError(
            f"ensemble_placement_policy must be one of {', '.join(POLICIES)} or module:Class, not {name!r}: {e}"
        ) from e
    return placement
