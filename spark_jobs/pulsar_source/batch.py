"""Reading of ledgers' ranges: entries from the bookies or through brokers, opened into columns and joined into rows
for Spark."""

import asyncio
import logging
from collections.abc import Collection, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.base.errors import MagnetarError
from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import NoSuchEntryError, NoSuchLedgerError, ReadError
from engine.managed.positions import LedgerSpan
from engine.managed.reading.entry_reader import EntryReader, open_entries
from engine.metadata.store import MetadataStore, StoreUnavailableError
from engine.offload.errors import MissingObjectError
from engine.offload.stores.obstore_stores import ConfiguredStores
from engine.schema.offloader import Offloader
from engine.schema.stored_versions import StoredVersions
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import BatchFormatError
from spark_jobs.pulsar_source.brokers.access import BrokerAccess
from spark_jobs.pulsar_source.brokers.entries import BrokerEntries
from spark_jobs.pulsar_source.columns import ENTRIES, EntryColumns, EntryKind, Opened
from spark_jobs.pulsar_source.committed import without_aborted
from spark_jobs.pulsar_source.connection import link_to
from spark_jobs.pulsar_source.decoded import Decoded, TopicSchemas
from spark_jobs.pulsar_source.options import Options
from spark_jobs.pulsar_source.partitions import LedgerRange
from spark_jobs.pulsar_source.patience import BRIEF_WAITS_S, patiently
from spark_jobs.pulsar_source.planning import is_listed

log = logging.getLogger(__name__)
READ_BYTES = 4 << 20
TAIL_WAITS_S = (0.1, 0.3, 1.0)
"""Seconds between the attempts to read an entry at the end of an open ledger."""
_TIMES = {
    **{"publish_time": "publish_ms", "event_time": "event_ms"},
    **{"__publishTime": "publish_ms", "__eventTime": "event_ms"},
}
SOURCES = {
    **_TIMES,
    **{"__key": "key_bytes", "__messageProperties": "properties", "__messageId": "batch_index"},
}
"""Names of the columns from which others are made."""
_TIMESTAMP = pa.timestamp("us", tz="UTC")


class TrimmedError(Exception):
    """Entries of a range were trimmed after planning: all subscriptions had acknowledged them, and retention had ended.

    ``entries``: how many were not read.
    """

    def __init__(self, ledger_range: LedgerRange, next_entry: int) -> None:
        self.entries = ledger_range.last - next_entry + 1
        super().__init__(
            f"entries {next_entry} to {ledger_range.last} of ledger {ledger_range.ledger_id} were trimmed while"
            f" {ledger_range.topic} was read: they were acknowledged, and retention keeps them no longer; to read what"
            " is left set option failOnDataLoss to false"
        )


def read_range(options: Options, ledger_range: LedgerRange) -> Iterator[pa.RecordBatch]:
    """Yield rows of at most about columns.ROWS_MAX messages, with the columns of ``options``.

    Raises LedgerError when an entry of the range cannot be read, BatchFormatError when one is not a Pulsar entry.
    Raises TrimmedError when entries were trimmed meanwhile, unless the options allow data loss.
    """
    try:
        yield from _rows_of_range(options, ledger_range)
    except TrimmedError as error:
        if options.fail_on_data_loss:
            raise
        log.warning("%s", error)


def _rows_of_range(options: Options, ledger_range: LedgerRange) -> Iterator[pa.RecordBatch]:
    columns = {SOURCES.get(name, name) for name in options.columns}
    schemas = None
    if {"decoded", "decode_error"} & columns:
        schemas = TopicSchemas(ledger_range.topic)
        columns |= schemas.wanted
    of_entries = columns | ({"entry_id"} if "__messageId" in options.columns else set())
    for opened in open_range(options, ledger_range, columns, schemas, of_entries):
        if opened.problem:
            raise BatchFormatError(
                f"{ledger_range.topic}, ledger {ledger_range.ledger_id}, {opened.problem}"
            )
        if schemas is None:
            yield rows(opened, ledger_range, options.columns)
        else:
            for start, decoded in schemas.decoded(opened):
                yield rows(opened, ledger_range, options.columns, start, decoded)


def open_range(
    options: Options,
    ledger_range: LedgerRange,
    wanted: Collection[str],
    schemas: TopicSchemas | None = None,
    of_entries: Collection[str] = ENTRIES.names,
) -> Iterator[Opened]:
    """Yield all entries of the range with the columns ``of_entries``, and the ``wanted`` columns of messages.

    ``schemas`` are loaded with the versions of each item before it is yielded. Raises LedgerError when an entry cannot
    be read. When part of the range was trimmed, raises TrimmedError after the entries before that part. An entry that
    cannot be decoded has the kind UNREADABLE.
    """
    link = link_to(options.stores)
    stored = StoredVersions(link.store, link.ledgers, Offloader())
    columns = EntryColumns(wanted, options.published_ms, of_entries)
    entries = RangeEntries(
        link.store, link.ledgers, ledger_range, options.password, link.brokers(options)
    )
    trimmed: TrimmedError | None = None

    def loaded(opened: Opened) -> Opened:
        if schemas is not None:
            link.run(schemas.load(opened, stored, link.brokers(options)))
        return opened

    reading = link.start(entries.next())
    try:
        while runs := reading.result():
            reading = link.start(entries.next())  # while these are opened and Spark consumes them
            for run in runs:
                yield from map(loaded, columns.add(run))
    except TrimmedError as error:
        trimmed = error
    finally:
        reading.cancel()
        link.start(entries.close())
    if not columns.empty:
        yield loaded(columns.take())
    if trimmed is not None:
        raise trimmed


