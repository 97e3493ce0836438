"""One seed of the managed-ledger workload: processes take topics from each other, append, read and acknowledge while
things break; then everything heals, and one more owner of each topic reads all of it."""

import asyncio
import random

from engine.base.ids import EARLIEST, Position
from engine.ledger.client import LedgerClient
from engine.managed.errors import ManagedLedgerFencedError
from engine.managed.settings import LedgerConfig
from tests.sim.kit.cluster import EPOCH_MS, Machine
from tests.sim.kit.loop import SimLoop
from tests.sim.kit.nemesis import Nemesis
from tests.sim.kit.play import Result, play
from tests.sim.ledgers import checkers as ledger_checkers
from tests.sim.ledgers.cluster import draw_shapes
from tests.sim.ledgers.scenario import LIMIT_S, LedgerScenario
from tests.sim.managed import checkers as managed_checkers
from tests.sim.managed import history as m
from tests.sim.managed.hosts import TOPICS, ManagedCluster, ManagedHost, entry_of

OPEN_S = 10.0
DRAIN_S = 20.0
ATTEMPTS = 4


class ManagedScenario(LedgerScenario):
    """As the ledger workload, one layer up."""

    cluster: ManagedCluster

    def __init__(self, loop: SimLoop, result: Result, verbose: bool) -> None:
        rng = self.rng = random.Random(f"{loop.seed}/managed")
        self.loop, self.result, self.violations = loop, result, result.violations
        shape, self.work = draw_shapes(rng)
        self.cluster = ManagedCluster(loop, shape, self.work.hosts)
        self.cluster.run_host = self._run_host
        self.duration_s = rng.choice((4.0, 8.0, 15.0))
        self.hosts = {}
        self.calm = False
        self.topics = list(TOPICS[: rng.choice((1, 1, 2))])
        ensemble, write, ack = shape.quorum
        self.config = LedgerConfig(
            ensemble, write, ack,
            ledger_entries_max=rng.choice((5, 30, 200)),
            ledger_age_min_s=0.0,
            retention_s=rng.choice((0.0, -1.0)),
            retention_bytes=rng.choice((0, -1)),
        )  # fmt: skip
        self.nemesis = Nemesis(self.cluster, [], rng)
        result.plan = f"{shape} {self.work} {self.config} {self.duration_s:g} s {self.nemesis.plan}"
        if verbose:
            print(f"seed {loop.seed}: {result.plan}")

    async def _run_host(self, machine: Machine, client: LedgerClient) -> None:
        host = ManagedHost(self.cluster, machine, client, self.config)
        self.hosts[machine.name] = host
        host.calm = self.calm
        await host.run(self.topics)
        await asyncio.Event().wait()

    async def _audit(self, machine: Machine) -> None:
        cluster = self.cluster
        machine.clock.epoch_ms = EPOCH_MS
        client = cluster.new_client(machine)
        host = ManagedHost(cluster, machine, client, self.config)
        for topic in self.topics:
            try:
                for attempt in range(ATTEMPTS):
                    try:
                        await self._settle_topic(host, topic)
                        break
                    except ManagedLedgerFencedError:
                        # An earlier owner that nobody stopped wrote its cursor a last time, and knows it by now.
                        if attempt + 1 == ATTEMPTS:
                            raise
            except Exception as error:
                self.violations.append(f"liveness: {topic}: {error!r}")
        await client.close()
        assert machine.store is not None
        await machine.store.close()

    async def _settle_topic(self, host: ManagedHost, topic: str) -> None:
        """Open it, append, drain its cursors, read all of it; each in time."""
        async with asyncio.timeout(OPEN_S):
            owner = await host.open(topic)
        owner.append(5, 60)
        async with asyncio.timeout(DRAIN_S):
            while owner.waiting:
                await asyncio.sleep(0.05)
        # A fresh cursor, so that what others acknowledged is read, too.
        reader = await owner.ledger.open_cursor("all", EARLIEST, durable=False)
        found: list[tuple[Position, m.Entry]] = []
        async with asyncio.timeout(DRAIN_S):
            while reader.backlog_entries() > len(found):
                for view in await reader.read(100, 100_000):
                    found += [
                        (view.run.position(i), entry_of(view.run.entry(i)))
                        for i in range(view.start, view.stop)
                    ]
        self.cluster.note(m.Kept(topic, tuple(found)))
        for cursor in owner.cursors.values():
            async with asyncio.timeout(DRAIN_S):
                while cursor.backlog_entries():
                    owner.acknowledge(cursor, await owner.read(cursor, 100))
                    if cursor.backlog_entries() and not cursor.has_more():
                        cursor.rewind()
                await owner.persist(cursor)
        await owner.ledger.close()

    def judge(self) -> None:
        cluster = self.cluster
        found = cluster.failures[:3]
        cluster.ledgers.lost = int(cluster.lost is not None)
        broken = [check(cluster.managed) for check in managed_checkers.CHECKS.values()]
        broken += [check(cluster.ledgers) for check in ledger_checkers.CHECKS.values()]
        for texts in broken:
            found += texts[:3]
            if len(texts) > 3:
                found.append(f"{texts[0].split()[0]}: {len(texts) - 3} more")
        self.violations += found
        cluster.counts["history events"] = len(cluster.managed.events)
        self.result.counts = dict(sorted(cluster.counts.items()))


def run_managed_seed(seed: int, *, verbose: bool = False) -> Result:
    """Run one seed of the managed-ledger workload. Nothing is raised: whatever went wrong is in the result."""
    return play(seed, ManagedScenario, LIMIT_S, verbose=verbose)
