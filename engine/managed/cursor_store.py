"""Where a cursor's state survives: entries of a cursor ledger, and the cursor's node in the metadata store.

Each write holds the whole state, so the last entry of the ledger counts and a failed ledger is simply replaced. A new
ledger takes the state as its first entry before the node points to it; the old one is deleted after that. An owner that
loads a cursor writes its node at once: whatever the previous owner still writes there then fails.
"""

import asyncio
import logging
from collections.abc import Callable

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.slices import Slice
from engine.ledger.client import LedgerClient
from engine.ledger.errors import (
    CorruptEntryError,
    LedgerError,
    NoSuchEntryError,
    NoSuchLedgerError,
)
from engine.ledger.reader import LedgerReader
from engine.ledger.writer import LedgerWriter
from engine.managed.ack_snapshot import AckSnapshot
from engine.managed.errors import ManagedLedgerFencedError, RecordFormatError
from engine.managed.records import CursorRecord, CursorState
from engine.managed.settings import LedgerConfig, ManagedSettings
from engine.managed.stored import StoredNode
from engine.metadata.store import NoNodeError

log = logging.getLogger(__name__)

TAKE_ATTEMPTS = 5
INLINE_BYTES_MAX = 256 << 10
"""A larger record stays in the cursor ledger, however few its ranges: a node takes 1 MiB at most."""
ENTRIES_TRIED_MAX = 8
"""When the last entry of a cursor ledger is lost, so many before it are tried: each is newer than the snapshot."""


