"""A topic's compactions: result of the last one, state of the present one, and when the next is due.

The state is a cursor, ``__compaction``, as in Apache's broker. Entries up to its mark-delete position are kept in the
ledger that its property names, and may leave the topic. Mark and property change together, durably, when the new ledger
is closed; only then is the old ledger deleted. Until then the cursor's record names both, so that the next owner
deletes the one that the property does not name (M18).
"""

import asyncio
import contextlib
import logging
from typing import Protocol

from engine.base.errors import MagnetarError, WorldError
from engine.base.ids import EARLIEST, Position
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from engine.broker.compaction.compacted_cursor import CompactedCursor
from engine.broker.compaction.compacted_ledger import CompactedLedger
from engine.broker.compaction.compactor import (
    CompactionSource,
    Sink,
    custom_metadata,
    find_last_values,
    write_kept,
)
from engine.broker.compaction.kept_entries import CompactedFormatError
from engine.broker.compaction.ports import CompactedLog, CompactionCursor
from engine.broker.context import Context
from engine.broker.dispatch.ports import Transactional
from engine.broker.errors import ServiceNotReady
from engine.ledger.errors import LedgerError, NoSuchLedgerError
from engine.managed.ledger import InitialPosition
from engine.managed.stored.records import COMPACTED_LEDGER

log = logging.getLogger(__name__)

CURSOR = "__compaction"


class CompactionHost(Transactional, Protocol):
    """Part of a topic that its compaction needs."""

    name: TopicName
    scope: TaskScope
    context: Context

    @property
    def log(self) -> CompactedLog: ...

    @property
    def closing(self) -> bool: ...

    @property
    def backlog_bytes(self) -> int:
        """Size of the largest backlog, or of all stored entries where there is no durable subscription."""
        ...

    def compaction_made(self, cursor: CompactionCursor) -> None:
        """Add the cursor of the first compaction as a subscription."""
        ...


