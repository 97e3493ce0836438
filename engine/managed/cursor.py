"""A cursor: where a subscription stands, what it acknowledged, and what it reads next.

Acknowledgements change ``AckState`` at once; ``persister`` makes them survive.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.ids import Position
from engine.base.slices import View
from engine.base.tasks import TaskScope
from engine.ledger.errors import NoSuchLedgerError
from engine.managed.ack_snapshot import AckSnapshot
from engine.managed.ack_state import AckState, bits_of, words_of
from engine.managed.backlog import Backlog
from engine.managed.cursor_store import CursorStore
from engine.managed.entry_cache import TailCache
from engine.managed.errors import (
    CursorMisuseError,
    InvalidPositionError,
    ManagedLedgerClosedError,
    ManagedLedgerError,
)
from engine.managed.persister import Persister
from engine.managed.positions import LedgerLine
from engine.managed.reads import LedgerReads, Source, collect
from engine.managed.replay import replay
from engine.managed.settings import ManagedSettings
from engine.managed.stats import CursorStats

log = logging.getLogger(__name__)

STATS_RANGES_MAX = 1000


class CursorOwner(Protocol):
    """What a cursor needs of its managed ledger."""

    line: LedgerLine
    reads: LedgerReads
    tail: TailCache
    backlog: Backlog
    settings: ManagedSettings
    clock: Clock
    entropy: Entropy
    tasks: TaskScope

    def cursor_persisted(self, cursor: "Cursor") -> None:
        """A cursor's persisted mark moved: ledgers may be trimmed."""
        ...

    def proven(self) -> bool:
        """Whether anything may be confirmed now; ``fenced`` when not."""
        ...

    def fenced(self, error: Exception) -> None:
        """Another owner has the topic."""
        ...


