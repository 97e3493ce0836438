"""The scrubber: reads everything that the bookie keeps within a set time, slowly, and has entries that are damaged or
missing written again from other copies (I47).

The bookie itself knows the checksums of its blocks. Digests, and which entries it should have, are known from ledger
metadata, and other copies are read by a ledger client: ``OtherCopies``, which the process gives. Damage that cannot be
repaired now is kept out of the lists of entries that checks of ledgers ask for, and its ledger is marked.
"""

import asyncio
import json
import logging
from collections import deque
from dataclasses import asdict, dataclass
from functools import partial
from typing import NamedTuple, Protocol

from bookie.metrics import Readings
from bookie.settings import BookieSettings
from bookie.storage.checkpoint import Checkpointer
from bookie.storage.logs.entry_log import EntryLogReader, Location
from bookie.storage.recover import Storage
from bookie.storage.scrub import RECORDS_MAX, Check, ReadPart, Unreadable, read_part
from engine.base.clock import Clock
from engine.base.disk.files import Disk, Lane
from engine.base.errors import MagnetarError
from engine.wire.availability import merged

log = logging.getLogger(__name__)

POSITION_NAME = "scrub"
PART_BYTES = 1 << 20
LOOK_S = 5.0
"""Seconds after which what reads have found is looked at, and the position is stored when it has changed."""
RATE_MIN = 16 << 10
"""Bytes per second below which no pass is slowed."""
EARLY = 0.8
"""The share of the set time in which a pass is planned to end."""
RETRY_S = 600.0
"""Seconds until another attempt to restore what could not be restored."""
SUSPECTS_MAX = 1000
"""Reports of reads that wait; more are found by the next pass."""
UNREADABLE_MAX = 10_000
LOGGED_MAX = 100
"""Log lines about damage in one pass."""


Ranges = list[tuple[int, int]]
_Key = tuple[int, int, int]
"""Ledger, first and last entry."""


class _Damage(NamedTuple):
    """The reason why entries are unreadable: in loop time when they are to be restored next, and the log and offset of
    the block that was damaged. None where there was no record, or where the block is intact and the digest of an entry
    is wrong (``digest``), which compaction copies."""

    retry_at: float
    block: tuple[int, int] | None
    digest: bool = False


class OtherCopies(Protocol):
    """Access to the copies that other bookies have. Methods raise MagnetarError when that is not possible now."""

    async def look(self, ledger_id: int, held: Ranges) -> tuple[Check, Ranges] | None:
        """Return the check of a ledger's entries, and ranges that should be here and are not; None for a ledger that
        was deleted."""
        ...

    async def restore(self, ledger_id: int, first: int, last: int) -> int:
        """Write entries to this bookie again, as far as it should have them; return their number."""
        ...

    async def is_open(self, ledger_id: int) -> bool:
        """Return whether the ledger's end is not settled."""
        ...

    async def mark(self, ledger_id: int) -> None:
        """Mark the ledger as under-replicated, so that workers of the cluster repair it."""
        ...


@dataclass
class Pass:
    """One reading of everything: where it is, and what it found. Times are wall-clock milliseconds."""

    began_ms: int = 0
    ended_ms: int = 0
    ledger: int = 0
    entry: int = 0
    bytes: int = 0
    entries: int = 0
    unreadable: int = 0
    missing: int = 0
    restored: int = 0


