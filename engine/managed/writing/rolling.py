"""The ledger list of a topic and every change of it: roll-overs, trims, termination.

Order of a roll-over: the old ledger is closed (M2: at most one is open), the new one created, the list with the new one
written by compare-and-set. Only then is an entry added to it (M1, I36: no entry is confirmed outside of the list).
Order of a trim: the list first, the ledgers after it (I37). The same write names them as doomed, so that the next owner
deletes those that remain (M17); the same holds for objects in tiered storage (U3, U4). Rule numbers: the table of
promises in docs/formats/managed-ledger.md.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from engine.base.clock import Clock
from engine.base.errors import WorldError
from engine.base.ids import Position
from engine.base.tasks import TaskScope
from engine.ledger.client import LedgerClient
from engine.ledger.errors import (
    LedgerClosedError,
    LedgerError,
    LedgerFencedError,
    NoSuchLedgerError,
)
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.writing.writer import LedgerWriter, WriterListener
from engine.managed.errors import (
    InvalidPropertyError,
    LedgerIdReusedError,
    ManagedLedgerClosedError,
    ManagedLedgerFencedError,
)
from engine.managed.positions import LedgerSpan
from engine.managed.state import LogState
from engine.managed.stored.node import StoredNode
from engine.managed.stored.offloads import (
    DoomedObjects,
    Offload,
    doomed_objects_of,
    offload_of,
    with_offload,
)
from engine.managed.stored.records import OWN_PREFIX, LogRecord
from engine.managed.stored.removal import delete_objects, mark_deleted
from engine.managed.writing.lifecycle import trimmable
from engine.metadata.tree import VALUE_MAX
from engine.offload.bucket import Bucket
from engine.offload.errors import ObjectStoreError, OffloadError
from engine.offload.object_store import ObjectStores

log = logging.getLogger(__name__)

OffloadChange = Callable[[Offload], Offload | None]
"""Function of a ledger's present copy that returns the next one; None for no change."""
INDEX = "index"
"""Property with the highest index given, as Pulsar stores it. It is needed when the last entry was trimmed."""

ROLLED_BYTES_MAX = VALUE_MAX * 3 // 4
"""Bytes of a topic's record from which on full ledgers are not followed by others: some 25,000 ledgers."""

UNDELETED_MAX = 16
"""Copies in one bucket that could not be deleted, from which on no further ones are written there."""

SWEEP_AT_ONCE = 16
"""Ledgers deleted at the same time: deleting a thousand costs 60 round trips to the metadata store."""


def custom_metadata(log: str, cursor: str | None = None) -> dict[str, bytes]:
    """Return the custom metadata of a ledger: its owner, by the names of the managed ledger and of the cursor."""
    custom = {
        "application": b"pulsar",
        "component": b"managed-ledger",
        "pulsar/managed-ledger": log.encode(),
    }
    if cursor is not None:
        custom["pulsar/cursor"] = cursor.encode()
    return custom


