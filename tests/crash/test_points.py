"""A real bookie process is killed before and after each named operation of its storage; what was not synced is lost.

Afterwards every ledger holds all that was confirmed, in order, and nothing else. A point that is never reached fails.
CRASH_TIMES=n visits each point n times.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.metadata import zookeeper
from engine.metadata.store import MetadataStore
from tests.crash.ledgers import LedgerLoad
from tests.crash.lossy_disk import LAST_WORDS, Plan
from tests.crash.points import POINTS, UNNAMED, Part
from tests.crash.processes import NOTHING, BookieProcess

TIMES = int(os.environ.get("CRASH_TIMES", "1"))
SEED = int(os.environ.get("CRASH_SEED", "1"))
REACH_S = 20.0
CHAINS = 2
SOON = Plan("journal.sync", armed=False, nth=20)
SMALL = {
    "journal_file_bytes": str(128 << 10),
    "write_cache_bytes": str(128 << 10),
    "entry_log_bytes_max": str(256 << 10),
    "entry_log_block_bytes_max": str(8 << 10),
    "flush_interval_s": "0.1",
    "gc_wait_time_s": "0.1",
    "disk_check_interval_s": "5",
}


class Place:
    """A bookie below a chroot of its own, and its load."""

    def __init__(self, directory: Path, hosts: str, store: MetadataStore, name: str) -> None:
        self.load = LedgerLoad(store, SEED)
        self.lives = 0
        self.entries = 0
        self.store = store
        self.bookie = BookieProcess(name, directory, f"zk:{hosts}/{name}", **SMALL)

    async def start(self, plan: Plan = NOTHING, *, lives: bool = True) -> None:
        """Start it and wait until it serves, or is dead if it should not live that long."""
        self.bookie.plan(plan)
        self.bookie.start()
        until = time.monotonic() + REACH_S
        while self.bookie.alive and not await asyncio.to_thread(self.bookie.is_ready):
            assert time.monotonic() < until, self.bookie.log_end()
            await asyncio.sleep(0.02)
        assert self.bookie.alive == lives, f"{plan}\n{self.bookie.log_end()}"

    async def write_until_dead(self) -> int:
        """Exit status of the bookie."""
        writing = asyncio.create_task(self.load.write())
        try:
            status = await asyncio.to_thread(self.bookie.wait, REACH_S)
        except subprocess.TimeoutExpired:
            why = writing.exception() if writing.done() else "it lives on"
            raise AssertionError(f"never reached: {self.bookie.command[3]}: {why}") from None
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        return status

    async def life(self, plan: Plan) -> None:
        """Start, verify what earlier lives left, then write until the plan ends it."""
        await self.start(plan)
        self.entries += await self.load.verify()
        self.bookie.arm()
        assert await self.write_until_dead() == -signal.SIGKILL, self.bookie.log_end()
        assert self.words()["operation"] == plan.operation
        self.lives += 1

    def words(self) -> dict[str, Any]:
        """What a bookie process said before its end."""
        path = self.bookie.data_dir / "kept" / LAST_WORDS
        return dict(json.loads(path.read_text())) if path.exists() else {}


@pytest.fixture
async def places(zookeeper_hosts: str, tmp_path: Path) -> AsyncIterator[Any]:
    """``await places(name)`` makes a new place."""
    made: list[Place] = []

    async def make(name: str) -> Place:
        chroot = f"{tmp_path.name}-{name}"
        store = await zookeeper.connect(zookeeper_hosts, session_timeout_s=4.0, chroot=f"/{chroot}")
        made.append(Place(tmp_path, zookeeper_hosts, store, chroot))
        return made[-1]

    yield make
    for place in made:
        place.bookie.end()
        await place.store.close()


def plans(part: Part) -> list[Plan]:
    """Each point before and after by turns, early and late; all unsynced bytes lost, or some, by turns."""
    draw = random.Random(SEED)
    found = []
    for time_ in range(TIMES):
        for i, point in enumerate(point for point in POINTS if point.part == part):
            found.append(
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
    return found


def tell(capsys: pytest.CaptureFixture[str], what: str, places: list[Place]) -> None:
    with capsys.disabled():
        confirmed = sum(place.load.confirmed for place in places)
        print(
            f"\ncrash: {what}, {sum(place.lives for place in places)} kills, {confirmed} entries confirmed,"
            f" {sum(place.entries for place in places)} read back"
        )


async def in_chains(chains: int, work: list[Plan], run: Callable[[int, list[Plan]], Any]) -> None:
    """Run parts of ``work`` beside each other."""
    async with asyncio.TaskGroup() as group:
        for i in range(chains):
            group.create_task(run(i, work[i::chains]))


@pytest.mark.timeout(60 + 120 * TIMES)
async def test_killed_while_serving(places: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[Place] = []

    async def chain(i: int, work: list[Plan]) -> None:
        place = await places(f"s{i}")
        made.append(place)
        for plan in work:
            await place.life(plan)
        await place.start()
        place.entries += await place.load.verify()

    await in_chains(CHAINS, plans("serve"), chain)
    tell(capsys, "points while serving", made)


@pytest.mark.timeout(60 + 120 * TIMES)
async def test_killed_while_starting_again(places: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Each time after a flush that wrote a log and did not come to index it."""
    made: list[Place] = []

    async def chain(i: int, work: list[Plan]) -> None:
        place = await places(f"r{i}")
        made.append(place)
        for plan in work:
            await place.life(
                replace(
                    plan, operation="index.write", inside="flush", when="before", nth=2, armed=False
                )
            )
            await place.start(plan, lives=False)
            assert place.words()["operation"] == plan.operation
            place.lives += 1
        await place.start()
        place.entries += await place.load.verify()

    await in_chains(CHAINS, plans("replay"), chain)
    tell(capsys, "points in the start after a crash", made)


@pytest.mark.timeout(60 + 120 * TIMES)
async def test_killed_while_being_set_up(places: Any, capsys: pytest.CaptureFixture[str]) -> None:
    made: list[Place] = []

    async def chain(i: int, work: list[Plan]) -> None:
        for j, plan in enumerate(work):
            place = await places(f"f{i}-{j}")
            made.append(place)
            await place.start(plan, lives=False)
            assert place.words()["operation"] == plan.operation
            place.lives += 1
            await place.life(SOON)
            await place.start()
            place.entries += await place.load.verify()
            place.bookie.end()

    await in_chains(CHAINS, plans("format"), chain)
    tell(capsys, "points in the first start", made)


@pytest.mark.timeout(60)
async def test_every_operation_of_the_disk_has_a_named_point(places: Any) -> None:
    place = await places("census")
    seen: dict[str, int] = {}
    for _ in range(2):
        await place.start()
        await place.load.write(ledgers_max=3)
        place.bookie.end(signal.SIGTERM)
        seen |= place.words()["seen"]
    assert len(seen) > 20
    assert not set(seen) - {point.operation for point in POINTS} - UNNAMED
