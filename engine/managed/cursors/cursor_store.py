"""The storage of a cursor's state: entries of a cursor ledger, and the cursor's node in the metadata store.

Each write contains the complete state, so only the last entry of the ledger counts and a failed ledger is simply
replaced. A new ledger receives the state as its first entry before the node points to it. The old one is deleted after
that; until then the node names it, so that the next owner finds it (M17). An owner that loads a cursor writes its node
at once, so that the previous owner's later writes of the node fail.
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
"""Attempts to take a cursor over while its previous owner still writes its node."""
INLINE_BYTES_MAX = 256 << 10
"""Bytes of a record above which the state stays in the cursor ledger, however few its ranges: a node has at most 1
MiB."""
BATCH_BYTES_MIN = 10
"""Least bytes of a partly acknowledged batch in a record. With too many batches the record is not encoded to measure
it, which would take a second."""
PROPERTY_BYTES = 16
"""Bytes of a property of the state in addition to its name, at most."""
NONE = frozenset[int]()
"""The shared empty set: each new one would have 216 bytes in every topic."""


class CursorStore:
    """The storage of one durable cursor. Changes are made one at a time."""

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
        self._doomed: dict[int, None] = {}  # the node does not point to it any more
        self._uncertain: dict[int, None] = {}  # the node may point to it, until it is written again
        self._spared = NONE  # doomed, but not deleted by this owner
        self._opened_s = 0.0
        self.ledger_id = -1
        self.ledger_last_entry = -1
        self.last_switch_ms = clock.wall_ms()
        """Time from which on the state is stored at its present place; time of the opening until it moves."""
        self.last_active_ms = 0
        self.cursor_properties: dict[str, str] = {}
        self.index: dict[int, int] = {}
        """Ledgers with an index of delayed entries, and how many entries each has."""
        self._extra = b""

    async def create(self, state: CursorState, cursor_properties: dict[str, str]) -> bool:
        """Create the cursor. Return False when it exists."""
        self.cursor_properties = dict(cursor_properties)
        return await self._node.create(self._record(-1, state).encode())

    async def take(self, node: tuple[bytes, Stat] | None = None) -> CursorState:
        """Become the owner of an existing cursor and return its last state, which the previous owner cannot change any
        more. ``node``: the cursor's node as it was read before; this saves a read if it is unchanged.

        Raises NoNodeError (also for a cursor whose deletion was interrupted, which is finished), LedgerError when its
        ledger cannot be read now, StoredRecordError, the store's errors.
        """
        for _ in range(TAKE_ATTEMPTS):
            value = self._node.adopt(node) if node is not None else await self._node.read()
            node = None
            record = CursorRecord.decode(value)
            try:
                if record.deleted:
                    await remove_cursor(self._node, self._ledgers, record)
                    raise NoNodeError(self._node.path)
                state = await self._read_state(record)
                self.cursor_properties = record.cursor_properties
                self.last_active_ms = record.last_active_ms
                self._extra = record.extra
                self.index = record.index
                self._doomed = dict.fromkeys(record.doomed)
                # The compacted ledger that the state names is in use, also when a replacement was interrupted (M18).
                self._doomed.pop(state.properties.get(COMPACTED_LEDGER, -1), None)
                self.ledger_id = record.ledger_id
                await self._sweep()
                if not await self._move_to_node(state):
                    await self._point(self.ledger_id, state)
            except ManagedLedgerFencedError:
                continue  # the previous owner wrote the node first, and may have moved the state
            return state
        raise ManagedLedgerFencedError(f"{self._node.path} keeps being changed by another owner")

    async def _read_state(self, record: CursorRecord) -> CursorState:
        """Return the newest state that can be read (M10). An entry that is lost for good makes the state older but
        raises nothing: messages are delivered again.

        Storage that does not answer raises LedgerError instead, because the state in it was confirmed (M5).
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
            "acknowledgements are lost, an older state is used node=%s error=%s",
            self._node.path,
            why,
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
                # Also when fenced: the node's version shows whether a new owner or a repair did that.
                log.info("cursor ledger failed node=%s error=%s", self._node.path, error)
        await self._switch(state, payload)

    def _is_full(self) -> bool:
        age_s = self._clock.monotonic_s() - self._opened_s
        return (
            self.ledger_last_entry + 1 >= self._settings.cursor_ledger_entries_max
            or age_s >= self._settings.cursor_ledger_age_max_s
        )

    async def _switch(self, state: AckSnapshot, payload: bytes) -> None:
        """Create a new cursor ledger with this state in it and point the node to it."""
        fresh = await CursorLedger.create(
            self._ledgers, self._state.config, custom_metadata(self._state.name, self._name)
        )
        snapshot = CursorState(state.mark_delete, properties=state.properties)
        self._next = fresh
        try:
            # Ranges and parts of batches are one entry, and the node is written only when that is durable (M7).
            last = await fresh.append(payload)
            await self._point(fresh.ledger_id, snapshot)
        except BaseException as error:
            fresh.abandon("its cursor did not move to it, or may not have")
            if fresh.ledger_id in self._uncertain:
                # If the node points to the new one, the present one is never read.
                self._abandon_ledger()
            else:
                self._doomed[fresh.ledger_id] = None
            if isinstance(error, LedgerError | ManagedLedgerFencedError):
                await self._sweep()
            raise
        finally:
            self._next = None
        self._abandon_ledger()
        self._ledger = fresh
        self.ledger_last_entry = last
        self._opened_s = self._clock.monotonic_s()
        self.last_switch_ms = self._clock.wall_ms()
        await self._sweep()

    async def _move_to_node(self, state: CursorState) -> bool:
        """Store the complete state in the node and delete the ledger. Return False when it is too large for a node
        (I38)."""
        if not self._fits(state):
            return False
        await self._point(-1, state)
        self._abandon_ledger()
        await self._sweep()
        return True

    def _abandon_ledger(self) -> None:
        if self._ledger is not None:
            self._ledger.abandon("its cursor is stored elsewhere")
            self._ledger = None

    async def _point(self, ledger_id: int, state: CursorState) -> None:
        """Write the node: the state is in the ledger ``ledger_id``, or (-1) in the node. The same write dooms the
        previous ledgers."""
        value = self._record(ledger_id, state).encode()
        if ledger_id not in (-1, self.ledger_id):
            self._uncertain[ledger_id] = None
        try:
            await self._node.write(value)
        except ManagedLedgerFencedError:
            self._uncertain.pop(ledger_id, None)
            raise
        self._doomed = dict.fromkeys(self._replaced_ledgers(ledger_id))
        self._uncertain = {}
        self.ledger_id = ledger_id

    def _replaced_ledgers(self, ledger_id: int) -> list[int]:
        """Return the ledgers to be deleted once the node points to ``ledger_id``."""
        ledger_ids = {**self._doomed, **self._uncertain, self.ledger_id: None}
        return [doomed_id for doomed_id in ledger_ids if doomed_id not in (ledger_id, -1)]

    async def write_properties(self, state: AckSnapshot, properties: dict[str, str]) -> None:
        """Replace the subscription's properties in the node, except for those that another broker keeps for itself."""
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
        """Write the node again with the present facts."""
        if self.ledger_id >= 0:
            snapshot = CursorState(state.mark_delete, properties=state.properties)
            await self._point(self.ledger_id, snapshot)
        elif not self._is_small(state) or not await self._move_to_node(state.state()):
            await self._write(state, state.encode())

    async def replacing(self, state: AckSnapshot, old: int, new: int) -> None:
        """Name the compacted ledgers ``old`` (-1: none) and ``new`` in the node. An owner that loads the cursor deletes
        those of them that its state does not name (M18)."""
        async with self._lock:
            for ledger_id in {old, new} - {-1}:
                self._doomed[ledger_id] = None
                self._spared |= {ledger_id}
            await self._refresh(state)

    async def replaced(self, state: AckSnapshot, kept: int) -> None:
        """Delete the ledgers of ``replacing`` except for ``kept`` (-1: all of them)."""
        async with self._lock:
            self._spared = NONE
            self._doomed.pop(kept, None)
            await self._refresh(state)
            await self._sweep()

    async def begin_index(self, state: AckSnapshot, ledger_id: int) -> None:
        """Name a ledger that is being written in the node as one to be deleted, until ``write_index`` names it
        otherwise. An owner that loads the cursor deletes it (M17)."""
        async with self._lock:
            self._doomed[ledger_id] = None
            self._spared |= {ledger_id}
            await self._refresh(state)

    def end_index(self, ledger_id: int) -> None:
        """Give up a ledger of ``begin_index``; it is deleted with the next change of the node."""
        self._spared -= {ledger_id}

    async def write_index(self, state: AckSnapshot, index: dict[int, int]) -> None:
        """Replace ``index`` in the node; ledgers that are not part of it any more are deleted."""
        async with self._lock:
            before = self.index
            self.index = dict(index)
            fresh, removed = index.keys() - before.keys(), before.keys() - index.keys()
            # A failed write may sweep while the node still names these as its index.
            self._spared |= removed
            self._exchange(removed, fresh)
            try:
                await self._refresh(state)
            except BaseException:
                self.index = before
                self._exchange(fresh, removed)
                raise
            finally:
                self._spared -= removed
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
        if self._is_small(state) and await self._move_to_node(state.state()):
            return
        if changed:
            await self._write(state, payload)
        if self._ledger is not None:
            await self._ledger.close()

    def abandon(self) -> None:
        """Stop writing at once and leave everything as a crash would."""
        for ledger in (self._ledger, self._next):
            if ledger is not None:
                ledger.abandon("its cursor is not used any more")
        self._ledger = None

    async def delete(self, state: AckSnapshot) -> None:
        """Remove node and ledger. ``state`` is stored for other brokers, which do not know the mark of an interrupted
        deletion."""
        async with self._lock:
            at = self.ledger_id if self.ledger_id >= 0 else next(iter(self._uncertain), -1)
            snapshot = CursorState(state.mark_delete, properties=state.properties)
            await remove_cursor(self._node, self._ledgers, self._record(at, snapshot))
            self.abandon()

    async def _sweep(self) -> None:
        """Delete the previous ledgers. The node names those that remain; they are tried again with its next change."""
        for ledger_id in self._doomed.keys() - self._spared:
            try:
                await self._ledgers.delete(ledger_id)
            except WorldError as error:
                log.info(
                    "ledger of a cursor is not deleted yet ledger=%d error=%s", ledger_id, error
                )
                return
            self._doomed.pop(ledger_id, None)

    def _is_small(self, state: AckSnapshot) -> bool:
        few = state.range_count <= self._settings.cursor_inline_ranges_max
        return few and state.batch_count * BATCH_BYTES_MIN <= INLINE_BYTES_MAX

    def _fits(self, state: CursorState) -> bool:
        """Return whether a record with the complete state is small enough for a node (I38)."""
        if state.bits or len(state.ranges) > self._settings.cursor_inline_ranges_max:
            return False
        return len(self._record(-1, state).encode()) <= INLINE_BYTES_MAX

    def _record(self, ledger_id: int, state: CursorState) -> CursorRecord:
        """Return the record for the node.

        Beside a ledger it repeats the state's properties for the case that the ledger is lost, but only while they are
        small. Clients decide how many there are, and a cursor whose node is too large could never be loaded again.
        """
        if ledger_id >= 0 and _properties_bytes(state) > INLINE_BYTES_MAX:
            state = CursorState(state.mark_delete)
        self.last_active_ms = self.last_active_ms or self._clock.wall_ms()
        fields = ledger_id, state, self.last_active_ms, self.cursor_properties, self._extra
        return CursorRecord(
            *fields,
            doomed=self._replaced_ledgers(ledger_id),
            index=self.index,
            created=self._created(ledger_id),
        )

    def _created(self, ledger_id: int) -> bytes:
        """Return the metadata of a ledger of this store as it was created, which saves its recovery a read; else empty
        bytes."""
        for ledger in (self._next, self._ledger):
            if ledger is not None and ledger.ledger_id == ledger_id and not ledger.metadata.version:
                return encode(ledger.metadata)
        return b""


def _properties_bytes(state: CursorState) -> int:
    """Return an upper bound of the bytes that the properties take in a record."""
    return sum(len(name.encode()) + PROPERTY_BYTES for name in state.properties)


def _as_created(record: CursorRecord) -> LedgerMetadata | None:
    """Return the metadata of the cursor ledger that is stored in its node. None when it cannot be decoded; it is read
    then."""
    try:
        return replace(decode(record.created), version=0) if record.created else None
    except MetadataFormatError as error:
        log.info("metadata in a cursor's node is not used ledger=%d: %s", record.ledger_id, error)
        return None
