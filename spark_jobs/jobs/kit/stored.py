"""The stored facts of topics: ledgers, where they lie, and subscriptions with their acknowledgements.

They are read from the metadata store and from the last entries of cursors' ledgers; no owner is fenced, and no broker
is asked. A subscription's state is the stored one, which lags its broker's by what was not persisted yet.
"""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass
from typing import Any

from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError, NoSuchLedgerError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.managed.errors import ManagedLedgerNotFoundError, StoredRecordError
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.stored.cursor_entries import last_readable
from engine.managed.stored.offloads import offload_of
from engine.managed.stored.records import CursorRecord, CursorState
from engine.managed.stored.survey import survey
from engine.metadata.incomplete import check_complete
from engine.metadata.store import MetadataStore
from spark_jobs.jobs.kit.progress import PLANNING, Report
from spark_jobs.pulsar_source.connection import link_to
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.topics import find_topics

AT_ONCE = 32
"""Topics, and ledgers of a topic, that are looked up at the same time."""


@dataclass(frozen=True, slots=True)
class StoredLedger:
    """A ledger of a topic. ``closed_ms``: time of its close, 0 while it accepts entries.

    ``offloaded``: a complete copy is in tiered storage; ``on_bookies``: the bookies have it. ``metadata``: None when it
    is not stored any more. ``extra``: as ``LedgerSpan.extra``.
    """

    ledger_id: int
    entries: int
    size: int
    closed_ms: int
    offloaded: bool
    on_bookies: bool
    metadata: LedgerMetadata | None
    extra: bytes = b""

    @property
    def stored_bytes(self) -> int:
        """Bytes of all copies on bookies."""
        return sum(self.bytes_by_bookie().values())

    def bytes_by_bookie(self) -> dict[str, int]:
        """Return the bytes on each bookie, as if all entries were equally large and evenly spread."""
        if self.metadata is None or not self.on_bookies or not self.entries:
            return {}
        shares: dict[str, float] = {}
        segments = self.metadata.segments
        ends = [segment.first for segment in segments[1:]] + [self.entries]
        for segment, end in zip(segments, ends, strict=True):
            entries = max(min(end, self.entries) - segment.first, 0)
            copies = self.metadata.write_quorum / len(segment.bookies)
            for bookie in segment.bookies:
                share = self.size * entries / self.entries * copies
                shares[bookie] = shares.get(bookie, 0) + share
        return {bookie: round(share) for bookie, share in shares.items()}


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """A subscription's stored state. ``state``: None where it cannot be read, for the reason ``problem``."""

    name: str
    state: CursorState | None
    last_active_ms: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class StoredTopic:
    """The stored facts of a topic, or of one partition. ``doomed``: ledgers that are no more the topic's, and that may
    not be deleted yet."""

    name: str
    ledgers: tuple[StoredLedger, ...]
    subscriptions: tuple[StoredSubscription, ...]
    doomed: tuple[StoredLedger, ...] = ()

    def line(self) -> LedgerLine:
        """Return the topic's entries in one line, for arithmetic with positions."""
        return LedgerLine(
            [
                LedgerSpan(item.ledger_id, item.entries, item.size, item.closed_ms)
                for item in self.ledgers
            ]
        )


def stored_topics(
    options: Options, progress: Report, *, placement: bool = False
) -> list[StoredTopic]:
    """Return the facts of the selected topics, in order. ``placement``: read where ledgers lie, and doomed ones.
    Blocks.

    Raises OptionError when what is named does not exist, IncompleteStoreError, StoreUnavailableError.
    """
    progress(PLANNING, 0, 0)
    link = link_to(options.stores)
    link.run(check_complete(link.store))
    names = link.run(find_topics(link.store, options.selection))
    topics: list[StoredTopic] = []
    for start in range(0, len(names), AT_ONCE):
        some = names[start : start + AT_ONCE]
        calls = (_stored_topic(link.store, link.ledgers, name, placement) for name in some)
        topics += [topic for topic in link.run(_in_turn(calls)) if topic is not None]
        # Outside of the event loop, in which a worker cannot store the progress.
        progress(PLANNING, min(start + AT_ONCE, len(names)), len(names))
    return topics


async def _stored_topic(
    store: MetadataStore, ledgers: LedgerClient, name: TopicName, placement: bool
) -> StoredTopic | None:
    """Return a topic's facts; None for a partition that was never used, or a topic deleted meanwhile."""
    try:
        stored = await survey(store, name.managed_ledger_name)
    except ManagedLedgerNotFoundError:
        return None
    spans = await _in_turn(_ledger(ledgers, span, placement) for span in stored.record.ledgers)
    dropped = stored.record.doomed if placement else []
    doomed = await _in_turn(_ledger(ledgers, LedgerSpan(item), placement) for item in dropped)
    subscriptions = await _in_turn(
        _subscription(ledgers, title, record) for title, (record, _) in stored.cursors.items()
    )
    return StoredTopic(
        str(name),
        tuple(item for item in spans if item is not None),
        tuple(sorted(subscriptions, key=lambda item: item.name)),
        tuple(item for item in doomed if item is not None),
    )


async def _in_turn(calls: Iterable[Awaitable[Any]]) -> list[Any]:
    waiting = list(calls)
    done: list[Any] = []
    for start in range(0, len(waiting), AT_ONCE):
        done += await asyncio.gather(*waiting[start : start + AT_ONCE])
    return done


async def _ledger(ledgers: LedgerClient, span: LedgerSpan, placement: bool) -> StoredLedger | None:
    """Return a ledger; None when an open or doomed one does not exist any more."""
    offload = offload_of(span)
    entries, size = span.entries, span.size
    metadata: LedgerMetadata | None = None
    try:
        if not span.timestamp_ms:
            reader = await ledgers.open(span.ledger_id, recover=False, unconfirmed=True)
            entries, size = reader.last_confirmed + 1, reader.length
        if placement:
            metadata = await ledgers.metadata(span.ledger_id)
    except NoSuchLedgerError:
        if not span.timestamp_ms:
            return None
    on_bookies = not offload.deleted_from_bookies
    closed_ms = span.timestamp_ms
    offloaded = offload.complete
    return StoredLedger(
        span.ledger_id, entries, size, closed_ms, offloaded, on_bookies, metadata, span.extra
    )


async def _subscription(
    ledgers: LedgerClient, name: str, record: CursorRecord
) -> StoredSubscription:
    """Return a subscription with its newest stored state."""
    if record.ledger_id < 0:
        return StoredSubscription(name, record.state, record.last_active_ms)
    lost: list[str] = []
    try:
        reader = await ledgers.open(record.ledger_id, recover=False, unconfirmed=True)
        state = await last_readable(reader, lost.append)
    except (LedgerError, StoredRecordError) as error:
        return StoredSubscription(name, None, record.last_active_ms, str(error))
    if state is None:
        return StoredSubscription(name, None, record.last_active_ms, "; ".join(lost))
    return StoredSubscription(name, state, record.last_active_ms)
