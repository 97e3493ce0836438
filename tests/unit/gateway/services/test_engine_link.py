"""The engine link: on a loop that its caller runs, and in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from engine.admin.client import AdminClient
from engine.metadata.memory import MemoryServer
from engine.net.network import LoopNetwork
from gateway.services.engine_link import Engine, EngineLink

pytestmark = pytest.mark.virtual_time


async def connect() -> Engine:
    store = MemoryServer().session()
    return Engine(store, AdminClient(store, LoopNetwork(), "a-token-for-tests-only"))


@pytest.fixture
async def here() -> AsyncIterator[EngineLink]:
    """A link on this test's own loop."""
    link = EngineLink(connect, asyncio.get_running_loop())
    yield link
    await asyncio.to_thread(link.close)


async def where(engine: Engine) -> tuple[int, str]:
    return threading.get_ident(), engine.principal


async def test_on_the_loop_it_lives_on_work_runs_in_the_callers_own_task(here: EngineLink) -> None:
    caller = asyncio.current_task()

    async def task(engine: Engine) -> object:
        return asyncio.current_task()

    assert await here.arun(task) is caller


async def test_work_reaches_its_loop_from_a_thread_and_from_another_loop(
    here: EngineLink,
) -> None:
    mine = threading.get_ident()
    assert await asyncio.to_thread(here.run, where, principal="ann") == (mine, "ann")
    assert await asyncio.to_thread(lambda: asyncio.run(here.arun(where))) == (mine, "")


async def test_without_a_loop_it_has_a_thread_of_its_own() -> None:
    link = EngineLink(connect)
    thread, principal = await link.arun(where, principal="ann")
    assert thread != threading.get_ident()
    assert principal == "ann"
    await asyncio.to_thread(link.close)


async def test_work_is_bounded_in_time_on_either_loop(here: EngineLink) -> None:
    async def never(engine: Engine) -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await here.arun(never, timeout_s=0.01)
    with pytest.raises(TimeoutError):
        await asyncio.to_thread(lambda: here.run(never, timeout_s=0.01))


async def test_its_tasks_end_with_it_and_the_loops_other_tasks_continue() -> None:
    link = EngineLink(connect, asyncio.get_running_loop())
    ended = asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    link.start(forever)
    await link.arun(where)
    await asyncio.to_thread(link.close)
    assert ended.is_set()
    assert asyncio.current_task() is not None
