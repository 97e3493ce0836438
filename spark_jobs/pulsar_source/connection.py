"""Connections of a process of Spark, driver or worker, to the metadata stores and the bookies.

They are kept: a task of a stream would otherwise spend more time on connecting than on reading. They live on an event
loop in a thread of its own, so that sessions stay alive and reads go on while Spark consumes rows.
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.client.client import PulsarClient
from engine.ledger.client import LedgerClient
from engine.metadata.apart.stores import StoreUrls, connect_stores
from engine.metadata.store import MetadataStore, SessionState
from engine.net.network import LoopNetwork
from spark_jobs.pulsar_source.access import access_settings
from spark_jobs.pulsar_source.brokers.access import BrokerAccess, client_of
from spark_jobs.pulsar_source.options import BOOKIES, BROKERS, Options

T = TypeVar("T")
# It warns of each of many attempts to connect. What counts is the error of the last one, and what the store logs.
logging.getLogger("kazoo").setLevel(logging.ERROR)


@asynccontextmanager
async def connected_store(stores: StoreUrls) -> AsyncIterator[MetadataStore]:
    """Open a session with each metadata store, closed at the end. Raises StoreUnavailableError, TlsFileError,
    SettingsError."""
    store = await connect_stores(stores, access=access_settings().metadata.access)
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def connected(stores: StoreUrls) -> AsyncIterator[tuple[MetadataStore, LedgerClient]]:
    """Do as ``connected_store``, with a ledger client besides."""
    async with connected_store(stores) as store:
        ledgers = LedgerClient(
            store=store,
            network=LoopNetwork(),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            settings=access_settings().ledger,
        )
        try:
            yield store, ledgers
        finally:
            await ledgers.close()


class Link:
    """A process's connections to the stores of a cluster, to its bookies, and to its brokers where they are read
    through."""

    def __init__(self, stores: StoreUrls) -> None:
        """Connect. Raises StoreUnavailableError, TlsFileError, SettingsError."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._context = connected(stores)
        self._clients: dict[str, PulsarClient] = {}
        try:
            self.store, self.ledgers = self.run(self._context.__aenter__())
        except BaseException:
            self._end()
            raise

    @property
    def alive(self) -> bool:
        return self.store.state is not SessionState.EXPIRED

    def brokers(self, options: Options) -> BrokerAccess | None:
        """Return the way to the brokers; None where the options exclude them."""
        url = options.service_url
        if options.read_from == BOOKIES or not url:
            return None

        def client() -> PulsarClient:
            if url not in self._clients:
                self._clients[url] = client_of(url)
            return self._clients[url]

        return BrokerAccess(client, alone=options.read_from == BROKERS)

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin ``work`` on the loop of the connections."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``. Blocks."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # also when Spark interrupts the wait
            raise

    def close(self) -> None:
        """Close the connections. Blocks."""
        try:
            self.run(self._close())
        finally:
            self._end()

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.close()
        await self._context.__aexit__(None, None, None)

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


_links: dict[tuple[int, StoreUrls], Link] = {}
_lock = threading.Lock()


def link_to(stores: StoreUrls) -> Link:
    """Return this process's connections to a cluster; new ones when the session of the kept ones has expired."""
    key = os.getpid(), stores  # a forked worker has its parent's objects, but none of its threads
    with _lock:
        link = _links.get(key)
        if link is None or not link.alive:
            if link is not None:
                link.close()
            link = _links[key] = Link(stores)
        return link