class Cursor:
    """Made by ``ManagedLedger.open_cursor``. One reader at a time; acknowledgements at any time.

    Acknowledging never waits: state is persisted lazily, at once when somebody waits in ``persisted``.
    ``mark_delete``: everything up to and with it is acknowledged. ``read_position``: next entry to be read.
    ``properties`` (name -> int) are stored with the state; ``set_property`` changes them.
    ``on_unblocked`` is called when reads that ``blocked`` held back may go on. Must not raise.
    """

    def __init__(
        self,
        owner: CursorOwner,
        name: str,
        acks: AckState,
        store: CursorStore | None,
        properties: dict[str, int],
    ) -> None:
        """``store`` is None for a cursor that is not durable."""
        self.name = name
        self.durable = store is not None
        self._owner = owner
        self._acks = acks
        self._store = store
        self._properties = dict(properties)
        self._next = acks.mark
        self._reading = False
        self._behind = False  # counted among the backlog's readers
        self._held_back = False
        self.on_unblocked: Callable[[], None] | None = None
        self._error: ManagedLedgerError | None = None
        self._persister: Persister | None = None
        if store is not None:
            self._persister = Persister(
                name, store, self._snapshot, acks.mark, owner, self._persisted, owner.fenced
            )

    @property
    def mark_delete(self) -> Position:
        return self._owner.line.before(self._acks.mark)

    @property
    def persisted_mark_delete(self) -> Position:
        """The mark-delete position that survives a crash now."""
        return self._owner.line.before(self._stored_mark)

    @property
    def _stored_mark(self) -> int:
        return self._acks.mark if self._persister is None else self._persister.mark

    @property
    def read_position(self) -> Position:
        return self._owner.line.position(max(self._next, self._acks.mark))

    @property
    def properties(self) -> dict[str, int]:
        return dict(self._properties)

    @property
    def cursor_properties(self) -> dict[str, str]:
        """The subscription's properties."""
        return dict(self._store.cursor_properties) if self._store is not None else {}

    @property
    def trim_limit(self) -> int:
        """Ordinal below which this cursor needs nothing any more, also after a crash (M8)."""
        return min(self._stored_mark, self._acks.mark)

    @property
    def blocked(self) -> str | None:
        """Why nothing new is read: the acknowledged ranges are near what can be persisted (M6). None: all is well.

        What lies before the last acknowledged entry is still read: it has to be acknowledged for the pause to end.
        """
        if self._persister is None or not self._persister.near_limit:
            return None
        limit, size = self._owner.settings.cursor_state_bytes_max, self._persister.state_bytes
        count = len(self._acks.holes)
        return f"{count} acknowledged ranges take {size} of {limit} bytes: acknowledge the oldest messages first"

    def read_nowait(self, entries_max: int, bytes_max: int) -> list[View] | None:
        """Unacknowledged entries from memory, advancing ``read_position``; at least one if any.

        ``[]``: nothing to read until ``ManagedLedger.on_appended``, or ``on_unblocked`` if ``blocked``.
        ``None``: not in memory, use ``read``.
        """
        self._check()
        if self._reading:
            return None
        return self._read_memory(entries_max, bytes_max)

    async def read(self, entries_max: int, bytes_max: int) -> list[View]:
        """Like ``read_nowait``, from the bookies where need be; ``[]`` at the end. Cancel-safe: nothing is skipped.

        Raises LedgerError when the entries cannot be read, CursorMisuseError when another read is under way.
        """
        self._check()
        if self._reading:
            raise CursorMisuseError(f"cursor {self.name} is being read already")
        self._reading = True
        try:
            views = self._read_memory(entries_max, bytes_max)
            while views is None:
                chunk = await self._fetch(bytes_max)
                self._check()
                views = self._read_memory(entries_max, bytes_max, chunk)
            return views
        finally:
            self._reading = False

    async def replay(self, positions: Sequence[Position]) -> list[View]:
        """These entries again, in order of position; acknowledged and vanished ones are left out.

        Does not move ``read_position``. Cancel-safe.
        """
        self._check()
        return await replay(self._owner, self._acks, positions)

    def acknowledge(self, positions: Sequence[Position]) -> None:
        """Acknowledge single entries; idempotent. Positions that do not exist (any more) are ignored."""
        line, acks = self._owner.line, self._acks
        changed = False
        present = -1
        base = entries = start = stop = 0
        for ledger_id, entry_id in positions:
            if ledger_id != present:
                present = ledger_id
                base, entries = line.extent(ledger_id)
            if not 0 <= entry_id < entries:
                continue
            ordinal = base + entry_id
            if ordinal != stop:  # neighbours go together
                changed = acks.acknowledge(start, stop) or changed
                start = ordinal
            stop = ordinal + 1
        if acks.acknowledge(start, stop) or changed:
            self._changed()

    def acknowledge_ranges(self, ranges: Iterable[tuple[int, int, int]]) -> None:
        """Acknowledge ``(ledger_id, first entry, last entry)``, inclusive; else as ``acknowledge``."""
        line, acks = self._owner.line, self._acks
        changed = False
        for ledger_id, first, last in ranges:
            base = line.first_ordinal(ledger_id)
            if base is None:
                continue
            start = line.ordinal(Position(ledger_id, first))
            stop = line.ordinal(Position(ledger_id, last + 1))
            if acks.acknowledge(start, stop):
                changed = True
        if changed:
            self._changed()

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int]) -> bool:
        """Acknowledge part of a batch: 64-bit words (signed or not), bit i set = message i is *not* acknowledged.

        Narrows what was acknowledged before. True when the whole entry is acknowledged now.
        """
        ordinal = self._owner.line.exact(*position)
        if ordinal < 0:
            return position < self._owner.line.position(self._owner.line.base)
        if self._acks.acknowledge_batch(ordinal, bits_of(ack_set)):
            self._changed()
        return self._acks.is_acknowledged(ordinal)

    def acknowledge_cumulative(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        """Acknowledge everything up to ``position``; with ``ack_set`` only that part of ``position`` itself.

        Raises InvalidPositionError behind the last entry.
        """
        line, acks = self._owner.line, self._acks
        stop = line.ordinal_after(position)
        if position > line.before(line.end):
            raise InvalidPositionError(
                f"{position} lies behind the last entry {line.before(line.end)}"
            )
        bits = bits_of(ack_set)
        if bits and line.exact(*position) < 0:
            return  # the batch is gone: so is everything before it
        changed = acks.acknowledge(acks.mark, stop - 1 if bits else stop)
        if bits:
            changed = acks.acknowledge_batch(stop - 1, bits) or changed
        if changed:
            self._changed()

    @property
    def has_partial_batches(self) -> bool:
        """Whether any batch is acknowledged in part: only then ``ack_set`` needs to be asked."""
        return bool(self._acks.batches)

    def ack_set(self, position: Position) -> list[int] | None:
        """Words of the partly acknowledged batch (bit set = not acknowledged), signed; None when nothing is."""
        bits = self._acks.batches.get(self._owner.line.exact(*position))
        return None if bits is None else words_of(bits)

    def is_acknowledged(self, position: Position) -> bool:
        line = self._owner.line
        ordinal = line.exact(*position)
        if ordinal < 0:
            return position < line.position(line.base)
        return self._acks.is_acknowledged(ordinal)

    async def persisted(self) -> None:
        """Return when all acknowledgements made so far survive a crash (M5). Cancel-safe.

        Raises ManagedLedgerFencedError or ManagedLedgerClosedError; other failures are tried again until they heal.
        """
        if self._persister is not None:
            await self._persister.wait(self._check)
            if not self._owner.proven():
                self._check()

    async def reset(self, position: Position) -> None:
        """Make ``position`` the next entry read and forget acknowledgements from it on; durable before it returns (M9).

        The only way for the mark-delete position to move backward (M4).

        EARLIEST and LATEST work; vanished or future positions go to the nearest valid one.
        """
        self._check()
        line = self._owner.line
        ordinal = line.ordinal(position)
        self._acks.reset(ordinal)
        self._next = ordinal
        self._changed()
        await self.persisted()

    async def skip(self, entries: int) -> None:
        """Acknowledge the first ``entries`` unacknowledged entries (not messages, as Pulsar); durable after."""
        self._check()
        if entries > 0:
            await self._acknowledge_to(self._acks.nth_pending(entries, self._owner.line.end))

    async def clear(self) -> None:
        """Acknowledge everything; durable before it returns."""
        self._check()
        await self._acknowledge_to(self._owner.line.end)

    def rewind(self) -> None:
        """Read again from the first unacknowledged entry on."""
        self._next = self._acks.mark

    def set_property(self, name: str, value: int | None) -> None:
        """Set (None: remove) a property; persisted like an acknowledgement."""
        if value is None:
            self._properties.pop(name, None)
        else:
            self._properties[name] = value
        self._changed()

    async def update_cursor_properties(self, properties: dict[str, str]) -> None:
        """Replace the subscription's properties; durable before it returns."""
        self._check()
        if self._store is None:
            raise CursorMisuseError(f"cursor {self.name} is not durable")
        await self._store.write_properties(self._state(), properties)

    def backlog_entries(self) -> int:
        """Unacknowledged entries."""
        return self._acks.backlog(self._owner.line.end)

    def has_more(self) -> bool:
        """Whether an entry waits at or behind ``read_position``."""
        start = max(self._next, self._acks.mark)
        return next(self._acks.pending(start, self._owner.line.end), None) is not None

    def stats(self) -> CursorStats:
        line, store, holes = self._owner.line, self._store, self._acks.holes
        ranges: list[tuple[Position, Position]] = []
        for start, stop in holes:
            if len(ranges) == STATS_RANGES_MAX:
                break
            ranges.append((line.position(start), line.position(stop - 1)))
        state = "Closed" if self._error is not None else "Open"
        if store is not None and store.ledger_id < 0 and self._error is None:
            state = "NoLedger"
        return CursorStats(
            name=self.name,
            durable=self.durable,
            mark_delete=self.mark_delete,
            read_position=self.read_position,
            persisted_mark_delete=self.persisted_mark_delete,
            backlog_entries=self.backlog_entries(),
            acknowledged_range_count=len(holes),
            acknowledged_ranges=tuple(ranges),
            acknowledged_entries=holes.total,
            cursor_ledger_id=store.ledger_id if store is not None else -1,
            cursor_ledger_last_entry=store.ledger_last_entry if store is not None else -1,
            last_ledger_switch_ms=store.last_switch_ms if store is not None else 0,
            last_active_ms=store.last_active_ms if store is not None else 0,
            state=state,
            properties=self.properties,
            cursor_properties=self.cursor_properties,
        )

    # Reading

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _read_memory(
        self, entries_max: int, bytes_max: int, extra: Source | None = None
    ) -> list[View] | None:
        """``extra``: what was just fetched for this cursor, in case it is in the backlog no more."""
        owner, acks = self._owner, self._acks
        end = owner.line.end
        if self._persister is not None and self._persister.near_limit:
            end = min(end, acks.top)
            self._warn_blocked()
        if self._next >= end:
            return []
        first = next(acks.pending(self._next, end), None)
        if first is None:
            self._next = end
            return []
        start = first[0]
        if owner.tail.covers(start):
            if self._behind:
                self._leave_backlog()
            views, self._next = collect(owner.tail, acks, start, end, entries_max, bytes_max)
            return views
        source: Source = owner.backlog
        if not source.covers(start):
            if extra is None or not extra.covers(start):
                return None
            source = extra
        views, self._next = collect(source, acks, start, end, entries_max, bytes_max)
        self._behind = True
        owner.backlog.passed(self.name, self._next)
        return views

    def _warn_blocked(self) -> None:
        if not self._held_back:
            self._held_back = True
            log.warning("nothing new is read cursor=%s: %s", self.name, self.blocked)

    def _leave_backlog(self) -> None:
        self._behind = False
        self._owner.backlog.left(self.name)

    async def _fetch(self, bytes_max: int) -> Source | None:
        """What follows from the first unacknowledged entry on. A rewind or reset meanwhile only makes it useless."""
        owner = self._owner
        first = next(self._acks.pending(self._next, owner.line.end), None)
        if first is None:
            return None
        ledger, _ = owner.line.find(first[0])
        try:
            return await owner.backlog.fetch(first[0], bytes_max)
        except NoSuchLedgerError:
            if owner.line.first_ordinal(ledger.ledger_id) is None:
                return None  # trimmed meanwhile: this cursor has moved on
            raise
        except ManagedLedgerClosedError:
            self._check()
            raise

    def _state(self) -> AckSnapshot:
        return AckSnapshot.of(self._acks, self._owner.line, self._properties)

    def _snapshot(self) -> tuple[AckSnapshot, int]:
        return self._state(), self._acks.mark

    async def _acknowledge_to(self, stop: int) -> None:
        if self._acks.acknowledge(self._acks.mark, stop):
            self._changed()
        await self.persisted()

    def _changed(self) -> None:
        if self._persister is not None:
            self._persister.changed()

    def _persisted(self) -> None:
        self._owner.cursor_persisted(self)
        if self._held_back and self.blocked is None:
            self._held_back = False
            if self.on_unblocked is not None:
                self.on_unblocked()

    # For the managed ledger

    def trimmed(self) -> None:
        """Ledgers in front were deleted: what was in them counts as acknowledged (only other cursors kept it not)."""
        if self._acks.acknowledge(self._acks.mark, self._owner.line.base):
            self._changed()

    async def close(self) -> None:
        """Make the state durable and stop. Raises what forbids it, stopped all the same."""
        self._end(ManagedLedgerClosedError(f"cursor {self.name} is closed"))
        if self._persister is not None:
            await self._persister.close()

    async def delete(self) -> None:
        """Remove the stored state and stop. Raises ManagedLedgerFencedError, StoreUnavailableError."""
        if self._store is not None and self._persister is not None:
            await self._persister.stop()  # a write that finds no node would look like another owner
            await self._store.delete()
        self.abandon(ManagedLedgerClosedError(f"cursor {self.name} was deleted"))

    def abandon(self, error: ManagedLedgerError) -> None:
        """Stop at once without writing anything more."""
        self._end(error)
        if self._persister is not None:
            self._persister.abandon(error)

    def _end(self, error: ManagedLedgerError) -> None:
        self._error = self._error or error
        if self._behind:
            self._leave_backlog()
