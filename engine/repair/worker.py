"""The replication worker: takes marked ledgers under their locks, repairs them, and removes the marks of those that are
whole (I35), in time (I53). Nothing is taken while auto-recovery is disabled (I43)."""

import asyncio
import logging
from contextlib import suppress
from typing import NamedTuple

from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.ledger.errors import NoSuchLedgerError, NotEnoughBookiesError, UnprovenBookiesError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.metadata import paths
from engine.metadata.store import MetadataStore, SessionExpiredError, StoreUnavailableError
from engine.repair.decommissions import draining
from engine.repair.ledger_repair import LedgerRepair
from engine.repair.marks import LedgerMark, MarkFormatError, RepairRecords
from engine.repair.settings import RepairSettings

log = logging.getLogger(__name__)

HANDS = 4
"""Ledgers that a worker repairs at the same time: small ledgers cost mostly round trips."""
PAUSE_MIN_S = 0.1
RESTS = 2
REST_MAX_S = 60.0
"""A look for marked ledgers is followed by a pause of at least RESTS times its duration, at most this long."""
STEPS = 5
"""The first pause after a failure is 1 / 2**STEPS of the longest."""
HOPELESS = 10
"""Failures after which a ledger is reported as unrecoverable, and tried again once in HOPELESS_S."""
HOPELESS_S = 3600.0


class _Held(NamedTuple):
    """A ledger whose lock is kept: until ``due``, in loop time, no worker tries it again. ``grace_of`` is the first
    entry of an open segment whose writer has until then to replace lost bookies (I34)."""

    due: float
    grace_of: int | None


