"""Choice of the bookies to write to and to read from first, by registration, load, rack and recent failures."""

import asyncio
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from engine.base.entropy import Entropy
from engine.ledger.cluster.health import BookieHealth
from engine.ledger.cluster.placement import (
    DEFAULT_RACK,
    Candidates,
    Placement,
    own_positions,
    policy,
    region_of,
)
from engine.ledger.cluster.registrations import Registrations
from engine.ledger.quorum import write_set
from engine.ledger.settings import LedgerSettings

log = logging.getLogger(__name__)


class BookieChoice:
    """Choice of bookies for one ledger client, which reports every failure to it."""

    def __init__(
        self,
        registrations: Registrations,
        entropy: Entropy,
        settings: LedgerSettings,
        placement: Placement | None,
    ) -> None:
        self.health = BookieHealth(settings)
        self._registrations = registrations
        self._settings = settings
        self._placement = placement or policy(entropy, settings)
        self._loop = asyncio.get_running_loop()
        self._load: dict[str, int] = {}
        registrations.on_back(self.health.registered)
        registrations.on_change(self._registrations_changed)

    def _registrations_changed(self) -> None:
        self.health.quarantine_off = self._registrations.health_check_off

    async def ensemble(self, size: int, write_quorum: int) -> list[str]:
        """Choose the ensemble of a new ledger. Raises NotEnoughBookiesError, if need be after loading the registrations
        again."""
        if not self._registrations.loaded or len(self._registrations.writable) < size:
            await self._registrations.load()
        return self._placement.ensemble(size, write_quorum, self._candidates())

    def replacements(
        self,
        positions: Sequence[int],
        ensemble: Sequence[str],
        write_quorum: int,
        excluded: Collection[str] = (),
    ) -> dict[int, str]:
        """Choose bookies for as many of ``positions`` of an ensemble as possible: no other members, none that failed
        recently, none of ``excluded``. Writers and repairs alike choose by it (I46). The member at one of ``positions``
        may return to its own position."""
        candidates = self._candidates()
        if excluded:
            allowed = [bookie for bookie in candidates.writable if bookie not in excluded]
            candidates = replace(candidates, writable=allowed)
        chosen = self._placement.replacements(positions, ensemble, write_quorum, candidates)
        return own_positions(chosen, ensemble)

    def _candidates(self) -> Candidates:
        now = self._loop.time()
        return Candidates(
            writable=self._registrations.writable,
            suspect=self.health.suspects(now),
            quarantined=self.health.quarantined(now),
            load=self._load,
            racks=self._registrations.racks,
        )

    def read_costs(self, bookies: Sequence[str]) -> list[tuple[int, bool]]:
        """Return by position the cost of reading from a bookie first: the rank by failures and slowness, and whether
        its rack, or where placement is by regions its region, differs from this process's."""
        now = self._loop.time()
        rank, local_rack = self.health.read_rank, self._settings.local_rack
        if self._settings.region_aware:
            regions, local = self.regions(bookies), region_of(local_rack)
            return [
                (rank(bookie, now), bool(local) and region != local)
                for bookie, region in zip(bookies, regions, strict=True)
            ]
        racks = self._registrations.racks
        return [
            (rank(bookie, now), bool(local_rack) and racks.get(bookie, DEFAULT_RACK) != local_rack)
            for bookie in bookies
        ]

    def regions(self, bookies: Sequence[str]) -> list[str]:
        """Return the present regions of bookies."""
        racks = self._registrations.racks
        return [region_of(racks.get(bookie, DEFAULT_RACK)) for bookie in bookies]

    def adheres(self, ensemble: Sequence[str], write_quorum: int) -> bool:
        """Return whether every write set of an ensemble touches as many racks, or regions, as it should and could."""
        registrations, settings = self._registrations, self._settings
        everyone = [*registrations.writable, *registrations.read_only]
        if settings.region_aware:
            places, most = self.regions(ensemble), len(set(self.regions(everyone)))
            needed = settings.regions_min
        else:
            racks = registrations.racks
            places = [racks.get(bookie, DEFAULT_RACK) for bookie in ensemble]
            most = len({racks.get(bookie, DEFAULT_RACK) for bookie in everyone})
            needed = settings.min_racks_per_write_quorum
        size = len(ensemble)
        return all(
            len({places[p] for p in write_set(entry, size, write_quorum)})
            >= min(needed, write_quorum, most)
            for entry in range(size)
        )

    def failed(self, bookie_id: str) -> None:
        """Avoid a bookie for a while."""
        if self.health.failed(bookie_id, self._loop.time()):
            log.warning(
                "bookie fails often, avoided bookie=%s for_s=%g",
                bookie_id,
                self._settings.quarantine_s,
            )

    def unreachable(self, bookie_id: str) -> None:
        """Avoid for a while a bookie that cannot be connected to."""
        self.health.unreachable(bookie_id, self._loop.time())

    def slow(self, bookie_id: str) -> None:
        """Prefer other bookies for reads for a while."""
        self.health.slow(bookie_id, self._loop.time())

    def count(self, bookie_id: str, delta: int) -> None:
        """Record that a writer started (+1) or stopped (-1) using a bookie."""
        self._load[bookie_id] = self._load.get(bookie_id, 0) + delta
