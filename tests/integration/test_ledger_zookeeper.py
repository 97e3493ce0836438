"""Ledgers with their metadata in a real ZooKeeper, and sessions while its server is unavailable."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bookie.server import Bookie
from bookie.settings import BookieSettings
from engine.base.clock import SystemClock
from engine.base.disk.files import ThreadLane
from engine.base.disk.index_disk import SystemIndexDisk
from engine.base.entropy import RandomEntropy
from engine.ledger.client import LedgerClient
from engine.metadata import paths
from engine.metadata.connect import connect
from engine.metadata.store import (
    MetadataStore,
    SessionExpiredError,
    SessionState,
    StoreUnavailableError,
)
from engine.net.network import LoopNetwork
from tests.support.ledger_cluster import PATIENT, Listener, payloads_of, run_of


@pytest.fixture
async def stores(zookeeper_hosts: str, tmp_path: Path) -> AsyncIterator[Any]:
    """``await stores()`` opens a session below a chroot of this test."""
    opened: list[MetadataStore] = []
    url = f"zk:{zookeeper_hosts}/integration-{tmp_path.name}"

    async def store_of(session_timeout_s: float = 4.0) -> MetadataStore:
        store = await connect(url, session_timeout_s=session_timeout_s)
        opened.append(store)
        return store

    yield store_of
    for store in opened:
        await store.close()


async def test_ledgers_are_created_recovered_and_deleted_on_zookeeper(
    stores: Any, tmp_path: Path
) -> None:
    def client_on(store: MetadataStore) -> LedgerClient:
        return LedgerClient(
            store=store,
            network=LoopNetwork(),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            settings=PATIENT,
        )

    bookie = Bookie(
        BookieSettings(data_dir=str(tmp_path / "b"), bookie_port=0, bookie_id="b0"),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        network=LoopNetwork(),
        store=await stores(),
        disk=SystemIndexDisk(),
        lanes=ThreadLane,
    )
    await bookie.start()
    writer, other = client_on(await stores()), client_on(await stores())
    try:
        listener = Listener()
        closed = await writer.create(1, 1, 1, listener=listener)
        closed.append(run_of(b"a", b"b"))
        await closed.close()
        left = await writer.create(1, 1, 1, listener=listener)
        left.append(run_of(b"c", b"d", b"e"))
        await listener.reach(3)
        assert paths.ledger(closed.ledger_id) == f"/ledgers/00/0000/L{closed.ledger_id:04d}"
        reader = await other.open(closed.ledger_id, recover=False)
        assert payloads_of(await reader.read(0, 1, 100)) == [b"a", b"b"]
        reader = await other.open(left.ledger_id, recover=True)
        assert payloads_of(await reader.read(0, 2, 100)) == [b"c", b"d", b"e"]
        await other.delete(closed.ledger_id)
    finally:
        await writer.close()
        await other.close()
        await bookie.stop()


async def test_a_session_survives_a_short_outage_of_the_server(
    stores: Any, zookeeper_server: Any
) -> None:
    store = await stores()
    states: list[SessionState] = []
    notified: list[str] = []
    store.on_state(states.append)
    store.watch("/w", notified.append)
    await store.create("/mine", b"me", ephemeral=True)
    session_id = store.session_id
    zookeeper_server.stop()
    async with asyncio.timeout(60):
        while store.state is SessionState.CONNECTED:
            await asyncio.sleep(0.01)
    zookeeper_server.start()
    async with asyncio.timeout(60):
        while store.state is not SessionState.CONNECTED:
            await asyncio.sleep(0.01)
        while not notified:
            await asyncio.sleep(0.01)
    assert SessionState.SUSPENDED in states
    stat = await store.exists("/mine")
    if store.session_id == session_id:  # the server was available again before the session expired
        assert stat is not None
        assert stat.ephemeral_owner == session_id
    else:
        assert stat is None or stat.ephemeral_owner == session_id
    assert await store.exists("/w") is None


async def test_a_long_outage_of_the_server_ends_in_expiry_and_a_new_session(
    stores: Any, zookeeper_server: Any
) -> None:
    store = await stores(1.0)
    states: list[SessionState] = []
    store.on_state(states.append)
    await store.create("/mine", b"me", ephemeral=True)
    session_id = store.session_id
    zookeeper_server.stop()
    try:
        with pytest.raises((StoreUnavailableError, SessionExpiredError)):
            await store.get("/mine")
        async with asyncio.timeout(60):
            while SessionState.EXPIRED not in states:
                await asyncio.sleep(0.01)
        assert not store.session_proven
    finally:
        zookeeper_server.start()
    async with asyncio.timeout(60):
        while store.state is not SessionState.CONNECTED:
            await asyncio.sleep(0.01)
    assert store.session_id not in (0, session_id)
    async with asyncio.timeout(60):
        while await store.exists("/mine") is not None:
            await asyncio.sleep(0.05)
    await store.create("/mine", b"me", ephemeral=True)
    stat = await store.exists("/mine")
    assert stat is not None
    assert stat.ephemeral_owner == store.session_id
