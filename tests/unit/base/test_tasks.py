"""Work that many callers share, background loops that restart, and steps of a close."""

import asyncio

import pytest

from engine.base.tasks import RESTART_S, TaskScope, UnderWay, contained, restarting


@pytest.fixture
def made() -> UnderWay[str, int]:
    return UnderWay(TaskScope("test", lambda name, error: None))


async def answer(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def test_a_caller_joins_the_work_that_is_under_way(made: UnderWay[str, int]) -> None:
    task = made.begin("a", "work a", answer(1))
    assert made.of("a") is task
    assert made.of("b") is None
    assert await task == 1
    await asyncio.sleep(0)
    assert made.tasks == {}


async def test_a_cancelled_caller_does_not_cancel_the_shared_work(made: UnderWay[str, int]) -> None:
    task = made.begin("a", "work a", answer(1))
    waiting = asyncio.ensure_future(asyncio.shield(task))
    waiting.cancel()
    assert await asyncio.shield(task) == 1


async def test_failed_work_can_begin_again_before_its_callbacks_run(
    made: UnderWay[str, int],
) -> None:
    async def fail() -> int:
        raise ValueError

    async def ask() -> None:
        """Begin the work again in a turn of the loop between its end and its callbacks."""
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
async def test_a_background_loop_restarts_after_an_unexpected_exception(
    caplog: pytest.LogCaptureFixture,
) -> None:
    began: list[float] = []

    async def work() -> None:
        began.append(asyncio.get_running_loop().time())
        if len(began) < 3:
            raise ZeroDivisionError("planted")

    await restarting("the work", work)
    assert began == [0.0, RESTART_S, 2 * RESTART_S]
    assert [record.getMessage() for record in caplog.records] == [
        "the work failed, restarts in 5 s"
    ] * 2


async def test_a_background_loop_ends_when_it_is_cancelled() -> None:
    scope = TaskScope("test")
    task = scope.spawn("loop", restarting("loop", asyncio.Event().wait))
    await asyncio.sleep(0)
    await scope.close()
    assert task.cancelled()


async def test_a_close_continues_after_a_failed_step_but_not_after_a_cancellation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with contained("the first step"):
        raise ZeroDivisionError("planted")
    assert [record.getMessage() for record in caplog.records] == ["the first step failed: planted"]
    with pytest.raises(asyncio.CancelledError), contained("the second step"):
        raise asyncio.CancelledError
