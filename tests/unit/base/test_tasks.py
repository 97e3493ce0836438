"""Work that is done once however many ask for it."""

import asyncio

import pytest

from engine.base.tasks import RESTART_S, TaskScope, UnderWay, contained, restarting


@pytest.fixture
def made() -> UnderWay[str, int]:
    return UnderWay(TaskScope("test", lambda name, error: None))


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def test_who_asks_meanwhile_finds_the_work_that_was_begun(made: UnderWay[str, int]) -> None:
    task = made.begin("a", "work a", answer(1))
    assert made.of("a") is task
    assert made.of("b") is None
    assert await task == 1
    await asyncio.sleep(0)
    assert made.tasks == {}


async def test_who_gives_up_leaves_it_to_the_others(made: UnderWay[str, int]) -> None:
    task = made.begin("a", "work a", answer(1))
    one = asyncio.ensure_future(asyncio.shield(task))
    one.cancel()
    assert await asyncio.shield(task) == 1


async def test_what_has_failed_is_begun_anew_before_the_loop_tells_of_it(
    made: UnderWay[str, int],
) -> None:
    async def fail() -> int:
        raise ValueError

    async def ask() -> None:
        """In a task that runs between the end of the work and its callbacks."""
        while not first.done():
            await asyncio.sleep(0)
        assert made.tasks["a"] is first
        assert made.of("a") is None
        assert await made.begin("a", "again", answer(2)) == 2

    first = made.begin("a", "work a", fail())
    asking = asyncio.create_task(ask())
    await asking
    await asyncio.sleep(0)
    assert made.tasks == {}


@pytest.mark.virtual_time
async def test_a_background_loop_goes_on_after_an_exception_that_it_does_not_provide_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began: list[float] = []

    async def work() -> None:
        began.append(asyncio.get_running_loop().time())
        if len(began) < 3:
            raise ZeroDivisionError("planted")

    await restarting("the work", work)
    assert began == [0.0, RESTART_S, 2 * RESTART_S]
    assert [one.getMessage() for one in caplog.records] == ["the work failed, restarts in 5 s"] * 2


async def test_a_background_loop_ends_when_it_is_cancelled() -> None:
    scope = TaskScope("test")
    task = scope.spawn("loop", restarting("loop", asyncio.Event().wait))
    await asyncio.sleep(0)
    await scope.close()
    assert task.cancelled()


async def test_steps_of_an_end_follow_one_that_failed_but_not_a_cancellation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with contained("the first step"):
        raise ZeroDivisionError("planted")
    assert [one.getMessage() for one in caplog.records] == ["the first step failed: planted"]
    with pytest.raises(asyncio.CancelledError), contained("the second step"):
        raise asyncio.CancelledError
