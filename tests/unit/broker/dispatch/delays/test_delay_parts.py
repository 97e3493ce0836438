"""A stored index: in parts, with the places of all its entries; several become one in order."""

import asyncio
import random
from array import array
from collections.abc import AsyncIterator, Sequence
from typing import cast

import pytest

from engine.base.ids import Position
from engine.broker.dispatch.delays.delay_format import DelayIndexError, pack
from engine.broker.dispatch.delays.delay_parts import (
    Columns,
    Packing,
    in_parts,
    merged,
    open_run,
    read_part,
)
from engine.broker.dispatch.delays.delayed import Run
from engine.ledger.reading.reader import LedgerReader
from tests.support.shelf import ShelfReader, simulated

Rows = list[tuple[int, Position]]


def _rows(seed: int, count: int) -> Rows:
    rng = random.Random(seed)
    places = rng.sample([Position(ledger, i) for ledger in (3, 9) for i in range(60)], count)
    return sorted((rng.randrange(50), place) for place in places)


async def _stored(run: Run, part_max: int) -> tuple[LedgerReader, Packing]:
    packing = Packing(part_max)
    parts = [part async for part in packing.of(in_parts(run.in_memory(0), part_max))]
    return cast(LedgerReader, ShelfReader(7, parts)), packing


async def _all_of(columns: AsyncIterator[Columns]) -> Rows:
    return [
        (at_ms, Position(ledger_id, entry_id))
        async for part in columns
        for at_ms, ledger_id, entry_id in zip(*part, strict=True)
    ]


@pytest.mark.parametrize("part_max", [1, 7, 100])
@simulated
async def test_a_run_is_read_back_with_the_positions_of_its_entries(part_max: int) -> None:
    rows = _rows(1, 40)
    reader, packing = await _stored(Run.of(rows, part_max), part_max)
    run, spans = await open_run(reader)
    assert (run.left, run.next_ms, run.last) == (40, rows[0][0], max(place for _, place in rows))
    assert (list(packing.ends), packing.last) == (list(run.ends), run.last)
    places = [Position(ledger, i) for ledger, start, stop in spans for i in range(start, stop)]
    assert places == sorted(place for _, place in rows)
    while run.wants:
        run.loaded(*await read_part(reader, run.part))
        run.take(-1, 0)
        assert len(run.in_memory()[0]) <= 2 * part_max
        got = run.take(1000, 1000)
        assert got == [place for _, place in rows[: len(got)]]
        del rows[: len(got)]
    assert not rows
    assert (run.left, run.next_ms) == (0, None)


@simulated
async def test_a_stored_run_keeps_only_its_current_part_in_memory() -> None:
    rows = _rows(2, 100)
    for taken in (0, 9, 10, 35, 99):
        run = Run.of(rows, 10)
        before = run.take(1000, taken)
        reader, _ = await _stored(run, 10)
        run.stored(7)
        assert len(run.in_memory()[0]) <= 10
        rest: list[Position] = []
        while (some := run.take(1000, 7)) or run.wants:
            rest += some
            if run.wants:
                run.loaded(*await read_part(reader, run.part))
        assert before + rest == [place for _, place in rows]


@pytest.mark.parametrize("over_ms", [-1, 0, 20, 49, 60])
@simulated
async def test_a_run_begins_behind_entries_taken_elsewhere(over_ms: int) -> None:
    rows = _rows(3, 100)
    reader, packing = await _stored(Run.of(rows, 10), 10)
    run = Run(packing.firsts, packing.ends, packing.last)
    run.begin_behind(over_ms)
    rest: list[Position] = []
    while run.wants:
        run.loaded(*await read_part(reader, run.part))
        rest += run.take(1000, 1000)
    assert rest == [place for at_ms, place in rows if at_ms > over_ms]
    assert run.left == 0


@simulated
async def test_runs_are_merged_in_order_without_unwanted_entries() -> None:
    rows = _rows(4, 90)
    parts: Sequence[Rows] = [sorted(rows[i::3]) for i in range(3)]
    runs: list[tuple[Run, LedgerReader]] = []
    for part in parts:
        run = Run.of(part, 4)
        taken = run.take(9, 3)
        rows = [row for row in rows if row[1] not in taken]
        reader, _ = await _stored(run, 4)
        run.stored(7)
        runs.append((run, reader))
    unwanted = {rows[5][1], rows[70][1]}
    remaining = await _all_of(merged(runs, lambda place: place not in unwanted))
    assert remaining == [row for row in rows if row[1] not in unwanted]


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [pack([1], [1])],
        [pack([1], [3], [0]), pack([3], [0], [1]), pack([1, 2, 3], [1, 2, 3])],
        [pack([1], [3], [0]), pack([1], [1]), pack([1], [1])],
    ],
)
@simulated
async def test_an_entry_that_is_no_index_is_refused(parts: list[bytes]) -> None:
    with pytest.raises(DelayIndexError):
        await open_run(cast(LedgerReader, ShelfReader(1, parts)))


@simulated
async def test_packing_lets_other_tasks_run() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    columns = [array("q", range(1000))] * 3
    async for _ in Packing(100).of(in_parts(columns, 10)):
        pass
    counting.cancel()
    assert turns >= 100
