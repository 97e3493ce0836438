"""A waiter for changes of the instance's health is woken by a change, and by a time-out without one."""

import asyncio

import pytest

from engine.admin.client import AdminClient
from engine.metadata.apart.routed import BOOKKEEPER, CONFIGURATION
from engine.net.network import LoopNetwork
from gateway.services.engine_link import Engine, EngineLink
from gateway.services.health.hops import HopState, Kind
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
