"""Where a cursor's state survives: entries of a cursor ledger, and the cursor's node in the metadata store.

Each write holds the whole state, so the last entry of the ledger counts and a failed ledger is simply replaced. A new
ledger takes the state as its first entry before the node points to it; the old one is deleted after that, and the node
names it until then, so that it is found by whoever comes next (M17). An owner that loads a cursor writes its node at
once: whatever the previous owner still writes there then fails.
"""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import replace

from engine.base.clock import Clock
from engine.base.errors import WorldError
from engine.ledger.client import LedgerClient
from engine.ledger.errors import LedgerError, MetadataFormatError, NoSuchLedgerError
from engine.ledger.ledger_metadata import LedgerMetadata, decode, encode
from engine.managed.cursors.ack_snapshot import AckSnapshot
from engine.managed.cursors.cursor_ledger import CursorLedger
from engine.managed.errors import ManagedLedgerFencedError
from engine.managed.settings import ManagedSettings
from engine.managed.state import LogState
from engine.managed.stored.cursor_entries import last_readable
from engine.managed.stored.node import StoredNode
from engine.managed.stored.records import (
    COMPACTED_LEDGER,
    INTERNAL_PREFIX,
    CursorRecord,
    CursorState,
)
from engine.managed.stored.removal import remove_cursor
from engine.managed.writing.rolling import custom_metadata
from engine.metadata.store import NoNodeError, Stat

log = logging.getLogger(__name__)

TAKE_ATTEMPTS = 5
INLINE_BYTES_MAX = 256 << 10
"""A larger record stays in the cursor ledger, however few its ranges: a node takes 1 MiB at most."""
BATCH_BYTES_MIN = 10
"""What a batch takes at least: with so many that they cannot fit it is not tried, which would take a second."""
PROPERTY_BYTES = 16
"""What a property of the state takes beside its name, at most."""
NONE = frozenset[int]()
"""Each new one takes 216 bytes of every topic."""


