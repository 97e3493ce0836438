"""The auditor: notices bookies that are away or were replaced, and marks the ledgers that they held. It also checks all
ledgers from time to time, so that a loss is noticed in time (I53). It only ever marks; workers decide by what they
find.

Bookies that leave are waited for, ``lostBookieRecoveryDelay`` seconds, as BookKeeper does: the ledgers of one that is
back before are not marked (I43); when a second one is away as well, both are lost at once. The delay is a node that may
be changed; writing it again, unchanged, asks for an audit at once. Those that are away when an auditor begins are
waited for, however many: they may be starting as well.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope
from engine.ledger.client import LedgerClient
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError
from engine.repair.checking import check, ends, fewest_copies, holdings
from engine.repair.decommissions import Decommissioning
from engine.repair.election import Election
from engine.repair.ledger_listing import children, ledgers
from engine.repair.marks import MarkFormatError, RepairRecords
from engine.repair.settings import RepairSettings

log = logging.getLogger(__name__)

RETRY_S = 1.0
LOOK_S = 30.0
"""Seconds after which everything watched is read again, should a notification have been lost."""
COUNT_RESTS = 20
"""The marks are counted again after COUNT_RESTS times the duration of the last count."""
AT_ONCE = 16
"""Ledgers that a check asks about at the same time."""


class NotAuditorError(MagnetarError):
    """The candidate is not the auditor any more, or auto-recovery was turned off; the work under way ends."""


class AuditCounts:
    """Results of the auditor of this process; gauges are of the last check."""

    def __init__(self) -> None:
        self.elections = 0
        self.audits = 0
        self.audits_delayed = 0
        self.audits_cancelled = 0
        self.ledgers_marked = 0
        self.ledgers_checked = 0
        self.marked_now = 0
        self.oldest_mark_ms = 0
        self.not_adhering = 0
        self.without_copy = 0
        self.below_ack_quorum = 0
        self.below_write_quorum = 0
        self.audit_seconds = 0.0
        self.check_seconds = 0.0


class Auditor:
    """A candidate for the auditor. ``run`` stands for election and audits while elected, until cancelled."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        records: RepairRecords,
        client: LedgerClient,
        settings: RepairSettings,
        candidate: str,
    ) -> None:
        self._store = store
        self._clock = clock
        self._records = records
        self._client = client
        self._settings = settings
        self.election = Election(store, candidate)
        self.counts = AuditCounts()
        self._wake = asyncio.Event()
        self._triggered = False
        self._delay: tuple[bytes, int] | None = None
        """Value and version of the delay's node."""
        self._away: dict[str, float] = {}
        """Bookies that are waited for, with the time since when they are away."""
        self._lost: dict[str, None] = {}
        """Bookies that are away and whose ledgers were marked."""
        self._absent: dict[str, float] | None = None
        """Bookies that were away at the begin; they may be starting, like this process."""
        self._bookies_checked = 0.0
        self._count_at = 0.0
        self._known: dict[str, None] = {}
        self._decommissioning = Decommissioning(store, records, clock)
        self._tasks = TaskScope("checks of all ledgers")
        self._checking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        watched = [
            *Election.watched,
            *(paths.AVAILABLE, paths.READ_ONLY, paths.COOKIES),
            *(paths.LOST_BOOKIE_DELAY, paths.REPAIR_DISABLED, paths.DECOMMISSIONS),
        ]
        stops = [self._store.watch(path, lambda _: self._wake.set()) for path in watched]
        stops.append(self._store.on_state(lambda _: self._wake.set()))
        self._tasks = TaskScope("checks of all ledgers")
        try:
            while True:
                self._wake.clear()
                pause = LOOK_S
                try:
                    if not self.election.leads:
                        await self._records.prepare()
                        if await self.election.stand():
                            await self._begin()
                    if self.election.leads and await self._records.enabled():
                        pause = await self._look()
                except MagnetarError as error:
                    log.info("audit is interrupted reason=%s", error)
                    pause = RETRY_S
                try:
                    async with asyncio.timeout(min(pause, LOOK_S)):
                        await self._wake.wait()
                except TimeoutError:
                    pass
        finally:
            for stop in stops:
                stop()
            await self._tasks.close()

    @property
    def waits_for(self) -> dict[str, float]:
        """Bookies that are away, with the monotonic time since when, before their ledgers are marked."""
        return dict(self._away)

    def _continue(self) -> None:
        """Raise NotAuditorError unless this candidate still is the auditor."""
        if not self.election.leads:
            raise NotAuditorError("another candidate may be the auditor now")

    async def _begin(self) -> None:
        log.info("this process is the auditor")
        self.counts.elections += 1
        await self._delay_s()
        self._delay = await self._delay_node()
        self._away.clear()
        self._absent = None
        self._lost.clear()
        self._triggered = False
        self._decommissioning.begin()
        self._known = dict.fromkeys(await children(self._store, paths.COOKIES))
        self._bookies_checked = -1e18

    async def _delay_node(self) -> tuple[bytes, int]:
        value, stat = await self._store.get(paths.LOST_BOOKIE_DELAY)
        return value, stat.version

    async def _delay_s(self) -> float:
        """Return the stored delay, which is stored first if it is missing; the setting's where it cannot be read."""
        default = self._settings.lost_bookie_recovery_delay
        try:
            return await self._records.delay_s(default)
        except MarkFormatError as error:
            log.error("the setting is used instead of a stored delay reason=%s", error)
            return default

    async def _available(self) -> list[str]:
        writable = await children(self._store, paths.AVAILABLE)
        return [
            *(name for name in writable if name != "readonly"),
            *await children(self._store, paths.READ_ONLY),
        ]

    async def _look(self) -> float:
        """Do what is due, and return the seconds until something is due again. Raises the store's errors."""
        now = self._clock.monotonic_s()
        delay = await self._delay_s()
        node = await self._delay_node()
        if self._delay is not None and node != self._delay:
            # The same value in a new version asks for an audit; so does 0.
            self._triggered = node[0] == self._delay[0] or node[0].strip() == b"0"
            self._delay = node
        available = dict.fromkeys(await self._available())
        await self._look_at_cookies()
        returned = [bookie for bookie in self._away if bookie in available]
        for bookie in returned:
            del self._away[bookie]
            self.counts.audits_cancelled += 1
        self._lost = {bookie: None for bookie in self._lost if bookie not in available}
        for bookie in self._known:
            if bookie not in available and bookie not in self._lost and bookie not in self._away:
                self._away[bookie] = now
                self.counts.audits_delayed += 1
        self._known |= available
        if self._absent is None:
            self._absent = dict(self._away)
        until = min(self._away.values(), default=now) + delay
        together = [bookie for bookie in self._away if bookie not in self._absent]
        if self._away and (self._triggered or len(together) > 1 or until <= now):
            await self._audit(self._away)
        elif self._triggered:
            await self._audit_all()
        self._triggered = False
        await self._count_marks()
        pauses = [LOOK_S]
        if (due_s := await self._decommissioning.look()) is not None:
            pauses.append(due_s)
        if self._away:
            pauses.append(max(until - now, 0.05))
        else:
            await self._audit_bookies(now)
            pauses.append(await self._begin_check())
        return min(pauses)

    async def _audit(self, lost: Collection[str]) -> None:
        """Mark the ledgers of ``lost``."""
        gone = list(lost)
        log.warning("bookies are lost, their ledgers are marked bookies=%s", ",".join(gone))
        marked = await self._mark_ledgers_of(gone)
        for bookie in gone:
            self._away.pop(bookie, None)
            self._lost[bookie] = None
        log.info("ledgers of lost bookies are marked ledgers=%d", marked)

    async def _audit_all(self) -> None:
        """Mark the ledgers of all bookies that are named by metadata and not registered."""
        await self._mark_ledgers_of(None)

    async def _mark_ledgers_of(self, lost: Collection[str] | None) -> int:
        """Mark the ledgers that name a bookie in ``lost``, or with None any that is not registered and not waited
        for. Return their number."""
        began = self._clock.monotonic_s()
        available = dict.fromkeys(await self._available())
        marked = 0
        async for batch in ledgers(self._store):
            self._continue()
            for ledger_id, metadata in batch:
                members = {b: None for segment in metadata.segments for b in segment.bookies}
                if lost is None:
                    named = [b for b in members if b not in available and b not in self._away]
                else:
                    named = [b for b in members if b in lost]
                if named:
                    await self._mark(ledger_id, named)
                    marked += 1
        self.counts.audits += 1
        self.counts.audit_seconds += self._clock.monotonic_s() - began
        return marked

    async def _mark(self, ledger_id: int, bookies: Collection[str]) -> None:
        self._continue()
        if not await self._records.enabled():
            raise NotAuditorError("auto-recovery was turned off")
        await self._records.mark(ledger_id, bookies)
        self.counts.ledgers_marked += 1

    # Replaced bookies

    async def _look_at_cookies(self) -> None:
        """Mark the ledgers of bookies whose cookies are new: their disks are empty, whatever they held before."""
        creations: dict[str, int] = {}
        for bookie in await children(self._store, paths.COOKIES):
            stat = await self._store.exists(paths.cookie(bookie))
            if stat is not None:
                creations[bookie] = stat.creation
        try:
            value, stat = await self._store.get(paths.KNOWN_COOKIES)
        except NoNodeError:
            await self._store.create(
                paths.KNOWN_COOKIES, json.dumps(creations).encode(), make_parents=True
            )
            return
        try:
            known = dict(json.loads(value))
        except (ValueError, TypeError) as error:
            log.error("all cookies are taken for new path=%s reason=%s", paths.KNOWN_COOKIES, error)
            known = {}
        new = [bookie for bookie, creation in creations.items() if known.get(bookie) != creation]
        if not new and creations.keys() == known.keys():
            return
        if new:
            log.info("cookies are new, ledgers that name them are marked bookies=%s", ",".join(new))
            await self._mark_ledgers_of(new)
        await self._store.put(
            paths.KNOWN_COOKIES, json.dumps({**known, **creations}).encode(), stat.version
        )

    # Periodic checks

    async def _count_marks(self) -> None:
        began = self._clock.monotonic_s()
        if began < self._count_at:
            return
        count, oldest = 0, 0
        async for ledger_id in self._records.marked():
            count += 1
            if not oldest:
                with suppress(MarkFormatError):  # the worker that takes it writes it anew
                    mark = await self._records.read(ledger_id)
                    oldest = 0 if mark is None else mark.since_ms
        self.counts.marked_now, self.counts.oldest_mark_ms = count, oldest
        now = self._clock.monotonic_s()
        self._count_at = now + COUNT_RESTS * (now - began)

    async def _audit_bookies(self, now: float) -> None:
        """Mark the ledgers of bookies that are not registered if that is due."""
        every = self._settings.auditor_periodic_bookie_check_interval
        if self._bookies_checked < 0 or (every and now - self._bookies_checked >= every):
            self._bookies_checked = now
            await self._audit_all()

    async def _begin_check(self) -> float:
        """Begin the check of all ledgers that is due, one at a time, and return the seconds until the next is.

        None begins while bookies are waited for. It takes hours where there are many ledgers; audits go on meanwhile.
        """
        if self._checking is not None and not self._checking.done():
            return LOOK_S
        settings = self._settings
        waits = [LOOK_S]
        for path, interval, work in (
            (paths.CHECKED_LEDGERS, settings.auditor_periodic_check_interval, self.check_ledgers),
            (
                paths.CHECKED_PLACEMENT,
                settings.auditor_periodic_placement_policy_check_interval,
                self.check_placement,
            ),
            (paths.CHECKED_REPLICAS, settings.auditor_replicas_check_interval, self.count_replicas),
        ):
            if not interval:
                continue
            last = await self._records.checked_ms(path)
            if not last:
                await self._records.set_checked(path)  # the first check is after an interval
                continue
            left = last / 1000 + interval - self._clock.wall_ms() / 1000
            if not 0 < left <= interval:
                self._checking = self._tasks.spawn(path, self._check(path, work))
                break
            waits.append(left)
        return min(waits)

    async def _check(self, path: str, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
            await self._records.set_checked(path)
        except MagnetarError as error:
            log.info("check of all ledgers is interrupted, it begins again reason=%s", error)
            return
        self._wake.set()  # another one may be due

    async def check_ledgers(self) -> None:
        """Ask every bookie which entries of each ledger it has, and mark the ledgers whose copies are not complete."""
        began = self._clock.monotonic_s()
        async for batch in ledgers(self._store):
            for i in range(0, len(batch), AT_ONCE):
                self._continue()
                part = batch[i : i + AT_ONCE]
                started = self._clock.monotonic_s()
                registered = self._client.bookies.registrations
                await registered.load()
                before = {*registered.writable, *registered.read_only}
                results = await asyncio.gather(
                    *(
                        check(self._client.access(n, metadata.password or b""), metadata, ())
                        for n, metadata in part
                    )
                )
                # One that is away, or was, is not asked: audits decide when it counts as lost (I43).
                asked = before & {*registered.writable, *registered.read_only}
                for (ledger_id, metadata), findings in zip(part, results, strict=True):
                    lost = {
                        segment.bookies[position]: None
                        for segment in metadata.segments
                        for position in findings.lost.get(segment.first, ())
                        if segment.bookies[position] in asked
                    }
                    last = metadata.segments[-1].bookies
                    if lost or (findings.open_lost and asked.issuperset(last)):
                        await self._mark(ledger_id, lost)
                self.counts.ledgers_checked += len(part)
                await self._keep_pace(len(part), started)
        self.counts.check_seconds += self._clock.monotonic_s() - began

    async def check_placement(self) -> None:
        """Count the closed ledgers whose copies share racks although there are others, and mark them if that is set."""
        self._client.bookies.start()
        await self._client.bookies.registrations.load()
        count = 0
        async for batch in ledgers(self._store):
            self._continue()
            for ledger_id, metadata in batch:
                if metadata.state is LedgerState.CLOSED and not self._adheres(metadata):
                    count += 1
                    if self._settings.repaired_placement_policy_not_adhering_bookie_enabled:
                        await self._mark(ledger_id, ())
        self.counts.not_adhering = count

    def _adheres(self, metadata: LedgerMetadata) -> bool:
        choice = self._client.bookies.choice
        return all(
            choice.adheres(segment.bookies, metadata.write_quorum) for segment in metadata.segments
        )

    async def count_replicas(self) -> None:
        """Count the closed ledgers that have an entry without a copy, below its ack quorum, below its write quorum."""
        none = below_ack = below_write = 0
        async for batch in ledgers(self._store):
            for ledger_id, metadata in batch:
                if metadata.state is not LedgerState.CLOSED or metadata.last_entry < 0:
                    continue
                self._continue()
                started = self._clock.monotonic_s()
                fewest = await self._fewest_copies(ledger_id, metadata)
                none += fewest == 0
                below_ack += fewest < metadata.ack_quorum
                below_write += fewest < metadata.write_quorum
                await self._keep_pace(1, started)
        counts = self.counts
        counts.without_copy, counts.below_ack_quorum = none, below_ack
        counts.below_write_quorum = below_write

    async def _fewest_copies(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        """Return the copies of the entry with the fewest, as bookies list them; one that does not answer has none."""
        members = {b: None for segment in metadata.segments for b in segment.bookies}
        held = await holdings(
            self._client.access(ledger_id, metadata.password or b""), metadata, list(members)
        )
        fewest = metadata.write_quorum
        for (first, last), segment in zip(ends(metadata), metadata.segments, strict=True):
            ranges = [held[bookie] or [] for bookie in segment.bookies]
            fewest = min(fewest, fewest_copies(ranges, first, last, metadata.write_quorum))
        return fewest

    async def _keep_pace(self, count: int, started: float) -> None:
        """Wait until ``count`` ledgers took the time that they should."""
        due = started + count / self._settings.auditor_ledgers_per_second
        await asyncio.sleep(max(due - self._clock.monotonic_s(), 0.0))