class ReplicationWorker:
    """One worker of a process. ``run`` works until it is cancelled."""

    def __init__(
        self,
        store: MetadataStore,
        records: RepairRecords,
        repair: LedgerRepair,
        settings: RepairSettings,
        worker_id: str,
    ) -> None:
        self._store = store
        self._records = records
        self._repair = repair
        self._settings = settings
        self._worker_id = worker_id
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._session = 0
        self._held: dict[int, _Held] = {}
        self._failures: dict[int, int] = {}
        self._tasks = TaskScope("repair")
        self._free = asyncio.Semaphore(HANDS)
        self.working: dict[int, float] = {}
        """Ledgers under repair, with the loop's time of the begin."""
        self.ledgers_repaired = 0
        self.ledgers_placed = 0
        self.repair_seconds = 0.0
        self.deferred = 0
        self.errors: dict[str, int] = {}
        self.looked_at = self._loop.time()
        """Time of the last look for marked ledgers, for what watches the worker."""

    @property
    def unrecoverable(self) -> list[int]:
        """Ledgers that could not be repaired many times."""
        return [ledger for ledger, count in self._failures.items() if count >= HOPELESS]

    async def run(self) -> None:
        """Repair marked ledgers until cancelled."""
        stops = [
            self._store.watch(path, lambda _: self._wake.set())
            for path in (paths.MARKED_LEDGERS, paths.REPAIR_DISABLED)
        ]
        try:
            while True:
                self._wake.clear()
                began = self._loop.time()
                until = began + self._settings.rw_rereplicate_backoff_s
                try:
                    await self._round()
                    until = min([until, *(held.due for held in self._held.values())])
                    # Listing many marks must not become the load of the store.
                    rest = min(RESTS * (self._loop.time() - began), REST_MAX_S)
                    until = max(until, self._loop.time() + rest)
                except (StoreUnavailableError, SessionExpiredError) as error:
                    log.info("marked ledgers cannot be read yet reason=%s", error)
                with suppress(TimeoutError):
                    async with asyncio.timeout_at(max(until, self._loop.time() + PAUSE_MIN_S)):
                        await self._wake.wait()
        finally:
            for stop in stops:
                stop()
            await self._tasks.close()

    async def _round(self) -> None:
        """Begin to repair every marked ledger that is free and has not to wait. Raises the store's errors."""
        self.looked_at = self._loop.time()
        if self._session != self._store.session_id:
            self._session = self._store.session_id
            self._held.clear()  # the locks ended with the session
        if not await self._records.enabled():
            return
        marked: dict[int, None] = {}
        async for ledger_id in self._records.marked():
            marked[ledger_id] = None
            held = self._held.get(ledger_id)
            if ledger_id in self.working or (held is not None and held.due > self._loop.time()):
                continue
            if held is not None and held.grace_of is None:
                # So that another worker can take it, which may reach other bookies.
                await self._release(ledger_id)
                continue
            await self._free.acquire()
            self.working[ledger_id] = self._loop.time()
            self._tasks.spawn(str(ledger_id), self._attempt(ledger_id))
        for ledger_id in [n for n in self._held if n not in marked and n not in self.working]:
            await self._release(ledger_id)  # another process removed the mark
        self._failures = {n: count for n, count in self._failures.items() if n in marked}

    async def _attempt(self, ledger_id: int) -> None:
        held = self._held.pop(ledger_id, None)
        try:
            if await self._records.enabled() and await self._records.lock(
                ledger_id, self._worker_id
            ):
                await self._work(ledger_id, None if held is None else held.grace_of)
        except (StoreUnavailableError, SessionExpiredError) as error:
            log.info("repair is interrupted ledger=%d reason=%s", ledger_id, error)
        except MagnetarError as error:
            self._failed(ledger_id, error)
        finally:
            self.repair_seconds += self._loop.time() - self.working.pop(ledger_id)
            self._free.release()

    async def _work(self, ledger_id: int, grace_of: int | None) -> None:
        """Repair a ledger under its lock. Raises LedgerError, the store's errors."""
        # Read before the check: a mark that is made meanwhile has another version.
        try:
            mark = await self._records.read(ledger_id)
        except MarkFormatError:
            await self._records.mark(ledger_id, ())  # what it lacks is found out in any case
            mark = await self._records.read(ledger_id)
        if mark is None:
            await self._release(ledger_id)
            return
        try:
            away = await draining(self._store)  # (I49)
            metadata, findings = await self._repair.examine(ledger_id, away, mark.bookies)
            short: NotEnoughBookiesError | None = None
            if findings.lost:
                try:
                    metadata = await self._repair.copy(ledger_id, metadata, findings, away)
                except NotEnoughBookiesError as error:
                    if not (findings.open_lost or isinstance(error, UnprovenBookiesError)):
                        raise
                    short = error  # once it is closed, there are more bookies to choose from
            if findings.open_lost or short is not None:
                first = metadata.segments[-1].first
                if grace_of != first:
                    grace_s = self._settings.open_ledger_rereplication_grace_period_s
                    self._held[ledger_id] = _Held(self._loop.time() + grace_s, first)
                    return
                await self._repair.recover(ledger_id, metadata)
            if findings.lost or findings.open_lost:
                metadata, findings = await self._repair.examine(ledger_id, away, mark.bookies)
                if findings.lost and not findings.open_lost:
                    await self._repair.copy(ledger_id, metadata, findings, away)
                    _, findings = await self._repair.examine(ledger_id, away, mark.bookies)
            if (
                findings.whole
                and self._settings.repaired_placement_policy_not_adhering_bookie_enabled
            ):
                await self._place(ledger_id, metadata)
        except NoSuchLedgerError:
            await self._finish(mark)  # deleted: nothing is left to repair
            return
        if findings.waits:
            self._wait(ledger_id)
        elif not findings.whole:
            self._failed(ledger_id, None)
        else:
            await self._finish(mark)

    def _wait(self, ledger_id: int) -> None:
        """Keep the lock for a moment: a bookie is away that an audit has not named yet."""
        pause = self._settings.lock_release_of_failed_ledger_grace_period_s / 2**STEPS
        self._held[ledger_id] = _Held(self._loop.time() + pause, None)

    async def _place(self, ledger_id: int, metadata: LedgerMetadata) -> None:
        """Move copies of a whole ledger that are in too few racks or regions (I50)."""
        misplaced = self._repair.misplaced(metadata)
        moved = [
            segment.bookies[position]
            for segment in metadata.segments
            for position in misplaced.lost.get(segment.first, ())
        ]
        if moved:
            await self._repair.copy(ledger_id, metadata, misplaced, moved)
            self.ledgers_placed += 1

    async def _finish(self, mark: LedgerMark) -> None:
        """Remove the mark, unless the ledger was marked anew meanwhile, and release the lock."""
        if await self._records.remove(mark):
            self.ledgers_repaired += 1
        else:
            self._wake.set()
        self._failures.pop(mark.ledger_id, None)
        await self._release(mark.ledger_id)

    def _failed(self, ledger_id: int, error: Exception | None) -> None:
        """Keep the lock for a while that grows with each failure, so that no worker tries again meanwhile."""
        name = type(error).__name__ if error is not None else "NotWhole"
        self.errors[name] = self.errors.get(name, 0) + 1
        count = self._failures.get(ledger_id, 0) + 1
        self._failures[ledger_id] = count
        longest = self._settings.lock_release_of_failed_ledger_grace_period_s
        pause = min(longest * 2 ** (count - 1 - STEPS), longest)
        if count >= HOPELESS:
            pause = max(pause, HOPELESS_S)
        if count == HOPELESS:
            log.error("ledger cannot be repaired ledger=%d reason=%s", ledger_id, error or name)
        else:
            log.info("ledger is not repaired yet ledger=%d reason=%s", ledger_id, error or name)
        self.deferred += 1
        self._held[ledger_id] = _Held(self._loop.time() + pause, None)

    async def _release(self, ledger_id: int) -> None:
        self._held.pop(ledger_id, None)
        await self._records.unlock(ledger_id)
