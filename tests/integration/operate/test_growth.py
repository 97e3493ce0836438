"""A cluster grows from three bookies to six and shrinks to three others under clients that see no error; only copies on
bookies that leave are moved."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState
from engine.metadata import paths
from engine.metadata.connect import connect
from engine.metadata.store import MetadataStore
from engine.programs.commands.bookies import main as bookies_command
from engine.repair.ledger_listing import ledgers
from tests.crash.kit.processes import QUICK_REPAIR, BookieProcess, Cluster, running_cluster
from tests.crash.kit.wholeness import wait_whole
from tests.crash.load import quiet_client
from tests.crash.traffic import Traffic
from tests.support.zookeeper.process import ZooKeeperProcess

TOPICS = [f"persistent://public/default/grown-{i}" for i in range(3)]
RATE = 600.0
BROKER = {
    "managed_ledger_max_entries_per_ledger": "20",
    "managed_ledger_min_ledger_rollover_time_minutes": "0",
}
USED_S = 30.0
"""Bound within which a new bookie has entries: ledgers of the topics end after some seconds."""
EMPTY_S = 120.0
RECEIPTS = 100
SEND_TIMEOUT_S = 30.0
"""The time without a receipt after which a client with default settings reports an error."""

Listed = dict[int, LedgerMetadata]


@pytest.fixture
async def cluster(zookeeper_server: ZooKeeperProcess, tmp_path: Path) -> AsyncIterator[Cluster]:
    with running_cluster(
        tmp_path, zookeeper_server, brokers=2, bookie_settings=QUICK_REPAIR, broker_settings=BROKER
    ) as running:
        yield running


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_bookies_come_and_leave_under_load_and_only_copies_on_leaving_ones_move(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAGNETAR_METADATA_URL", cluster.metadata)
    connected = partial(quiet_client, log=str(tmp_path / "clients.log"))
    traffic = await asyncio.to_thread(Traffic, [cluster.url], connected, TOPICS, [], 6, RATE)
    store = await connect(cluster.metadata)
    try:
        await asyncio.to_thread(traffic.wait_confirmed, RECEIPTS, 60)
        first = list(cluster.bookies)
        before = closed(await listed(store))
        for _ in first:
            await join(cluster, store)
        assert moved(before, await listed(store)) == {}

        for bookie, leave in zip(first, (drain, drain, stop_for_good), strict=True):
            before = closed(await listed(store))
            await leave(bookie, store)
            after = await listed(store)
            assert all(bookie.name not in names(metadata) for metadata in after.values())
            copied = moved(before, after)
            assert copied
            assert all(places == [bookie.name] for places in copied.values())
            await asyncio.to_thread(traffic.wait_confirmed, RECEIPTS, 60)

        assert sorted(await writable(store)) == sorted(b.name for b in cluster.bookies[3:])
        await asyncio.to_thread(traffic.stop_sending, 60)
        await asyncio.to_thread(wait_whole, cluster.metadata, EMPTY_S)
        wrong = await asyncio.to_thread(read_again, traffic)
        assert not any(wrong.values()), wrong
        assert traffic.longest_gap_s < SEND_TIMEOUT_S
    finally:
        await store.close()
        await asyncio.to_thread(traffic.close)


async def join(cluster: Cluster, store: MetadataStore) -> None:
    """Start another bookie, and wait until a ledger is written to it."""
    bookie = cluster.add_bookie(**QUICK_REPAIR)
    bookie.start()
    await asyncio.to_thread(bookie.wait_ready)
    began = time.monotonic()
    while all(bookie.name not in names(m) for m in (await listed(store)).values()):
        assert time.monotonic() < began + USED_S, f"no ledger is written to {bookie.name}"
        await asyncio.sleep(0.2)


async def drain(bookie: BookieProcess, store: MetadataStore) -> None:
    """Have a bookie's copies moved while it serves, then stop it."""
    assert await command("drain", bookie.name, "--timeout", str(EMPTY_S)) == 0
    bookie.end(signal.SIGTERM)
    gone = partial(store.exists, paths.cookie(bookie.name))
    async with asyncio.timeout(EMPTY_S):
        while await gone() is not None:
            await asyncio.sleep(0.2)


async def stop_for_good(bookie: BookieProcess, store: MetadataStore) -> None:
    """Stop a bookie, then have what it held copied."""
    bookie.end(signal.SIGTERM)
    async with asyncio.timeout(EMPTY_S):
        while bookie.name in await writable(store):
            await asyncio.sleep(0.2)
    assert await command("decommission", bookie.name, "--timeout", str(EMPTY_S)) == 0
    assert await store.exists(paths.cookie(bookie.name)) is None


async def command(*words: str) -> int:
    return await asyncio.to_thread(bookies_command, list(words))


async def writable(store: MetadataStore) -> list[str]:
    return [name for name in await store.children(paths.AVAILABLE) if name != "readonly"]


async def listed(store: MetadataStore) -> Listed:
    return {n: metadata async for batch in ledgers(store) for n, metadata in batch}


def closed(of: Listed) -> Listed:
    return {n: metadata for n, metadata in of.items() if metadata.state is LedgerState.CLOSED}


def names(metadata: LedgerMetadata) -> list[str]:
    return [bookie for segment in metadata.segments for bookie in segment.bookies]


def moved(before: Listed, after: Listed) -> dict[int, list[str]]:
    """Return by ledger the bookies that lost their places, of ledgers that are still there."""
    lost = {
        n: sorted({old for old, new in zip(names(m), names(after[n]), strict=True) if old != new})
        for n, m in before.items()
        if n in after
    }
    return {n: bookies for n, bookies in lost.items() if bookies}


def read_again(traffic: Traffic) -> dict[str, int]:
    """Read everything from the start, and return the numbers of what broke a promise."""
    for reading in traffic.readings:
        reading.wait_all(30)
    audits = traffic.audit()
    for audit in audits:
        audit.wait_all(30)
        audit.close()
    return traffic.wrong(audits)
