"""Lookup of the entries of topics in the metadata store. Runs on the driver and in tasks."""

import asyncio
from dataclasses import replace

from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.managed.errors import ManagedLedgerNotFoundError
from engine.managed.factory import ManagedLedgerFactory
from engine.metadata.incomplete import check_complete
from engine.metadata.store import MetadataStore
from spark_jobs.pulsar_source.connection import connected, factory_of
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange, newest, plan
from spark_jobs.pulsar_source.topics import find_topics

AT_ONCE = 32
"""Topics whose ledgers are looked up at the same time."""


def plan_topics(options: Options) -> list[LedgerRange]:
    """Return the ranges to read, topic after topic in order, up to the entries confirmed now. Blocks.

    Raises OptionError when a named topic, namespace or tenant does not exist, IncompleteStoreError.
    """
    return asyncio.run(_plan(options))


async def _plan(options: Options) -> list[LedgerRange]:
    async with connected(options.stores) as (store, ledgers):
        await check_complete(store)
        factory = factory_of(store, ledgers)
        topics = await find_topics(store, options.selection)
        ranges: list[LedgerRange] = []
        for start in range(0, len(topics), AT_ONCE):
            some = topics[start : start + AT_ONCE]
            for planned in await asyncio.gather(
                *(_plan_topic(options, factory, topic) for topic in some)
            ):
                ranges += planned
        return ranges


async def _plan_topic(
    options: Options, factory: ManagedLedgerFactory, topic: TopicName
) -> list[LedgerRange]:
    try:
        info = await factory.info(topic.managed_ledger_name)
    except ManagedLedgerNotFoundError:
        return []  # a partition that was never used, or a topic deleted meanwhile
    known = [(ledger.ledger_id, ledger.entries, ledger.size) for ledger in info.ledgers]
    extras = {ledger.ledger_id: ledger.extra for ledger in info.ledgers}
    planned = plan(
        known, options.entries_per_partition, options.bytes_per_partition, topic.partition
    )
    return [
        replace(ledger_range, topic=str(topic), extra=extras[ledger_range.ledger_id])
        for ledger_range in newest(planned, options.last_entries)
    ]


async def is_listed(store: MetadataStore, ledgers: LedgerClient, ledger_range: LedgerRange) -> bool:
    """Return whether the topic still has the ledger of a planned range; without it the range was trimmed.

    Also True for a topic that was deleted, because that is not a trim.
    """
    name = TopicName.parse(ledger_range.topic).managed_ledger_name
    try:
        info = await factory_of(store, ledgers).info(name)
    except ManagedLedgerNotFoundError:
        return True
    return any(ledger.ledger_id == ledger_range.ledger_id for ledger in info.ledgers)
