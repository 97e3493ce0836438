"""Reads over the ledgers of a topic: what of a range is in memory and still due, and reads from the bookies."""

from collections.abc import Iterable
from typing import Protocol

from engine.base.slices import Slice, View
from engine.ledger.client import LedgerClient
from engine.ledger.reading.reader import LedgerReader
from engine.ledger.writing.writer import LedgerWriter
from engine.managed.positions import LedgerLine
from engine.managed.settings import ManagedSettings
from engine.wire.kernels import batch_sizes


class Source(Protocol):
    """Slices in memory by ordinal."""

    def covers(self, ordinal: int) -> bool: ...

    def runs(self, start: int, stop: int) -> list[tuple[int, Slice]]: ...


def collect(
    source: Source,
    wanted: Iterable[tuple[int, int]],
    end: int,
    entries_max: int,
    bytes_max: int,
) -> tuple[list[View], int]:
    """Entries of the intervals ``wanted`` (at least one, in order, before ``end``) that ``source`` holds, and the
    ordinal to go on from.

    At least one entry whatever its size, then as many as both bounds allow; ends where ``source`` does.
    """
    views: list[View] = []
    at = end
    for low, high in wanted:
        stop = min(high, low + entries_max)
        if not source.covers(low):
            return views, low
        at = low
        for base, run in source.runs(low, stop):
            first, last = max(low - base, 0), min(stop - base, run.count)
            size = run.size_of(first, last)
            if size > bytes_max:
                last = _fitting(run, first, last, bytes_max, bool(views))
                if last > first:
                    views.append(View(run, first, last))
                    at = base + last
                return views, at
            views.append(View(run, first, last))
            at = base + last
            entries_max -= last - first
            bytes_max -= size
        if at < high or entries_max <= 0:
            return views, at
    return views, end


def _fitting(run: Slice, first: int, last: int, bytes_max: int, others: bool) -> int:
    """Index behind the entries from ``first`` that fit; one more than fit when there is nothing else to give."""
    spans = run.spans
    for i in range(first, last):
        bytes_max -= spans[2 * i + 1] - spans[2 * i]
        if bytes_max < 0:
            return i if others or i > first else i + 1
    return last


class LedgerReads:
    """Handles of a topic's ledgers, and reads by ordinal."""

    __slots__ = (
        "_ledgers", "_line", "_readers", "_settings", "_writing", "fetched_bytes", "fetched_entries",
    )  # fmt: skip

    def __init__(self, ledgers: LedgerClient, line: LedgerLine, settings: ManagedSettings) -> None:
        self._ledgers = ledgers
        self._line = line
        self._settings = settings
        self._readers: dict[int, LedgerReader] = {}  # least recently used first
        self._writing = -1
        self.fetched_entries = 0
        self.fetched_bytes = 0

    def wrote(self, writer: LedgerWriter) -> None:
        """``writer`` is the open ledger's: its entries are read through it."""
        self._readers[writer.ledger_id] = writer.reader()
        self._writing = writer.ledger_id

    def forget(self, ledger_id: int) -> None:
        """The ledger was closed or deleted: the next read opens it anew."""
        self._readers.pop(ledger_id, None)

    async def fetch(self, start: int, stop: int, bytes_max: int) -> list[Slice]:
        """Entries from ordinal ``start`` on, before ``stop`` and within one ledger, at least one; contiguous.

        Raises LedgerError. Cancel-safe. What comes has the digest it was written with, checked (M12).
        """
        ledger, base = self._line.find(start)
        last = min(stop - base, ledger.entries) - 1
        reader = await self._reader(ledger.ledger_id)
        runs = await reader.read(start - base, last, bytes_max)
        for run in runs:
            if run.counts is None:
                run.counts = batch_sizes(run.buf, run.spans)
            self.fetched_entries += run.count
            self.fetched_bytes += run.size
        return runs

    async def _reader(self, ledger_id: int) -> LedgerReader:
        reader = self._readers.pop(ledger_id, None)
        if reader is None:
            reader = await self._ledgers.open(ledger_id, recover=False)
            if not reader.closed:
                # Nobody writes it any more, or it would be read through its writer: a crash left it open.
                reader = await self._ledgers.open(ledger_id, recover=True)
        self._readers[ledger_id] = reader
        if len(self._readers) > self._settings.readers_max:
            oldest = next(one for one in self._readers if one != self._writing)
            del self._readers[oldest]
        return reader