class Scrubber:
    """The scrubber of one bookie. One task runs ``run``; ``lane`` is shared with compaction."""

    def __init__(
        self,
        settings: BookieSettings,
        storage: Storage,
        checkpointer: Checkpointer,
        lane: Lane,
        home: str,
        *,
        disk: Disk,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._storage = storage
        self._checkpointer = checkpointer
        self._lane = lane
        self._disk = disk
        self._path = f"{home}/{POSITION_NAME}"
        self._clock = clock
        self._reader = EntryLogReader(disk, storage.logs, 0)
        self._wake = asyncio.Event()
        self._suspects: deque[tuple[int, int]] = deque(maxlen=SUSPECTS_MAX)
        self._unreadable: dict[_Key, _Damage] = {}
        """Entries to be restored."""
        self._checked_at = -LOOK_S
        self.lost: dict[int, None] = {}
        """Ledgers to be marked, because a disk failed that had entries of theirs. Set in any lane."""
        self._ledgers: list[int] = []
        self._known: tuple[int, Check | None] = (-1, None)
        self._due = 0.0
        self._stored: tuple[int, int] = (0, 0)
        self._logged = 0
        self._hurried = False
        self.others: OtherCopies | None = None
        self.now = Pass()
        self.last: Pass | None = None
        """The last complete pass."""
        self.bytes = 0
        self.entries = 0
        self.found_unreadable = 0
        self.found_missing = 0
        self.restored = 0

    # What others ask and report

    def suspect(self, ledger_id: int, entry_id: int) -> None:
        """Report an entry that a read did not get. From any lane; it is looked at within LOOK_S."""
        self._suspects.append((ledger_id, entry_id))

    def hurry(self) -> None:
        """Begin a pass now, or end the one under way, at the bound of bytes per second."""
        self._hurried = True
        self._wake.set()

    def readable(self, ledger_id: int, ranges: Ranges) -> Ranges:
        """Return ``ranges`` of a ledger without the entries known to be unreadable. For the read lane."""
        known = [(key, d) for key, d in list(self._unreadable.items()) if key[0] == ledger_id]
        holes = [hole for key, damage in known for hole in self._holes(key, damage)]
        return without(ranges, holes) if holes else ranges

    def _holes(self, key: _Key, damage: _Damage) -> Ranges:
        """Return the entries that are unreadable still: a worker may have written them again, as to any bookie."""
        ledger_id, first, last = key
        if damage.digest:
            return [(first, last)]
        return [
            (max(n, first), min(n + place.entries - 1, last))
            for n, place in self._records(ledger_id, first, last)
            if (place.log_id, place.offset) == damage.block
        ]

    def _restored(self, known: dict[_Key, _Damage]) -> list[_Key]:
        """Return the keys of entries that were written again, as far as that shows without reading them."""
        return [key for key, damage in known.items() if self._is_restored(key, damage)]

    def _is_restored(self, key: _Key, damage: _Damage) -> bool:
        if damage.digest:
            return False
        if damage.block is None:
            records = self._records(*key)
            return bool(records) and records[0][0] <= key[1]
        return not self._holes(key, damage)

    def _records(self, ledger_id: int, first: int, last: int) -> list[tuple[int, Location]]:
        rows, _ = self._storage.entries.blocks_from(ledger_id, first, RECORDS_MAX)
        return [(n, place) for n, place in rows if n <= last]

    def state(self) -> dict[str, object]:
        """Return the state for the status page."""
        live, now = self._storage.entries.live_bytes, self.now
        running = bool(now.began_ms and not now.ended_ms)
        return {
            "enabled": self._settings.scrub_interval_s > 0,
            "running": running,
            "intervalSeconds": self._settings.scrub_interval_s,
            "bytesPerSecond": round(self._rate()) if running else 0,
            "progress": round(min(now.bytes / live, 1.0), 4) if running and live else None,
            "bytesTotal": live,
            "unreadableNow": sum(last - first + 1 for _, first, last in self._unreadable),
            "pass": asdict(now) if now.began_ms else None,
            "lastPass": None if self.last is None else asdict(self.last),
        }

    # The work

    async def run(self) -> None:
        """Work until cancelled."""
        self._load(await self._lane.run(self._read_position))
        looked = self._clock.monotonic_s()
        while True:
            try:
                await self._work()
            except MagnetarError as error:
                log.info("scrubbing goes on later reason=%s", error)
                self._due = self._clock.monotonic_s() + LOOK_S
            now = self._clock.monotonic_s()
            if now - looked >= LOOK_S and (self.now.ledger, self.now.entry) != self._stored:
                await self._save()
            looked = now if now - looked >= LOOK_S else looked
            pause = min(max(self._due - now, 0.001), LOOK_S)
            self._wake.clear()
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
                self._due = 0.0
            except TimeoutError:
                pass

    async def _work(self) -> None:
        while self.lost and self.others is not None:
            ledger_id = next(iter(self.lost))
            await self.others.mark(ledger_id)
            if await self.others.is_open(ledger_id):
                # Workers do not touch the end of an open ledger, which a recovery may need before it is closed.
                for first, last in await self._lane.run(partial(self._lost_ranges, ledger_id)):
                    await self._restore(ledger_id, first, last)
            del self.lost[ledger_id]
        while self._suspects:
            ledger_id, entry_id = self._suspects.popleft()
            await self._read(ledger_id, entry_id, 1, None)
        now = self._clock.monotonic_s()
        if self._unreadable and now >= self._checked_at + LOOK_S:
            self._checked_at = now
            for key in await self._lane.run(partial(self._restored, dict(self._unreadable))):
                del self._unreadable[key]
        for key, damage in list(self._unreadable.items()):
            if damage.retry_at <= now:
                await self._restore(*key, digest=damage.digest)
        if now < self._due or not self._begun():
            return
        began = now
        async with self._checkpointer.lock:
            pass  # waits while a flush is in progress, which has the disk to itself
        size = await self._next_part()
        self._due = began + size / self._rate()

    def _lost_ranges(self, ledger_id: int) -> Ranges:
        storage = self._storage
        rows = storage.entries.blocks(ledger_id)
        return [(n, n + p.entries - 1) for n, p in rows if p.log_id not in storage.logs]

    def _begun(self) -> bool:
        """Begin a pass if one is due; return whether one is under way."""
        now_ms, current = self._clock.wall_ms(), self.now
        interval_ms = self._settings.scrub_interval_s * 1000
        if current.began_ms and not current.ended_ms:
            return True
        # A clock that was set back must not put off the next pass.
        waited = not 0 <= now_ms - current.began_ms < interval_ms
        if not (self._hurried or (interval_ms and waited)):
            self._due = self._clock.monotonic_s() + LOOK_S
            return False
        self.now = Pass(began_ms=now_ms)
        self._logged = 0
        self._ledgers = []
        return True

    def _rate(self) -> float:
        """Return the bytes per second with which this pass ends in time, within the bound."""
        limit, interval_s = self._settings.scrub_rate_by_bytes, self._settings.scrub_interval_s
        if self._hurried or not interval_s:
            return limit
        passed_s = (self._clock.wall_ms() - self.now.began_ms) / 1000
        left_s = max(interval_s * EARLY - passed_s, 1.0)
        left = max(self._storage.entries.live_bytes - self.now.bytes, 0)
        return min(max(left / left_s, RATE_MIN), limit)

    async def _next_part(self) -> int:
        """Read the next part; return its bytes."""
        current, ledgers = self.now, self._storage.ledgers
        if not self._ledgers:
            self._ledgers = [n for n in ledgers.live_ids() if n >= current.ledger][::-1]
        while self._ledgers and self._ledgers[-1] < current.ledger:
            self._ledgers.pop()
        if not self._ledgers:
            await self._end()
            return 0
        ledger_id = self._ledgers[-1]
        if ledger_id != current.ledger:
            current.ledger, current.entry = ledger_id, 0
        if self._known[0] != ledger_id:
            await self._enter(ledger_id)
        part = await self._read(ledger_id, current.entry, PART_BYTES, self._known[1])
        current.bytes += part.size
        current.entries += part.entries
        self.bytes += part.size
        self.entries += part.entries
        if part.next is None:
            current.ledger, current.entry = ledger_id + 1, 0
        else:
            current.entry = part.next
        return part.size

    async def _enter(self, ledger_id: int) -> None:
        """Ask metadata about a ledger, and have what is missing made again."""
        if self.others is None:
            self._known = (ledger_id, None)
            return
        # First the cache: entries move only from there to the index.
        cached = self._storage.ledgers.cache.ranges(ledger_id)
        stored = await self._lane.run(
            partial(self._storage.entries.ranges, ledger_id, self._storage.logs)
        )
        known = await self.others.look(ledger_id, merged(cached + stored))
        check, missing = known or (None, [])
        self._known = (ledger_id, check)
        for first, last in missing:
            self.now.missing += last - first + 1
            self.found_missing += last - first + 1
            self._report(
                logging.WARNING, "entries are missing", ledger_id, first, last, "no record"
            )
            await self._restore(ledger_id, first, last)

    async def _read(self, ledger_id: int, at: int, size: int, check: Check | None) -> ReadPart:
        """Read a part and have what is unreadable written again."""
        entries = self._storage.entries
        part = await self._lane.run(
            partial(read_part, entries, self._reader, ledger_id, at, size, check)
        )
        for unreadable in part.unreadable:
            await self._found(unreadable)
        return part

    async def _found(self, unreadable: Unreadable) -> None:
        ledger_id, first, last, reason, digest = unreadable
        cached = self._storage.ledgers.cache.ranges(ledger_id)
        if (ledger_id, first, last) in self._unreadable or not without([(first, last)], cached):
            return  # known, or written again already and not flushed yet
        self.now.unreadable += last - first + 1
        self.found_unreadable += last - first + 1
        self._report(logging.ERROR, "entries are unreadable", ledger_id, first, last, reason)
        if len(self._unreadable) < UNREADABLE_MAX:
            await self._restore(ledger_id, first, last, digest=digest)

    def _report(
        self, level: int, what: str, ledger_id: int, first: int, last: int, reason: str
    ) -> None:
        self._logged += 1
        if self._logged <= LOGGED_MAX:
            log.log(
                level,
                "%s ledger=%d first=%d last=%d reason=%s",
                what,
                ledger_id,
                first,
                last,
                reason,
            )

    async def _restore(
        self, ledger_id: int, first: int, last: int, *, digest: bool = False
    ) -> None:
        """Restore entries from another copy. What cannot be restored is kept in mind, and its ledger is marked."""
        key = (ledger_id, first, last)
        new = key not in self._unreadable
        records = await self._lane.run(partial(self._records, *key))
        block = (records[0][1].log_id, records[0][1].offset) if records else None
        at = self._clock.monotonic_s() + RETRY_S
        self._unreadable[key] = _Damage(at, None if digest else block, digest)
        if self.others is None:
            return
        try:
            restored = await self.others.restore(ledger_id, first, last)
        except MagnetarError as error:
            text = "entries cannot be restored now"
            self._report(logging.WARNING, text, ledger_id, first, last, str(error))
            if new:
                await self.others.mark(ledger_id)
            return
        del self._unreadable[key]
        self.now.restored += restored
        self.restored += restored

    async def _end(self) -> None:
        current = self.now
        current.ended_ms = self._clock.wall_ms()
        self._hurried = False
        self.last = current
        self._known = (-1, None)
        log.info(
            "everything was read back bytes=%d entries=%d unreadable=%d missing=%d restored=%d",
            current.bytes,
            current.entries,
            current.unreadable,
            current.missing,
            current.restored,
        )
        await self._save()

    # The position, which a restart goes on from

    async def _save(self) -> None:
        state = {"now": asdict(self.now), "last": None if self.last is None else asdict(self.last)}
        self._stored = (self.now.ledger, self.now.entry)
        try:
            await self._lane.run(partial(self._write_position, json.dumps(state).encode()))
        except OSError as error:  # such as a full disk; without it a restart reads more again
            log.warning("position of the scrubber is not stored reason=%s", error)

    def _write_position(self, state: bytes) -> None:
        file = self._disk.open(f"{self._path}.new", create=True)
        try:
            file.pwritev([state], 0)
            file.truncate(len(state))
            file.fdatasync()
        finally:
            file.close()
        self._disk.rename(f"{self._path}.new", self._path)

    def _read_position(self) -> bytes:
        if not self._disk.exists(self._path):
            return b""
        file = self._disk.open(self._path)
        try:
            return file.pread(file.size(), 0)
        finally:
            file.close()

    def _load(self, state: bytes) -> None:
        """Take over a stored position; one that is damaged only means another pass."""
        if not state:
            return
        try:
            stored = json.loads(state)
            now, last = (
                None if part is None else Pass(**{name: int(n) for name, n in part.items()})
                for part in (stored["now"], stored["last"])
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("position of the scrubber is unreadable, it begins anew reason=%s", error)
            return
        self.now, self.last = now or Pass(), last
        self._stored = (self.now.ledger, self.now.entry)

    # Metrics

    def gauges(self) -> Readings:
        return {
            "bookie_scrub_progress": (
                "Share of the bytes kept that this pass has read, 1 between passes",
                lambda: self._progress(),
            ),
            "bookie_scrub_last_pass_timestamp_seconds": (
                "When everything had been read back last; 0: never",
                lambda: 0.0 if self.last is None else self.last.ended_ms / 1000,
            ),
            "bookie_entries_unreadable": (
                "Entries known to be damaged or missing and not restored yet",
                lambda: sum(last - first + 1 for _, first, last in list(self._unreadable)),
            ),
        }

    def _progress(self) -> float:
        if not self.now.began_ms or self.now.ended_ms:
            return 1.0
        return min(self.now.bytes / max(self._storage.entries.live_bytes, 1), 1.0)

    def counters(self) -> Readings:
        return {
            "bookie_scrub_bytes": ("Bytes read back", lambda: self.bytes),
            "bookie_scrub_entries": ("Entries read back", lambda: self.entries),
            "bookie_scrub_unreadable_entries": (
                "Entries found damaged",
                lambda: self.found_unreadable,
            ),
            "bookie_scrub_missing_entries": ("Entries found missing", lambda: self.found_missing),
            "bookie_scrub_restored_entries": (
                "Entries of both kinds restored from another copy",
                lambda: self.restored,
            ),
        }


def without(ranges: Ranges, holes: Ranges) -> Ranges:
    """Return ``ranges`` without what lies in ``holes``."""
    left = list(ranges)
    for low, high in holes:
        parts: Ranges = []
        for first, last in left:
            if last < low or high < first:
                parts.append((first, last))
                continue
            if first < low:
                parts.append((first, low - 1))
            if high < last:
                parts.append((high + 1, last))
        left = parts
    return left
