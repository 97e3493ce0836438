"""Mistakes in placement and confirmation by regions."""

from collections.abc import Sequence

from engine.ledger.cluster.health import BookieHealth
from engine.ledger.cluster.placement import Candidates, RegionAwarePlacement
from engine.ledger.quorum import AckTracker
from tests.sim.plants.planting import Patches


def one_region_confirms() -> Patches:
    """Confirm an entry once an ack quorum has it, also within one region."""

    def require(self: AckTracker, regions: Sequence[str], regions_min: int) -> None:
        pass

    return [(AckTracker, "require_regions", require)]


def ensembles_are_chosen_by_name_alone() -> Patches:
    """Choose ensembles without their regions, which only the confirmation regards."""

    def ensemble(
        self: RegionAwarePlacement, size: int, write_quorum: int, candidates: Candidates
    ) -> list[str]:
        return sorted(candidates.writable)[:size]

    return [(RegionAwarePlacement, "ensemble", ensemble)]


def all_regions_are_needed() -> Patches:
    """Refuse ensembles and replacements that are not in every region: nothing is written while one is away."""

    def enough(
        self: RegionAwarePlacement,
        members: Sequence[str],
        write_quorum: int,
        candidates: Candidates,
    ) -> bool:
        return len({candidates.region(bookie) for bookie in members}) >= 3

    return [(RegionAwarePlacement, "enough", enough)]


def bookies_that_failed_once_stay_out() -> Patches:
    """Keep bookies that failed once suspect for ever, though they have returned."""
    real = BookieHealth.failed

    def failed(self: BookieHealth, bookie: str, now: float) -> bool:
        answer = real(self, bookie, now)
        self._suspects[bookie] = float("inf")
        return answer

    def registered(self: BookieHealth, bookie: str) -> None:
        pass

    return [(BookieHealth, "failed", failed), (BookieHealth, "registered", registered)]


def quarantine_outranks_regions() -> Patches:
    """Use a region whose bookies are all in quarantine only where the others are fewer than the minimum."""
    real = RegionAwarePlacement._chosen

    def chosen(
        self: RegionAwarePlacement,
        members: Sequence[str | None],
        positions: Sequence[int],
        write_quorum: int,
        free: Sequence[str],
        candidates: Candidates,
        avoided: int,
    ) -> list[str]:
        both = 2 if avoided == 1 else avoided
        return real(self, members, positions, write_quorum, free, candidates, both)

    return [(RegionAwarePlacement, "_chosen", chosen)]
