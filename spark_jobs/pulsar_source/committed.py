"""The committed messages of topics: the end before the first open transaction, and the aborted transactions.

Both are found as a broker finds them when it loads a topic: in the topic's newest snapshot, and in the entries behind
it. No broker is needed. Brokers that deliver entries leave out what is not committed.
"""

from collections.abc import AsyncIterator, Collection, Iterable
from dataclasses import dataclass, field, replace

from engine.base.ids import Position
from engine.base.names import NamespaceName, TopicName
from engine.base.slices import Slice
from engine.broker.compaction.kept_entries import kept_entries
from engine.broker.transactions.buffer.open_transactions import OpenTransactions
from engine.broker.transactions.buffer.snapshots import (
    INDEXES,
    SEGMENTS,
    SINGLE,
    TOPICS,
    BufferSnapshot,
    read_stored,
    segments_of,
)
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.positions import LedgerSpan
from engine.managed.reading.entry_reader import open_entries
from engine.managed.stored.cursor_entries import last_readable
from engine.managed.stored.records import COMPACTED_LEDGER, CursorRecord
from engine.metadata import paths
from engine.metadata.records import Document
from engine.metadata.store import MetadataStore, NoNodeError
from engine.wire.batches import read_metadata, unpack_entry
from engine.wire.kernels import tagged
from spark_jobs.pulsar_source.offsets import TopicLedgers
from spark_jobs.pulsar_source.partitions import LedgerRange

READ_BYTES = 4 << 20
COMPACTION = "__compaction"
Values = dict[str, dict[str, bytes]]
"""Newest values of a namespace's system topics, by local name and key."""
_TRANSACTION = (b"\xb8\x01",)
"""Tag of txnid_most_bits, field 23."""


@dataclass(slots=True)
class _Topic:
    """Transactions of a topic, ``creation`` of which is that of its ledgers, as of the entries before ``at``."""

    creation: int
    transactions: OpenTransactions
    at: Position


@dataclass(slots=True)
class _Snapshots:
    """Newest values by topic, as of the entries of the system topic before ``at``."""

    creation: int
    at: Position
    values: dict[str, bytes] = field(default_factory=dict)


class CommittedEnds:
    """The committed ends of topics. What was read once is kept for the next call."""

    def __init__(self, password: bytes = b"") -> None:
        self._password = password
        self._snapshots: dict[str, _Snapshots] = {}
        self._topics: dict[str, _Topic] = {}

    async def apply(
        self,
        store: MetadataStore,
        ledgers: LedgerClient,
        seen: Iterable[TopicLedgers],
        snapshots: Iterable[TopicLedgers],
    ) -> list[TopicLedgers]:
        """Return topics up to the first entry of an open transaction, with their aborted ones.

        ``snapshots``: those system topics of their namespaces that exist. Raises LedgerError, AvroError,
        MissingSegmentError, the store's errors.
        """
        values: dict[NamespaceName, Values] = {}
        for stored in snapshots:
            name = TopicName.parse(stored.topic)
            newest = await self._values(store, ledgers, stored)
            values.setdefault(name.namespace, {})[name.local] = newest
        topics: list[TopicLedgers] = []
        for known in seen:
            of_space = values.get(TopicName.parse(known.topic).namespace)
            topics.append(
                known if of_space is None else await self._committed(ledgers, known, of_space)
            )
        return topics

    async def _values(
        self,
        store: MetadataStore,
        ledgers: LedgerClient,
        stored: TopicLedgers,
    ) -> dict[str, bytes]:
        """Return the newest values of a system topic by key."""
        known = self._snapshots.get(stored.topic)
        if known is None or known.creation != stored.creation:
            known = self._snapshots[stored.topic] = _Snapshots(stored.creation, stored.start)
            async for run, _ in self._compacted(store, ledgers, stored):
                for _, first, stop in kept_entries(run):
                    _take(run.buf[first:stop], known.values)
        async for run, _ in self._entries(ledgers, stored.between(known.at)):
            for i in range(run.count):
                _take(run.entry(i), known.values)
        known.at = stored.end
        return known.values

    async def _compacted(
        self, store: MetadataStore, ledgers: LedgerClient, stored: TopicLedgers
    ) -> AsyncIterator[tuple[Slice, LedgerRange]]:
        """Yield what a compaction of the system topic kept."""
        name = TopicName.parse(stored.topic).managed_ledger_name
        try:
            value, _ = await store.get(paths.cursor(name, COMPACTION))
        except NoNodeError:
            return
        record = CursorRecord.decode(value)
        state = record.state
        if record.ledger_id >= 0:
            try:
                reader = await ledgers.open(record.ledger_id, recover=False, unconfirmed=True)
                state = await last_readable(reader, lambda why: None) or state
            except NoSuchLedgerError:
                state = record.state
        ledger_id = state.properties.get(COMPACTED_LEDGER, -1)
        if ledger_id < 0:
            return
        compacted = await ledgers.open(ledger_id, recover=False)
        whole = LedgerRange(ledger_id, 0, compacted.last_confirmed)
        async for part in self._entries(ledgers, [whole]):
            yield part

    async def _committed(
        self, ledgers: LedgerClient, known: TopicLedgers, values: Values
    ) -> TopicLedgers:
        topic = self._topics.get(known.topic)
        if topic is None or topic.creation != known.creation:
            snapshot = _snapshot_of(known.topic, values, known.start)
            if snapshot is None:
                return known
            start = Position(snapshot.max_read.ledger_id, snapshot.max_read.entry_id + 1)
            topic = _Topic(known.creation, OpenTransactions(snapshot.aborted), start)
            self._topics[known.topic] = topic
        async for run, ledger_range in self._entries(ledgers, known.between(topic.at)):
            topic.transactions.read(run, range(run.count))
            topic.at = Position(ledger_range.ledger_id, run.first + run.count)
        limit = topic.transactions.limit
        known = replace(known, aborted=frozenset(topic.transactions.aborted))
        return known if limit is None else known.before(limit)

    async def _entries(
        self, ledgers: LedgerClient, ranges: Iterable[LedgerRange]
    ) -> AsyncIterator[tuple[Slice, LedgerRange]]:
        for ledger_range in ranges:
            span = LedgerSpan(ledger_range.ledger_id, extra=ledger_range.extra)
            reader = await open_entries(ledgers, span, owner=False, password=self._password)
            at = ledger_range.first
            while at <= ledger_range.last:
                for run in await reader.read(at, ledger_range.last, READ_BYTES):
                    at = run.first + run.count
                    yield run, ledger_range


