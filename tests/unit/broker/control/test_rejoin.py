"""A broker whose session is lost again while it registers: in the end it is listed and serves, or
reports that it does not."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from engine.base.backoff import Backoff
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.broker import service
from engine.broker.service import BrokerService
from engine.metadata import memory, paths
from engine.metadata.memory import MemoryServer
from engine.metadata.store import SessionExpiredError, StoreUnavailableError
from engine.net.network import LoopNetwork
from engine.programs.broker import build_broker
from engine.settings import load
from tests.support.stores.losing import LosingStore

STEPS = 7
"""Calls of one registration and a few more."""


class Bench:
    """A broker on a store that loses sessions, seen from a store that does not."""

    def __init__(self, server: MemoryServer, folder: Path) -> None:
        self.server = server
        self.store = LosingStore(server)
        environ = {
            "MAGNETAR_BROKER_PORT": "0",
            "MAGNETAR_BROKER_HTTP_PORT": "0",
            "MAGNETAR_INTERNAL_TOKEN": "tests-only-tests-only",
        }
        self.broker: BrokerService = build_broker(
            load(environ, folder),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            network=LoopNetwork(),
            store=self.store,
        )

    @property
    def listed(self) -> bool:
        children = self.server.tree.children(paths.LOADBALANCE_BROKERS)
        if self.broker.record.id not in children:
            return False
        _, stat = self.server.tree.get(paths.broker(self.broker.record.id))
        return stat.ephemeral_owner == self.store.session_id

    async def settled(self, case: str) -> None:
        """Wait until the broker serves and is listed; fail if it serves while it is not listed."""
        try:
            async with asyncio.timeout(120):
                while not (self.broker.ready and self.listed):
                    if self.broker.ready and self.store.lives:
                        assert self.listed, f"serves, but is not listed: {case}"
                    await asyncio.sleep(0)
        except TimeoutError:
            pytest.fail(f"ready {self.broker.ready}, listed {self.listed}: {case}")
        self.store.losses.clear()

    async def close(self) -> None:
        await self.broker.drain()
        await self.store.close()


@pytest.fixture
async def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(memory, "RECONNECT_S", 0.001)
    monkeypatch.setattr(service, "Backoff", partial(Backoff, initial_s=0.001, max_s=0.002))
    made = Bench(MemoryServer(), tmp_path)
    yield made
    await made.close()


@pytest.mark.parametrize("second", ["before", "after"])
@pytest.mark.parametrize("first", ["before", "after"])
async def test_two_sessions_lost_at_any_steps_of_one_registration(
    bench: Bench, first: str, second: str
) -> None:
    await bench.broker.start()
    lost = bench.store.lost
    for i in range(STEPS):
        for j in range(i + 1, i + 1 + STEPS):
            bench.store.lose_at({i: first, j: second})
            bench.store.lose()
            await bench.settled(f"lost {first} call {i} and {second} call {j}")
    # Without any in the registration there would be the one that begins each round.
    assert bench.store.lost - lost > STEPS * STEPS, "no loss fell into the registration"


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_start_that_loses_its_session_fails_or_leads_to_a_listed_broker(
    bench: Bench, tmp_path: Path, when: str
) -> None:
    await bench.broker.start()
    most = bench.store.calls
    for k in range(most + 1):
        other = Bench(bench.server, tmp_path)
        other.store.lose_at({k: when})
        try:
            await other.broker.start()
        except (StoreUnavailableError, SessionExpiredError):
            assert not other.broker.ready
        else:
            await other.settled(f"lost {when} call {k} of a start")
        await other.close()


async def test_a_broker_whose_node_is_deleted_is_listed_again(bench: Bench) -> None:
    await bench.broker.start()
    outside = bench.server.session()
    for _ in range(3):
        await outside.delete(paths.broker(bench.broker.record.id))
        async with asyncio.timeout(120):
            while not bench.listed:
                await asyncio.sleep(0)
        assert bench.broker.ready
    await bench.broker.drain()
    assert not bench.listed
    await outside.close()
