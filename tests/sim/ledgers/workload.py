"""The workload of processes that write, read, recover and delete ledgers; in the end all ledgers are recovered and
read, and every replica of every entry is checked."""

import asyncio
import random
import zlib
from dataclasses import dataclass

from engine.ledger.client import LedgerClient
from engine.ledger.digest import Digest, DigestType, header_of
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.ledger.quorum import write_set
from engine.ledger.reading.read_op import MISSING, RangeRead
from engine.wire.bookie_commands import EOK
from tests.sim.kit.cluster import Machine
from tests.sim.kit.hosts import END_S, Hosts
from tests.sim.kit.scenario import WATCH_S, Run
from tests.sim.ledgers import history as h
from tests.sim.ledgers.hosts import PASSWORD, Habits, Host
from tests.sim.ledgers.record import LedgerRecord

RECOVERY_S = 10.0
WRITE_S = 10.0


@dataclass(frozen=True)
class Ledgers:
    """``hosts`` machines on which ledgers are used directly."""

    hosts: int
    habits: Habits

    @classmethod
    def draw(cls, rng: random.Random) -> "Ledgers":
        return cls(
            hosts=rng.choice((2, 3)),
            habits=Habits(
                hands=rng.choice((2, 3)),
                run_entries=rng.choice((1, 4, 12)),
                entry_bytes=rng.choice((80, 80, 400, 3000)),
            ),
        )

    def setup(self, run: Run) -> "LedgerWorkload":
        return LedgerWorkload(run, self)


class LedgerWorkload:
    watch_s = WATCH_S

    def __init__(self, run: Run, plan: Ledgers) -> None:
        self.run = run
        self.plan = plan
        self.record = LedgerRecord(run.cluster)
        self.hosts = Hosts(run, plan.hosts, self._make)

    def _make(self, machine: Machine, client: LedgerClient) -> Host:
        return Host(self.record, machine, client, self.plan.habits)

    async def start(self) -> None:
        self.run.watch(self.record.look_at_fences, self.watch_s)
        await self.hosts.start()

    async def quiet(self) -> None:
        await self.hosts.quiet()
        await self.hosts.audit(self._audit)

    def check(self) -> list[str]:
        self.run.cluster.count("history events", len(self.record.history.events))
        return self.record.check()

    # -- the end

    async def _audit(self, machine: Machine, client: LedgerClient) -> None:
        """Recover and read everything that was not deleted, write one more ledger, check every replica."""
        record, host = self.record, self._make(machine, client)
        for ledger in list(record.born):
            if ledger not in record.deleted:
                await self._settle(host, ledger)
        await self._write_one(host)
        for ledger, metadata in self._closed():
            await self._copies(client, ledger, metadata)
        record.history.audited = not self.run.result.violations

    async def _settle(self, host: Host, ledger: int) -> None:
        try:
            async with asyncio.timeout(RECOVERY_S):
                handle = await host.open(ledger, recover=True)
        except Exception as error:
            self.run.wrong(f"liveness: C11 ledger {ledger} was not recovered: {error!r}")
            return
        if handle is not None:
            try:
                await handle.read_all(0)
            except Exception as error:
                self.run.wrong(f"C9 ledger {ledger} cannot be read: {error!r}")

    async def _write_one(self, host: Host) -> None:
        try:
            async with asyncio.timeout(WRITE_S):
                await host.write_one()
        except Exception as error:
            self.run.wrong(f"liveness: no ledger can be written any more: {error!r}")

    def _closed(self) -> list[tuple[int, LedgerMetadata]]:
        final: dict[int, LedgerMetadata | None] = {}
        for event in self.record.history.events:
            if isinstance(event, h.Version):
                final[event.ledger] = event.metadata
        return [
            (ledger, metadata)
            for ledger, metadata in final.items()
            if metadata is not None and metadata.state is LedgerState.CLOSED
            if ledger not in self.record.deleted
        ]

    async def _copies(self, client: LedgerClient, ledger: int, metadata: LedgerMetadata) -> None:
        digest = Digest(metadata.digest or DigestType.CRC32C, PASSWORD)
        lost = self.run.cluster.lost
        shares: dict[str, list[int]] = {}
        for entry in range(metadata.last_entry + 1):
            ensemble = metadata.bookies(entry)
            for position in write_set(entry, metadata.ensemble_size, metadata.write_quorum):
                shares.setdefault(ensemble[position], []).append(entry)
        for bookie, entries in shares.items():
            may_lack = lost is not None and bookie.startswith(f"{lost.name}:")
            op = RangeRead(ledger, 0, metadata.last_entry + 1, digest)
            op.request(client.bookies.links.channel(bookie), entries)
            await asyncio.wait((op.done,), timeout=END_S)
            for entry in entries:
                if op.codes[entry] in MISSING:
                    self._denied(bookie, ledger, entry)
                if may_lack:
                    continue
                if op.codes[entry] == EOK:
                    header = header_of(op.stored(entry))
                    body = op.stored(entry)[digest.overhead :]
                    self.record.add(
                        h.Copy(bookie, ledger, entry, zlib.crc32(body), header.lac, header.length)
                    )
                else:
                    self.record.add(h.Copy(bookie, ledger, entry, None))
            op.close()

    def _denied(self, bookie: str, ledger: int, entry: int) -> None:
        """Note an anomaly when the index of a bookie has an entry that the bookie denied (B4)."""
        machine = self.run.cluster.machines[bookie.partition(":")[0]]
        serving = machine.bookie._serving if machine.bookie is not None else None
        storage = None if serving is None else serving.storage
        if storage is not None and storage.entries.find_range(ledger, entry, 1):
            self.record.anomaly(f"B4 {bookie} denied entry {entry} of ledger {ledger}: it has it")