class CursorStore:
    """Persists one durable cursor. Calls wait for each other."""

    __slots__ = (
        "_clock",
        "_doomed",
        "_extra",
        "_ledger",
        "_ledgers",
        "_lock",
        "_name",
        "_next",
        "_node",
        "_opened_s",
        "_settings",
        "_spared",
        "_state",
        "_uncertain",
        "cursor_properties",
        "index",
        "last_active_ms",
        "last_switch_ms",
        "ledger_id",
        "ledger_last_entry",
    )

    def __init__(
        self,
        node: StoredNode,
        ledgers: LedgerClient,
        clock: Clock,
        settings: ManagedSettings,
        state: LogState,
        name: str,
    ) -> None:
        self._node = node
        self._ledgers = ledgers
        self._clock = clock
        self._settings = settings
        self._state = state
        self._name = name
        self._lock = asyncio.Lock()
        self._ledger: CursorLedger | None = None
        self._next: CursorLedger | None = None  # becomes ``_ledger`` when the node points to it
        self._doomed: dict[int, None] = {}  # the node does not point there any more
        self._uncertain: dict[int, None] = {}  # the node may point there, until it is written again
        self._spared = NONE  # doomed, but for as long as this owner lives
        self._opened_s = 0.0
        self.ledger_id = -1
        self.ledger_last_entry = -1
        self.last_switch_ms = clock.wall_ms()
        """Since when its state is stored where it is; until it moves, since it was opened."""
        self.last_active_ms = 0
        self.cursor_properties: dict[str, str] = {}
        self.index: dict[int, int] = {}
        """Ledgers with an index of entries that wait for their time, and how many entries each has."""
        self._extra = b""

    async def create(self, state: CursorState, cursor_properties: dict[str, str]) -> bool:
        """Make the cursor; False when it exists."""
        self.cursor_properties = dict(cursor_properties)
        return await self._node.create(self._record(-1, state).encode())

    async def take(self, found: tuple[bytes, Stat] | None = None) -> CursorState:
        """Become the owner of an existing cursor: its last state, from now on safe from the previous owner's writes.
        ``found``: its node as it was read before; it saves a read if that still holds.

        Raises NoNodeError (also for one whose deletion was cut off: it is finished), LedgerError when its ledger cannot
        be read now, StoredRecordError, the store's errors.
        """
        for _ in range(TAKE_ATTEMPTS):
            value = self._node.taken(found) if found is not None else await self._node.read()
            found = None
            record = CursorRecord.decode(value)
            try:
                if record.deleted:
                    await remove_cursor(self._node, self._ledgers, record)
                    raise NoNodeError(self._node.path)
                state = await self._recovered(record)
                self.cursor_properties = record.cursor_properties
                self.last_active_ms = record.last_active_ms
                self._extra = record.extra
                self.index = record.index
                self._doomed = dict.fromkeys(record.doomed)
                self._doomed.pop(state.properties.get(COMPACTED_LEDGER, -1), None)
                self.ledger_id = record.ledger_id
                await self._sweep()
                if not await self._move_here(state):
                    await self._point(self.ledger_id, state)
            except ManagedLedgerFencedError:
                continue  # the previous owner was faster this once: it can have moved the state
            return state
        raise ManagedLedgerFencedError(f"{self._node.path} keeps being changed by another owner")

    async def _recovered(self, record: CursorRecord) -> CursorState:
        """The newest state that can be read (M10). What is lost for good makes it older, never fails: messages repeat.

        Storage that does not answer is another thing: what it holds was confirmed (M5), so that raises LedgerError.
        """
        if record.ledger_id < 0:
            return record.state
        try:
            reader = await self._ledgers.open(
                record.ledger_id, recover=True, known=_as_created(record)
            )
            state = await last_readable(reader, self._warn_lost)
        except NoSuchLedgerError as error:
            state = None
            self._warn_lost(str(error))
        return record.state if state is None else state

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
        if self._ledger is not None and not self._is_full():
            try:
                self.ledger_last_entry = await self._ledger.append(payload)
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
        fresh = await CursorLedger.create(
            self._ledgers, self._state.config, custom_metadata(self._state.name, self._name)
        )
        snapshot = CursorState(state.mark_delete, properties=state.properties)
        self._next = fresh
        try:
            # M7: ranges and parts of batches are one entry; the node follows only when it is durable.
            last = await fresh.append(payload)
            await self._point(fresh.ledger_id, snapshot)
        except BaseException as error:
            fresh.abandon("its cursor did not move to it, as far as is known")
            if fresh.ledger_id in self._uncertain:
                self._leave()  # what would go into the present one may never be read
            else:
                self._doomed[fresh.ledger_id] = None
            if isinstance(error, LedgerError | ManagedLedgerFencedError):
                await self._sweep()
            raise
        finally:
            self._next = None
        self._leave()
        self._ledger = fresh
        self.ledger_last_entry = last
        self._opened_s = self._clock.monotonic_s()
        self.last_switch_ms = self._clock.wall_ms()
        await self._sweep()

    async def _move_here(self, state: CursorState) -> bool:
        """Have the whole state in the node, and the ledger deleted; False when it is too much for a node (I38)."""
        if not self._fits(state):
            return False
        await self._point(-1, state)
        self._leave()
        await self._sweep()
        return True

    def _leave(self) -> None:
        if self._ledger is not None:
            self._ledger.abandon("its cursor is stored elsewhere")
            self._ledger = None

    async def _point(self, ledger_id: int, state: CursorState) -> None:
        """Write the node: the state is in the ledger, or (-1) here. The same write dooms the ledgers of before."""
        value = self._record(ledger_id, state).encode()
        if ledger_id not in (-1, self.ledger_id):
            self._uncertain[ledger_id] = None
        try:
            await self._node.write(value)
        except ManagedLedgerFencedError:
            self._uncertain.pop(ledger_id, None)
            raise
        self._doomed = dict.fromkeys(self._left(ledger_id))
        self._uncertain = {}
        self.ledger_id = ledger_id

    def _left(self, ledger_id: int) -> list[int]:
        """Ledgers to be deleted once the node points to ``ledger_id``."""
        known = {**self._doomed, **self._uncertain, self.ledger_id: None}
        return [one for one in known if one not in (ledger_id, -1)]

    async def write_properties(self, state: AckSnapshot, properties: dict[str, str]) -> None:
        """Replace the subscription's properties in the node; those that are another broker's own stay."""
        async with self._lock:
            before = self.cursor_properties
            internal = {key: before[key] for key in before if key.startswith(INTERNAL_PREFIX)}
            self.cursor_properties = {**properties, **internal}
            try:
                await self._refresh(state)
            except BaseException:
                self.cursor_properties = before
                raise

    async def _refresh(self, state: AckSnapshot) -> None:
        """Write the node anew."""
        if self.ledger_id >= 0:
            snapshot = CursorState(state.mark_delete, properties=state.properties)
            await self._point(self.ledger_id, snapshot)
        elif not self._few(state) or not await self._move_here(state.state()):
            await self._write(state, state.encode())

    async def replacing(self, state: AckSnapshot, old: int, new: int) -> None:
        """Have the node name the compacted ledgers ``old`` (-1: none) and ``new``: of these, whoever loads the cursor
        deletes those that its state does not name (M18)."""
        async with self._lock:
            for ledger_id in {old, new} - {-1}:
                self._doomed[ledger_id] = None
                self._spared |= {ledger_id}
            await self._refresh(state)

    async def replaced(self, state: AckSnapshot, kept: int) -> None:
        """Of those only ``kept`` (-1: none) is needed any more."""
        async with self._lock:
            self._spared = NONE
            self._doomed.pop(kept, None)
            await self._refresh(state)
            await self._sweep()

    async def begin_index(self, state: AckSnapshot, ledger_id: int) -> None:
        """Have the node name a ledger that is being written as one to be deleted, which whoever loads the cursor does
        (M17); until ``write_index`` names it otherwise."""
        async with self._lock:
            self._doomed[ledger_id] = None
            self._spared |= {ledger_id}
            await self._refresh(state)

    def end_index(self, ledger_id: int) -> None:
        """A ledger that was begun is not wanted: it goes with the next change of the node."""
        self._spared -= {ledger_id}

    async def write_index(self, state: AckSnapshot, index: dict[int, int]) -> None:
        """Replace ``index`` in the node; ledgers that are not part of it any more are deleted."""
        async with self._lock:
            before = self.index
            self.index = dict(index)
            fresh, gone = index.keys() - before.keys(), before.keys() - index.keys()
            self._spared |= gone
            self._exchange(gone, fresh)
            try:
                await self._refresh(state)
            except BaseException:
                self.index = before
                self._exchange(fresh, gone)
                raise
            finally:
                self._spared -= gone
            self._spared -= fresh
            await self._sweep()

    def _exchange(self, doomed: Iterable[int], saved: Iterable[int]) -> None:
        self._doomed.update(dict.fromkeys(doomed))
        for ledger_id in saved:
            self._doomed.pop(ledger_id, None)

    async def close(self, state: AckSnapshot, payload: bytes, changed: bool) -> None:
        """Leave ``state`` durable: in the node when it is small, else as the last entry of a closed cursor ledger."""
        async with self._lock:
            await self._close(state, payload, changed)

    async def _close(self, state: AckSnapshot, payload: bytes, changed: bool) -> None:
        if self.ledger_id < 0 and not changed:
            await self._sweep()
            return
        if self._few(state) and await self._move_here(state.state()):
            return
        if changed:
            await self._write(state, payload)
        if self._ledger is not None:
            await self._ledger.close()

    def abandon(self) -> None:
        """Stop writing at once and leave everything as a crash would."""
        for ledger in (self._ledger, self._next):
            if ledger is not None:
                ledger.abandon("its topic is gone")
        self._ledger = None

    async def delete(self, state: AckSnapshot) -> None:
        """Remove node and ledger. ``state`` is for another broker that knows no deletion which was cut off."""
        async with self._lock:
            at = self.ledger_id if self.ledger_id >= 0 else next(iter(self._uncertain), -1)
            snapshot = CursorState(state.mark_delete, properties=state.properties)
            await remove_cursor(self._node, self._ledgers, self._record(at, snapshot))
            self.abandon()

    async def _sweep(self) -> None:
        """Delete the ledgers of before. What is left is named by the node and tried again with its next change."""
        for ledger_id in self._doomed.keys() - self._spared:
            try:
                await self._ledgers.delete(ledger_id)
            except WorldError as error:
                log.info(
                    "ledger of a cursor is not deleted yet ledger=%d error=%s", ledger_id, error
                )
                return
            self._doomed.pop(ledger_id, None)

    def _few(self, state: AckSnapshot) -> bool:
        few = state.range_count <= self._settings.cursor_inline_ranges_max
        return few and state.batch_count * BATCH_BYTES_MIN <= INLINE_BYTES_MAX

    def _fits(self, state: CursorState) -> bool:
        """Whether a record with everything in it is not too much for a node (I38)."""
        if state.bits or len(state.ranges) > self._settings.cursor_inline_ranges_max:
            return False
        return len(self._record(-1, state).encode()) <= INLINE_BYTES_MAX

    def _record(self, ledger_id: int, state: CursorState) -> CursorRecord:
        """Beside a ledger the node repeats the state's properties for the case that the ledger is lost, but only while
        they are small: how many there are is up to clients, and what a node cannot hold could never be loaded again."""
        if ledger_id >= 0 and _properties_bytes(state) > INLINE_BYTES_MAX:
            state = CursorState(state.mark_delete)
        self.last_active_ms = self.last_active_ms or self._clock.wall_ms()
        known = ledger_id, state, self.last_active_ms, self.cursor_properties, self._extra
        return CursorRecord(
            *known,
            doomed=self._left(ledger_id),
            index=self.index,
            created=self._created(ledger_id),
        )

    def _created(self, ledger_id: int) -> bytes:
        """Metadata of a ledger of ours as it was created, for whoever recovers it: he need not read it first."""
        for ledger in (self._next, self._ledger):
            if ledger is not None and ledger.ledger_id == ledger_id and not ledger.metadata.version:
                return encode(ledger.metadata)
        return b""


def _properties_bytes(state: CursorState) -> int:
    """Return an upper bound of the bytes that the properties take in a record."""
    return sum(len(name.encode()) + PROPERTY_BYTES for name in state.properties)


def _as_created(record: CursorRecord) -> LedgerMetadata | None:
    """Of the cursor ledger. What cannot be read is no loss: it is asked for then."""
    try:
        return replace(decode(record.created), version=0) if record.created else None
    except MetadataFormatError as error:
        log.info("metadata in a cursor's node is not used ledger=%d: %s", record.ledger_id, error)
        return None
