"""Faults of the in-memory metadata service that the simulator uses: each has the effect that ZooKeeper's has."""

import asyncio

import pytest

from engine.metadata.memory import Fault, MemoryServer
from engine.metadata.store import (
    MetadataStore,
    NodeExistsError,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

T = 0.3  # session timeout, seconds


def states_of(store: MetadataStore) -> list[SessionState]:
    seen: list[SessionState] = []
    store.on_state(seen.append)
    return seen


async def test_lost_reply_leaves_the_outcome_unknown_but_done() -> None:
    armed = [Fault(lose_reply=True)]
    server = MemoryServer(
        on_call=lambda _s, op, _p: armed.pop() if op == "create" and armed else None
    )
    store = server.session(T)
    seen = states_of(store)
    with pytest.raises(StoreUnavailableError):
        await store.create("/a", b"x")
    await until(lambda: SessionState.CONNECTED in seen)
    assert seen[0] is SessionState.SUSPENDED
    with pytest.raises(NodeExistsError):
        await store.create("/a")
    await store.close()


async def test_lost_request_is_not_done() -> None:
    armed = [Fault(lose_request=True)]
    server = MemoryServer(on_call=lambda *_: armed.pop() if armed else None)
    store = server.session(T)
    with pytest.raises(StoreUnavailableError):
        await store.create("/a")
    assert await store.exists("/a") is None
    await store.close()


async def test_delayed_calls_keep_their_order() -> None:
    delays = [0.05, 0.0, 0.02, 0.0]
    server = MemoryServer(
        on_call=lambda _s, op, _p: Fault(delay_s=delays.pop(0)) if op == "put" else None
    )
    store = server.session(T)
    await store.create("/a")
    await asyncio.gather(*(store.put("/a", b"%d" % i) for i in range(4)))
    assert (await store.get("/a"))[0] == b"3"
    await store.close()


async def test_expired_session_loses_its_ephemerals_and_a_new_one_begins() -> None:
    server = MemoryServer()
    first, second = server.session(T), server.session(T)
    seen = states_of(first)
    await first.create("/e", ephemeral=True)
    old = first.session_id
    server.expire(old)
    assert await second.exists("/e") is None
    with pytest.raises(SessionExpiredError):
        await first.get("/e")
    await until(lambda: seen == [SessionState.EXPIRED, SessionState.CONNECTED])
    assert first.session_id != old
    await first.create("/e", ephemeral=True)
    await first.close()
    await second.close()


async def test_a_session_that_is_expired_early_proves_nothing_while_a_reply_is_late() -> None:
    server = MemoryServer(
        on_call=lambda _s, op, _p: Fault(reply_delay_s=T / 2) if op == "put" else None
    )
    store = server.session(T)
    await store.create("/a")
    late = asyncio.ensure_future(store.put("/a", b"x"))
    await asyncio.sleep(T / 10)
    server.expire(store.session_id)
    await asyncio.sleep(T / 100)
    assert not store.session_proven
    with pytest.raises(SessionExpiredError):
        await late
    await store.close()


async def test_partitioned_client_gives_up_before_the_server_does() -> None:
    server = MemoryServer()
    first, second = server.session(T), server.session(T)
    seen = states_of(first)
    await first.create("/e", ephemeral=True)
    server.partition(first.session_id)
    with pytest.raises((StoreUnavailableError, SessionExpiredError)):
        await first.get("/e")
    await until(lambda: first.state is not SessionState.CONNECTED)
    given_up_first = False
    async with asyncio.timeout(120):
        while await second.exists("/e") is not None:
            given_up_first = first.state is SessionState.EXPIRED
            await asyncio.sleep(0.005)
    assert given_up_first
    server.heal(first.session_id)
    # listeners are notified of a state one turn of the loop after it begins
    expected = [SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED]
    await until(lambda: len(seen) == len(expected))
    assert seen == expected
    await first.close()
    await second.close()


async def test_watches_missed_in_a_short_partition_fire_afterwards() -> None:
    server = MemoryServer()
    first, second = server.session(T), server.session(T)
    changed: list[str] = []
    first.watch("/w", changed.append)
    await first.exists("/w")
    server.partition(first.session_id)
    await second.create("/w")
    assert changed == []
    server.heal(first.session_id)
    await until(lambda: bool(changed))
    await first.close()
    await second.close()


async def test_watches_fire_after_every_reconnect() -> None:
    server = MemoryServer()
    store = server.session(T)
    changed: list[str] = []
    store.watch("/w", changed.append)
    await store.exists("/w")
    server.break_connection(store.session_id)
    await until(lambda: changed == ["/w"])
    await store.close()


async def test_a_watch_requested_in_a_short_partition_is_set_afterwards() -> None:
    server = MemoryServer()
    first, second = server.session(1.2), server.session(1.2)
    await first.create("/a")
    server.partition(first.session_id)
    changed: list[str] = []
    first.watch("/a", changed.append)
    await asyncio.sleep(0.05)
    server.heal(first.session_id)
    await asyncio.sleep(0.5)
    changed.clear()
    await second.put("/a", b"new")
    await first.get("/a")
    assert changed == ["/a"]