class TopicCompaction:
    """Compactions of one topic.

    ``removed``, ``duration_ms``, ``succeeded_ms``, ``failed_ms`` describe the last compactions since the topic was
    loaded. ``succeeded``, ``failed``, ``removed_total`` count the compactions and the messages that they removed.
    """

    __slots__ = (
        "_host",
        "_ledger",
        "_opening",
        "_ran",
        "_running",
        "duration_ms",
        "error",
        "failed",
        "failed_ms",
        "removed",
        "removed_total",
        "succeeded",
        "succeeded_ms",
    )

    def __init__(self, host: CompactionHost) -> None:
        self._host = host
        self._running: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._ledger: CompactedLedger | None = None
        self._ran = False
        self.error = ""
        self.removed = self.removed_total = 0
        self.succeeded = self.failed = 0
        self.duration_ms = 0
        self.succeeded_ms = 0
        self.failed_ms = 0

    # --- state ----------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """State of the last compaction since the topic was loaded, by Pulsar's names."""
        if self._running is not None:
            return "RUNNING"
        if not self._ran:
            return "NOT_RUN"
        return "ERROR" if self.error else "SUCCESS"

    @property
    def _cursor(self) -> CompactionCursor | None:
        return self._host.log.cursors.get(CURSOR)

    @property
    def ledger_id(self) -> int:
        """Id of the compacted ledger in force; -1 when there is none."""
        cursor = self._cursor
        return -1 if cursor is None else cursor.properties.get(COMPACTED_LEDGER, -1)

    @property
    def horizon(self) -> Position | None:
        """Last position in the topic that was compacted; None before the first compaction."""
        cursor = self._cursor
        if cursor is None or COMPACTED_LEDGER not in cursor.properties:
            return None
        return cursor.mark_delete

    async def ready(self) -> None:
        """Wait until the compacted ledger is open. Raises ServiceNotReady when it cannot be read; cancel-safe."""
        reason = self._host.log.unread_cursors.get(CURSOR, "")
        try:
            if not reason:
                await self.ledger()
        except (LedgerError, WorldError, CompactedFormatError) as error:
            reason = str(error)
        if reason:
            name = self._host.name
            raise ServiceNotReady(f"What was compacted of {name} cannot be read: {reason}")

    async def ledger(self) -> CompactedLedger | None:
        """Return the compacted ledger in force, None without one.

        Raises LedgerError while it cannot be opened, the store's errors. Cancel-safe.
        """
        horizon = self.horizon
        if horizon is None:
            return None
        known = self._ledger
        if known is not None and known.ledger_id == self.ledger_id:
            known.horizon = horizon
            return known
        async with self._opening:
            while (ledger_id := self.ledger_id) >= 0:
                known = self._ledger
                if known is not None and known.ledger_id == ledger_id:
                    break
                try:
                    reader = await self._host.log.open_ledger(ledger_id)
                    self._ledger = await CompactedLedger.opened(reader, horizon)
                except NoSuchLedgerError:
                    # Tried again when a newer ledger replaced it meanwhile.
                    if ledger_id == self.ledger_id:
                        raise
            horizon = self.horizon
            if horizon is None or self._ledger is None:
                return None
            self._ledger.horizon = horizon
            return self._ledger

    def cursor(self, over: CompactionCursor, start: Position) -> CompactedCursor:
        """Return a cursor over a subscription's, which reads the compacted topic from ``start`` on."""
        return CompactedCursor(over, self, start)

    @property
    def holds_all(self) -> bool:
        """True when the topic has no entry for readers behind the horizon."""
        horizon = self.horizon
        return horizon is not None and self._host.log.last_readable <= horizon

    @property
    def at_hand(self) -> CompactedLedger | None:
        """The compacted ledger in force, if it is open."""
        known = self._ledger
        return known if known is not None and known.ledger_id == self.ledger_id else None

    # --- compacting -----------------------------------------------------------------------------

    def start(self) -> bool:
        """Start a compaction in the background; return False when one is under way.

        It waits for its turn among the broker's compactions.
        """
        if self._running is not None:
            return False
        self._running = self._host.scope.spawn("compaction", self._run())
        return True

    async def start_if_due(self, threshold: int) -> None:
        """Compact when more than ``threshold`` bytes were published since the last compaction.

        Return after the compaction, so that topics are compacted one after the other. Called periodically.
        """
        managed = self._host.log
        if self._running is not None or CURSOR in managed.unread_cursors:
            return
        cursor = self._cursor
        size = (
            self._host.backlog_bytes if cursor is None else managed.bytes_behind(cursor.mark_delete)
        )
        if size > threshold and self.start():
            assert self._running is not None
            await asyncio.wait([self._running])

    def stop(self) -> None:
        """Cancel the compaction under way. Called when the topic closes."""
        if self._running is not None:
            self._running.cancel()

    async def _run(self) -> None:
        clock = self._host.context.clock
        began_ms = clock.wall_ms()
        try:
            async with self._host.context.compactions:
                await self._compact()
        except Exception as error:
            self.error = str(error) or type(error).__name__
            self.failed += 1
            self.failed_ms = clock.wall_ms()
            if not isinstance(error, MagnetarError):
                raise  # a programming error: the task logs its traceback
            log.warning("topic not compacted topic=%s: %s", self._host.name, self.error)
        else:
            self.error = ""
            self.succeeded += 1
            self.succeeded_ms = clock.wall_ms()
            self.duration_ms = self.succeeded_ms - began_ms
        finally:
            self._running = None
            self._ran = True

    async def _compact(self) -> None:
        await self.ready()
        cursor = await self._attached()
        previous = await self.ledger()
        host = self._host
        source = CompactionSource(host.log, cursor, previous, host.log.last_readable, host.aborted)
        if source.empty:
            return
        settings = self._host.context.settings
        values = await find_last_values(
            source, retain_null_key=settings.topic_compaction_retain_null_key
        )
        sink = Sink()
        sink.writer = await self._host.log.new_ledger(
            custom_metadata(self._host.name, source.last), sink
        )
        old, new = self.ledger_id, sink.writer.ledger_id
        try:
            await cursor.replacing(old, new)
            await write_kept(source, values, sink, self._host.name.partition)
            compacted = await CompactedLedger.opened(sink.writer.reader(), source.last)
        except BaseException as error:
            sink.abandon()
            if isinstance(error, Exception):
                # Deleted here, since a cursor that was deleted meanwhile no longer names the new ledger (M18).
                with contextlib.suppress(MagnetarError):
                    await self._host.log.delete_ledger(new)
                # If this fails, the record names both ledgers, and the next owner deletes the new one (M18).
                with contextlib.suppress(MagnetarError):
                    await cursor.replaced(old)
            raise
        self._ledger = compacted
        cursor.take_snapshot(source.last, {**cursor.properties, COMPACTED_LEDGER: new})
        await cursor.persisted()
        self.removed = values.removed
        self.removed_total += values.removed
        try:
            await cursor.replaced(new)
        except (LedgerError, WorldError) as error:
            log.info("compacted ledger not deleted yet topic=%s: %s", self._host.name, error)
        log.info(
            "topic compacted topic=%s ledger=%d keys=%d removed=%d",
            self._host.name,
            new,
            values.keys,
            values.removed,
        )

    async def _attached(self) -> CompactionCursor:
        cursor = self._cursor
        if cursor is None:
            cursor = await self._host.log.open_cursor(
                CURSOR, InitialPosition.EARLIEST, durable=True, cursor_properties={}
            )
            self._host.compaction_made(cursor)
        elif COMPACTED_LEDGER not in cursor.properties:
            # A cursor without a compacted ledger, wherever it was created: nothing before it was compacted (M11).
            await cursor.reset(EARLIEST)
        return cursor
