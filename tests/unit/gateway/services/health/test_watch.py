"""A waiter for changes of the instance's health is woken by a change, and by a time-out without one."""

import asyncio

import pytest

from gateway.services.engine_link import EngineLink
from gateway.services.health.hops import Kind
from gateway.services.health.watch import Health
from tests.support.waiting import stays

pytestmark = pytest.mark.virtual_time


async def test_a_change_wakes_the_waiter_and_an_equal_state_does_not(engine: EngineLink) -> None:
    health = Health(engine, lambda: 1)
    await health.change(0.01)  # there is none
    async with asyncio.timeout(30):
        waiting = asyncio.ensure_future(health.change(600))
        await asyncio.sleep(0)
        health.hops.failed(Kind.STORE, slow=True)
        await waiting
    waiting = asyncio.ensure_future(health.change(600))
    await asyncio.sleep(0)
    health.hops.failed(Kind.STORE, slow=False)
    await stays(lambda: not waiting.done(), 0.01)  # that the store does not answer is known
    health.hops.answered(Kind.STORE)
    async with asyncio.timeout(30):
        await waiting
    await health.close()
