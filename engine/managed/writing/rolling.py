"""Following one ledger by the next, and letting consumed ones go: every change of a topic's ledger list.

Order of a roll: the old ledger is closed (M2: at most one is open), the new one made, the list with the new one written
by compare-and-set; only then does an entry go into it (M1, I36: no entry is confirmed outside of the list). Order of a
trim: the list first, the ledgers after (I37); the same write names them as doomed, so that the next owner deletes what
is left of them (M17). Rule numbers: the table of promises in docs/formats/managed-ledger.md.
"""

import asyncio
import logging
from collections.abc import Callable
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
    ManagedLedgerFencedError,
)
from engine.managed.positions import LedgerSpan
from engine.managed.state import LogState
from engine.managed.stored.node import StoredNode
from engine.managed.stored.records import OWN_PREFIX, LogRecord
from engine.managed.writing.lifecycle import trimmable
from engine.metadata.tree import VALUE_MAX

log = logging.getLogger(__name__)

INDEX = "index"
"""Property with the highest index given, as Pulsar stores it: what holds when the last entry was trimmed."""

ROLLED_BYTES_MAX = VALUE_MAX * 3 // 4
"""Of a topic's record: some 25,000 ledgers."""

SWEEP_AT_ONCE = 16
"""Ledgers deleted at the same time: trimming a thousand waits for the metadata store in 60 turns."""


def custom_metadata(log: str, cursor: str | None = None) -> dict[str, bytes]:
    """What the metadata of a ledger tells of it: whose it is, by the names of the managed ledger and of the cursor."""
    custom = {
        "application": b"pulsar",
        "component": b"managed-ledger",
        "pulsar/managed-ledger": log.encode(),
    }
    if cursor is not None:
        custom["pulsar/cursor"] = cursor.encode()
    return custom


