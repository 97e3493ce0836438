"""A real bookie process is killed before and after each named operation of its storage; what was not synced is lost.

Afterwards every ledger holds all that was confirmed, in order, and nothing else. A point that is never reached fails.
CRASH_TIMES=n visits each point n times.
"""

import asyncio
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.crash.kit.lossy_disk import POWER_CUT, Plan
from tests.crash.kit.place import Place
from tests.crash.points import POINTS, UNNAMED, Part

TIMES = int(os.environ.get("CRASH_TIMES", "1"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
CHAINS = 2
BEFORE = Plan("entrylog.sync_dir", "Flusher.flush", armed=False, when="after")
TRIES = 5
"""Attempts of a start after a crash: a flush may hold only entries that no sync of the journal has reached yet,
none of them confirmed. Where all of them are lost, nothing is replayed, and the start has no log to write."""


def plans(part: Part) -> list[Plan]:
    """Return the plans for a part: by turns before and after each point, with all or some unsynced bytes lost."""
    draw = random.Random(SEED)
    drawn = []
    for time_ in range(TIMES):
        for i, point in enumerate(point for point in POINTS if point.part == part):
            drawn.append(
                Plan(
                    point.operation,
                    point.inside,
                    armed=part != "serve",
                    nth=draw.choice([1, 2, 3, 7]) if point.often else 1,
                    when="before" if (i + time_) % 2 else "after",
                    loss="all" if (i // 2 + time_) % 2 else "some",
                    seed=draw.randrange(1 << 30),
                )
            )
    return drawn


def report(capsys: pytest.CaptureFixture[str], what: str, places: list[Place]) -> None:
    with capsys.disabled():
        confirmed = sum(place.load.confirmed for place in places)
        print(
            f"\ncrash: {what}, {sum(place.lives for place in places)} kills, {confirmed} entries confirmed,"
            f" {sum(place.entries for place in places)} read back,"
            f" {sum(place.fences for place in places)} fences tried"
        )


async def in_chains(chains: int, work: list[Plan], run: Callable[[int, list[Plan]], Any]) -> None:
    """Run parts of ``work`` beside each other."""
    async with asyncio.TaskGroup() as group:
        for i in range(chains):
            group.create_task(run(i, work[i::chains]))


@pytest.mark.timeout(300 + 120 * TIMES)
async def test_killed_while_serving(places: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[Place] = []

    async def chain(i: int, work: list[Plan]) -> None:
        place = await places(f"s{i}")
        made.append(place)
        for plan in work:
            await place.life(plan)
        await place.start()
        await place.verify()

    await in_chains(CHAINS, plans("serve"), chain)
    report(capsys, "points while serving", made)


@pytest.mark.timeout(300 + 120 * TIMES)
async def test_killed_while_starting_again(places: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Kill each start after a flush that began a log and did not reach the index."""
    made: list[Place] = []

    async def chain(i: int, work: list[Plan]) -> None:
        place = await places(f"r{i}")
        made.append(place)
        for plan in work:
            for _ in range(TRIES):
                await place.life(replace(BEFORE, loss=plan.loss, seed=plan.seed))
                if await place.dies_starting(plan):
                    break
            else:
                raise AssertionError(f"never reached: {plan}\n{place.bookie.log_end()}")
        await place.start()
        await place.verify()

    await in_chains(CHAINS, plans("replay"), chain)
    report(capsys, "points in the start after a crash", made)


@pytest.mark.timeout(300 + 120 * TIMES)
async def test_killed_while_being_set_up(places: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[Place] = []

    async def chain(i: int, work: list[Plan]) -> None:
        for j, plan in enumerate(work):
            place = await places(f"f{i}-{j}")
            made.append(place)
            assert await place.dies_starting(plan), f"never reached: {plan}"
            await place.start()
            await place.load.write(ledgers_max=1)
            await place.verify()
            place.bookie.end()

    await in_chains(CHAINS, plans("format"), chain)
    report(capsys, "points in the first start", made)


async def test_every_operation_of_the_disk_has_a_named_point(places: Any) -> None:
    place = await places("census")
    seen: dict[str, int] = {}
    for _ in range(2):
        await place.start()
        await place.load.write(ledgers_max=3)
        place.bookie.end(signal.SIGTERM)
        seen |= place.words()["seen"]
    assert len(seen) > 20
    unnamed = set(seen) - {point.operation for point in POINTS} - UNNAMED
    assert not unnamed


async def test_a_lost_index_is_made_anew_with_every_entry_and_every_fence(places: Any) -> None:
    place = await places("index")
    for nth in (1, 3):
        await place.life(Plan("index.write", "Flusher.flush", armed=False, nth=nth))
        shutil.rmtree(place.bookie.data_dir / "ledgers" / "current" / "index")
        (place.bookie.data_dir / "kept" / POWER_CUT).unlink(missing_ok=True)
        await place.start()
        assert "rebuilding" in place.bookie.log_end()
        await place.verify()
        await place.load.write(ledgers_max=3)  # some are taken over
        place.bookie.end()
    assert place.fences
