"""Start and end of a read in each topic: by place, time, or a subscription, which is not touched."""

import logging
from collections.abc import Sequence

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NoSuchLedgerError, ReadError
from engine.managed.errors import StoredRecordError
from engine.managed.positions import LedgerLine, LedgerSpan
from engine.managed.reading.entry_reader import open_entries
from engine.managed.reading.publish_times import publish_time
from engine.managed.stored.cursor_entries import last_readable
from engine.managed.stored.records import CursorRecord, CursorState
from engine.metadata import paths
from engine.metadata.store import MetadataStore, NoNodeError
from engine.offload.stores.obstore_stores import ConfiguredStores
from spark_jobs.pulsar_source.brokers.access import BrokerAccess
from spark_jobs.pulsar_source.brokers.entries import next_entry
from spark_jobs.pulsar_source.offsets import TopicLedgers
from spark_jobs.pulsar_source.options import EARLIEST, Bound, OptionError, Options
from spark_jobs.pulsar_source.partitions import LedgerRange

log = logging.getLogger(__name__)
CLOCKS_APART_MS = 3_600_000
"""Time by which the clock of a publisher may be ahead of a broker's, which notes when a ledger was closed."""


def check_places(options: Options, topics: Sequence[TopicName]) -> None:
    """Raise OptionError for a position that does not say of which of several topics it is, and for places of topics
    that are not selected."""
    names = {str(topic) for topic in topics}
    for edge, bound in (("starting", options.start), ("ending", options.end)):
        if isinstance(bound.everywhere, Position) and len(names) > 1:
            raise OptionError(
                f"option {edge}Offsets: a position is a place in one of the {len(names)} topics and partitions;"
                " name places by JSON"
            )
        if unknown := sorted(bound.places.keys() - names):
            raise OptionError(
                f"option {edge}Offsets: {unknown[0]} is not among the selected topics"
            )


async def ranges_of(
    options: Options,
    store: MetadataStore,
    ledgers: LedgerClient,
    known: TopicLedgers,
    brokers: BrokerAccess | None = None,
) -> list[LedgerRange]:
    """Return the entries of a topic that the options ask for, in order.

    For ``starting_subscription`` these are the entries that it has not acknowledged; a batch that is acknowledged in
    part is among them. Raises OptionError, LedgerError, the store's errors.
    """
    stop = await place_of(options.end, ledgers, known, options.password, brokers)
    if not options.starting_subscription:
        start = await place_of(options.start, ledgers, known, options.password, brokers)
        if options.published_ms is not None:
            known = known.closed_after(options.published_ms[0] - CLOCKS_APART_MS)
        return known.between(start, stop)
    state = await cursor_state(store, ledgers, known, options.starting_subscription)
    line = _line_of(known)
    acks = state.acks(line)
    ranges = []
    for first, behind in acks.holes.gaps(acks.mark, line.durable_to):
        ranges += known.between(line.position(first), min(stop, line.position(behind)))
    return ranges


async def start_of(
    options: Options,
    store: MetadataStore,
    ledgers: LedgerClient,
    known: TopicLedgers,
    brokers: BrokerAccess | None = None,
) -> Position:
    """Return the place where a stream begins to read a topic; for ``starting_subscription`` behind all that it has
    acknowledged without a gap."""
    if options.starting_subscription:
        state = await cursor_state(store, ledgers, known, options.starting_subscription)
        return Position(state.mark_delete[0], state.mark_delete[1] + 1)
    return await place_of(options.start, ledgers, known, options.password, brokers)


async def place_of(
    bound: Bound,
    ledgers: LedgerClient,
    known: TopicLedgers,
    password: bytes = b"",
    brokers: BrokerAccess | None = None,
) -> Position:
    """Return the place of a bound in a topic."""
    if bound.time_ms is not None:
        return await _place_of_time(bound.time_ms, ledgers, known, password, brokers)
    place = bound.places.get(known.topic, bound.everywhere)
    if isinstance(place, Position):
        return place
    return known.start if place == EARLIEST else known.end


async def _place_of_time(
    time_ms: int,
    ledgers: LedgerClient,
    known: TopicLedgers,
    password: bytes,
    brokers: BrokerAccess | None,
) -> Position:
    """Return the place of the first entry published at or after a time, by bisection: entries are assumed to be ordered
    by their time. An entry without readable metadata counts as older."""
    line = _line_of(known)
    extras = {ledger.ledger_id: ledger.extra for ledger in known.ledgers}
    objects = ConfiguredStores(None)
    through = brokers.client() if brokers is not None and brokers.alone else None

    async def entry_at(place: Position) -> tuple[Position, bytes] | None:
        """Return the entry at a place, through brokers the next one that is delivered; None when none follows."""
        nonlocal through
        if through is None:
            span = LedgerSpan(place.ledger_id, extra=extras[place.ledger_id])
            try:
                reader = await open_entries(
                    ledgers, span, owner=False, password=password, objects=objects
                )
                [run, *_] = await reader.read(place.entry_id, place.entry_id, 1)
                return place, run.entry(0)
            except ReadError as error:
                if brokers is None or not error.retriable:
                    raise
                log.warning("a broker is asked for times of %s: %s", known.topic, error)
                through = brokers.client()
        return await next_entry(through, known.between(place, known.end))

    low, high = line.base, line.durable_to
    while low < high:
        middle = (low + high) // 2
        entry = await entry_at(line.position(middle))
        if entry is None:
            high = middle
            continue
        place, stored = entry
        try:
            published_ms = publish_time(stored)
        except StoredRecordError:
            published_ms = -1
        if published_ms < time_ms:
            low = line.ordinal_after(place)
        else:
            high = middle
    return line.position(low)


def _line_of(known: TopicLedgers) -> LedgerLine:
    return LedgerLine([LedgerSpan(ledger.ledger_id, ledger.entries) for ledger in known.ledgers])


async def cursor_state(
    store: MetadataStore, ledgers: LedgerClient, known: TopicLedgers, subscription: str
) -> CursorState:
    """Return the stored state of a durable subscription, without touching it. Raises OptionError when there is none."""
    name = TopicName.parse(known.topic).managed_ledger_name
    try:
        value, _ = await store.get(paths.cursor(name, subscription))
    except NoNodeError as error:
        raise OptionError(
            f"option startingSubscription: {known.topic} has no durable subscription {subscription}"
        ) from error
    record = CursorRecord.decode(value)
    if record.ledger_id < 0:
        return record.state
    try:
        reader = await ledgers.open(record.ledger_id, recover=False, unconfirmed=True)
    except NoSuchLedgerError:
        return record.state
    return await last_readable(reader, lambda why: None) or record.state
