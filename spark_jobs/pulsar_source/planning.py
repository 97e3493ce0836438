"""Lookup of a topic's entries in the metadata store, and the connection to its bookies. Runs on the driver and in
tasks."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.managed.errors import ManagedLedgerNotFoundError
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.settings import ManagedSettings
from engine.metadata import paths, records
from engine.metadata.apart.stores import StoreUrls, connect_stores
from engine.metadata.incomplete import check_complete
from engine.metadata.store import MetadataStore, NoNodeError
from engine.net.network import LoopNetwork
from spark_jobs.pulsar_source.access import access_settings
from spark_jobs.pulsar_source.options import OptionError, Options
from spark_jobs.pulsar_source.partitions import LedgerRange, newest, plan


@asynccontextmanager
async def connected(stores: StoreUrls) -> AsyncIterator[tuple[MetadataStore, LedgerClient]]:
    """Open a session with each metadata store and a ledger client, closed at the end. Raises StoreUnavailableError,
    TlsFileError, SettingsError."""
    settings = access_settings()
    store = await connect_stores(stores, access=settings.metadata.access)
    try:
        ledgers = LedgerClient(
            store=store,
            network=LoopNetwork(),
            clock=SystemClock(),
            entropy=RandomEntropy(),
            settings=settings.ledger,
        )
        try:
            yield store, ledgers
        finally:
            await ledgers.close()
    finally:
        await store.close()


def plan_topic(options: Options) -> list[LedgerRange]:
    """Return the ranges to read, in topic order, partition after partition, up to the entries confirmed now. Blocks.

    Raises OptionError when there is no such topic, IncompleteStoreError.
    """
    return asyncio.run(_plan(options))


async def _plan(options: Options) -> list[LedgerRange]:
    topic = TopicName.parse(options.topic)
    async with connected(options.stores) as (store, ledgers):
        await check_complete(store)
        factory = _factory(store, ledgers)
        count = await _partitions(store, topic)
        parts = [(-1, topic)] if count == 0 else [(i, topic.partition_at(i)) for i in range(count)]
        ranges: list[LedgerRange] = []
        for number, part in parts:
            try:
                info = await factory.info(part.managed_ledger_name)
            except ManagedLedgerNotFoundError as error:
                if count:  # a partition that was never used
                    continue
                raise OptionError(f"option topic: there is no topic {topic}") from error
            known = [(ledger.ledger_id, ledger.entries, ledger.size) for ledger in info.ledgers]
            limits = options.entries_per_partition, options.bytes_per_partition
            extras = {ledger.ledger_id: ledger.extra for ledger in info.ledgers}
            ranges += [
                replace(ledger_range, extra=extras[ledger_range.ledger_id])
                for ledger_range in newest(plan(known, *limits, number), options.last_entries)
            ]
        return ranges


def _factory(store: MetadataStore, ledgers: LedgerClient) -> ManagedLedgerFactory:
    return ManagedLedgerFactory(
        store=store,
        ledgers=ledgers,
        clock=SystemClock(),
        entropy=RandomEntropy(),
        settings=ManagedSettings(),
    )


async def is_listed(
    store: MetadataStore, ledgers: LedgerClient, options: Options, ledger_range: LedgerRange
) -> bool:
    """Return whether the topic still has the ledger of a planned range; without it the range was trimmed.

    Also True for a topic that was deleted, because that is not a trim.
    """
    topic = TopicName.parse(options.topic)
    part = topic if ledger_range.partition < 0 else topic.partition_at(ledger_range.partition)
    try:
        info = await _factory(store, ledgers).info(part.managed_ledger_name)
    except ManagedLedgerNotFoundError:
        return True
    return any(ledger.ledger_id == ledger_range.ledger_id for ledger in info.ledgers)


async def _partitions(store: MetadataStore, topic: TopicName) -> int:
    """Return the number of a topic's partitions; 0 for a plain one."""
    try:
        value, _ = await store.get(
            paths.partitioned_topic(str(topic.namespace), topic.local, topic.domain)
        )
    except NoNodeError:
        return 0
    count = records.decode_json(value, f"partitioned topic {topic}").get("partitions", 0)
    if not isinstance(count, int):
        raise records.RecordFormatError(f"partitioned topic {topic}: {count!r} is no number")
    return count
