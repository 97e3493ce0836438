"""Processes that use ledgers in a run: they write, follow, read, recover and delete, and note it in the history."""

import asyncio
import random
import zlib
from dataclasses import dataclass

from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    NoSuchEntryError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    WriteError,
)
from engine.ledger.quorum import write_set
from engine.ledger.reading.reader import LedgerReader
from engine.ledger.writing.writer import LedgerWriter
from engine.metadata.store import SessionExpiredError, StoreUnavailableError
from tests.sim.kit.cluster import Machine
from tests.sim.ledgers import history as h
from tests.sim.ledgers.record import LedgerRecord

PASSWORD = b"of the simulation"
REFUSALS = (LedgerError, StoreUnavailableError, SessionExpiredError)
"""Errors that a call may end with while faults strike."""
PENDING_BYTES_MAX = 64 << 10
UNDELETED_S = 2.0
ENDS = (
    *(LedgerFencedError, LedgerClosedError, NoSuchLedgerError),
    *(NotEnoughBookiesError, WriteError),
)
"""Errors that a writer may end with."""


def make_run(ledger: int, first: int, who: str, sizes: list[int]) -> Slice:
    """Return entries in one buffer, each of which begins with its marker."""
    parts = []
    for i, size in enumerate(sizes):
        head = marker(ledger, first + i, who)
        filler = random.Random(f"{ledger}/{first + i}").randbytes(max(size - len(head), 0))
        parts.append(head + filler)
    spans: list[int] = []
    at = 0
    for part in parts:
        spans += (at, at + len(part))
        at += len(part)
    return Slice(b"".join(parts), spans, at)


def marker(ledger: int, entry: int, who: str) -> bytes:
    return f"<{ledger}:{entry} by {who}>".encode()


def sums(run: Slice) -> tuple[int, ...]:
    """Return the checksums of a run's entries."""
    return tuple(zlib.crc32(run.entry(i)) for i in range(run.count))


class Listener:
    """The listener of one writer: notes confirmations and the failure in the history."""

    def __init__(self, host: "Host", writer: LedgerWriter) -> None:
        self._host = host
        self._writer = writer
        self._below = 0

    def confirmed(self, below: int) -> None:
        cluster, ledger = self._host.cluster, self._writer.ledger_id
        now, who = cluster.loop.now, self._host.who
        self._host.record.add(h.Confirmed(now, who, ledger, below))
        cluster.count("entries confirmed", below - self._below)
        self._below = below
        metadata = self._writer.metadata
        ensemble = metadata.bookies(below - 1)
        places = write_set(below - 1, metadata.ensemble_size, metadata.write_quorum)
        names = [ensemble[place].partition(":")[0] for place in places]
        sought = marker(ledger, below - 1, who)
        copies = cluster.durable_copies(sought, metadata.ack_quorum, names)
        # A bookie that was lost with its disk while others answered had answered before, or will be replaced.
        copies += sum(cluster.machines[name].retired for name in names)
        self._host.record.add(h.Durable(now, ledger, below - 1, copies))

    def failed(self, error: LedgerError) -> None:
        cluster = self._host.cluster
        self._host.record.add(
            h.Failed(cluster.loop.now, self._host.who, self._writer.ledger_id, repr(error))
        )
        cluster.count(f"writers failed {type(error).__name__}")
        if not isinstance(error, ENDS):
            self._host.record.anomaly(
                f"ledger {self._writer.ledger_id}: its writer failed with {error!r}"
            )


@dataclass(frozen=True)
class Habits:
    """Sizes of the work of each host, and how much each hand begins in a second."""

    hands: int
    run_entries: int
    entry_bytes: int
    rate: float = 5.0