class CursorStore:
    """Persists one durable cursor. Calls wait for each other."""

    def __init__(
        self,
        node: StoredNode,
        ledgers: LedgerClient,
        clock: Clock,
        settings: ManagedSettings,
        config: Callable[[], LedgerConfig],
        custom: dict[str, bytes],
    ) -> None:
        self._node = node
        self._ledgers = ledgers
        self._clock = clock
        self._settings = settings
        self._config = config
        self._custom = custom
        self._lock = asyncio.Lock()
        self._writer: LedgerWriter | None = None
        self._written: asyncio.Future[None] | None = None
        self._opened_s = 0.0
        self.ledger_id = -1
        self.ledger_last_entry = -1
        self.last_switch_ms = 0
        self.last_active_ms = 0
        self.cursor_properties: dict[str, str] = {}
        self._extra = b""

    async def create(self, state: CursorState, cursor_properties: dict[str, str]) -> bool:
        """Make the cursor; False when it exists."""
        self.cursor_properties = dict(cursor_properties)
        return await self._node.create(self._record(-1, state).encode())

    async def take(self) -> CursorState:
        """Become the owner of an existing cursor: its last state, from now on safe from the previous owner's writes.

        Raises NoNodeError, LedgerError when its ledger cannot be read now, RecordFormatError.
        """
        for _ in range(TAKE_ATTEMPTS):
            record = CursorRecord.decode(await self._node.read())
            state = await self._recovered(record)
            self.cursor_properties = record.cursor_properties
            self.last_active_ms = record.last_active_ms
            self._extra = record.extra
            old = record.ledger_id
            value = self._whole(state)
            inline = value is not None
            self.ledger_id = -1 if inline else old
            try:
                await self._node.write(value or self._record(old, state).encode())
            except ManagedLedgerFencedError:
                continue  # the previous owner was faster this once: it can have moved the state
            if inline:
                await self._drop(old)
            return state
        raise ManagedLedgerFencedError(f"{self._node.path} keeps being changed by another owner")

    async def _recovered(self, record: CursorRecord) -> CursorState:
        """The newest state that can be read (M10). What is lost for good makes it older, never fails: messages repeat.

        Storage that does not answer is another thing: what it holds was confirmed (M5), so that raises LedgerError.
        """
        if record.ledger_id < 0:
            return record.state
        try:
            reader = await self._ledgers.open(record.ledger_id, recover=True)
            state = await self._last_readable(reader)
        except NoSuchLedgerError as error:
            state = None
            self._warn_lost(str(error))
        return record.state if state is None else state

    async def _last_readable(self, reader: LedgerReader) -> CursorState | None:
        last = reader.last_confirmed
        for entry in range(last, max(last - ENTRIES_TRIED_MAX, -1), -1):
            try:
                (run,) = await reader.read(entry, entry, 1)
                return CursorState.decode(run.entry(0))
            except (NoSuchEntryError, CorruptEntryError, RecordFormatError) as error:
                self._warn_lost(str(error))
        return None

    def _warn_lost(self, why: str) -> None:
        log.warning(
            "acknowledgements are lost, older ones count node=%s error=%s", self._node.path, why
        )

    async def write(self, state: AckSnapshot, payload: bytes) -> None:
        """Return when ``state``, encoded as ``payload``, survives a crash.

        Raises LedgerError or StoreUnavailableError when trying again may help, ManagedLedgerFencedError otherwise.
        """
        async with self._lock:
            await self._write(state, payload)

    async def _write(self, state: AckSnapshot, payload: bytes) -> None:
        self.last_active_ms = self._clock.wall_ms()
        if self._writer is not None and not self._is_full():
            try:
                await self._append(self._writer, payload)
                return
            except LedgerError as error:
                # Also when fenced: whether a new owner or a repair did it, the node's version will tell.
                log.info("cursor ledger failed node=%s error=%s", self._node.path, error)
        await self._switch(state, payload)

    def _is_full(self) -> bool:
        age_s = self._clock.monotonic_s() - self._opened_s
        return (
            self.ledger_last_entry + 1 >= self._settings.cursor_ledger_entries_max
            or age_s >= self._settings.cursor_ledger_age_max_s
        )

    async def _switch(self, state: AckSnapshot, payload: bytes) -> None:
        """Start a new cursor ledger with this state in it."""
        config = self._config()
        writer = await self._ledgers.create(
            config.ensemble, config.write_quorum, config.ack_quorum, custom=self._custom
        )
        writer.listener = self
        snapshot = CursorState(state.mark_delete, properties=state.properties)
        try:
            # M7: ranges and parts of batches are one entry; the node follows only when it is durable.
            await self._append(writer, payload)
            await self._node.write(self._record(writer.ledger_id, snapshot).encode())
        except (LedgerError, ManagedLedgerFencedError):
            writer.abandon(LedgerError("its cursor did not move to it"))
            await self._drop(writer.ledger_id)
            raise
        except BaseException:
            # Whether the node points to the ledger now may be unknown: it must stay.
            writer.abandon(LedgerError("its cursor may not have moved to it"))
            raise
        old, old_writer = self.ledger_id, self._writer
        self._writer = writer
        self.ledger_id = writer.ledger_id
        self._opened_s = self._clock.monotonic_s()
        self.last_switch_ms = self._clock.wall_ms()
        if old_writer is not None:
            old_writer.abandon(LedgerError("replaced by a newer cursor ledger"))
        await self._drop(old)

    async def _append(self, writer: LedgerWriter, payload: bytes) -> None:
        written = asyncio.get_running_loop().create_future()
        self._written = written
        try:
            entry = writer.append(Slice(payload, [0, len(payload)], len(payload)))
            await written
            self.ledger_last_entry = entry
        finally:
            self._written = None

    def confirmed(self, below: int) -> None:
        if self._written is not None and not self._written.done():
            self._written.set_result(None)

    def failed(self, error: LedgerError) -> None:
        if self._written is not None and not self._written.done():
            self._written.set_exception(error)

    async def write_properties(self, state: AckSnapshot, properties: dict[str, str]) -> None:
        """Replace the subscription's properties in the node."""
        async with self._lock:
            before = self.cursor_properties
            self.cursor_properties = dict(properties)
            stored = CursorState(state.mark_delete, properties=state.properties)
            value = self._whole(state.state()) if self.ledger_id < 0 else None
            try:
                if self.ledger_id < 0 and value is None:
                    await self._write(state, state.encode())  # the properties go with it
                else:
                    await self._node.write(value or self._record(self.ledger_id, stored).encode())
            except BaseException:
                self.cursor_properties = before
                raise

    async def close(self, state: AckSnapshot, payload: bytes, changed: bool) -> None:
        """Leave ``state`` durable: in the node when it is small, else as the last entry of a closed cursor ledger."""
        async with self._lock:
            await self._close(state, payload, changed)

    async def _close(self, state: AckSnapshot, payload: bytes, changed: bool) -> None:
        if self.ledger_id < 0 and not changed:
            return
        few = state.range_count <= self._settings.cursor_inline_ranges_max
        value = self._whole(state.state()) if few else None
        if value is None:
            if changed:
                await self._write(state, payload)
            if self._writer is not None:
                await self._writer.close()
            return
        old, writer = self.ledger_id, self._writer
        self._writer = None
        await self._node.write(value)
        self.ledger_id = -1
        if writer is not None:
            writer.abandon(LedgerError("its cursor was closed"))
        await self._drop(old)

    def abandon(self) -> None:
        """Stop writing at once and leave everything as a crash would."""
        if self._writer is not None:
            self._writer.abandon(LedgerError("its topic is gone"))
            self._writer = None
        self.failed(LedgerError("its topic is gone"))

    async def discard(self) -> None:
        """Remove a cursor that was never taken, if it is there. Raises ManagedLedgerFencedError, the store's errors."""
        try:
            value = await self._node.read()
        except NoNodeError:
            return
        await self._node.delete()
        try:
            await self._drop(CursorRecord.decode(value).ledger_id)
        except RecordFormatError as error:
            log.warning("cursor ledger may leak node=%s error=%s", self._node.path, error)

    async def delete(self) -> None:
        """Remove node and ledger."""
        async with self._lock:
            await self._node.delete()
            if self._writer is not None:
                self._writer.abandon(LedgerError("its cursor was deleted"))
                self._writer = None
            await self._drop(self.ledger_id)

    async def _drop(self, ledger_id: int) -> None:
        if ledger_id < 0:
            return
        try:
            await self._ledgers.delete(ledger_id)
        except MagnetarError as error:
            log.warning("cursor ledger leaks ledger=%d error=%r", ledger_id, error)

    def _whole(self, state: CursorState) -> bytes | None:
        """The record with everything in it; None when that is too much for a node (I38)."""
        if len(state.ranges) > self._settings.cursor_inline_ranges_max:
            return None
        value = self._record(-1, state).encode()
        return value if len(value) <= INLINE_BYTES_MAX else None

    def _record(self, ledger_id: int, state: CursorState) -> CursorRecord:
        self.last_active_ms = self.last_active_ms or self._clock.wall_ms()
        return CursorRecord(
            ledger_id, state, self.last_active_ms, self.cursor_properties, self._extra
        )
