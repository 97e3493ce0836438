"""Parts of a stored delay index: encode the entries of its ledger, read them, and merge several runs in order."""

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence

from engine.base.ids import EARLIEST, Position
from engine.broker.dispatch.delays.delay_format import SPANS_MAX, DelayIndexError, pack, unpack
from engine.broker.dispatch.delays.delayed import Run
from engine.ledger.reading.reader import LedgerReader

Columns = Sequence["array[int]"]
"""Times in ms, ledger ids, entry ids."""
Span = tuple[int, int, int]
"""Ledger id, first entry id, entry id behind the last."""
Row = tuple[int, int, int]


async def read_part(reader: LedgerReader, part: int) -> Columns:
    """Read the columns of one part. Raises LedgerError, DelayIndexError. Cancel-safe."""
    return unpack(await _entry(reader, part), 3)


async def open_run(reader: LedgerReader) -> tuple[Run, list[Span]]:
    """Return the run in a ledger, none of it in memory, and the spans of its entries.

    Raises LedgerError, DelayIndexError. Cancel-safe.
    """
    last = reader.last_confirmed
    if last < 2:
        raise DelayIndexError(f"an index of {last + 1} entries is cut off")
    firsts, ends = unpack(await _entry(reader, last), 2)
    if not 0 < len(firsts) < last:
        raise DelayIndexError(f"an index of {last + 1} entries cannot have {len(firsts)} parts")
    spans: list[Span] = []
    for i in range(len(firsts), last):
        ledgers, starts, stops = unpack(await _entry(reader, i), 3)
        spans += zip(ledgers, starts, stops, strict=True)
    ledger_id, _, stop = max(spans, default=(*EARLIEST, 0))
    run = Run(firsts, ends, Position(ledger_id, stop - 1))
    run.ledger_id = reader.ledger_id
    return run, spans


async def _entry(reader: LedgerReader, entry_id: int) -> bytes:
    (run, *_) = await reader.read(entry_id, entry_id, 1)
    return run.entry(0)


class Packing:
    """Encoder of an index ledger. ``firsts``, ``ends`` and ``last`` are complete once all entries were yielded."""

    def __init__(self, part_max: int) -> None:
        self.firsts = array("q")
        self.ends = array("q")
        self._part_max = part_max
        self.last = EARLIEST
        self._marks: dict[int, bytearray] = {}
        """Bytes by ledger id, one per entry id: 1 when the entry is in the run."""

    async def of(self, rows: AsyncIterable[Columns]) -> AsyncIterator[bytes]:
        """Yield the ledger's entries. ``rows`` are in order of time, any number at once."""
        held = array("q"), array("q"), array("q")
        async for columns in rows:
            for column, more in zip(held, columns, strict=True):
                column.extend(more)
            while len(held[0]) >= self._part_max:
                yield self._part([column[: self._part_max] for column in held])
                for column in held:
                    del column[: self._part_max]
            await asyncio.sleep(0)
        if held[0]:
            yield self._part(held)
        spans = self._spans()
        for i in range(0, len(spans), SPANS_MAX):
            ledgers, starts, stops = zip(*spans[i : i + SPANS_MAX], strict=True)
            yield pack(ledgers, starts, stops)
        if spans:
            ledger_id, _, stop = spans[-1]
            self.last = Position(ledger_id, stop - 1)
        yield pack(self.firsts, self.ends)

    def _part(self, columns: Columns) -> bytes:
        times, ledgers, entries = columns
        self.firsts.append(times[0])
        self.ends.append(len(times) + (self.ends[-1] if self.ends else 0))
        for ledger_id, entry_id in zip(ledgers, entries, strict=True):
            marks = self._marks.get(ledger_id)
            if marks is None:
                marks = self._marks[ledger_id] = bytearray()
            if entry_id >= len(marks):
                marks += bytes(entry_id + 1 - len(marks))
            marks[entry_id] = 1
        return pack(*columns)

    def _spans(self) -> list[Span]:
        spans: list[Span] = []
        for ledger_id in sorted(self._marks):
            marks = self._marks[ledger_id]
            start = marks.find(1)
            while start >= 0:
                stop = marks.find(0, start)
                stop = stop if stop >= 0 else len(marks)
                spans.append((ledger_id, start, stop))
                start = marks.find(1, stop)
        return spans


async def in_parts(columns: Columns, part_max: int) -> AsyncIterator[Columns]:
    """Yield columns in memory as parts of at most ``part_max`` rows."""
    for i in range(0, len(columns[0]), part_max):
        yield [column[i : i + part_max] for column in columns]


class _Head:
    """Rows of a run that are not merged yet: ``rows``, and the parts from ``part`` on."""

    def __init__(self, run: Run, reader: LedgerReader) -> None:
        self.rows: list[Row] = list(zip(*run.in_memory(), strict=True))
        self.part = run.part
        self._parts = len(run.firsts)
        self._reader = reader

    async def fill(self) -> bool:
        """Read parts until there are rows; return False at the end of the run."""
        while not self.rows and self.part < self._parts:
            self.rows = list(zip(*await read_part(self._reader, self.part), strict=True))
            self.part += 1
        return bool(self.rows)


async def merged(
    runs: Sequence[tuple[Run, LedgerReader]], wanted: Callable[[Position], bool]
) -> AsyncIterator[Columns]:
    """Yield the rows that remain in ``runs`` and are ``wanted``, in order of time, some at a time.

    Raises LedgerError, DelayIndexError.
    """
    heads = [_Head(run, reader) for run, reader in runs]
    while heads := [head for head in heads if await head.fill()]:
        bound = min(head.rows[-1] for head in heads)  # behind it a head may still have unread rows
        rows: list[Row] = []
        for head in heads:
            cut = bisect_right(head.rows, bound)
            rows += head.rows[:cut]
            del head.rows[:cut]
        rows = [row for row in sorted(rows) if wanted(Position(row[1], row[2]))]
        if rows:
            yield [array("q", column) for column in zip(*rows, strict=True)]
        await asyncio.sleep(0)
