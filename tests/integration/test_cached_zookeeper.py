"""A cached store over a real ZooKeeper: stop and restart of the server, and removal of watches."""

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from engine.metadata.cached import CachedStore
from engine.metadata.connect import connect
from engine.metadata.store import MetadataStore, SessionExpiredError, StoreUnavailableError
from tests.support.zookeeper.process import ZooKeeperProcess

LOST = (StoreUnavailableError, SessionExpiredError)


@pytest.fixture
async def stores(zookeeper_hosts: str, tmp_path: Path) -> AsyncIterator[Any]:
    opened: list[MetadataStore] = []

    async def store_of() -> MetadataStore:
        url = f"zk:{zookeeper_hosts}/cached-{tmp_path.name}"
        opened.append(await connect(url, session_timeout_s=4.0))
        return opened[-1]

    yield store_of
    for store in opened:
        await store.close()


async def written(store: MetadataStore, path: str, value: bytes) -> None:
    async with asyncio.timeout(60):
        while True:
            try:
                await store.put(path, value)
            except LOST:
                await asyncio.sleep(0.1)
            else:
                return


async def seen(store: MetadataStore, path: str, value: bytes) -> None:
    """Read until the value is ``value``."""
    async with asyncio.timeout(60):
        while True:
            try:
                if (await store.get(path))[0] == value:
                    return
            except LOST:
                pass
            await asyncio.sleep(0.02)


async def test_entries_cached_before_a_server_crash_are_read_again(
    stores: Any, zookeeper_server: ZooKeeperProcess
) -> None:
    cached, other = CachedStore(await stores()), await stores()
    await other.create("/a", b"old")
    assert (await cached.get("/a"))[0] == b"old"
    connection = cached.connection
    zookeeper_server.stop()
    try:
        async with asyncio.timeout(30):
            with pytest.raises(LOST):
                while True:
                    assert (await cached.get("/a"))[0] == b"old"
                    await asyncio.sleep(0.02)
    finally:
        zookeeper_server.start()
    await written(other, "/a", b"new")
    await seen(cached, "/a", b"new")
    assert cached.connection > connection
    await written(other, "/a", b"newer")
    await seen(cached, "/a", b"newer")


def watches(hosts: str) -> int:
    """Return the number of paths that the server's sessions watch."""
    host, _, port = hosts.partition(":")
    with socket.create_connection((host, int(port)), 5) as connection:
        connection.sendall(b"wchs")
        answer = b""
        while more := connection.recv(4096):
            answer += more
    return int(answer.decode().partition("watching ")[2].split()[0])


async def test_watches_of_evicted_entries_are_removed_from_the_server(
    stores: Any, zookeeper_hosts: str
) -> None:
    store = await stores()
    cached = CachedStore(store, entries_max=10)
    before = watches(zookeeper_hosts)
    for number in range(200):
        await store.create(f"/{number}")
        await cached.get(f"/{number}")
        assert await cached.children(f"/{number}") == []
        assert await cached.exists(f"/none-{number}") is None
    await store.exists("/")
    assert watches(zookeeper_hosts) - before <= 10
    assert len(store._client._data_watchers) + len(store._client._child_watchers) <= 20
