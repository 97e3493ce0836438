"""Work that is done once however many ask for it."""

import asyncio

import pytest

from engine.base.tasks import TaskScope, UnderWay


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