class RangeEntries:
    """The entries of a range, read in order, a few MB at a time."""

    def __init__(
        self,
        store: MetadataStore,
        ledgers: LedgerClient,
        ledger_range: LedgerRange,
        password: bytes = b"",
        brokers: BrokerAccess | None = None,
    ) -> None:
        self._store = store
        self._ledgers = ledgers
        self._range = ledger_range
        self._password = password
        self._next = ledger_range.first
        self._reader: EntryReader | None = None
        self._brokers = brokers
        self._delivered: BrokerEntries | None = None
        self._objects = ConfiguredStores(None)

    async def next(self) -> list[Slice]:
        """Return the next entries, none at the end. Raises TrimmedError; LedgerError and the errors of a client of
        brokers, which name topic and entry."""
        while self._next <= self._range.last:
            runs = await self._read_next()
            if self._range.aborted:
                runs = without_aborted(runs, self._range.aborted)
            if runs:
                return runs
        return []

    async def _read_next(self) -> list[Slice]:
        if self._delivered is None and not (self._brokers and self._brokers.alone):
            try:
                return await self._of_bookies()
            except (ReadError, StoreUnavailableError) as error:
                if self._brokers is None or not error.retriable:
                    raise
                log.warning("brokers are read through, because bookies do not answer: %s", error)
        return await self._of_brokers()

    async def _of_brokers(self) -> list[Slice]:
        assert self._brokers is not None
        if self._delivered is None:
            self._delivered = BrokerEntries(self._brokers.client(), self._range)
        try:
            runs = await self._delivered.read(self._next)
        except MagnetarError as error:
            error.add_note(f"while {self._range.topic} was read from entry {self._next} on")
            raise
        if not runs and not await is_listed(self._store, self._range):
            raise TrimmedError(self._range, self._next)
        # Markers at the end of a range are not delivered.
        self._next = runs[-1].last + 1 if runs else self._range.last + 1
        return runs

    async def _of_bookies(self) -> list[Slice]:
        waits = iter(TAIL_WAITS_S)
        waits_s = None if self._brokers is None else BRIEF_WAITS_S
        while True:
            try:
                runs = await patiently(self._read, waits_s)
                break
            except (NoSuchLedgerError, NoSuchEntryError, MissingObjectError, ReadError) as error:
                if not await is_listed(self._store, self._range):
                    raise TrimmedError(self._range, self._next) from error
                wait_s = next(waits, None) if isinstance(error, NoSuchEntryError) else None
                if wait_s is None:
                    error.add_note(f"while {self._range.topic} was read from entry {self._next} on")
                    raise
            # The bookies that answered first may not know the end of an open ledger yet.
            self._reader = None
            await asyncio.sleep(wait_s)
        self._next = runs[-1].first + runs[-1].count
        return runs

    async def _read(self) -> list[Slice]:
        if self._reader is None:
            span = LedgerSpan(self._range.ledger_id, extra=self._range.extra)
            self._reader = await open_entries(
                self._ledgers, span, owner=False, password=self._password, objects=self._objects
            )
        return await self._reader.read(self._next, self._range.last, READ_BYTES)

    async def close(self) -> None:
        """Leave the broker, if one is read through."""
        if self._delivered is not None:
            self._delivered.close()


def rows(
    opened: Opened,
    ledger_range: LedgerRange,
    names: Collection[str],
    start: int = 0,
    decoded: Decoded | None = None,
) -> pa.RecordBatch:
    """Return one row per message: from ``start`` as many as are ``decoded``, or all. Each row repeats the
    values of the message's entry."""
    messages = opened.messages
    of_message = pa.array(opened.entry_of_message())
    if decoded is not None:
        count = len(decoded.values)
        of_message, messages = of_message.slice(start, count), messages.slice(start, count)
    count = len(of_message)
    builders = {
        "ledger_id": lambda: pa.repeat(pa.scalar(ledger_range.ledger_id, pa.int64()), count),
        **dict.fromkeys(
            ("topic", "__topic"),
            lambda: pa.repeat(pa.scalar(ledger_range.topic, pa.string()), count),
        ),
        "__messageId": lambda: _message_ids(opened, ledger_range, of_message, messages),
        "partition": lambda: pa.repeat(pa.scalar(ledger_range.partition, pa.int32()), count),
        "encrypted": lambda: _is(opened, EntryKind.ENCRYPTED).take(of_message),
        "sequence_id": lambda: messages["sequence_id"].cast(pa.int64(), safe=False),
        "decoded": lambda: pa.array(decoded.values if decoded else (), pa.string()),
        "decode_error": lambda: pa.array(decoded.errors if decoded else (), pa.string()),
    }

    def column(name: str) -> Any:
        if name in builders:
            return builders[name]()
        source_name = SOURCES.get(name, name)
        of_entry = source_name in ENTRIES.names
        values = opened.entries[source_name].take(of_message) if of_entry else messages[source_name]
        return pc.multiply(values, 1000).cast(_TIMESTAMP) if name in _TIMES else values

    return pa.RecordBatch.from_arrays([column(name) for name in names], names=list(names))


def _is(opened: Opened, kind: EntryKind) -> Any:
    return pc.equal(opened.entries["kind"], pa.scalar(int(kind), pa.int8()))


def _message_ids(opened: Opened, ledger_range: LedgerRange, of_message: Any, messages: Any) -> Any:
    """Return Pulsar's encoding of the messages' ids."""
    entries = opened.entries["entry_id"].take(of_message).to_pylist()
    ids = [
        pb.MessageIdData(
            ledgerId=ledger_range.ledger_id,
            entryId=entry_id,
            partition=ledger_range.partition,
            batch_index=index,
        ).SerializeToString()
        for entry_id, index in zip(entries, messages["batch_index"].to_pylist(), strict=True)
    ]
    return pa.array(ids, pa.binary())