class Host:
    """One process with one ledger client and some hands, each of which does one thing at a time until ``calm``."""

    def __init__(
        self, record: LedgerRecord, machine: Machine, client: LedgerClient, habits: Habits
    ) -> None:
        self.record = record
        self.cluster = record.cluster
        self.client = client
        self.who = machine.incarnation
        self.habits = habits
        self.calm = False
        self.busy: dict[str, str] = {}
        """The current operation of each hand."""
        self._handles = 0
        self._rng = random.Random(f"{self.cluster.loop.seed}/{self.who}/hands")

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for i in range(self.habits.hands):
                group.create_task(self._hand(f"hand {i}"))

    async def _hand(self, name: str) -> None:
        rng = self._rng
        while True:
            await asyncio.sleep(rng.expovariate(self.habits.rate))
            if self.calm:
                return
            weights = {self.write: 5, self.follow: 3, self.recover: 2, self.read: 2, self.delete: 1}
            [act] = rng.choices(list(weights), list(weights.values()))
            self.busy[name] = f"{act.__name__} since {self.cluster.loop.now:.3f}"
            try:
                await act()
            except REFUSALS as error:
                self.cluster.count(f"{act.__name__} refused")
                self.cluster.loop.note(self.who, act.__name__, type(error).__name__)
            finally:
                self.busy.pop(name, None)

    # -- writing

    async def write(self) -> None:
        """Create a ledger and append some runs, now and then after a long pause; then close it or leave it open."""
        rng = self._rng
        writer = await self._create()
        for _ in range(rng.choice((1, 5, 20, 60))):
            if self.calm or not self._append(writer):
                break
            await asyncio.sleep(rng.choice((0.0, 0.005, 0.02, 0.2)))
            while writer.pending_bytes > PENDING_BYTES_MAX and writer.error is None:
                await asyncio.sleep(0.05)
            if rng.random() < 0.02:
                await asyncio.sleep(rng.choice((2.0, 6.0)))
        if rng.random() < 0.7 or self.calm:
            await self._close(writer)

    async def write_one(self) -> None:
        """Write a small ledger and close it."""
        writer = await self._create()
        for _ in range(5):
            self._append(writer)
        await self._close(writer)

    async def _create(self) -> LedgerWriter:
        cluster = self.cluster
        writer = await self.client.create(*cluster.shape.quorum, PASSWORD)
        self.record.add(h.Created(cluster.loop.now, self.who, writer.ledger_id))
        cluster.count("ledgers")
        writer.listener = Listener(self, writer)
        return writer

    def _append(self, writer: LedgerWriter) -> bool:
        if writer.error is not None or writer.closed:
            return False
        rng, cluster = self._rng, self.cluster
        first = writer.last_pushed + 1
        count = 1 + rng.randrange(self.habits.run_entries)
        sizes = [rng.randrange(1, 2 * self.habits.entry_bytes) for _ in range(count)]
        run = make_run(writer.ledger_id, first, self.who, sizes)
        self.record.add(h.Appended(cluster.loop.now, self.who, writer.ledger_id, first, sums(run)))
        if writer.append(run) != first:
            self.record.anomaly(f"ledger {writer.ledger_id}: a run for {first} went to {run.first}")
        return True

    async def _close(self, writer: LedgerWriter) -> None:
        await writer.close()
        cluster = self.cluster
        last = writer.last_confirmed
        self.record.add(h.Closed(cluster.loop.now, self.who, writer.ledger_id, last))
        cluster.count("ledgers closed")

    # -- reading

    def _some_ledger(self, age_s: float = 0.0) -> int | None:
        """Return a ledger that was stored at least ``age_s`` ago, mostly a young one; None when there is none."""
        cluster, rng = self.cluster, self._rng
        until = cluster.loop.now - age_s
        known = [
            n for n, at in self.record.born.items() if n not in self.record.deleted and at <= until
        ]
        return rng.choice(known[-rng.choice((3, 10, 1000)) :]) if known else None

    def _exists(self, ledger: int) -> None:
        """Note an anomaly unless ``ledger``, which the client reports as missing, was deleted (C9)."""
        if ledger not in self.record.deleted:
            self.record.anomaly(f"C9 ledger {ledger} exists and was denied to {self.who}")

    async def open(self, ledger: int, *, recover: bool) -> "Handle | None":
        """Open ``ledger`` and note it; return None when the ledger was deleted."""
        cluster, since = self.cluster, self.cluster.loop.now
        if recover:
            self.record.recoveries[ledger] = None
        try:
            reader = await self.client.open(ledger, PASSWORD, recover=recover)
        except NoSuchLedgerError:
            self._exists(ledger)
            return None
        self._handles += 1
        handle = Handle(self, f"{self.who}/r{self._handles}", reader)
        now, last = cluster.loop.now, reader.last_confirmed
        self.record.add(h.Opened(since, now, handle.name, ledger, recover, reader.closed, last))
        return handle

    async def follow(self) -> None:
        """Read the confirmed entries of a ledger that others write."""
        ledger = self._some_ledger()
        handle = await self.open(ledger, recover=False) if ledger is not None else None
        if handle is None:
            return
        below = 0
        for _ in range(self._rng.choice((1, 5, 30))):
            below = await handle.read_all(below)
            if self.calm or handle.reader.closed:
                break
            await asyncio.sleep(self._rng.choice((0.01, 0.1)))
            await handle.look()
        self.cluster.count("followed")

    async def recover(self) -> None:
        ledger = self._some_ledger()
        handle = await self.open(ledger, recover=True) if ledger is not None else None
        if handle is None:
            return
        self.cluster.count("recovered")
        if self._rng.random() < 0.5:
            await handle.read_all(0)

    async def read(self) -> None:
        """Read some entries of some ledger, open or closed."""
        ledger = self._some_ledger()
        handle = await self.open(ledger, recover=False) if ledger is not None else None
        if handle is None or handle.reader.last_confirmed < 0:
            return
        await handle.read_all(self._rng.randrange(handle.reader.last_confirmed + 1))
        self.cluster.count("reads")

    async def delete(self) -> None:
        ledger = self._some_ledger(UNDELETED_S)
        if ledger is None or self._rng.random() < 0.5:
            return
        cluster, since = self.cluster, self.cluster.loop.now
        self.record.deleted[ledger] = since
        self.record.add(h.Deleted(since, float("inf"), ledger))
        await self.client.delete(ledger)
        self.record.add(h.Deleted(since, cluster.loop.now, ledger))
        cluster.count("ledgers deleted")


