"""Lookup of the ledgers of topics, and the division of their entries. Runs on the driver and in tasks.

No broker takes part and no ledger is fenced: the metadata store lists the ledgers, and bookies report how far the one
that is being written is confirmed.
"""

import asyncio
from collections.abc import Iterable

from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.metadata.incomplete import check_complete
from engine.metadata.store import MetadataStore, NoNodeError
from spark_jobs.pulsar_source.bounds import check_places, ranges_of
from spark_jobs.pulsar_source.connection import link_to
from spark_jobs.pulsar_source.offsets import StoredLedger, TopicLedgers
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange, newest, plan
from spark_jobs.pulsar_source.topics import find_topics

AT_ONCE = 32
"""Topics whose ledgers are looked up at the same time."""


def plan_topics(options: Options) -> list[LedgerRange]:
    """Return the ranges to read, topic after topic in order, up to the entries stored now. Blocks.

    Raises OptionError when a named topic, namespace, tenant or subscription does not exist, IncompleteStoreError.
    """
    link = link_to(options.stores)
    return link.run(_plan(options, link.store, link.ledgers))


async def _plan(options: Options, store: MetadataStore, ledgers: LedgerClient) -> list[LedgerRange]:
    await check_complete(store)
    topics = await find_topics(store, options.selection)
    check_places(options, topics)
    ranges: list[LedgerRange] = []
    for known in await look_at(store, ledgers, topics, confirmed=False):
        wanted = await ranges_of(options, store, ledgers, known)
        ranges += newest(wanted, options.last_entries)
    return plan(
        ranges,
        options.entries_per_partition,
        options.bytes_per_partition,
        options.partitions_min,
    )


async def look_at(
    store: MetadataStore, ledgers: LedgerClient, topics: Iterable[TopicName], *, confirmed: bool
) -> list[TopicLedgers]:
    """Return the ledgers of those topics that exist; see ``ledgers_of``."""
    names = list(topics)
    seen: list[TopicLedgers] = []
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        looks = (ledgers_of(store, ledgers, name, confirmed=confirmed) for name in some)
        seen += [known for known in await asyncio.gather(*looks) if known is not None]
    return seen


async def ledgers_of(
    store: MetadataStore, ledgers: LedgerClient, topic: TopicName, *, confirmed: bool
) -> TopicLedgers | None:
    """Return a topic's ledgers; None for one that was never used or is deleted.

    ``confirmed``: leave out entries at the end that an ack quorum stores, but whose confirmation bookies do not know.
    Raises StoredRecordError, ReadError, the store's errors.
    """
    try:
        value, stat = await store.get(paths.managed_ledger(topic.managed_ledger_name))
    except NoNodeError:
        return None
    record = LogRecord.decode(value)
    if record.deleted:
        return None
    stored = []
    for span in record.ledgers:
        number, extra = span.ledger_id, span.extra
        if span.timestamp_ms:
            stored.append(StoredLedger(number, span.entries, span.size, extra, span.timestamp_ms))
            continue
        try:
            reader = await ledgers.open(number, recover=False, unconfirmed=not confirmed)
        except NoSuchLedgerError:
            continue  # deleted since the record was read
        stored.append(StoredLedger(number, reader.last_confirmed + 1, reader.length, extra))
    return TopicLedgers(str(topic), topic.partition, stat.creation, tuple(stored))


async def is_listed(store: MetadataStore, ledger_range: LedgerRange) -> bool:
    """Return whether the topic still has the ledger of a planned range; without it the range was trimmed.

    Also True for a topic that was deleted, because that is not a trim.
    """
    name = TopicName.parse(ledger_range.topic).managed_ledger_name
    try:
        value, _ = await store.get(paths.managed_ledger(name))
    except NoNodeError:
        return True
    record = LogRecord.decode(value)
    ids = {ledger.ledger_id for ledger in record.ledgers}
    return record.deleted or ledger_range.ledger_id in ids
