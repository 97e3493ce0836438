"""Reads of stored entries: index and entry logs in their own lane, so that a read never waits for a write.

Requests that arrive while the lane works are handled together by the next job.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from bookie.storage.codes import Code
from bookie.storage.errors import DamagedError
from bookie.storage.index.index import BookieIndex
from bookie.storage.logs.entry_log import EntryLogReader, Location
from bookie.storage.logs.entry_log_format import StoredBlock
from bookie.storage.runs import Stored
from engine.base.disk.files import Lane
from engine.base.loop import last_call

JOB_READS_MAX = 64
JOB_BYTES_MAX = 512 << 10
"""Bytes at which a job ends. Its entries are sent while the next job reads."""
RANGE_RECORDS_MAX = 32
"""Index records read for one block that is not in memory: its own, those read with it, and those read next."""
FIRST_WINDOW_BYTES = 256 << 10
LEDGERS_AHEAD_MAX = 1024
BATCH_ENTRY_OVERHEAD = 4
"""Bytes charged for each entry in a range's budget, beside the entry."""


class QueuedRead(NamedTuple):
    """A request for entries from ``first`` on: at most ``entries_max`` (0: unbounded) and ``bytes_max``, but at least
    one.

    ``done(code, entries)`` is called on the loop; ``code`` describes the first entry.
    """

    ledger_id: int
    first: int
    entries_max: int
    bytes_max: int
    done: Callable[[Code, list[Stored]], None]


class _Near(NamedTuple):
    """The block found last, and the entries that the index places in it."""

    ledger_id: int
    first: int
    below: int
    block: StoredBlock


class _Ahead:
    """The progress of reading a ledger: the last block requested, the entry behind it, and how far to read ahead when
    that entry is requested next."""

    __slots__ = ("first", "next", "window")

    def __init__(self) -> None:
        self.first = self.next = -1
        self.window = 0


