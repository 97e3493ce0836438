"""Parts are asked in the background: what is late, what is down, and that neither holds up anything."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from gateway.services.health import checks as checking
from gateway.services.health.checks import Checks, UnwellError
from gateway.services.health.hops import Hops, HopState, Kind
from tests.support import waiting
from tests.support.waiting import stays


@pytest.fixture
async def checks(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Checks]:
    monkeypatch.setattr(checking, "PERIOD_S", 0.02)
    monkeypatch.setattr(checking, "ANSWER_S", 0.2)
    monkeypatch.setattr(checking, "DOWN_S", 0.6)
    monkeypatch.setattr(checking, "OWN_DELAY_S", 30.0)
    made = Checks(Hops(lambda: time.time_ns() // 1_000_000))
    made.note_viewer()
    yield made
    await made.close()


async def until(checks: Checks, state: HopState) -> None:
    async with asyncio.timeout(30):
        while checks.hops.expect(Kind.REDIS).state is not state:
            checks.note_viewer()
            await asyncio.sleep(0.01)


async def test_a_part_that_ceases_to_answer_is_late_then_down_then_well_again(
    checks: Checks,
) -> None:
    answers = asyncio.Event()
    answers.set()

    async def ask() -> None:
        await answers.wait()

    checks.start(Kind.REDIS, "", ask)
    await until(checks, HopState.OK)
    answers.clear()
    await until(checks, HopState.SLOW)
    await until(checks, HopState.DOWN)
    assert "has not answered for" in checks.hops.bad[0].reason
    answers.set()
    await until(checks, HopState.OK)


async def test_a_part_that_never_answered_or_refuses_is_down_at_once(checks: Checks) -> None:
    async def refuse() -> None:
        raise UnwellError("is away")

    async def never() -> None:
        await asyncio.Event().wait()

    checks.start(Kind.REDIS, "", never)
    checks.start(Kind.SPARK, "", refuse)
    await until(checks, HopState.DOWN)
    assert [hop.reason for hop in checks.hops.of(Kind.SPARK)] == ["The analysis worker is away"]


async def test_a_part_whose_check_breaks_is_down_and_checked_again(checks: Checks) -> None:
    answers: list[Exception] = [KeyError("no such field")]

    async def ask() -> None:
        if answers:
            raise answers.pop()

    checks.start(Kind.REDIS, "", ask)
    await until(checks, HopState.OK)
    assert not answers


async def test_a_stalled_own_loop_is_not_counted_as_an_outage_of_a_part(
    checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "OWN_DELAY_S", 0.1)
    asked = asyncio.Event()

    async def ask() -> None:
        asked.set()
        await asyncio.sleep(0.01)

    checks.start(Kind.REDIS, "", ask)
    await asked.wait()
    time.sleep(0.5)  # noqa: ASYNC251  # time: longer than the answer and its time-out take
    await stays(lambda: checks.hops.bad == [], 0.02)


async def test_without_viewers_parts_are_checked_rarely_and_at_once_with_one(
    checks: Checks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "VIEWED_S", 0.0)
    times = 0

    async def ask() -> None:
        nonlocal times
        times += 1

    checks.start(Kind.REDIS, "", ask, idle_s=600)
    async with asyncio.timeout(30):
        await checks.first()
        await stays(lambda: times == 1, 0.1)
        while times == 1:
            checks.note_viewer()
            await asyncio.sleep(0.01)


async def test_a_removed_part_is_neither_checked_nor_reported(checks: Checks) -> None:
    async def ask() -> None:
        raise OSError("refused")

    checks.start(Kind.BOOKIE, "k:1", ask)
    await checks.first()
    assert [hop.id for hop in checks.hops.bad] == ["k:1"]
    checks.stop(Kind.BOOKIE, "k:1")
    await stays(lambda: checks.hops.all == [], 0.1)


async def test_an_event_has_a_part_checked_at_once(checks: Checks) -> None:
    times = 0

    async def ask() -> None:
        nonlocal times
        times += 1
        if times > 1:
            raise OSError("refused")

    checks.start(Kind.BOOKIE, "k:1", ask, period_s=600, idle_s=600)
    await checks.first()
    await stays(lambda: times == 1, 0.05)
    checks.check_now(Kind.BOOKIE, "k:1")
    bookie = checks.hops.expect(Kind.BOOKIE, "k:1")
    await waiting.until(lambda: bookie.state is HopState.DOWN)
    assert times == 2
    checks.stop(Kind.BOOKIE, "k:1")
    checks.check_now(Kind.BOOKIE, "k:1")  # an event of a part that was removed
    assert checks.hops.all == []
