"""Parts are asked in the background: what is late, what is down, and that neither holds up anything."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from gateway.services.health import asking
from gateway.services.health.asking import Asker, UnwellError
from gateway.services.health.hops import Hops, HopState, Kind
from tests.support.waiting import stays


@pytest.fixture
async def asker(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asker]:
    monkeypatch.setattr(asking, "PERIOD_S", 0.02)
    monkeypatch.setattr(asking, "ANSWER_S", 0.2)
    monkeypatch.setattr(asking, "DOWN_S", 0.6)
    monkeypatch.setattr(asking, "OWN_DELAY_S", 30.0)
    made = Asker(Hops(lambda: time.time_ns() // 1_000_000))
    made.look()
    yield made
    await made.close()


async def until(asker: Asker, state: HopState) -> None:
    async with asyncio.timeout(30):
        while asker.hops.expect(Kind.REDIS).state is not state:
            asker.look()
            await asyncio.sleep(0.01)


async def test_a_part_that_ceases_to_answer_is_late_then_down_then_well_again(
    asker: Asker,
) -> None:
    answers = asyncio.Event()
    answers.set()

    async def ask() -> None:
        await answers.wait()

    asker.ask(Kind.REDIS, "", ask)
    await until(asker, HopState.OK)
    answers.clear()
    await until(asker, HopState.SLOW)
    await until(asker, HopState.DOWN)
    assert "has not answered for" in asker.hops.bad[0].reason
    answers.set()
    await until(asker, HopState.OK)


async def test_a_part_that_never_answered_or_refuses_is_down_at_once(asker: Asker) -> None:
    async def refuse() -> None:
        raise UnwellError("is away")

    async def never() -> None:
        await asyncio.Event().wait()

    asker.ask(Kind.REDIS, "", never)
    asker.ask(Kind.SPARK, "", refuse)
    await until(asker, HopState.DOWN)
    assert [hop.reason for hop in asker.hops.of(Kind.SPARK)] == ["The analysis worker is away"]


async def test_a_part_whose_question_breaks_is_down_and_asked_again(asker: Asker) -> None:
    answers: list[Exception] = [KeyError("no such field")]

    async def ask() -> None:
        if answers:
            raise answers.pop()

    asker.ask(Kind.REDIS, "", ask)
    await until(asker, HopState.OK)
    assert not answers


async def test_while_our_own_loop_stands_still_nobody_is_blamed(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "OWN_DELAY_S", 0.1)
    asked = asyncio.Event()

    async def ask() -> None:
        asked.set()
        await asyncio.sleep(0.01)

    asker.ask(Kind.REDIS, "", ask)
    await asked.wait()
    time.sleep(0.5)  # noqa: ASYNC251  # time: longer than the answer and its time-out take
    await stays(lambda: asker.hops.bad == [], 0.02)


async def test_while_nobody_looks_parts_are_asked_seldom_and_at_once_when_somebody_does(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "LOOKED_S", 0.0)
    times = 0

    async def ask() -> None:
        nonlocal times
        times += 1

    asker.ask(Kind.REDIS, "", ask, idle_s=600)
    async with asyncio.timeout(30):
        await asker.first()
        await stays(lambda: times == 1, 0.1)
        while times == 1:
            asker.look()
            await asyncio.sleep(0.01)


async def test_a_part_that_is_gone_is_not_asked_and_not_told(asker: Asker) -> None:
    async def ask() -> None:
        raise OSError("refused")

    asker.ask(Kind.BOOKIE, "k:1", ask)
    await asker.first()
    assert [hop.id for hop in asker.hops.bad] == ["k:1"]
    asker.stop(Kind.BOOKIE, "k:1")
    await stays(lambda: asker.hops.all == [], 0.1)
