"""Lookup of the ledgers of topics, and the division of their entries. Runs on the driver and in tasks.

No ledger is fenced: the metadata store lists the ledgers, and bookies report how far the one that is being written is
confirmed; a broker, where the options say so.
"""

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from engine.base.names import TopicName
from engine.broker.transactions.buffer.snapshots import TOPICS
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NoSuchLedgerError, ReadError
from engine.managed.stored.records import LogRecord
from engine.metadata import paths
from engine.metadata.incomplete import check_complete
from engine.metadata.store import MetadataStore, NoNodeError
from spark_jobs.pulsar_source.bounds import check_places, ranges_of
from spark_jobs.pulsar_source.brokers.access import BrokerAccess
from spark_jobs.pulsar_source.brokers.entries import last_position
from spark_jobs.pulsar_source.committed import CommittedEnds
from spark_jobs.pulsar_source.connection import link_to
from spark_jobs.pulsar_source.offsets import StoredLedger, TopicLedgers
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange, newest, plan
from spark_jobs.pulsar_source.patience import patiently
from spark_jobs.pulsar_source.topics import find_topics

log = logging.getLogger(__name__)
AT_ONCE = 32
"""Topics whose ledgers are looked up at the same time."""


def plan_topics(options: Options) -> list[LedgerRange]:
    """Return the ranges to read, topic after topic in order, up to the entries stored now. Blocks.

    Raises OptionError when a named topic, namespace, tenant or subscription does not exist, IncompleteStoreError.
    """
    link = link_to(options.stores)
    return link.run(_plan(options, link.store, link.ledgers, link.brokers(options)))


async def _plan(
    options: Options,
    store: MetadataStore,
    ledgers: LedgerClient,
    brokers: BrokerAccess | None = None,
) -> list[LedgerRange]:
    await check_complete(store)
    topics = await find_topics(store, options.selection)
    check_places(options, topics)
    ranges: list[LedgerRange] = []
    seen = await look_at(store, ledgers, topics, brokers, confirmed=False)
    committed = CommittedEnds(options.password)
    for known in await look_at_committed(store, ledgers, seen, brokers, committed):
        wanted = await ranges_of(options, store, ledgers, known, brokers)
        ranges += newest(wanted, options.last_entries)
    return plan(
        ranges,
        options.entries_per_partition,
        options.bytes_per_partition,
        options.partitions_min,
    )


async def look_at(
    store: MetadataStore,
    ledgers: LedgerClient,
    topics: Iterable[TopicName],
    brokers: BrokerAccess | None = None,
    *,
    confirmed: bool,
) -> list[TopicLedgers]:
    """Return the ledgers of those topics that exist; see ``ledgers_of``."""
    names = list(topics)
    seen: list[TopicLedgers] = []
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        reads = (
            partial(ledgers_of, store, ledgers, name, brokers, confirmed=confirmed) for name in some
        )
        # Through brokers a read is repeated when the last ledger was closed meanwhile.
        looks = (read() if brokers is None else patiently(read) for read in reads)
        seen += [known for known in await asyncio.gather(*looks) if known is not None]
    return seen


async def look_at_committed(
    store: MetadataStore,
    ledgers: LedgerClient,
    seen: Iterable[TopicLedgers],
    brokers: BrokerAccess | None,
    committed: CommittedEnds,
) -> list[TopicLedgers]:
    """Return topics without the entries from the first one of an open transaction on, with the aborted ones.

    Where only brokers are read, they leave out what is not committed. Raises as ``CommittedEnds.apply``.
    """
    topics = list(seen)
    if brokers is not None and brokers.alone:
        return topics
    spaces = {TopicName.parse(known.topic).namespace for known in topics}
    named = [space.topic(local) for space in spaces for local in TOPICS]
    snapshots = await look_at(store, ledgers, named, brokers, confirmed=False)
    return await committed.apply(store, ledgers, topics, snapshots)


async def ledgers_of(
    store: MetadataStore,
    ledgers: LedgerClient,
    topic: TopicName,
    brokers: BrokerAccess | None = None,
    *,
    confirmed: bool,
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
            end = await _end_of(ledgers, topic, number, brokers, confirmed=confirmed)
        except NoSuchLedgerError:
            continue  # deleted since the record was read
        stored.append(StoredLedger(number, *end, extra))
    return TopicLedgers(str(topic), topic.partition, stat.creation, tuple(stored))


async def _end_of(
    ledgers: LedgerClient,
    topic: TopicName,
    ledger_id: int,
    brokers: BrokerAccess | None,
    *,
    confirmed: bool,
) -> tuple[int, int]:
    """Return the number of entries of a ledger that was open, and their bytes, 0 where they are not known."""
    if brokers is None or not brokers.alone:
        try:
            reader = await ledgers.open(ledger_id, recover=False, unconfirmed=not confirmed)
            return reader.last_confirmed + 1, reader.length
        except ReadError as error:
            if brokers is None or not error.retriable:
                raise
            log.warning("a broker is asked for the end of %s: %s", topic, error)
    last = await last_position(brokers.client(), str(topic))
    if last.entry_id < 0 or last.ledger_id < ledger_id:
        return 0, 0
    if last.ledger_id > ledger_id:
        raise ReadError(f"ledger {ledger_id} of {topic} was closed while its end was asked for")
    return last.entry_id + 1, 0


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
