"""The managed ledger of a shadow topic: the ledgers of its source topic, read only, with cursors of its own (PIP-180,
M19).

Which ledgers there are is read from the source's record, which is watched. The end of the ledger that the source is
writing is read from the bookies when the log opens: what an ack quorum stores counts, so that nothing that a cursor
passed is missing. Later the source's broker states it (``reached``). The record of the shadow topic itself lists no
ledgers. Its owner writes it when it opens, so that an earlier owner is fenced.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence

from engine.base.backoff import Backoff
from engine.base.errors import WorldError
from engine.base.ids import EARLIEST, Position
from engine.base.names import SHADOW_SOURCE, TopicName
from engine.base.slices import Slice
from engine.ledger.errors import LedgerError, NoSuchLedgerError
from engine.managed.errors import ShadowTopicError, StoredRecordError
from engine.managed.ledger import ManagedLedger
from engine.managed.positions import LedgerSpan
from engine.managed.reading.entry_reader import EntryReader, open_entries
from engine.managed.reading.reads import LedgerReads
from engine.managed.settings import LedgerConfig
from engine.managed.shared import Shared
from engine.managed.state import LogStatus
from engine.managed.stored.node import StoredNode
from engine.managed.stored.offloads import DoomedObjects
from engine.managed.stored.records import LogRecord
from engine.managed.stored.removal import mark_deleted
from engine.managed.writing.appends import AppendSink
from engine.managed.writing.rolling import LedgerList, OffloadChange
from engine.metadata import paths
from engine.metadata.cached import fresh
from engine.metadata.store import NoNodeError

log = logging.getLogger(__name__)


class ShadowList(LedgerList):
    """The stored record of a shadow topic, which lists no ledgers: those of ``line`` belong to the source."""

    __slots__ = ()
    owns_ledgers = False

    async def claim(self) -> None:
        """Write the record, so that every other owner is fenced."""
        async with self._lock:
            await self._write([])

    async def mark_deleted(self) -> tuple[StoredNode, LogRecord]:
        async with self._lock:
            record = await mark_deleted(self._node, LogRecord(extra=self._extra))
            self._is_deleted = True
            return self._node, record

    async def note_offload(self, ledger_id: int, change: OffloadChange) -> bool:
        return False  # the copies are the source's as well

    async def release(self, ledger_ids: Collection[int]) -> None:
        pass

    async def _write(
        self,
        ledgers: list[LedgerSpan],
        terminated: Position | None = None,
        properties: dict[str, str] | None = None,
        doomed: Sequence[int] = (),
        doomed_objects: Sequence[DoomedObjects] = (),
    ) -> None:
        self._check_not_deleted()
        properties = self._state.properties if properties is None else properties
        await self._node.write(LogRecord(properties=properties, extra=self._extra).encode())


class ShadowReads(LedgerReads):
    """Reads of the source's ledgers, which are neither recovered nor closed here."""

    async def fetch(self, start: int, stop: int, bytes_max: int) -> list[Slice]:
        try:
            return await super().fetch(start, stop, bytes_max)
        except LedgerError:
            # The source's writer may have replaced bookies since the ledger was opened here.
            ledger, _ = self._line.find(start)
            self.forget(ledger.ledger_id)
        return await super().fetch(start, stop, bytes_max)

    async def _reader(self, ledger: LedgerSpan) -> EntryReader:
        reader = await super()._reader(ledger)
        reader.confirm(ledger.entries - 1)
        return reader

    async def _opened(self, ledger: LedgerSpan) -> EntryReader:
        return await open_entries(
            self._ledgers, ledger, owner=False, objects=self._objects, blocks=self._blocks
        )


