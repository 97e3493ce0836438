"""Leases and elections: one holder, and a holder that knows when it is none."""

import asyncio
from collections.abc import Callable

import pytest

from engine.base.tasks import TaskScope
from engine.metadata.cache import CachedNode
from engine.metadata.leases import Election, acquire
from engine.metadata.memory import Fault, MemoryServer
from engine.metadata.store import SessionExpiredError, StoreUnavailableError

T = 0.3


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():
            await asyncio.sleep(0.005)


async def test_one_session_holds_a_lease_at_a_time() -> None:
    server = MemoryServer()
    one, two = server.session(T), server.session(T)
    lease = await acquire(one, "/locks/x", b"one")
    assert lease is not None
    assert lease.held
    assert await acquire(two, "/locks/x", b"two") is None
    await lease.release()
    await lease.release()
    assert not lease.held
    other = await acquire(two, "/locks/x", b"two")
    assert other is not None
    assert (await one.get("/locks/x"))[0] == b"two"
    await other.release()
    await one.close()
    await two.close()


async def test_a_lost_answer_is_settled_by_asking_again() -> None:
    armed = [Fault(lose_reply=True)]
    server = MemoryServer(
        on_call=lambda _s, op, _p: armed.pop() if op == "create" and armed else None
    )
    store = server.session(T)
    await store.put("/", b"")
    with pytest.raises(StoreUnavailableError):
        await acquire(store, "/x", b"me")
    lease = await acquire(store, "/x", b"me again")
    assert lease is not None
    assert lease.held
    assert (await store.get("/x"))[0] == b"me again"
    await store.close()


async def test_lease_is_unproven_in_a_partition_and_lost_with_the_session() -> None:
    server = MemoryServer()
    store = server.session(T)
    lease = await acquire(store, "/x", b"me")
    assert lease is not None
    lost: list[bool] = []
    lease.on_lost(lambda: lost.append(True))
    server.partition(store.session_id)
    await until(lambda: not lease.held)
    assert not lease.gone
    await until(lambda: lease.gone)
    assert lost == [True]
    server.heal(store.session_id)
    with pytest.raises(SessionExpiredError):
        await lease.change(b"more")
    await store.close()


async def test_lease_is_lost_when_its_node_is_taken_away() -> None:
    server = MemoryServer()
    one, two = server.session(T), server.session(T)
    lease = await acquire(one, "/x", b"me")
    assert lease is not None
    await lease.change(b"mine")
    await two.delete("/x")
    await until(lambda: lease.gone)
    await one.close()
    await two.close()


async def test_election_passes_on_when_the_leader_dies() -> None:
    server = MemoryServer()
    stores = [server.session(T) for _ in range(3)]
    elections = [Election(store, "/leader", b"%d" % i) for i, store in enumerate(stores)]
    scopes = [TaskScope(f"candidate {i}") for i in range(3)]
    for scope, election in zip(scopes, elections, strict=True):
        scope.spawn("run", election.run())
    await until(lambda: sum(election.leading for election in elections) == 1)
    leader = next(i for i in range(3) if elections[i].leading)
    server.expire(stores[leader].session_id)
    await until(lambda: any(elections[i].leading for i in range(3) if i != leader))
    await until(lambda: sum(election.leading for election in elections) == 1)
    assert not elections[leader].leading
    for scope in scopes:
        await scope.close()
    assert server.tree.exists("/leader") is None
    for store in stores:
        await store.close()


async def test_cached_node_follows_changes() -> None:
    server = MemoryServer()
    one, two = server.session(T), server.session(T)
    node = CachedNode(one, "/n", bytes.decode)
    changes: list[int] = []
    node.on_change(lambda: changes.append(1))
    assert await node.get() is None
    await two.create("/n", b"a")
    await until(lambda: bool(changes))
    assert await node.get() == "a"
    assert node.peek() == "a"
    found = await node.get_with_stat()
    assert found is not None
    assert found[1].version == 0
    await two.put("/n", b"b")
    await until(lambda: node.peek() is None)
    assert await node.get() == "b"
    node.close()
    await one.close()
    await two.close()
