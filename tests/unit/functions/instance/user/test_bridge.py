"""Calls from threads to the loop: in order, and what is raised ends them."""

import asyncio

from engine.functions.instance.user.bridge import Bridge
from tests.support.waiting import until


async def test_calls_of_a_thread_run_on_the_loop_in_order() -> None:
    seen: list[int] = []
    bridge = Bridge(lambda error: None)

    def post() -> None:
        for number in range(1000):
            bridge.post(seen.append, number)

    await asyncio.to_thread(post)
    await until(lambda: len(seen) == 1000, "all calls")
    assert seen == list(range(1000))


async def test_an_exception_of_a_call_is_reported_and_ends_the_bridge() -> None:
    seen: list[int] = []
    errors: list[BaseException] = []
    bridge = Bridge(errors.append)
    bridge.post(seen.append, 1)
    bridge.post(lambda: 1 / 0)
    bridge.post(seen.append, 2)
    await until(lambda: errors, "the report")
    bridge.post(seen.append, 3)
    await asyncio.sleep(0)
    assert isinstance(errors[0], ZeroDivisionError)
    assert seen == [1]
