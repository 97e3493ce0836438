"""Reads over the ledgers of a topic: selection of wanted entries in memory, and reads from the bookies."""

from collections.abc import Iterable
from typing import Protocol

from engine.base.slices import Slice, View
from engine.ledger.client import LedgerClient
from engine.ledger.writing.writer import LedgerWriter
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.reading.entry_reader import EntryReader, open_entries
from engine.managed.settings import ManagedSettings
from engine.offload.object_store import ObjectStores
from engine.offload.reading.block_cache import BlockCache
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
    """Return views of the entries of the intervals ``wanted`` that ``source`` holds, and the ordinal to continue from.
    ``wanted`` has at least one interval, in order, before ``end``.

    Returns at least one entry whatever its size, then as many as both bounds allow; ends where ``source`` does.
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
    """Return the index behind the entries from ``first`` on that fit. When there are no ``others``, the first entry
    counts even if it does not fit."""
    spans = run.spans
    for i in range(first, last):
        bytes_max -= spans[2 * i + 1] - spans[2 * i]
        if bytes_max < 0:
            return i if others or i > first else i + 1
    return last


class LedgerReads:
    """Handles of a topic's ledgers, and reads by ordinal."""

    __slots__ = (
        "_blocks", "_ledgers", "_line", "_objects", "_readers", "_settings", "_writing", "bookies_first",
        "fetched_bytes", "fetched_entries",
    )  # fmt: skip

    def __init__(
        self,
        ledgers: LedgerClient,
        line: LedgerLine,
        settings: ManagedSettings,
        objects: ObjectStores | None = None,
        blocks: BlockCache | None = None,
    ) -> None:
        self._ledgers = ledgers
        self._objects = objects
        self._blocks = blocks
        self.bookies_first = False
        """True to read what both bookies and tiered storage have from the former."""
        self._line = line
        self._settings = settings
        self._readers: dict[int, EntryReader] = {}  # least recently used first
        self._writing = -1
        self.fetched_entries = 0
        self.fetched_bytes = 0

    def set_writer(self, writer: LedgerWriter) -> None:
        """Read the open ledger, which ``writer`` writes, through that writer."""
        self._readers[writer.ledger_id] = writer.reader()
        self._writing = writer.ledger_id

    def forget(self, ledger_id: int) -> None:
        """Drop the handle of a ledger that was closed or deleted; the next read opens it again."""
        self._readers.pop(ledger_id, None)

    async def fetch(self, start: int, stop: int, bytes_max: int) -> list[Slice]:
        """Read contiguous entries from ordinal ``start`` on, before ``stop`` and within one ledger; at least one.

        Raises LedgerError. Cancel-safe. The digest of every returned entry has been verified (M12).
        """
        ledger, base = self._line.find(start)
        last = min(stop - base, ledger.entries) - 1
        reader = await self._reader(ledger)
        runs = await reader.read(start - base, last, bytes_max)
        for run in runs:
            if run.counts is None:
                run.counts = batch_sizes(run.buf, run.spans)
            self.fetched_entries += run.count
            self.fetched_bytes += run.size
        return runs

    async def _reader(self, ledger: LedgerSpan) -> EntryReader:
        reader = self._readers.pop(ledger.ledger_id, None)
        if reader is None:
            reader = await self._opened(ledger)
        self._readers[ledger.ledger_id] = reader
        if len(self._readers) > self._settings.readers_max:
            oldest = next(reader_id for reader_id in self._readers if reader_id != self._writing)
            del self._readers[oldest]
        return reader

    async def _opened(self, ledger: LedgerSpan) -> EntryReader:
        return await open_entries(
            self._ledgers,
            ledger,
            owner=True,
            objects=self._objects,
            bookies_first=self.bookies_first,
            blocks=self._blocks,
        )
