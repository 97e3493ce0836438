"""A cluster of six bookies in three regions, of which one at a time is lost with its disks' unsynced bytes and returns.

What was confirmed before is stored outside of the lost region (I41), publishing continues without a step of an operator
while it is away, and ledgers made after its return are in all regions again.
"""

import random
from dataclasses import dataclass, replace

from engine.ledger.ledger_metadata import LedgerMetadata, decode
from engine.ledger.quorum import write_set
from engine.metadata import paths
from engine.metadata.records import BookieRacks
from tests.sim.kit.cluster import BOOKIE_PORT, EPOCH_MS, Machine
from tests.sim.kit.scenario import Run
from tests.sim.publishing.workload import Publishing, PublishingWorkload

REGIONS = ("east", "north", "west")
CONTINUES_S = 20.0
"""Time within which messages are confirmed without the lost region: time-outs of bookies, and of the broker's reads."""
SETTLED_S = 5.0
"""Time after its return from which on a region is used, since its bookies are registered; their quarantine lasts on."""
SLOW_S = 0.4
"""Delay of what the other regions send and receive while the last messages are confirmed before a loss."""
LATEST = 20
"""Messages that were confirmed last, by each publisher, whose copies are counted when a region is lost."""


@dataclass(frozen=True)
class Regions:
    """``losses`` regions are lost one after the other, each for ``away_s`` at least."""

    publishing: Publishing
    losses: int
    away_s: float

    @classmethod
    def draw(cls, rng: random.Random) -> "Regions":
        publishing = Publishing.draw(rng)
        # Contents are found on disks, so they are stored as they are.
        plain = tuple(replace(plan, compression=0) for plan in publishing.publishers)
        return cls(
            replace(publishing, publishers=plain), rng.choice((1, 2)), rng.choice((6.0, 9.0))
        )

    def setup(self, run: Run) -> "RegionsWorkload":
        return RegionsWorkload(run, self)


class RegionsWorkload(PublishingWorkload):
    def __init__(self, run: Run, plan: Regions) -> None:
        super().__init__(run, plan.publishing)
        self._plan = plan
        self._rng = random.Random(f"{run.loop.seed}/regions")
        cluster = run.cluster
        self._region = {machine.name: REGIONS[i // 2] for i, machine in enumerate(cluster.bookies)}
        racks = {
            f"{name}:{BOOKIE_PORT}": {"rack": f"/{region}/{name}", "hostname": ""}
            for name, region in self._region.items()
        }
        value = BookieRacks({"default": racks}).encode()
        cluster.tree.create(paths.BOOKIE_RACKS, value, 0, False, EPOCH_MS)
        self._settled_from = 0
        """The first ledger that may have been made since all regions are used again."""

    async def quiet(self) -> None:
        """Lose regions while nothing else fails, then end as ``Publishing``."""
        for _ in range(self._plan.losses):
            await self._lose(self._rng.choice(REGIONS))
        await self._place_again()
        await super().quiet()

    async def _lose(self, region: str) -> None:
        """Lose a region, see that publishing continues, and start it again."""
        run, cluster = self.run, self.run.cluster
        lost = [machine for machine in cluster.bookies if self._region[machine.name] == region]
        others = [machine.name for machine in cluster.bookies if machine not in lost]
        await run.reach("run all bookies", lambda: all(m.ready for m in lost), 30.0, list)
        # What only bookies of this region have may not be confirmed: for a moment they are the fastest.
        for name in others:
            cluster.world.slow[name] = SLOW_S
        await self._pass(2 * SLOW_S)
        silent = self._rng.random() < 0.5
        for machine in lost:
            cluster.kill(machine, power=True, silent=silent)
        cluster.count("lost regions")
        self._count_copies(region, others)
        for name in others:
            cluster.world.slow.pop(name, None)
        # Again once the metadata service has noticed the loss, over ledgers that are made without the region.
        for pause_s in (0.0, self._plan.away_s):
            await self._pass(pause_s)
            await self._publish_without(region)
        for machine in lost:
            cluster.start(machine)
        await run.reach("start the region again", lambda: self._ready(lost), 30.0, list)

    async def _publish_without(self, region: str) -> None:
        sent = {publisher: len(publisher.sent) + 20 for publisher in self.publishers}
        for publisher in self.publishers:
            publisher.send(20)
        await self.run.reach(
            f"publish without the region {region}",
            lambda: all(set(range(n)) <= p.confirmed.keys() for p, n in sent.items()),
            CONTINUES_S,
            self._waiting,
        )

    @staticmethod
    def _ready(machines: list[Machine]) -> bool:
        return all(machine.ready for machine in machines)

    async def _pass(self, seconds: float) -> None:
        end = self.run.loop.now + seconds
        await self.run.reach("pass time", lambda: self.run.loop.now >= end, seconds + 1, list)

    def _count_copies(self, region: str, others: list[str]) -> None:
        """Note each of the last confirmed messages that no bookie of another region has."""
        for publisher in self.publishers:
            for number in list(publisher.confirmed)[-LATEST:]:
                marker = f"{publisher.name}:{number}:".encode()
                if not self.run.cluster.durable_copies(marker, 1, others):
                    self.run.wrong(f"I41 {publisher.name} {number} was confirmed in {region} alone")

    async def _place_again(self) -> None:
        """Publish until ledgers were made that may use all regions."""
        await self._pass(SETTLED_S)
        self._settled_from = max(self._ledgers(), default=-1) + 1
        for _ in range(self.run.cluster.shape.ledger_entries + 1):
            for publisher in self.publishers:
                publisher.send(1)
            await self._pass(0.5)
            if self._made_since():
                return

    def _made_since(self) -> dict[int, LedgerMetadata]:
        return {
            ledger: metadata
            for ledger, metadata in self._ledgers().items()
            if ledger >= self._settled_from
        }

    def _ledgers(self) -> dict[int, LedgerMetadata]:
        """Return the metadata of the ledgers with ids below 5,000, by id."""
        tree = self.run.cluster.tree
        ledgers: dict[int, LedgerMetadata] = {}
        for ledger in range(5_000):
            path = paths.ledger(ledger)
            if tree.exists(path) is not None:
                value, _ = tree.get(path)
                ledgers[ledger] = decode(value)
        return ledgers

    def check(self) -> list[str]:
        wrong = super().check()
        made = self._made_since()
        if not made:
            wrong.append("regions: no ledger was made after the regions returned")
        for ledger, metadata in made.items():
            members = metadata.segments[0].bookies
            size, quorum = metadata.ensemble_size, metadata.write_quorum
            for entry in range(size):
                places = write_set(entry, size, quorum)
                regions = {self._region[members[place].partition(":")[0]] for place in places}
                if len(regions) < len(REGIONS):
                    wrong.append(
                        f"regions: ledger {ledger} is only in {', '.join(sorted(regions))}"
                    )
                    break
        return wrong[:3]