class LedgerList:
    """The stored list of one topic's ledgers and its mirror ``line``. Changes are made one at a time.

    They raise ManagedLedgerFencedError when another owner changed the list. LedgerError and StoreUnavailableError leave
    the list as it was, and the change can be tried again.
    """

    owns_ledgers = True
    """False when the ledgers of ``line`` are another topic's."""

    __slots__ = (
        "_clock",
        "_delete_errors",
        "_doomed",
        "_doomed_objects",
        "_dropped",
        "_dropped_objects",
        "_extra",
        "_highest",
        "_is_deleted",
        "_ledgers",
        "_lock",
        "_node",
        "_objects",
        "_record_bytes",
        "_state",
        "_sweeping",
        "created_ms",
        "line",
        "recovered",
    )

    def __init__(
        self,
        state: LogState,
        node: StoredNode,
        record: LogRecord,
        ledgers: LedgerClient,
        clock: Clock,
        objects: ObjectStores | None = None,
    ) -> None:
        self.line = line = state.line
        self.created_ms = 0
        self.recovered: Callable[[int, int], None] = lambda entries, size: None
        """Callback with the number of entries and bytes that closing a ledger found behind the last confirmed entry."""
        self._state = state
        self._extra = record.extra
        self._highest = max((ledger.ledger_id for ledger in line.ledgers), default=-1)
        self._node = node
        self._record_bytes = 0
        self._ledgers = ledgers
        self._clock = clock
        self._lock = asyncio.Lock()
        self._dropped: list[int] = []  # not in the line any more; the stored list may name them
        self._doomed = dict.fromkeys(record.doomed)  # not in the stored list; to be deleted
        self._dropped_objects: list[DoomedObjects] = []
        self._doomed_objects = dict.fromkeys(record.doomed_objects)
        self._delete_errors: dict[Bucket, OffloadError] = {}
        self._objects = objects
        self._sweeping = asyncio.Lock()
        self._is_deleted = False

    @property
    def has_doomed(self) -> bool:
        """True when ``sweep`` has ledgers or objects to delete."""
        return bool(self._doomed or self._doomed_objects)

    @property
    def has_room(self) -> bool:
        """True when a further ledger may follow because the last one is full or old. Near the limit of a node the last
        ledger is kept open instead: the remaining bytes are for ledgers that replace failed ones and for those of new
        owners."""
        return self._record_bytes < ROLLED_BYTES_MAX

    @property
    def unsettled(self) -> int | None:
        """The last ledger of the list, if it has to be recovered."""
        ledgers = self.line.ledgers
        if not ledgers or (ledgers[-1].timestamp_ms and ledgers[-1].entries):
            return None
        return ledgers[-1].ledger_id

    async def recover(self, known: LedgerMetadata | None) -> None:
        """Recover the last ledger of the list, fencing its writer, and remove empty ones from the line (M2). ``known``:
        metadata of ``unsettled``, as just read.

        The previous owner can add nothing behind the entries that this finds, however often it tries (M15).
        """
        line = self.line
        while self.unsettled is not None:
            last = line.last
            try:
                reader = await self._ledgers.open(last.ledger_id, recover=True, known=known)
                entries, size = reader.last_confirmed + 1, reader.length
            except NoSuchLedgerError:
                entries = size = 0
            if entries:
                line.grow(entries - last.entries, size - last.size)
                last.timestamp_ms = self._clock.wall_ms()
                return
            self._drop_empty()
            known = None

    async def follow(self, old: LedgerWriter | None, listener: WriterListener) -> LedgerWriter:
        """Close ``old`` and return a writer of the next ledger. After a failure, call again with the same ``old``."""
        async with self._lock:
            if old is not None:
                await self._settle(old)
            config = self._state.config
            writer = await self._ledgers.create(
                config.ensemble,
                config.write_quorum,
                config.ack_quorum,
                custom=custom_metadata(self._state.name),
                listener=listener,
            )
            await self._check_fresh(writer)
            if self.line.ledgers and not self.line.last.entries:
                self._drop_empty()
            fresh = LedgerSpan(writer.ledger_id)
            try:
                await self._write([*self.line.ledgers, fresh])
            except ManagedLedgerFencedError:
                _abandon(writer, "the topic has another owner")
                self._doomed[writer.ledger_id] = None
                await self.sweep()
                raise
            except BaseException:
                # The list may name the new ledger, so it must not be deleted before the next write omits it.
                _abandon(writer, "its place in the topic is uncertain")
                self._dropped.append(writer.ledger_id)
                raise
            self.line.push(fresh)
            self.created_ms = self._clock.wall_ms()
            return writer

    async def _check_fresh(self, writer: LedgerWriter) -> None:
        """Raise LedgerIdReusedError unless the new ledger's id is above all others: positions only rise (M3). Ids that
        fall show that the metadata store was restored to an earlier state."""
        fresh, highest = writer.ledger_id, self._highest
        if fresh > highest:
            self._highest = fresh
            return
        error = f"new ledger {fresh} is not above {highest}, which this topic has used: ids are being given twice"
        _abandon(writer, error)
        self._doomed[fresh] = None
        await self.sweep()
        raise LedgerIdReusedError(error)

    async def _settle(self, old: LedgerWriter) -> None:
        """Close the ledger ``old`` behind its last confirmed entry."""
        last = self.line.ledgers[-1] if self.line.ledgers else None
        if last is None or last.ledger_id != old.ledger_id or last.timestamp_ms:
            return  # an earlier attempt closed it
        try:
            await old.close()
        except (LedgerFencedError, LedgerClosedError, NoSuchLedgerError) as error:
            text = f"ledger {old.ledger_id} was taken over: {error}"
            raise ManagedLedgerFencedError(text) from error
        except LedgerError:
            # Recovery closes it too; the entries that it finds behind the last confirmed one belong to the topic then.
            reader = await self._ledgers.open(old.ledger_id, recover=True)
            entries, size = reader.last_confirmed + 1 - last.entries, reader.length - last.size
            self.line.grow(entries, size)
            if entries:
                self.recovered(entries, size)
        last.timestamp_ms = self._clock.wall_ms()

    async def seal(self, old: LedgerWriter | None) -> Position:
        """Close ``old`` and mark the topic as terminated at its last entry. Return that entry's position."""
        async with self._lock:
            if self._state.terminated is not None:
                return self._state.terminated
            if old is not None:
                await self._settle(old)
            position = self.line.before(self.line.durable_to)
            await self._write(self.line.ledgers, terminated=position)
            self._state.terminated = position
            return position

    async def trim(
        self,
        consumed: Callable[[], int],
        dropped: Callable[[list[int]], None],
        *,
        retention: bool = True,
    ) -> None:
        """Remove consumed ledgers from line and list; ``sweep`` deletes them then. ``consumed``: see ``trimmable``
        (M8). Without ``retention``, retention keeps none.

        ``dropped`` is called with their ids as soon as they are removed from the line, before the first await, so that
        no cursor can be reset into them or read there.
        """
        async with self._lock:
            line, now_ms, config = self.line, self._clock.wall_ms(), self._state.config
            if not retention:
                config = replace(config, retention_s=0.0)
            count = trimmable(line.ledgers, line.base, consumed(), now_ms, config)
            if not count:
                return
            ledgers = line.drop_first(count)
            dropped_ids = [ledger.ledger_id for ledger in ledgers]
            self._dropped_objects += doomed_objects_of(ledgers)
            self._dropped += dropped_ids
            dropped(dropped_ids)
            await self._write(line.ledgers)

    async def note_offload(self, ledger_id: int, change: OffloadChange) -> bool:
        """Store ``change`` of a ledger's copy in tiered storage; return whether there was any.

        There is none when the ledger is not in the list any more. ``sweep`` deletes the objects of an attempt that the
        change replaced.
        """
        async with self._lock:
            ledgers = self.line.ledgers
            for span in ledgers:
                if span.ledger_id == ledger_id:
                    break
            else:
                return False
            before = offload_of(span)
            after = change(before)
            if after is None:
                return False
            replaced = doomed_objects_of([span]) if before.attempt != after.attempt else []
            extra = with_offload(span.extra, after)
            stored = [replace(other, extra=extra) if other is span else other for other in ledgers]
            await self._write(stored, doomed_objects=replaced)
            # Only now: another part may act on the copy as soon as it is in memory.
            span.extra = extra
            return True

    async def release(self, ledger_ids: Collection[int]) -> None:
        """Store that the copies of ledgers in tiered storage are the only ones; ``sweep`` then deletes the ledgers."""
        async with self._lock:
            released = {}
            for span in self.line.ledgers:
                offload = offload_of(span)
                if span.ledger_id in ledger_ids and offload.complete:
                    released[span.ledger_id] = with_offload(
                        span.extra, replace(offload, deleted_from_bookies=True)
                    )
            stored = [
                replace(span, extra=released.get(span.ledger_id, span.extra))
                for span in self.line.ledgers
            ]
            await self._write(stored, doomed=list(released))
            for span in self.line.ledgers:
                span.extra = released.get(span.ledger_id, span.extra)

    async def update_properties(self, changes: dict[str, str | None]) -> None:
        """Set or remove properties. Raises InvalidPropertyError for the names that are reserved for the broker."""
        for key in changes:
            if key.startswith(OWN_PREFIX):
                raise InvalidPropertyError(f"property names with {OWN_PREFIX} are reserved: {key}")
        async with self._lock:
            merged = {**self._state.properties, **changes}
            properties = {key: value for key, value in merged.items() if value is not None}
            await self._write(self.line.ledgers, properties=properties)
            self._state.properties = properties

    async def mark_deleted(self) -> tuple[StoredNode, LogRecord]:
        """Mark the topic as deleted; return its node and the stored record, whose ``doomed`` are its ledgers.

        A later change raises ManagedLedgerClosedError: it would take the mark back.
        """
        async with self._lock:
            present = LogRecord(
                list(self.line.ledgers),
                extra=self._extra,
                doomed=[*self._doomed, *self._dropped],
                doomed_objects=[*self._doomed_objects, *self._dropped_objects],
            )
            record = await mark_deleted(self._node, present)
            self._is_deleted = True
            return self._node, record

    async def is_unchanged(self) -> bool:
        """Return whether no other owner has changed the list until now."""
        return await self._node.unchanged()

    async def wait_idle(self) -> None:
        """Return when no change is in progress."""
        async with self._lock:
            pass

    def _drop_empty(self) -> None:
        self._dropped.append(self.line.drop_last().ledger_id)

    async def _write(
        self,
        ledgers: list[LedgerSpan],
        terminated: Position | None = None,
        properties: dict[str, str] | None = None,
        doomed: Sequence[int] = (),
        doomed_objects: Sequence[DoomedObjects] = (),
    ) -> None:
        """Write the list. ``doomed`` and ``doomed_objects`` are to be deleted once it is written."""
        self._check_not_deleted()
        properties = self._state.properties if properties is None else properties
        if self._state.last_index is not None:
            properties = {**properties, INDEX: str(self._state.last_index)}
        dropped, self._dropped = self._dropped, []
        objects, self._dropped_objects = self._dropped_objects, []
        record = LogRecord(
            ledgers,
            terminated or self._state.terminated,
            properties,
            self._extra,
            [*self._doomed, *dropped, *doomed],
            doomed_objects=[*self._doomed_objects, *objects, *doomed_objects],
        )
        value = record.encode()
        try:
            await self._node.write(value)
        except BaseException:
            self._dropped = dropped + self._dropped
            self._dropped_objects = objects + self._dropped_objects
            raise
        self._doomed.update(dict.fromkeys([*dropped, *doomed]))
        self._doomed_objects.update(dict.fromkeys([*objects, *doomed_objects]))
        before, self._record_bytes = self._record_bytes, len(value)
        if before < ROLLED_BYTES_MAX <= len(value):
            log.warning(
                "list of ledgers has %d bytes, full ledgers are not followed by others any more log=%s",
                len(value),
                self._state.name,
            )

    def _check_not_deleted(self) -> None:
        if self._is_deleted:
            raise ManagedLedgerClosedError(f"{self._state.name} is being deleted")

    async def sweep(self) -> None:
        """Delete the ledgers and objects that no list names any more, and ledgers that are read from tiered storage.

        When it is cancelled, or while a store does not answer, the next call deletes the remaining ones, or the next
        owner, which finds them in the record.
        """
        async with self._sweeping:
            remaining = list(self._doomed)[::-1]
            scope = TaskScope("deleting ledgers")
            count = min(len(remaining), SWEEP_AT_ONCE)
            workers = [scope.spawn(str(i), self._sweep_some(remaining)) for i in range(count)]
            try:
                if workers:
                    await asyncio.wait(workers)
            finally:
                await scope.close()
            await self._sweep_objects()
        if self._doomed:
            log.warning("ledgers could not be deleted yet count=%d", len(self._doomed))

    async def _sweep_some(self, remaining: list[int]) -> None:
        while remaining:
            ledger_id = remaining.pop()
            try:
                await self._ledgers.delete(ledger_id)
            except WorldError as error:
                log.debug("ledger is not deleted yet ledger=%d error=%s", ledger_id, error)
                return
            self._doomed.pop(ledger_id, None)

    def check_deletions(self, bucket: Bucket) -> None:
        """Raise ObjectStoreError when UNDELETED_MAX copies remain in ``bucket`` after a ``sweep`` that failed there.

        Each is named in the record, which attempts would fill that fail while nothing can be deleted.
        """
        count = sum(doomed.bucket == bucket for doomed in self._doomed_objects)
        error = self._delete_errors.get(bucket)
        if count >= UNDELETED_MAX and error is not None:
            raise ObjectStoreError(
                f"{count} copies that are not needed any more cannot be deleted from {bucket}: {error}",
                error.trouble,
            ) from error

    async def _sweep_objects(self) -> None:
        """Delete objects, oldest first. Those of a bucket that failed are not tried again in this call."""
        failed: dict[Bucket, OffloadError] = {}
        for doomed in list(self._doomed_objects):
            if doomed.bucket in failed:
                continue
            try:
                await delete_objects(self._objects, doomed)
            except OffloadError as error:
                log.warning(
                    "objects are not deleted yet ledger=%d error=%s", doomed.ledger_id, error
                )
                failed[doomed.bucket] = error
            else:
                del self._doomed_objects[doomed]
        self._delete_errors = failed


def _abandon(writer: LedgerWriter, why: str) -> None:
    """Give up a new ledger without notifying the listener, which would take it for the failure of the present
    ledger."""
    writer.listener = None
    writer.abandon(LedgerClosedError(why))
