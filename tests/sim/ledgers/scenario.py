"""One seed of the ledger workload: processes write, read, recover and delete ledgers while things break; then all
heals, all ledgers are recovered and read, and every replica of every entry is looked at."""

import asyncio
import random
import zlib
from typing import Any

from engine.ledger.client import LedgerClient
from engine.ledger.digest import Digest, DigestType, header_of
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.quorum import write_set
from engine.ledger.reading.read_op import MISSING, RangeRead
from engine.metadata import paths
from engine.wire.bookie_commands import EOK
from tests.sim.kit.cluster import EPOCH_MS, Machine
from tests.sim.kit.loop import Node, SimLoop
from tests.sim.kit.nemesis import Nemesis
from tests.sim.kit.play import Result, play
from tests.sim.ledgers import checkers as ledger_checkers
from tests.sim.ledgers import history as h
from tests.sim.ledgers.cluster import LedgerCluster, draw_shapes
from tests.sim.ledgers.hosts import PASSWORD, Host, Worker

READY_S = 30.0
END_S = 30.0
"""Bound within which every call ends after the faults (simulated seconds)."""
RECOVERY_S = 10.0
WRITE_S = 10.0
LIMIT_S = 1000.0


class LedgerScenario:
    """A workload for ``play``."""

    def __init__(self, loop: SimLoop, result: Result, verbose: bool) -> None:
        self.loop = loop
        self.result = result
        rng = self.rng = random.Random(f"{loop.seed}/ledgers")
        shape, self.work = draw_shapes(rng)
        self.violations = result.violations
        self.cluster = LedgerCluster(loop, shape, self.work.hosts)
        self.cluster.run_host = self._run_host
        self.duration_s = rng.choice((5.0, 10.0, 20.0))
        self.hosts: dict[str, Worker] = {}
        self.calm = False
        # The processes tell each other of ledgers themselves: who asks a server that is behind is rightly denied them.
        self.nemesis = Nemesis(self.cluster, [], rng, without=("lag_follower",))
        result.plan = f"{shape} {self.work} {self.duration_s:g} s {self.nemesis.plan}"
        if verbose:
            print(f"seed {loop.seed}: {result.plan}")

    async def _run_host(self, machine: Machine, client: LedgerClient) -> None:
        host = Host(self.cluster, machine, client, self.work)
        self.hosts[machine.name] = host
        host.calm = self.calm
        await host.run()
        await (
            asyncio.Event().wait()
        )  # a host stays up: its idle writers may still be recovered from

    async def main(self) -> None:
        cluster = self.cluster
        for machine in cluster.machines.values():
            cluster.start(machine)
        watching = self.loop.create_task(cluster.watch())
        await self._reach("start", self._ready, READY_S)
        self.nemesis.start()
        await asyncio.sleep(self.duration_s)
        self.nemesis.heal()
        self.calm = True
        for host in self.hosts.values():
            host.calm = True
        await self._reach("come back", self._ready, READY_S)
        await self._reach("end every call", self._idle, END_S)
        machine = Machine("auditor", "host", EPOCH_MS, 0.001)
        auditor = self.loop.spawn(Node(machine.name), self._audit(machine))
        await auditor
        watching.cancel()
        cluster.restarts = False

    async def _reach(self, what: str, done: Any, bound_s: float) -> None:
        until = self.loop.now + bound_s
        while not done():
            if self.loop.now > until:
                self.violations.append(
                    f"liveness: could not {what} in {bound_s:g} s: {self._why()}"
                )
                return
            await asyncio.sleep(0.1)

    def _ready(self) -> bool:
        machines = [m for m in self.cluster.machines.values() if m is not self.cluster.lost]
        full = any(m.bookie is not None and m.ready and m.bookie.read_only for m in machines)
        return all(m.ready for m in machines) and self._listed(machines) and not full

    def _listed(self, machines: list[Machine]) -> bool:
        """Whether every bookie serves and clients find it as a writable one. What it says of itself is not enough:
        after a registration that failed its mode is stored a while later. Nor is its node: one that ends has it."""
        tree = self.cluster.metadata.tree
        for machine in machines:
            if machine.bookie is not None and machine.store is not None:
                stat = tree.exists(paths.available_bookie(machine.bookie.bookie_id))
                listed = stat is not None and stat.ephemeral_owner == machine.store.session_id
                if not listed or not machine.bookie.ready:
                    return False
        return True

    def _idle(self) -> bool:
        return not any(host.busy for host in self._alive())

    def _alive(self) -> list[Worker]:
        return [
            h for name, h in self.hosts.items() if h.who == self.cluster.machines[name].incarnation
        ]

    def _why(self) -> list[str]:
        down = [m.name for m in self.cluster.machines.values() if not m.ready]
        return [f"not ready {down}", *(f"{host.who} {host.busy}" for host in self._alive())]

    # -- the end

    async def _audit(self, machine: Machine) -> None:
        """Recover and read everything that was not deleted, write one more ledger, look at every replica."""
        cluster = self.cluster
        client = cluster.new_client(machine)
        host = Host(cluster, machine, client, self.work)
        for ledger in list(cluster.born):
            if ledger not in cluster.deleted:
                await self._settle(host, ledger)
        await self._write_one(host)
        for ledger, metadata in self._closed():
            await self._copies(client, ledger, metadata)
        cluster.ledgers.audited = not self.violations
        await client.close()
        assert machine.store is not None
        await machine.store.close()

    async def _settle(self, host: Host, ledger: int) -> None:
        try:
            async with asyncio.timeout(RECOVERY_S):
                handle = await host.open(ledger, recover=True)
        except Exception as error:
            self.violations.append(f"liveness: C11 ledger {ledger} was not recovered: {error!r}")
            return
        if handle is not None:
            try:
                await handle.read_all(0)
            except Exception as error:
                self.violations.append(f"C9 ledger {ledger} cannot be read: {error!r}")

    async def _write_one(self, host: Host) -> None:
        try:
            async with asyncio.timeout(WRITE_S):
                await host.write_one()
        except Exception as error:
            self.violations.append(f"liveness: no ledger can be written any more: {error!r}")

    def _closed(self) -> list[tuple[int, LedgerMetadata]]:
        final: dict[int, LedgerMetadata | None] = {}
        for event in self.cluster.ledgers.events:
            if isinstance(event, h.Version):
                final[event.ledger] = event.metadata
        return [
            (ledger, metadata)
            for ledger, metadata in final.items()
            if metadata is not None and metadata.state is LedgerState.CLOSED
            if ledger not in self.cluster.deleted
        ]

    async def _copies(self, client: LedgerClient, ledger: int, metadata: LedgerMetadata) -> None:
        digest = Digest(metadata.digest or DigestType.CRC32C, PASSWORD)
        lost = self.cluster.lost
        shares: dict[str, list[int]] = {}
        for entry in range(metadata.last_entry + 1):
            ensemble = metadata.bookies(entry)
            for position in write_set(entry, metadata.ensemble_size, metadata.write_quorum):
                shares.setdefault(ensemble[position], []).append(entry)
        for bookie, entries in shares.items():
            may_lack = lost is not None and bookie.startswith(f"{lost.name}:")
            op = RangeRead(ledger, 0, metadata.last_entry + 1, digest)
            op.ask(client.bookies.channel(bookie), entries)
            await asyncio.wait((op.done,), timeout=END_S)
            for entry in entries:
                if op.codes[entry] in MISSING:
                    self._denied(bookie, ledger, entry)
                if may_lack:
                    continue
                if op.codes[entry] == EOK:
                    header = header_of(op.stored(entry))
                    body = op.stored(entry)[digest.overhead :]
                    self.cluster.add(
                        h.Copy(bookie, ledger, entry, zlib.crc32(body), header.lac, header.length)
                    )
                else:
                    self.cluster.add(h.Copy(bookie, ledger, entry, None))
            op.close()

    def _denied(self, bookie: str, ledger: int, entry: int) -> None:
        """A bookie says that it never had an entry: then its index, too, must know nothing of it."""
        machine = self.cluster.machines[bookie.partition(":")[0]]
        storage = machine.bookie._storage if machine.bookie is not None else None
        if storage is not None and storage.entries.find_range(ledger, entry, 1):
            self.cluster.anomaly(f"B4 {bookie} denied entry {entry} of ledger {ledger}: it has it")

    def judge(self) -> None:
        found = self.cluster.failures[:3]
        self.cluster.ledgers.lost = int(self.cluster.lost is not None)
        for check in ledger_checkers.CHECKS.values():
            broken = check(self.cluster.ledgers)
            found += broken[:3]
            if len(broken) > 3:
                found.append(f"{check.__name__}: {len(broken) - 3} more")
        self.result.violations += found
        self.cluster.counts["history events"] = len(self.cluster.ledgers.events)
        self.result.counts = dict(sorted(self.cluster.counts.items()))


def run_ledger_seed(seed: int, *, verbose: bool = False) -> Result:
    """Run one seed of the ledger workload. Nothing is raised: whatever went wrong is in the result."""
    return play(seed, LedgerScenario, LIMIT_S, verbose=verbose)