class LedgerList:
    """The stored list of one topic's ledgers and its mirror ``line``. Changes wait for each other.

    Raises ManagedLedgerFencedError when another owner changed the list; LedgerError and StoreUnavailableError leave
    it as it was, to be tried again.
    """

    __slots__ = (
        "_clock",
        "_doomed",
        "_dropped",
        "_extra",
        "_highest",
        "_ledgers",
        "_lock",
        "_node",
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
    ) -> None:
        self.line = line = state.line
        self.created_ms = 0
        self.recovered: Callable[[int, int], None] = lambda entries, size: None
        """Called with the number of entries and bytes that closing a ledger found behind the last confirmed entry."""
        self._state = state
        self._extra = record.extra
        self._highest = max((one.ledger_id for one in line.ledgers), default=-1)
        self._node = node
        self._record_bytes = 0
        self._ledgers = ledgers
        self._clock = clock
        self._lock = asyncio.Lock()
        self._dropped: list[int] = []  # out of the line; the stored list may name them still
        self._doomed = dict.fromkeys(record.doomed)  # out of the stored list: to be deleted
        self._sweeping = asyncio.Lock()

    @property
    def has_doomed(self) -> bool:
        """Whether ``sweep`` has something to do."""
        return bool(self._doomed)

    @property
    def has_room(self) -> bool:
        """Whether a further ledger may follow because the last one is full or old. Near the limit of a node it goes on
        instead: what is left is for ledgers that fail and for owners that come."""
        return self._record_bytes < ROLLED_BYTES_MAX

    @property
    def unsettled(self) -> int | None:
        """The last ledger of the list, if it has to be recovered."""
        ledgers = self.line.ledgers
        if not ledgers or (ledgers[-1].timestamp_ms and ledgers[-1].entries):
            return None
        return ledgers[-1].ledger_id

    async def recover(self, known: LedgerMetadata | None) -> None:
        """Settle the last ledger of the list, fencing whoever writes it, and leave empty ones out of the line (M2).
        ``known``: metadata of ``unsettled``, as just read.

        Whoever opened the topic before can write nothing behind what this finds, however often it tries (M15).
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
        """Close ``old`` and give the next ledger. When it fails after the close, call again with the same ``old``."""
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
                # The list may name the new ledger: it must not be deleted before the next write leaves it out.
                _abandon(writer, "its place in the topic is uncertain")
                self._dropped.append(writer.ledger_id)
                raise
            self.line.push(fresh)
            self.created_ms = self._clock.wall_ms()
            return writer

    async def _check_fresh(self, writer: LedgerWriter) -> None:
        """M3: positions only rise. Ids that fall show a metadata store that was put back to an earlier state."""
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
        """Close the ledger behind its last confirmed entry."""
        last = self.line.ledgers[-1] if self.line.ledgers else None
        if last is None or last.ledger_id != old.ledger_id or last.timestamp_ms:
            return  # done by an earlier attempt
        try:
            await old.close()
        except (LedgerFencedError, LedgerClosedError, NoSuchLedgerError) as error:
            text = f"ledger {old.ledger_id} was taken over: {error}"
            raise ManagedLedgerFencedError(text) from error
        except LedgerError:
            # Recovery settles it too; what it finds behind the last confirmed entry is part of the topic then.
            reader = await self._ledgers.open(old.ledger_id, recover=True)
            entries, size = reader.last_confirmed + 1 - last.entries, reader.length - last.size
            self.line.grow(entries, size)
            if entries:
                self.recovered(entries, size)
        last.timestamp_ms = self._clock.wall_ms()

    async def seal(self, old: LedgerWriter | None) -> Position:
        """Close ``old`` and mark the topic as terminated at its last entry, which is returned."""
        async with self._lock:
            if self._state.terminated is not None:
                return self._state.terminated
            if old is not None:
                await self._settle(old)
            position = self.line.before(self.line.end)
            await self._write(self.line.ledgers, terminated=position)
            self._state.terminated = position
            return position

    async def trim(
        self,
        consumed: Callable[[], int | None],
        dropped: Callable[[list[int]], None],
        *,
        retention: bool = True,
    ) -> None:
        """Take consumed ledgers off line and list; ``sweep`` deletes them then. ``consumed``: see ``trimmable`` (M8);
        without ``retention`` none is kept for that.

        ``dropped`` is told their ids as soon as the line has them no more: before the first await, so that no cursor
        can be set back into them or read there.
        """
        async with self._lock:
            line, now_ms, config = self.line, self._clock.wall_ms(), self._state.config
            if not retention:
                config = replace(config, retention_s=0.0)
            count = trimmable(line.ledgers, line.base, consumed(), now_ms, config)
            if not count:
                return
            gone = [one.ledger_id for one in line.drop_first(count)]
            self._dropped += gone
            dropped(gone)
            await self._write(line.ledgers)

    async def update_properties(self, changes: dict[str, str | None]) -> None:
        """Set or remove properties. Raises InvalidPropertyError for the names that are ours."""
        for key in changes:
            if key.startswith(OWN_PREFIX):
                raise InvalidPropertyError(f"property names with {OWN_PREFIX} are reserved: {key}")
        async with self._lock:
            merged = {**self._state.properties, **changes}
            properties = {key: value for key, value in merged.items() if value is not None}
            await self._write(self.line.ledgers, properties=properties)
            self._state.properties = properties

    async def still_ours(self) -> bool:
        """Whether nobody else has changed the list until now."""
        return await self._node.unchanged()

    async def wait_quiet(self) -> None:
        """Return when no change is under way."""
        async with self._lock:
            pass

    def _drop_empty(self) -> None:
        self._dropped.append(self.line.drop_last().ledger_id)

    async def _write(
        self,
        ledgers: list[LedgerSpan],
        terminated: Position | None = None,
        properties: dict[str, str] | None = None,
    ) -> None:
        properties = self._state.properties if properties is None else properties
        if self._state.last_index is not None:
            properties = {**properties, INDEX: str(self._state.last_index)}
        dropped, self._dropped = self._dropped, []
        doomed = [*self._doomed, *dropped]
        sealed = terminated or self._state.terminated
        record = LogRecord(ledgers, sealed, properties, self._extra, doomed)
        value = record.encode()
        try:
            await self._node.write(value)
        except BaseException:
            self._dropped = dropped + self._dropped
            raise
        self._doomed.update(dict.fromkeys(dropped))
        before, self._record_bytes = self._record_bytes, len(value)
        if before < ROLLED_BYTES_MAX <= len(value):
            log.warning(
                "list of ledgers takes %d bytes, its ledgers are not followed by others any more log=%s",
                *(len(value), self._state.name),
            )

    async def sweep(self) -> None:
        """Delete the ledgers that no list names any more. Cancelled, or while the metadata store does not answer: those
        left are found by the next call, or by the next owner in the record."""
        async with self._sweeping:
            left = list(self._doomed)[::-1]
            scope = TaskScope("deleting ledgers")
            count = min(len(left), SWEEP_AT_ONCE)
            workers = [scope.spawn(str(i), self._sweep_some(left)) for i in range(count)]
            try:
                if workers:
                    await asyncio.wait(workers)
            finally:
                await scope.close()
        if self._doomed:
            log.warning("ledgers are left to be deleted count=%d", len(self._doomed))

    async def _sweep_some(self, left: list[int]) -> None:
        while left:
            ledger_id = left.pop()
            try:
                await self._ledgers.delete(ledger_id)
            except WorldError as error:
                log.debug("ledger is not deleted yet ledger=%d error=%s", ledger_id, error)
                return
            self._doomed.pop(ledger_id, None)


def _abandon(writer: LedgerWriter, why: str) -> None:
    """Give up a new ledger without telling the listener: to it, this would be the end of the present one."""
    writer.listener = None
    writer.abandon(LedgerClosedError(why))
