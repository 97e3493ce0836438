"""The workload of ``managed`` with a bucket: ledgers are moved there, read from there and trimmed, while requests to it
fail in every way, and processes look for objects that no record names."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.base.errors import WorldError
from engine.ledger.client import LedgerClient
from engine.managed.errors import ManagedLedgerError
from engine.managed.stored.object_references import named_objects
from engine.managed.stored.offloads import offload_of
from engine.managed.writing import offloading
from engine.metadata.store import Found, MetadataStore, NoNodeError
from engine.offload.bucket import S3, Bucket
from engine.offload.errors import OffloadError
from engine.offload.object_names import attributes_of
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.orphans import find_orphans, remove_orphans
from engine.offload.tiered_storage import TieredStorage, TierLimits
from tests.sim.kit.cluster import Machine
from tests.sim.kit.followers import FOLLOWERS
from tests.sim.kit.scenario import Run
from tests.sim.managed.hosts import ManagedHost, Owner
from tests.sim.managed.record import CURSORS
from tests.sim.managed.workload import ManagedLedgers, ManagedWorkload
from tests.sim.offloading.copies import Copies
from tests.sim.offloading.object_world import LATE_MAX_S, ObjectWorld, SimStores, draw_troubles

BUCKET = Bucket(S3, "cold")
CLUSTER = "standalone"
ORPHAN_AGE_S = 20.0
"""More than clocks differ and servers of the metadata store are behind."""
MOVED_S = 60.0
UNANSWERED = 0.05
"""Share of the writes that make a copy complete whose writer loses the metadata service before the answer."""
UNANSWERED_S = (3.0, 6.0)
STALE = 0.5
"""Share of the scans whose metadata server has been behind for a while."""


@dataclass(frozen=True)
class Offloading(ManagedLedgers):
    """``ManagedLedgers`` whose closed ledgers are moved to a bucket with ``troubles``."""

    troubles: dict[str, float] = field(default_factory=dict)

    @classmethod
    def draw(cls, rng: random.Random, quorum: tuple[int, int, int]) -> "Offloading":
        base = ManagedLedgers.draw(rng, quorum)
        policy = OffloadPolicy(
            BUCKET,
            threshold_bytes=rng.choice((0, 0, 0, 3_000)),
            deletion_lag_s=rng.choice((0.0, 0.0, 0.0, 0.0, 2.0, -1.0)),
            bookies_first=rng.random() < 0.3,
        )
        # Mostly kept, so that there is something to move and to read.
        retention = rng.choice(((-1.0, -1), (-1.0, -1), (0.0, 0)))
        config = replace(
            base.config,
            ledger_entries_max=rng.choice((5, 30)),
            retention_s=retention[0],
            retention_bytes=retention[1],
            offload=policy,
        )
        return cls(base.hosts, base.topics, config, draw_troubles(rng))

    def setup(self, run: Run) -> "OffloadingWorkload":
        return OffloadingWorkload(run, self)


class OffloadingHost(ManagedHost):
    """A process that also looks for objects that no record names."""

    scans: "Scans"

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())
            group.create_task(self._scan())

    async def _scan(self) -> None:
        while not self.calm:
            await asyncio.sleep(self.rng.expovariate(0.3))
            if self.calm:
                return
            self.busy["scan"] = f"since {self.cluster.loop.now:.3f}"
            try:
                if self.rng.random() < STALE:
                    await self.scans.fall_behind(self.rng.choice((0.3, 1.0, 3.0)))
                await self.scans.remove(ORPHAN_AGE_S)
            except (OffloadError, WorldError, ManagedLedgerError):
                self.cluster.count("scans failed")
            finally:
                self.scans.catch_up()
                self.busy.pop("scan", None)


class ReadApart:
    """A store of which several nodes are read one by one, so that they are as old as the server is behind: that also
    holds for a request of ZooKeeper that reads several."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get_all(
        self, paths: Sequence[str], parent: str | None = None
    ) -> tuple[list[Found], list[str]]:
        assert parent is None
        nodes: list[Found] = []
        for path in paths:
            try:
                nodes.append(await self._store.get(path))
            except NoNodeError:
                nodes.append(None)
        return nodes, []