def _snapshot_of(topic: str, values: Values, first: Position) -> BufferSnapshot | None:
    """Return the newest snapshot of a topic whose first entry is at ``first``, in whatever form it is stored."""

    def value(local: str, key: str) -> Document | None:
        stored = values.get(local, {}).get(key)
        return None if stored is None else TOPICS[local].types.decode(stored)

    index = value(INDEXES, topic)
    keys = [] if index is None else [segment.key(topic) for segment in segments_of(index)]
    segments = {key: value(SEGMENTS, key) for key in keys}
    kept = {key: segment for key, segment in segments.items() if segment is not None}
    return read_stored(topic, value(SINGLE, topic), index, kept, first)


def _take(entry: bytes, values: dict[str, bytes]) -> None:
    """Note the snapshots in an entry of a system topic."""
    for message in unpack_entry(entry).messages:
        if message.key is None or message.compacted_out:
            continue
        if message.value:
            values[message.key] = message.value
        else:
            values.pop(message.key, None)


def without_aborted(runs: Iterable[Slice], aborted: Collection[tuple[int, int]]) -> list[Slice]:
    """Return the entries of ``runs`` without the messages of ``aborted`` transactions, as slices without gaps."""
    kept: list[Slice] = []
    for run in runs:
        left_out = [i for i in tagged(run.buf, run.spans, _TRANSACTION) if _is_of(run, i, aborted)]
        start = 0
        for stop in [*left_out, run.count]:
            if start < stop:
                kept.append(_part(run, start, stop))
            start = stop + 1
    return kept


def _is_of(run: Slice, i: int, aborted: Collection[tuple[int, int]]) -> bool:
    metadata = read_metadata(run.entry(i))
    return (
        metadata is not None
        and metadata.HasField("txnid_most_bits")
        and (metadata.txnid_most_bits, metadata.txnid_least_bits) in aborted
    )


def _part(run: Slice, start: int, stop: int) -> Slice:
    if stop - start == run.count:
        return run
    spans, counts = run.spans[2 * start : 2 * stop], run.counts
    size = run.size_of(start, stop)
    counts = None if counts is None else counts[start:stop]
    return Slice(run.buf, spans, size, counts, run.ledger_id, run.first + start)