class Handle:
    """A reader and its name in the history."""

    def __init__(self, host: Host, name: str, reader: LedgerReader) -> None:
        self.host = host
        self.name = name
        self.reader = reader

    async def look(self) -> None:
        """Read the last confirmed entry and note it."""
        cluster, since = self.host.cluster, self.host.cluster.loop.now
        try:
            last = await self.reader.read_last_confirmed()
        except NoSuchLedgerError:
            self.host._exists(self.reader.ledger_id)
            return
        self.host.record.add(
            h.LastSeen(
                since, cluster.loop.now, self.name, self.reader.ledger_id, self.reader.closed, last
            )
        )

    async def read_all(self, first: int) -> int:
        """Read from ``first`` to the last confirmed entry; return the entry to continue at."""
        cluster, rng = self.host.cluster, self.host._rng
        ledger = self.reader.ledger_id
        while first <= self.reader.last_confirmed:
            since = cluster.loop.now
            try:
                runs = await self.reader.read(
                    first, self.reader.last_confirmed, rng.choice((1, 2000, 100_000))
                )
            except NoSuchEntryError:
                self.host.record.add(h.Missing(since, cluster.loop.now, self.name, ledger, first))
                raise
            for run in runs:
                if run.first != first:
                    self.host.record.anomaly(
                        f"{self.name}: ledger {ledger} gave {run.first} for {first}"
                    )
                self.host.record.add(
                    h.Read(since, cluster.loop.now, self.name, ledger, run.first, sums(run))
                )
                first = run.first + run.count
        return first
