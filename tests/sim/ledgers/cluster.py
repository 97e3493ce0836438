"""Bookies, metadata and processes that use ledgers directly: the shipped ledger client without brokers.

``LedgerCluster`` sees more than any process: each stored version of ledger metadata, each disk, each bookie's fences.
"""

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

from engine.ledger.client import LedgerClient
from engine.ledger.ledger_metadata import decode
from engine.metadata import paths
from engine.metadata.store import ANY_VERSION
from engine.metadata.tree import Tree
from tests.sim.kit.cluster import EPOCH_MS, WATCH_S, Cluster, Machine, Shape
from tests.sim.kit.loop import SimLoop
from tests.sim.kit.network import SimNetwork
from tests.sim.ledgers import history as h
from tests.support.ledger_cluster import FAST

SETTINGS = replace(FAST, recovery_window=8)


@dataclass(frozen=True)
class LedgerShape:
    """What a run is made of besides its machines' shape."""

    hosts: int
    hands: int
    run_entries: int
    entry_bytes: int


class TappedTree(Tree):
    """The metadata tree; tells of each version of each ledger's metadata."""

    def __init__(self, cluster: "LedgerCluster") -> None:
        super().__init__()
        self._cluster = cluster

    def create(
        self, path: str, value: bytes, owner: int, sequence: bool, now_ms: int
    ) -> tuple[str, list[str]]:
        created = super().create(path, value, owner, sequence, now_ms)
        self._cluster.metadata_stored(path, value, True)
        return created

    def put(self, path: str, value: bytes, version: int, now_ms: int) -> tuple[int, list[str]]:
        stored = super().put(path, value, version, now_ms)
        self._cluster.metadata_stored(path, value, version != ANY_VERSION)
        return stored

    def delete(self, path: str, version: int) -> list[str]:
        told = super().delete(path, version)
        self._cluster.metadata_stored(path, None, True)
        return told


def draw_shapes(rng: random.Random) -> tuple[Shape, LedgerShape]:
    """Machines and work of a run: three hosts in ten use one bookie or stripe over more than they write to."""
    quorum = rng.choice(((3, 3, 2), (3, 3, 2), (3, 3, 2), (3, 2, 2), (5, 3, 2), (1, 1, 1)))
    spare = rng.choice((0, 1, 2)) if quorum[0] <= 3 else 1
    machines = replace(
        Shape.draw(rng),
        brokers=0,
        bookies=quorum[0] + spare,
        quorum=quorum,
        session_s=rng.choice((2.0, 4.0)),
    )
    work = LedgerShape(
        hosts=rng.choice((2, 3)),
        hands=rng.choice((2, 3)),
        run_entries=rng.choice((1, 4, 12)),
        entry_bytes=rng.choice((80, 80, 400, 3000)),
    )
    return machines, work


class LedgerCluster(Cluster):
    """``run_host(machine, client)`` is what a host's process does until it is stopped or dies."""

    def __init__(self, loop: SimLoop, shape: Shape, hosts: int) -> None:
        super().__init__(loop, shape, [])
        self.ledgers = h.LedgerHistory(quorum=shape.quorum)
        self.metadata.tree = TappedTree(self)
        self.run_host: Any = None
        self.deleted: dict[int, float] = {}
        """Ledgers somebody set out to delete, and when."""
        self.born: dict[int, float] = {}
        """When metadata first heard of each ledger."""
        self._fences: dict[tuple[str, int], bool] = {}
        for i in range(hosts):
            name = f"host-{i + 1}"
            skew_ms = loop.rng.choice((0, -3_000, 5_000))
            self.machines[name] = Machine(name, "host", EPOCH_MS + skew_ms, 0.001)

    def add(self, event: h.Event) -> None:
        self.ledgers.events.append(event)

    def anomaly(self, text: str) -> None:
        self.ledgers.anomalies.append(f"{text} at {self.loop.now:.3f}")

    def metadata_stored(self, path: str, value: bytes | None, conditional: bool) -> None:
        """The tree holds a new value at ``path`` from now on."""
        ledger = paths.ledger_id(path)
        if ledger is not None:
            self.born.setdefault(ledger, self.loop.now)
            metadata = None if value is None else decode(value)
            self.add(h.Version(self.loop.now, ledger, metadata, conditional))

    def _process(self, machine: Machine) -> Coroutine[Any, Any, None]:
        return self._host(machine) if machine.kind == "host" else super()._process(machine)

    def new_client(self, machine: Machine) -> LedgerClient:
        """A ledger client of the process that is being started on ``machine``; sets its session."""
        machine.store = self.metadata.session(self.shape.session_s)
        return LedgerClient(
            store=machine.store,
            network=SimNetwork(self.world),
            clock=machine.clock,
            entropy=self._entropy(machine),
            settings=SETTINGS,
        )

    async def _host(self, machine: Machine) -> None:
        client = self.new_client(machine)
        store, stop = machine.store, asyncio.Event()
        machine.stop = stop
        machine.ready = True
        work = asyncio.ensure_future(self.run_host(machine, client))
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait((work, stopped), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopped.cancel()
            work.cancel()
            await asyncio.wait((work,))
            await client.close()
            assert store is not None
            await store.close()
        if not work.cancelled():
            work.result()

    async def watch(self) -> None:
        """Note what each bookie knows of fences, whenever it changes."""
        while True:
            await asyncio.sleep(WATCH_S)
            for machine in self.bookies:
                storage = machine.bookie._storage if machine.bookie is not None else None
                if storage is None or not machine.ready or machine is self.lost:
                    continue
                for ledger_id in storage.ledgers.live_ids():
                    ledger = storage.ledgers.get(ledger_id)
                    key = (machine.name, ledger_id)
                    if ledger is None or ledger_id in self.deleted:
                        continue
                    if self._fences.get(key) != ledger.fence_durable:
                        self._fences[key] = ledger.fence_durable
                        self.add(h.Fence(self.loop.now, *key, ledger.fence_durable))