class Scans:
    """Scans of the bucket by one process."""

    def __init__(self, world: ObjectWorld, machine: Machine, store: MetadataStore) -> None:
        self._world = world
        self._machine = machine
        self._store = ReadApart(store)
        assert machine.store is not None
        self._follower = machine.store.session_id % FOLLOWERS

    async def fall_behind(self, duration_s: float) -> None:
        """Let the metadata server of this process fall behind, for ``duration_s`` before the call returns."""
        self._world.cluster.metadata.fall_behind(self._follower)
        self._world.cluster.count("scans by a server that is behind")
        await asyncio.sleep(duration_s)

    def catch_up(self) -> None:
        self._world.cluster.metadata.catch_up(self._follower)

    async def remove(self, age_s: float) -> None:
        """Remove the objects that no record names and that are older than ``age_s``."""

        async def named():  # type: ignore[no-untyped-def]
            return (await named_objects(self._store)).names

        objects = SimStores(self._world).open(BUCKET)
        scan = await find_orphans(
            objects,
            named,
            cluster=CLUSTER,
            older_than_ms=self._machine.clock.wall_ms() - round(1000 * age_s),
        )
        await remove_orphans(objects, scan)
        self._world.cluster.count("orphans removed", len(scan.orphans))


class OffloadingWorkload(ManagedWorkload):
    def __init__(self, run: Run, plan: Offloading) -> None:
        super().__init__(run, plan)
        run.limits.append((offloading, "RETRY_MAX_S", 2.0))
        self.world = ObjectWorld(run.cluster, plan.troubles)
        self.copies = Copies(self.world, self.record, self.topics)
        self.copies.on_complete = self._completed
        self._rng = random.Random(f"{run.cluster.loop.seed}/unanswered")
        self._cut: list[int] = []
        """Sessions that were cut off."""

    def _completed(self) -> None:
        """Cut the writer of a complete copy off the metadata service by chance, before it has its answer."""
        cluster, metadata = self.run.cluster, self.run.cluster.metadata
        if not self.world.troubles or self._rng.random() >= UNANSWERED:
            return
        session_id = metadata.executing
        metadata.partition(session_id)
        self._cut.append(session_id)
        cluster.count("complete copies without an answer")
        self.world.later(self._rng.choice(UNANSWERED_S), lambda: metadata.heal(session_id))

    def _make(self, machine: Machine, client: LedgerClient) -> OffloadingHost:
        tiered = TieredStorage(
            SimStores(self.world),
            attributes_of(CLUSTER, "0"),
            TierLimits(cache_bytes=4 << 20, ahead_bytes=1 << 20),
        )
        host = OffloadingHost(self.record, machine, client, self.topics, self.plan.config, tiered)
        assert machine.store is not None
        host.scans = Scans(self.world, machine, machine.store)
        return host

    async def quiet(self) -> None:
        await self.hosts.quiet()
        self.world.heal()
        for session_id in self._cut:
            self.run.cluster.metadata.heal(session_id)
        await self.run.reach(
            "let late requests arrive",
            lambda: not self.world.waiting,
            2 * LATE_MAX_S,
            lambda: [f"{self.world.waiting} requests"],
        )
        await self.hosts.audit(self._audit)
        unexplained = set(self.copies.left_over()) - self.world.come_back
        if unexplained:
            self.run.wrong(f"U4 no record names {sorted(unexplained)[:3]}, which are in the bucket")
        await asyncio.sleep(ORPHAN_AGE_S + 10.0)
        await self.hosts.audit(self._audit_again)
        if left := self.copies.left_over():
            self.run.wrong(f"U5 a scan left {left[:3]}, which no record names")

    async def _audit_again(self, machine: Machine, client: LedgerClient) -> None:
        """Remove the orphans; then all entries are still there."""
        assert machine.store is not None
        await Scans(self.world, machine, machine.store).remove(ORPHAN_AGE_S)
        machine.starts += 1  # its entries have other names than those of the first audit
        await self._audit(machine, client)

    async def _settle(self, owner: Owner) -> None:
        """Wait until the ledgers that the policy wants moved are moved; then let unused cursors hold none any more."""
        await self._wait_for_moves(owner)
        ledger, record = owner.ledger, self.record
        for name in sorted(ledger.cursors.keys() - {*CURSORS, "all"}):
            record.made.setdefault(owner.topic, set()).discard(name)
            record.deleted.setdefault(owner.topic, set()).add(name)
            await ledger.delete_cursor(name)
        await ledger.delete_cursor("all")
        await ledger.trim()

    async def _wait_for_moves(self, owner: Owner) -> None:
        policy = self.plan.config.offload
        assert policy is not None
        ledger = owner.ledger
        if policy.threshold_bytes:
            return
        async with asyncio.timeout(MOVED_S):
            while not all(
                offload_of(span).complete
                and (policy.deletion_lag_s < 0 or offload_of(span).deleted_from_bookies)
                for span in ledger.line.ledgers
                if span.timestamp_ms
            ):
                await asyncio.sleep(0.5)
                ledger.trim_soon()

    def check(self) -> list[str]:
        return [*self.copies.wrong[:3], *super().check()]
