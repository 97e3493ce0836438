"""Machines whose processes use the shipped ledger client directly, without a broker."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from engine.ledger.client import LedgerClient
from engine.metadata import paths
from tests.sim.kit.cluster import EPOCH_MS, FAST, Machine
from tests.sim.kit.loop import Node
from tests.sim.kit.network import SimNetwork
from tests.sim.kit.scenario import Run

SETTINGS = replace(FAST, recovery_window=8)
READY_S = 30.0
END_S = 30.0
"""Bound within which every call ends after the faults (simulated seconds)."""


class Worker(Protocol):
    """The work of one process."""

    who: str
    calm: bool
    """True when no new work may begin."""
    busy: dict[str, str]
    """Calls that are running now, by the task that makes them."""

    async def run(self) -> None:
        """Do all work of the process. Open writers live on until the process ends."""


class Hosts:
    """``make`` gives the worker of each process that is started on one of ``count`` machines."""

    def __init__(
        self, run: Run, count: int, make: Callable[[Machine, LedgerClient], Worker]
    ) -> None:
        self._run = run
        self.cluster = run.cluster
        self._make = make
        self._calm = False
        self._workers: dict[str, Worker] = {}
        for i in range(count):
            name = f"host-{i + 1}"
            skew_ms = run.loop.rng.choice((0, -3_000, 5_000))
            machine = Machine(name, "host", EPOCH_MS + skew_ms, 0.001, self._process)
            self.cluster.machines[name] = machine

    async def start(self) -> None:
        await self._run.reach("start", self._ready, READY_S, self._why)

    async def quiet(self) -> None:
        """Begin no new work, wait until all machines are ready and all calls have ended."""
        self._calm = True
        for worker in self._workers.values():
            worker.calm = True
        await self._run.reach("come back", self._ready, READY_S, self._why)
        await self._run.reach("end every call", self._idle, END_S, self._why)

    async def audit(self, work: Callable[[Machine, LedgerClient], Awaitable[None]]) -> None:
        """Run ``work`` in a process on a separate machine, whose clock is right."""
        machine = Machine("auditor", "host", EPOCH_MS, 0.001)

        async def do() -> None:
            client = self._client(machine)
            await work(machine, client)
            await client.close()
            assert machine.store is not None
            await machine.store.close()

        await self._run.loop.spawn(Node(machine.name), do())

    def _client(self, machine: Machine) -> LedgerClient:
        """Make a ledger client for the process that is started on ``machine``; sets its session."""
        machine.store = self.cluster.metadata.session(self.cluster.shape.session_s)
        return LedgerClient(
            store=machine.store,
            network=SimNetwork(self.cluster.world),
            clock=machine.clock,
            entropy=self.cluster.entropy(machine),
            settings=SETTINGS,
        )

    async def _process(self, machine: Machine) -> None:
        client = self._client(machine)
        store, stop = machine.store, asyncio.Event()
        machine.stop = stop
        machine.ready = True
        worker = self._workers[machine.name] = self._make(machine, client)
        worker.calm = self._calm
        work = asyncio.ensure_future(_live(worker))
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

    def _ready(self) -> bool:
        # One that is to be drained takes no entries, but may have the only copies of some until it is.
        serving = [
            m
            for m in self.cluster.machines.values()
            if m is not self.cluster.lost and not m.retired
        ]
        machines = [m for m in serving if not m.leaving]
        full = any(m.bookie is not None and m.ready and m.bookie.read_only for m in machines)
        return all(m.ready for m in serving) and self._listed(machines) and not full

    def _listed(self, machines: list[Machine]) -> bool:
        """Return whether every bookie serves and clients find it as a writable one.

        The mode that it reports is not enough: after a failed registration the mode is stored a while later. Neither
        is its record: a process that ends still has one.
        """
        tree = self.cluster.tree
        for machine in machines:
            if machine.bookie is not None and machine.store is not None:
                stat = tree.exists(paths.available_bookie(machine.bookie.bookie_id))
                listed = stat is not None and stat.ephemeral_owner == machine.store.session_id
                if not listed or not machine.bookie.ready:
                    return False
        return True

    def _idle(self) -> bool:
        return not any(worker.busy for worker in self._alive())

    def _alive(self) -> list[Worker]:
        machines = self.cluster.machines
        return [w for name, w in self._workers.items() if w.who == machines[name].incarnation]

    def _why(self) -> list[str]:
        down = [m.name for m in self.cluster.machines.values() if not m.ready]
        return [f"not ready {down}", *(f"{worker.who} {worker.busy}" for worker in self._alive())]


async def _live(worker: Worker) -> None:
    await worker.run()
    await asyncio.Event().wait()  # its idle writers may still be recovered from
