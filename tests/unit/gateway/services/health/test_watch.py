"""A waiter for changes of the instance's health is woken by a change, and by a time-out without one."""

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from engine.admin.client import AdminClient
from engine.metadata.apart.routed import BOOKKEEPER, CONFIGURATION
from engine.metadata.store import MetadataStore, SessionState
from engine.net.network import LoopNetwork
from gateway.services.engine_link import Engine, EngineLink
from gateway.services.health.hops import HopState, Kind
from gateway.services.health.parts import RECONNECT_S
from gateway.services.health.watch import Health
from tests.support.stores.apart import ApartStores
from tests.support.waiting import stays, until

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


async def test_each_store_that_is_apart_is_a_hop_of_its_own() -> None:
    store = ApartStores().session()

    async def connect() -> Engine:
        return Engine(store, AdminClient(store, LoopNetwork(), "token"))

    urls = {CONFIGURATION: "zk:c:1", BOOKKEEPER: "zk:b:1"}
    link = EngineLink(connect, asyncio.get_running_loop(), "zk:a:1", urls)
    health = Health(link, lambda: 1)
    hops = health.checks.hops
    await until(lambda: [hop.state for hop in hops.of(Kind.STORE)] == [HopState.OK] * 3)
    store.cut()
    await until(lambda: hops.of(Kind.STORE)[2].state is HopState.DOWN)
    local, _, bad = hops.of(Kind.STORE)
    assert (local.state, bad.id) == (HopState.OK, CONFIGURATION)
    assert bad.reason == "The configuration store (zk:c:1) cannot be reached"
    assert "with the policies that were read before" in bad.advice
    assert not bad.is_metadata_store
    store.heal()
    await until(lambda: hops.of(Kind.STORE)[2].state is HopState.OK)
    await health.close()
    await link._close()


class ClosableStore:
    """A session whose connection a test closes; without one, reads wait."""

    def __init__(self) -> None:
        self.state = SessionState.CONNECTED
        self._callbacks: list[Callable[[SessionState], None]] = []
        self._connected = asyncio.Event()
        self._connected.set()

    def on_state(self, callback: Callable[[SessionState], None]) -> Callable[[], None]:
        self._callbacks.append(callback)
        return lambda: None

    async def exists(self, path: str) -> None:
        await self._connected.wait()

    def become(self, state: SessionState) -> None:
        self.state = state
        if state is SessionState.CONNECTED:
            self._connected.set()
        else:
            self._connected.clear()
        for callback in self._callbacks:
            callback(state)


@pytest.mark.parametrize("is_checking", [False, True])
async def test_a_store_whose_connection_is_closed_is_down_without_another_period(
    is_checking: bool,
) -> None:
    """Expect the bound of a new connection, whether the loss falls between two checks or into one."""
    store = ClosableStore()

    async def connect() -> Engine:
        made = cast(MetadataStore, store)
        return Engine(made, AdminClient(made, LoopNetwork(), "token"))

    loop = asyncio.get_running_loop()
    health = Health(EngineLink(connect, loop, "zk:a:1"), lambda: 1)
    hop = health.checks.hops.expect(Kind.STORE)
    await until(lambda: hop.state is HopState.OK)
    if is_checking:
        store._connected.clear()
        # time: virtual; no viewer is there, so that the next check has begun
        await asyncio.sleep(1.2)
    lost_s = loop.time()
    store.become(SessionState.SUSPENDED)
    await until(lambda: hop.state is HopState.DOWN)
    assert loop.time() - lost_s <= RECONNECT_S + 0.05
    assert hop.reason == "The metadata store (zk:a:1) cannot be reached"
    store.become(SessionState.CONNECTED)
    await until(lambda: hop.state is HopState.OK)
    store.become(SessionState.SUSPENDED)
    await asyncio.sleep(RECONNECT_S / 2)  # time: virtual; a connection is made in time
    store.become(SessionState.CONNECTED)
    await stays(lambda: hop.state is HopState.OK, 3)
    await health.close()
