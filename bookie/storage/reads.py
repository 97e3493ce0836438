"""Reading stored entries: from the index and entry logs in a lane of its own, so that a read never waits for a write.

Requests that arrive while the lane works are taken together by the next job.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from bookie.storage.codes import Code
from bookie.storage.entry_log import EntryLogReader
from bookie.storage.entry_log_format import StoredBlock
from bookie.storage.errors import DamagedError
from bookie.storage.files import Lane
from bookie.storage.index import BookieIndex
from engine.base.loop import last_call

JOB_READS_MAX = 64
BATCH_ENTRY_OVERHEAD = 4
"""Bytes that each entry costs beside itself in a range's budget."""


class Request(NamedTuple):
    """Entries from ``first`` on: at most ``entries_max`` (0: unbounded) and ``bytes_max``, but the first always.

    ``done(argument, code, entries)`` is called on the loop; ``code`` is about the first entry.
    """

    ledger_id: int
    first: int
    entries_max: int
    bytes_max: int
    done: Callable[[Any, Code, list[bytes]], None]
    argument: Any


class _Near(NamedTuple):
    """The block found last, and the entries that the index says are read from it."""

    ledger_id: int
    first: int
    below: int
    block: StoredBlock


class StoredEntries:
    """Synchronous lookups over index and logs."""

    def __init__(
        self,
        index: BookieIndex,
        reader: EntryLogReader,
        on_damage: Callable[[Exception], None],
    ) -> None:
        self._index = index
        self._reader = reader
        self._on_damage = on_damage
        self._near: _Near | None = None

    def read(self, ledger_id: int, entry_id: int) -> tuple[Code, bytes]:
        """OK with the entry as it was received; NO_ENTRY only when the index has no such entry; IO when it has, but the
        log does not give it back intact."""
        self._near = None
        return self._read(ledger_id, entry_id)

    def _read(self, ledger_id: int, entry_id: int) -> tuple[Code, bytes]:
        """The same, without asking the index again for neighbours of the entry read before."""
        near = self._near
        if near is None or ledger_id != near.ledger_id or not near.first <= entry_id < near.below:
            found = self._index.find(ledger_id, entry_id)
            if found is None:
                return Code.NO_ENTRY, b""
            first, place = found
            try:
                block = self._reader.read(place)
            except (DamagedError, OSError) as error:
                return self._damaged(error)
            near = self._near = _Near(ledger_id, first, first + place.entries, block)
        entry = near.block.entry(entry_id) if near.block.ledger_id == ledger_id else None
        if entry is None:
            return self._damaged(
                DamagedError(
                    f"entry {ledger_id}:{entry_id} is not in the block that the index says"
                )
            )
        return Code.OK, entry

    def _damaged(self, error: Exception) -> tuple[Code, bytes]:
        self._on_damage(error)
        return Code.IO, b""

    def _read_range(
        self, ledger_id: int, first: int, entries_max: int, bytes_max: int
    ) -> tuple[Code, list[bytes]]:
        """Consecutive entries up to the first that is missing, unreadable or over budget."""
        code, entry = self._read(ledger_id, first)
        if code != Code.OK:
            return code, []
        entries = [entry]
        budget = bytes_max - len(entry) - BATCH_ENTRY_OVERHEAD
        while entries_max <= 0 or len(entries) < entries_max:
            code, entry = self._read(ledger_id, first + len(entries))
            budget -= len(entry) + BATCH_ENTRY_OVERHEAD
            if code != Code.OK or budget < 0:
                break
            entries.append(entry)
        return Code.OK, entries

    def answer(self, requests: list[Request]) -> list[tuple[Code, list[bytes]]]:
        """Answers in the order of the requests. What was near in an earlier job may have moved by now."""
        self._near = None
        return [
            self._read_range(
                request.ledger_id, request.first, request.entries_max, request.bytes_max
            )
            for request in requests
        ]


class ReadQueue:
    """Loop side: queues requests for the read lane. The caller bounds ``pending``."""

    def __init__(
        self, entries: StoredEntries, lane: Lane, on_error: Callable[[BaseException], None]
    ) -> None:
        self._entries = entries
        self._lane = lane
        self._on_error = on_error
        self._requests: list[Request] = []
        self._busy = False
        self.pending = 0

    def put(self, request: Request) -> None:
        self._requests.append(request)
        self.pending += 1
        if not self._busy:
            self._busy = True
            last_call(asyncio.get_running_loop())(self._start)

    def _start(self) -> None:
        requests = self._requests[:JOB_READS_MAX]
        del self._requests[:JOB_READS_MAX]
        self._lane.call(partial(self._entries.answer, requests), partial(self._answered, requests))

    def _answered(
        self,
        requests: list[Request],
        answers: list[tuple[Code, list[bytes]]] | None,
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
            request.done(request.argument, code, entries)
