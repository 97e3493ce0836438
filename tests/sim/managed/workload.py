"""The workload of processes that take topics from each other, append, read and acknowledge; in the end one more owner
reads all of each topic."""

import asyncio
import random
from dataclasses import dataclass

from engine.base.ids import EARLIEST, Position
from engine.ledger.client import LedgerClient
from engine.managed.errors import ManagedLedgerFencedError
from engine.managed.settings import LedgerConfig
from tests.sim.kit.cluster import Machine
from tests.sim.kit.hosts import Hosts
from tests.sim.kit.scenario import Run
from tests.sim.ledgers.record import LedgerRecord
from tests.sim.managed import history as m
from tests.sim.managed.hosts import ManagedHost, Owner, entry_of
from tests.sim.managed.record import ManagedRecord

OPEN_S = 10.0
DRAIN_S = 20.0
ATTEMPTS = 4


@dataclass(frozen=True)
class ManagedLedgers:
    """``hosts`` machines on which managed ledgers are used directly."""

    hosts: int
    topics: int
    config: LedgerConfig

    @classmethod
    def draw(cls, rng: random.Random, quorum: tuple[int, int, int]) -> "ManagedLedgers":
        ensemble, write, ack = quorum
        return cls(
            hosts=rng.choice((2, 3)),
            topics=rng.choice((1, 1, 2)),
            config=LedgerConfig(
                ensemble, write, ack,
                ledger_entries_max=rng.choice((5, 30, 200)),
                ledger_age_min_s=0.0,
                retention_s=rng.choice((0.0, -1.0)),
                retention_bytes=rng.choice((0, -1)),
            ),
        )  # fmt: skip

    def setup(self, run: Run) -> "ManagedWorkload":
        return ManagedWorkload(run, self)


class ManagedWorkload:
    def __init__(self, run: Run, plan: ManagedLedgers) -> None:
        self.run = run
        self.plan = plan
        self.topics = tuple(f"public/default/persistent/t{i}" for i in range(plan.topics))
        self.ledgers = LedgerRecord(run.cluster)
        self.record = ManagedRecord(run.cluster, self.topics)
        self.hosts = Hosts(run, plan.hosts, self._make)

    def _make(self, machine: Machine, client: LedgerClient) -> ManagedHost:
        return ManagedHost(self.record, machine, client, self.topics, self.plan.config)

    async def start(self) -> None:
        self.run.watch(self.ledgers.look_at_fences)
        await self.hosts.start()

    async def quiet(self) -> None:
        await self.hosts.quiet()
        await self.hosts.audit(self._audit)

    async def _audit(self, machine: Machine, client: LedgerClient) -> None:
        host = self._make(machine, client)
        for topic in self.topics:
            try:
                for attempt in range(ATTEMPTS):
                    try:
                        await self._settle_topic(host, topic)
                        break
                    except ManagedLedgerFencedError:
                        # An earlier owner that was not stopped wrote its cursor once more; by now it knows that it is
                        # fenced.
                        if attempt + 1 == ATTEMPTS:
                            raise
            except Exception as error:
                self.run.wrong(f"liveness: {topic}: {error!r}")

    async def _settle_topic(self, host: ManagedHost, topic: str) -> None:
        """Open ``topic``, append, read all of it and drain its cursors, each within its bound."""
        async with asyncio.timeout(OPEN_S):
            owner = await host.open(topic)
        owner.append(5, 60)
        async with asyncio.timeout(DRAIN_S):
            while owner.waiting:
                await asyncio.sleep(0.05)
        # A fresh cursor also reads what the others acknowledged.
        reader = await owner.ledger.open_cursor("all", EARLIEST, durable=False)
        entries: list[tuple[Position, m.Entry]] = []
        async with asyncio.timeout(DRAIN_S):
            while reader.backlog_entries() > len(entries):
                for view in await reader.read(100, 100_000):
                    entries += [
                        (view.run.position(i), entry_of(view.run.entry(i)))
                        for i in range(view.start, view.stop)
                    ]
        self.record.note(m.Kept(topic, tuple(entries)))
        for cursor in owner.cursors.values():
            async with asyncio.timeout(DRAIN_S):
                while cursor.backlog_entries():
                    owner.acknowledge(cursor, await owner.read(cursor, 100))
                    if cursor.backlog_entries() and not cursor.has_more():
                        cursor.rewind()
                await owner.persist(cursor)
        await self._settle(owner)
        await owner.ledger.close()

    async def _settle(self, owner: Owner) -> None:
        """Wait for what else has to happen to a topic at the end."""

    def check(self) -> list[str]:
        self.run.cluster.count("history events", len(self.record.history.events))
        return self.record.check() + self.ledgers.check()
