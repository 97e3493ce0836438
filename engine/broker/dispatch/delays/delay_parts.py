"""Parts of a stored index: making the entries of its ledger, reading them, and several of them as one, in order."""

import asyncio
from array import array
from bisect import bisect_right
from collections.abc import AsyncIterable, AsyncIterator, Callable, Sequence

from engine.base.ids import EARLIEST, Position
from engine.broker.dispatch.delays.delay_format import SPANS_MAX, DelayIndexError, pack, unpack
from engine.broker.dispatch.delays.delayed import Run
from engine.ledger.reading.reader import LedgerReader

Columns = Sequence["array[int]"]
"""Times, ledger ids, entry ids."""
Span = tuple[int, int, int]
"""Ledger id, first entry, behind the last."""
Row = tuple[int, int, int]


async def read_part(reader: LedgerReader, part: int) -> Columns:
    """Raises LedgerError, DelayIndexError. Cancel-safe, as ``open_run``."""
    return unpack(await _entry(reader, part), 3)


async def open_run(reader: LedgerReader) -> tuple[Run, list[Span]]:
    """The run in a ledger, none of it in memory, and which entries are in it. Raises as ``read_part``."""
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
    """The entries of an index ledger, as rows come. What it says of them is complete when all were taken."""

    def __init__(self, part_max: int) -> None:
        self.firsts = array("q")
        self.ends = array("q")
        self._part_max = part_max
        self.last = EARLIEST
        self._places: dict[int, bytearray] = {}

    async def of(self, rows: AsyncIterable[Columns]) -> AsyncIterator[bytes]:
        """``rows`` in order of time, any number at once."""
        held = array("q"), array("q"), array("q")
        async for columns in rows:
            for one, more in zip(held, columns, strict=True):
                one.extend(more)
            while len(held[0]) >= self._part_max:
                yield self._part([one[: self._part_max] for one in held])
                for one in held:
                    del one[: self._part_max]
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
            marks = self._places.get(ledger_id)
            if marks is None:
                marks = self._places[ledger_id] = bytearray()
            if entry_id >= len(marks):
                marks += bytes(entry_id + 1 - len(marks))
            marks[entry_id] = 1
        return pack(*columns)

    def _spans(self) -> list[Span]:
        spans: list[Span] = []
        for ledger_id in sorted(self._places):
            marks = self._places[ledger_id]
            start = marks.find(1)
            while start >= 0:
                stop = marks.find(0, start)
                stop = stop if stop >= 0 else len(marks)
                spans.append((ledger_id, start, stop))
                start = marks.find(1, stop)
        return spans


async def in_parts(columns: Columns, part_max: int) -> AsyncIterator[Columns]:
    """What is in memory, some at a time."""
    for i in range(0, len(columns[0]), part_max):
        yield [one[i : i + part_max] for one in columns]


class _Head:
    """What of a run was not merged yet: ``rows``, and the parts from ``part`` on."""

    def __init__(self, run: Run, reader: LedgerReader) -> None:
        self.rows: list[Row] = list(zip(*run.in_memory(), strict=True))
        self.part = run.part
        self._parts = len(run.firsts)
        self._reader = reader

    async def fill(self) -> bool:
        """Whether there is a row."""
        while not self.rows and self.part < self._parts:
            self.rows = list(zip(*await read_part(self._reader, self.part), strict=True))
            self.part += 1
        return bool(self.rows)


async def merged(
    runs: Sequence[tuple[Run, LedgerReader]], wanted: Callable[[Position], bool]
) -> AsyncIterator[Columns]:
    """What is left in ``runs`` now and is ``wanted``, in order of time, some at a time. Raises as ``read_part``."""
    heads = [_Head(run, reader) for run, reader in runs]
    while heads := [head for head in heads if await head.fill()]:
        bound = min(head.rows[-1] for head in heads)
        found: list[Row] = []
        for head in heads:
            cut = bisect_right(head.rows, bound)
            found += head.rows[:cut]
            del head.rows[:cut]
        found = [row for row in sorted(found) if wanted(Position(row[1], row[2]))]
        if found:
            yield [array("q", one) for one in zip(*found, strict=True)]
        await asyncio.sleep(0)