class StoredEntries:
    """Synchronous lookups in index and logs. For one lane.

    A ledger that is read in order is read ahead. Its blocks are read in ranges that double up to ``read_ahead_bytes``,
    each with one operation, and the disk receives a hint of the next range.
    """

    def __init__(
        self,
        index: BookieIndex,
        reader: EntryLogReader,
        on_damage: Callable[[int, int, Exception], None],
        read_ahead_bytes: int = 1 << 20,
    ) -> None:
        self._index = index
        self._reader = reader
        self._on_damage = on_damage
        self._read_ahead_bytes = read_ahead_bytes
        self._near: _Near | None = None
        self._ahead: dict[int, _Ahead] = {}

    def read(self, ledger_id: int, entry_id: int) -> tuple[Code, bytes]:
        """Return OK with the entry as it was received.

        NO_ENTRY: the index has no such entry. IO: the index has it, but the log does not return it intact.
        """
        self._near = None
        code, entries = self._read_range(ledger_id, entry_id, 1, 0)
        return code, bytes(entries[0]) if entries else b""

    def _find(self, ledger_id: int, entry_id: int, below: int, wanted: int) -> _Near | None:
        """Return the block of an entry; None when the index has no such entry.

        Entries before ``below``, but at most ``wanted`` bytes, are requested after it and decide how much is read
        ahead. Raises DamagedError and OSError.
        """
        near = self._near
        if near is not None and ledger_id == near.ledger_id and near.first <= entry_id < near.below:
            return near
        rows = self._index.find_range(ledger_id, entry_id, 1)
        if not rows:
            return None
        first, place = rows[0]
        size = (below - entry_id) * place.share // place.entries
        ahead = self._progress(ledger_id, entry_id, min(wanted, size))
        # Only a read from the disk can include the blocks behind this one.
        if ahead.window > place.size and not self._reader.has(place):
            rows = self._index.find_range(ledger_id, entry_id, RANGE_RECORDS_MAX) or rows
            first, place = rows[0]
        places = _first_bytes([row[1] for row in rows[1:]], ahead.window - place.size)
        block = self._reader.read(place, places)
        ahead.first, ahead.next = first, first + place.entries
        if behind := [row[1] for row in rows[1 + len(places) :]]:
            self._reader.expect(_first_bytes(behind, ahead.window))
        below = first + place.entries
        if block.ledger_id != ledger_id or first < block.first or below > block.below:  # (I32)
            raise DamagedError(f"{ledger_id}:{entry_id} is not in the block that the index says")
        near = self._near = _Near(ledger_id, first, below, block)
        return near

    def _progress(self, ledger_id: int, entry_id: int, wanted: int) -> _Ahead:
        """Return how the ledger is being read, with the window for the block that is needed now."""
        ahead = self._ahead.pop(ledger_id, None) or _Ahead()
        self._ahead[ledger_id] = ahead
        if len(self._ahead) > LEDGERS_AHEAD_MAX:
            del self._ahead[next(iter(self._ahead))]
        least = min(wanted, self._read_ahead_bytes)
        if entry_id == ahead.next:
            grown = max(2 * ahead.window, FIRST_WINDOW_BYTES, least)
            ahead.window = min(grown, self._read_ahead_bytes)
        elif not ahead.first <= entry_id < ahead.next:
            ahead.window = least
        return ahead

    def _read_range(
        self, ledger_id: int, first: int, entries_max: int, bytes_max: int
    ) -> tuple[Code, list[Stored]]:
        """Return consecutive entries up to the first that is missing, unreadable or over budget."""
        near = self._near
        if entries_max == 1 and near is not None and ledger_id == near.ledger_id:
            entry = near.block.entry(first) if near.first <= first < near.below else None
            if entry is not None:
                return Code.OK, [entry]
        entries: list[Stored] = []
        budget = bytes_max
        below = first + entries_max if entries_max > 0 else 1 << 63
        at = first
        try:
            while at < below:
                near = self._find(ledger_id, at, below, budget)
                if near is None:
                    break
                stop = min(below, near.below)
                part = near.block.entries(at, stop, budget, BATCH_ENTRY_OVERHEAD)
                if not part and not entries:
                    part = near.block.entries(at, at + 1, 1 << 32, BATCH_ENTRY_OVERHEAD)
                entries += part
                budget -= sum(map(len, part)) + BATCH_ENTRY_OVERHEAD * len(part)
                at += len(part)
                if at < stop:
                    break
        except (DamagedError, OSError) as error:
            self._on_damage(ledger_id, at, error)
            if not entries:
                return Code.IO, []
        return (Code.OK, entries) if entries else (Code.NO_ENTRY, [])

    def answer(self, requests: list[QueuedRead]) -> list[tuple[Code, list[Stored]]]:
        """Return the answers in the order of the requests."""
        self._near = None  # compaction may have moved the block since the previous job
        return [
            self._read_range(
                request.ledger_id, request.first, request.entries_max, request.bytes_max
            )
            for request in requests
        ]


def _first_bytes(places: list[Location], size: int) -> list[Location]:
    """Return as many of the first ``places`` as fit ``size`` bytes."""
    for i, place in enumerate(places):
        size -= place.size
        if size < 0:
            return places[:i]
    return places


class ReadQueue:
    """The event loop's side of reading: queues requests for the read lane. The caller bounds ``pending``."""

    def __init__(
        self, entries: StoredEntries, lane: Lane, on_error: Callable[[BaseException], None]
    ) -> None:
        self._entries = entries
        self._lane = lane
        self._on_error = on_error
        self._requests: list[QueuedRead] = []
        self._busy = False
        self.pending = 0

    def put(self, request: QueuedRead) -> None:
        self._requests.append(request)
        self.pending += 1
        if not self._busy:
            self._busy = True
            # Not at once: other requests received in this turn of the loop join the same job.
            last_call(asyncio.get_running_loop())(self._start)

    def _start(self) -> None:
        count = size = 0
        for request in self._requests[:JOB_READS_MAX]:
            count += 1
            size += request.bytes_max
            if size >= JOB_BYTES_MAX:
                break
        requests = self._requests[:count]
        del self._requests[:count]
        self._lane.call(partial(self._entries.answer, requests), partial(self._answered, requests))

    def _answered(
        self,
        requests: list[QueuedRead],
        answers: list[tuple[Code, list[Stored]]] | None,
        error: BaseException | None,
    ) -> None:
        self.pending -= len(requests)
        if self._requests:
            self._start()
        else:
            self._busy = False
        if error is not None:
            self._on_error(error)
        if answers is None:
            answers = [(Code.IO, [])] * len(requests)
        for request, (code, entries) in zip(requests, answers, strict=True):
            request.done(code, entries)
