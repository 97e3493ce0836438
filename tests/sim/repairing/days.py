"""The workload of ``repair`` over days: bookies and disks are lost at random, also while copies of earlier losses are
made, as long as any copy is left."""

import random

from bookie import scrubbing
from engine.ledger.ledger_metadata import LedgerState
from engine.repair import auditor
from engine.repair.checking import ends, fewest_copies
from engine.repair.settings import RepairSettings
from tests.sim.kit.cluster import Machine
from tests.sim.kit.scenario import Run
from tests.sim.ledgers.hosts import Habits
from tests.sim.repairing.workload import Repairing, RepairWorkload

IN_DAYS = RepairSettings(
    lost_bookie_recovery_delay=60,
    auditor_periodic_bookie_check_interval=86_400,
    auditor_periodic_check_interval=3600,
    auditor_ledgers_per_second=10_000,
    rw_rereplicate_backoff_s=60,
)
"""The shipped settings, but for a check of all ledgers each hour instead of each week: it finds what bookies missed
while they restarted."""


class Days(Repairing):
    @classmethod
    def draw(cls, rng: random.Random) -> "Days":
        habits = Habits(hands=1, run_entries=4, entry_bytes=400, rate=1 / 3600)
        return cls(hosts=2, habits=habits, racks=False)

    def setup(self, run: Run) -> "DaysWorkload":
        return DaysWorkload(run, self)


class DaysWorkload(RepairWorkload):
    whole_s = 7200.0
    machines_max = 60
    watch_s = 60.0
    limits = [(auditor, "LOOK_S", 300.0), (scrubbing, "LOOK_S", 300.0)]

    def __init__(self, run: Run, plan: Days) -> None:
        super().__init__(run, plan)
        self._losses: list[float] = []

    def _may_lose(self, machine: Machine) -> bool:
        """Return whether another copy of everything would be left, and note what the loss means."""
        fewest = self._fewest_without(machine)
        if fewest is None:
            return False
        now, last = self.run.loop.now, self._losses[-1] if self._losses else -1e9
        self._losses.append(now)
        self.run.loop.call_later(self.whole_s, self._check_whole, now)
        if fewest < self.run.cluster.shape.quorum[2]:
            self.run.cluster.count("quorums lost")
            if now - last > self.whole_s:
                self.record.anomaly("I53 one loss left an entry below its ack quorum")
        return True

    def _fewest_without(self, lost: Machine) -> int | None:
        """Return the copies of the entry with the fewest, were a bookie lost; None where an entry had none, or an open
        ledger could not be recovered."""
        fewest = self.run.cluster.shape.quorum[1]
        for ledger, metadata in self._stored_ledgers().items():
            size, quorum = metadata.ensemble_size, metadata.write_quorum
            held = {
                bookie: []
                if bookie.startswith(f"{lost.name}:")
                else self._held(bookie, ledger) or []
                for segment in metadata.segments
                for bookie in segment.bookies
            }
            for (first, last), segment in zip(ends(metadata), metadata.segments, strict=False):
                if last >= first:
                    ranges = [held[bookie] for bookie in segment.bookies]
                    fewest = min(fewest, fewest_copies(ranges, first, last, quorum))
            if metadata.state is not LedgerState.CLOSED:
                members = metadata.segments[-1].bookies
                intact = sum(
                    not (
                        bookie.startswith(f"{lost.name}:")
                        or self._is_gone(bookie)
                        or self._failed_disk_held(bookie, ledger)
                    )
                    for bookie in members
                )
                if intact < size - metadata.ack_quorum + 1:
                    return None
        return fewest if fewest > 0 else None

    def _check_whole(self, since: float) -> None:
        """Check that what the loss at ``since`` has cost is there again, if nothing else was lost meanwhile."""
        if self._losses[-1] != since or self.run.nemesis.over:
            return
        self.run.cluster.count("losses repaired in time")
        missing = [*self._missing(), *(f"mark {mark}" for mark in self._marks())]
        if missing:
            self.record.anomaly(f"I53 {self.whole_s:.0f} s after a loss this lacks: {missing[:3]}")

    async def _damage_and_repair(self) -> bool:
        return True  # reading everything back takes days here
