"""Connections of the driver and of tasks to the metadata stores and the bookies."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.ledger.client import LedgerClient
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.settings import ManagedSettings
from engine.metadata.apart.stores import StoreUrls, connect_stores
from engine.metadata.store import MetadataStore
from engine.net.network import LoopNetwork
from spark_jobs.pulsar_source.access import access_settings


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


def factory_of(store: MetadataStore, ledgers: LedgerClient) -> ManagedLedgerFactory:
    """Return a factory that reads what is stored of managed ledgers; it opens none."""
    return ManagedLedgerFactory(
        store=store,
        ledgers=ledgers,
        clock=SystemClock(),
        entropy=RandomEntropy(),
        settings=ManagedSettings(),
    )
