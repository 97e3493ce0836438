"""Long computations do not block the event loop and run one at a time."""

import asyncio
import threading

import pytest

from engine.schema.offloader import LONG_BYTES, Offloader
from tests.support.waiting import stays


def thread_of() -> str:
    return threading.current_thread().name


async def test_long_computations_run_in_another_thread() -> None:
    offloader = Offloader()
    here = thread_of()
    assert await offloader.run(LONG_BYTES - 1, thread_of) == here
    assert await offloader.run(LONG_BYTES, thread_of) != here


async def test_the_event_loop_is_not_blocked_and_one_computation_runs_at_a_time() -> None:
    offloader = Offloader()
    go = threading.Event()
    running: list[int] = []

    def work(number: int) -> int:
        running.append(number)
        assert go.wait(60)
        return number

    tasks = [asyncio.create_task(offloader.run(LONG_BYTES, work, number)) for number in range(3)]
    async with asyncio.timeout(60):
        while not running:
            await asyncio.sleep(0.001)
    tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]
    await stays(lambda: running == [0], 0.01)  # given up, and still the one at work
    go.set()
    assert await asyncio.gather(*tasks[1:]) == [1, 2]


async def test_a_failure_is_raised_in_the_caller() -> None:
    offloader = Offloader()

    def fail() -> None:
        raise ValueError("no")

    for size in (0, LONG_BYTES, LONG_BYTES):
        with pytest.raises(ValueError, match="no"):
            await offloader.run(size, fail)
    assert await offloader.run(LONG_BYTES, thread_of)
