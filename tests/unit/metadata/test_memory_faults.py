"""Faults of the in-memory metadata service, which the simulator drives: each looks as ZooKeeper's does."""

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
    one, two = server.session(T), server.session(T)
    seen = states_of(one)
    await one.create("/e", ephemeral=True)
    old = one.session_id
    server.expire(old)
    assert await two.exists("/e") is None
    with pytest.raises(SessionExpiredError):
        await one.get("/e")
    await until(lambda: seen == [SessionState.EXPIRED, SessionState.CONNECTED])
    assert one.session_id != old
    await one.create("/e", ephemeral=True)
    await one.close()
    await two.close()


async def test_partitioned_client_gives_up_before_the_server_does() -> None:
    server = MemoryServer()
    one, two = server.session(T), server.session(T)
    seen = states_of(one)
    await one.create("/e", ephemeral=True)
    server.partition(one.session_id)
    with pytest.raises((StoreUnavailableError, SessionExpiredError)):
        await one.get("/e")
    await until(lambda: one.state is not SessionState.CONNECTED)
    given_up_first = False
    async with asyncio.timeout(120):
        while await two.exists("/e") is not None:
            given_up_first = one.state is SessionState.EXPIRED
            await asyncio.sleep(0.005)
    assert given_up_first
    server.heal(one.session_id)
    # listeners hear of a state a turn of the loop after it holds
    expected = [SessionState.SUSPENDED, SessionState.EXPIRED, SessionState.CONNECTED]
    await until(lambda: len(seen) == len(expected))
    assert seen == expected
    await one.close()
    await two.close()


async def test_events_missed_in_a_short_partition_are_told_afterwards() -> None:
    server = MemoryServer()
    one, two = server.session(T), server.session(T)
    told: list[str] = []
    one.watch("/w", told.append)
    await one.exists("/w")
    server.partition(one.session_id)
    await two.create("/w")
    assert told == []
    server.heal(one.session_id)
    await until(lambda: bool(told))
    await one.close()
    await two.close()


async def test_watches_are_told_after_every_reconnect() -> None:
    server = MemoryServer()
    store = server.session(T)
    told: list[str] = []
    store.watch("/w", told.append)
    await store.exists("/w")
    server.break_connection(store.session_id)
    await until(lambda: told == ["/w"])
    await store.close()
