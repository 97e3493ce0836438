"""A lease belongs to one worker at a time, until its instance has ended there."""

import asyncio

import pytest

from engine.functions.worker.running.instance_lease import InstanceLease
from engine.metadata.memory import Fault, MemoryServer
from tests.support.waiting import stays, until

pytestmark = pytest.mark.virtual_time

PATH = "/magnetar/functions/instances/f/0"


async def test_one_worker_has_the_lease_at_a_time() -> None:
    server = MemoryServer()
    first = InstanceLease(server.session(), PATH, "a")
    second = InstanceLease(server.session(), PATH, "b")
    await first.acquire()
    assert first.held
    waiting = asyncio.ensure_future(second.acquire())
    await stays(lambda: not second.held, 5.0)  # time: virtual
    await first.release()
    assert not first.held
    await waiting
    assert second.held


async def test_a_lease_ends_for_its_worker_before_it_passes_to_another() -> None:
    server = MemoryServer()
    lost, other = server.session(4.0), server.session(4.0)
    first, second = InstanceLease(lost, PATH, "a"), InstanceLease(other, PATH, "b")
    await first.acquire()
    waiting = asyncio.ensure_future(second.acquire())
    server.partition(lost.session_id)

    async def passed() -> bool:
        assert not (first.held and second.held)
        return second.held

    await until(passed)
    await waiting


async def test_a_new_process_of_the_same_worker_takes_its_lease_over() -> None:
    server = MemoryServer()
    await InstanceLease(server.session(), PATH, "a").acquire()
    again = InstanceLease(server.session(), PATH, "a")
    await again.acquire()
    assert again.held


async def test_a_lease_is_given_back_although_the_store_did_not_answer() -> None:
    server = MemoryServer()
    store = server.session()
    lease = InstanceLease(store, PATH, "a")
    await lease.acquire()
    failures = 2

    def lose(session_id: int, operation: str, path: str) -> Fault | None:
        nonlocal failures
        if operation == "delete" and failures:
            failures -= 1
            return Fault(lose_request=True)
        return None

    server.on_call = lose
    await lease.release()
    assert await store.exists(PATH) is None