class ShadowLedger(ManagedLedger):
    """A managed ledger whose entries are those of another topic, its source. Nothing is appended or trimmed here.

    Without the source it has no entries.
    """

    __slots__ = ("_changed", "_path", "_reached", "source")

    def __init__(
        self, name: str, config: LedgerConfig, node: StoredNode, record: LogRecord, shared: Shared
    ) -> None:
        """``record`` is the content of ``node`` and names the source."""
        own = LogRecord(properties=record.properties, extra=record.extra)
        self._build(name, config, node, own, shared, ShadowList, ShadowReads)
        self.source = TopicName.parse(record.properties[SHADOW_SOURCE])
        """The topic whose entries these are."""
        self._path = paths.managed_ledger(self.source.managed_ledger_name)
        self._reached = (EARLIEST, 0)
        self._changed = asyncio.Event()

    async def start(self) -> None:
        assert isinstance(self._list, ShadowList)
        self.step = "writing of its record"
        await self._list.claim()
        stop_watching = self._shared.store.watch(self._path, lambda _: self._changed.set())
        self.on_ended(stop_watching)
        self.step = "reading of the source's ledgers"
        await self._read_source()
        await self._load_cursors({})
        self._tasks.spawn("source", self._follow())

    # The source

    def reached(self, position: Position, size: int) -> None:
        """Note that the source's entries up to ``position`` are durable and may be read. ``size``: bytes of the ledger
        up to it."""
        self._reached = max(self._reached, (position, size))
        if not self._advance():
            self._changed.set()

    def _advance(self) -> bool:
        """Make the entries up to ``_reached`` readable. Return False while its ledger is not known."""
        position, size = self._reached
        last = self.line.ledgers[-1] if self.line.ledgers else None
        if position == EARLIEST:
            return True
        if last is None or position.ledger_id > last.ledger_id:
            return False
        if position.ledger_id == last.ledger_id and self._grow(last, position.entry_id + 1, size):
            self._appender.notify_readers()
        return True

    def _grow(self, last: LedgerSpan, entries: int, size: int) -> bool:
        """Add entries to the last ledger until it has ``entries``. Return False when it has them."""
        added = entries - last.entries
        if added <= 0:
            return False
        added_bytes = max(size - last.size, 0)
        self.line.grow(added, added_bytes)
        self._appender.entries_added += added
        self._appender.bytes_added += added_bytes
        return True

    async def _follow(self) -> None:
        """Read the source's record whenever it changed, until the log ends."""
        settings, entropy = self._shared.settings, self._shared.entropy
        backoff = Backoff(settings.retry_initial_s, settings.retry_max_s)
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._read_source()
            except (LedgerError, WorldError, StoredRecordError) as error:
                log.warning("source not read log=%s error=%s", self.name, error)
            except Exception:
                log.exception("source not read log=%s", self.name)
            else:
                if self._advance():
                    backoff.reset()
                    continue
            # Also when the record that was read is older than the statement of the source's broker.
            await asyncio.sleep(backoff.next_s(entropy.random()))
            self._changed.set()

    async def _read_source(self) -> None:
        """Apply the source's record, and find the end of the ledger that it is writing.

        Raises LedgerError, StoredRecordError, the store's errors.
        """
        try:
            record = LogRecord.decode(
                (await fresh(self._shared.store, self._path).get(self._path))[0]
            )
        except NoNodeError:
            record = LogRecord()
        if not record.ledgers:
            self._reached = (EARLIEST, 0)
        end, begin = self.line.durable_to, self.line.base
        self._apply(record.ledgers)
        last = self.line.ledgers[-1] if self.line.ledgers else None
        if last is not None and not last.timestamp_ms:
            try:
                reader = await self._shared.ledgers.open(
                    last.ledger_id, recover=False, unconfirmed=True
                )
                self._grow(last, reader.last_confirmed + 1, reader.length)
            except NoSuchLedgerError:
                log.debug(
                    "ledger of the source is gone log=%s ledger=%d", self.name, last.ledger_id
                )
        state = self._state
        ends = record.terminated is not None and state.terminated is None
        if not state.ended:
            state.terminated = record.terminated
            is_open = record.terminated is None
            state.status = LogStatus.OPENED if is_open else LogStatus.TERMINATED
        if self.line.base > begin:
            self._trimmed()
        if self.line.durable_to > end or ends:
            self._appender.notify_readers()

    def _apply(self, stored: list[LedgerSpan]) -> None:
        """Make the line that of the source's stored ledgers."""
        line, by_id = self.line, {span.ledger_id: span for span in stored}
        kept = [i for i, span in enumerate(line.ledgers) if span.ledger_id in by_id]
        for span in line.drop_first(kept[0] if kept else len(line.ledgers)):
            self.entries.reads.forget(span.ledger_id)
        if line.ledgers and line.last.ledger_id not in by_id:
            line.drop_last()  # it was empty, and another one took its place
        present = {span.ledger_id: span for span in line.ledgers}
        for span in stored:
            here = present.get(span.ledger_id)
            if here is None:
                line.push(
                    LedgerSpan(
                        span.ledger_id, span.entries, span.size, span.timestamp_ms, span.extra
                    )
                )
            elif (span.timestamp_ms, span.extra) != (here.timestamp_ms, here.extra):
                self.entries.reads.forget(span.ledger_id)
                if not here.timestamp_ms:
                    self._grow(here, span.entries, span.size)
                here.size, here.timestamp_ms, here.extra = span.size, span.timestamp_ms, span.extra

    # What only the source can do

    def append(self, run: Slice, sink: AppendSink) -> None:
        sink.append_failed(run, 0, ShadowTopicError("Messages are published to its source topic"))

    async def writable(self) -> None:
        self._state.check()

    async def terminate(self) -> Position:
        raise ShadowTopicError("Terminate is not allowed on shadow topic")

    def freed(
        self, config: LedgerConfig, passed: Mapping[str, Position], deleted: Collection[str]
    ) -> tuple[int, Position]:
        return 0, EARLIEST
