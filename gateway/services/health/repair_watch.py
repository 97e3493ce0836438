"""Repair of a cluster's ledgers for the console: marked ledgers, who repairs them and how fast, and the copies that
are left without a bookie."""

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.metadata.store import MetadataStore, NoNodeError
from engine.repair.blast_radius import BlastRadius, blast_radius
from engine.repair.decommissions import Decommission, decommissions
from engine.repair.election import auditor
from engine.repair.marks import RepairRecords
from engine.repair.under_replication import UnderReplication, under_replication
from gateway.services.bundles import Cached

log = logging.getLogger(__name__)

PAUSE_S = 3.0
SHARE = 20
"""Share of the time, one in so many parts, for reading marks."""
TREND_MS = 180_000
"""Time over which the speed of repair is measured."""
TREND_MIN_MS = 5_000


def records_of(store: MetadataStore) -> RepairRecords:
    """Return the records of auto-recovery in a store."""
    return RepairRecords(store, SystemClock(), RandomEntropy())


async def stored_delay_s(records: RepairRecords) -> float | None:
    """Return the time that a lost bookie is waited for; None before an auditor has run. Raises MarkFormatError."""
    try:
        return await records.delay_s()
    except NoNodeError:
        return None


class RepairState(NamedTuple):
    """The state at ``at`` (ms). ``delay_s``: time that a lost bookie is waited for, None before an auditor has run;
    ``auditor``: its id, None without one."""

    at: int
    enabled: bool
    auditor: str | None
    delay_s: float | None
    marked: UnderReplication
    decommissions: dict[str, Decommission]


async def read_state(store: MetadataStore, at: int) -> RepairState:
    """Read the records. Raises the store's errors, MarkFormatError."""
    records = records_of(store)
    return RepairState(
        at,
        await records.enabled(),
        await auditor(store),
        await stored_delay_s(records),
        await under_replication(store, records),
        await decommissions(store),
    )


class MarkCount(NamedTuple):
    at: int
    ledgers: int
    size: int


class RepairWatch:
    """The state of repair, read again and again while anyone looks. Used on one event loop. ``now``: ms since the
    epoch."""

    def __init__(self, now: Callable[[], int], changed: Callable[[], None]) -> None:
        self.last: RepairState | None = None
        self.version = 0
        self._now = now
        self._changed = changed
        self._due = 0.0
        self._tasks = TaskScope("repair of ledgers")
        self._reading = False
        self._samples: deque[MarkCount] = deque()
        self._radius: Cached[tuple[int, BlastRadius]] = Cached()

    def refresh(self, store: MetadataStore) -> None:
        """Read the state in the background, unless that is being done or was done a moment ago."""
        if not self._reading and time.monotonic() >= self._due:
            self._reading = True
            self._tasks.spawn("read", self._read(store))

    async def read(self, store: MetadataStore) -> RepairState:
        """Return the state as it is now. Raises the store's errors, MarkFormatError."""
        state = await read_state(store, self._now())
        self._keep(state)
        return state

    async def _read(self, store: MetadataStore) -> None:
        began = time.monotonic()
        try:
            await self.read(store)
        except (MagnetarError, OSError, TimeoutError) as error:
            log.info("marked ledgers are not read reason=%s", error)  # the last state stays
        finally:
            ended = time.monotonic()
            self._due = ended + max(PAUSE_S, SHARE * (ended - began))
            self._reading = False

    def _keep(self, state: RepairState) -> None:
        before, self.last = self.last, state
        marked = state.marked
        if not marked.ledgers:
            self._samples.clear()
        else:
            self._samples.append(MarkCount(state.at, marked.ledgers, marked.size))
            while self._samples[0].at < state.at - TREND_MS:
                self._samples.popleft()
        if before is None or before._replace(at=state.at) != state:
            self.version += 1
            self._changed()

    @property
    def ledgers_per_s(self) -> float | None:
        """Marked ledgers that become whole in a second; None while that is not known, or none does."""
        return self._fall(lambda sample: sample.ledgers)

    @property
    def bytes_per_s(self) -> float | None:
        return self._fall(lambda sample: sample.size)

    @property
    def seconds_left(self) -> float | None:
        """Time until no ledger is marked, at the speed of the last minutes; None while that is not known."""
        rate = self.ledgers_per_s
        return None if rate is None or not self._samples else self._samples[-1].ledgers / rate

    def _fall(self, value: Callable[[MarkCount], int]) -> float | None:
        """Return by how much a value fell per second since it was highest."""
        if not self._samples:
            return None
        last = self._samples[-1]
        top = max(self._samples, key=lambda sample: (value(sample), sample.at))
        took_ms = last.at - top.at
        if took_ms < TREND_MIN_MS or value(top) <= value(last):
            return None
        return (value(top) - value(last)) * 1000 / took_ms

    async def radius(self, store: MetadataStore) -> tuple[int, BlastRadius]:
        """Return when all ledgers were read, and what they say of each bookie. Raises the store's errors."""

        async def make() -> tuple[int, BlastRadius]:
            at = self._now()
            return at, await blast_radius(store)

        return await self._radius.get(None, make)

    async def close(self) -> None:
        await self._tasks.close()
