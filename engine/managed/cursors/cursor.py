"""A cursor: the position of a subscription and its acknowledgements. ``cursor_reader`` is the part that reads.

Acknowledgements change ``AckState`` at once; ``persister`` makes them durable.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

from engine.base.ids import Position
from engine.base.ranges import WORD_BITS, bits_of, words_of
from engine.base.slices import Slice
from engine.managed.ack_state import AckState
from engine.managed.cursors.ack_snapshot import AckSnapshot
from engine.managed.cursors.cursor_reader import CursorReader
from engine.managed.cursors.index_ledgers import IndexLedgers
from engine.managed.cursors.last_change import STATES_BYTES_MAX, LastChange, is_kept
from engine.managed.cursors.moves import Effect, copied, effect_of, passed
from engine.managed.cursors.persister import Persister
from engine.managed.errors import (
    AckSetTooLongError,
    InvalidPositionError,
    ManagedLedgerClosedError,
    ManagedLedgerError,
    StoredRecordError,
)
from engine.managed.reading.entries import LogEntries
from engine.managed.stats import CursorStats
from engine.managed.stored.records import CursorState, check_cursor_properties
from engine.wire.kernels import batch_sizes, metadata_span

STATS_RANGES_MAX = 1000
"""Acknowledged ranges listed in the statistics."""
ACK_SET_WORDS_MAX = 1 << 14
"""Words of an ack set whose entry is not in memory: a million messages in a batch."""


class Cursor(CursorReader):
    """A cursor, created by ``ManagedLedger.open_cursor``. One reader at a time; acknowledgements at any time.

    Acknowledging never waits: the state is persisted lazily, or at once when a caller waits in ``persisted``.
    ``mark_delete``: everything up to and including it is acknowledged. ``read_position``: the next entry to be read.
    ``properties`` (name -> int) are stored with the state; ``take_snapshot`` and ``set_property`` change them.
    ``on_unblocked`` is called when reads that ``blocked`` held back may continue. It must not raise.
    """

    __slots__ = (
        "_kept",
        "_properties",
        "_store",
        "_volatile",
        "_volatile_change",
        "change_in_doubt",
        "durable",
        "index",
    )

    def __init__(
        self,
        name: str,
        acks: AckState,
        entries: LogEntries,
        properties: dict[str, int],
        persister: Persister | None,
        index: IndexLedgers | None = None,
    ) -> None:
        """``persister``, over the same ``acks`` and ``properties``, and ``index`` are None for a cursor that is not
        durable."""
        super().__init__(name, acks, entries, persister)
        self.index = index
        self.durable = persister is not None
        self._store = None if persister is None else persister.store
        self._properties = properties
        self._volatile: dict[str, str] = {}
        self._volatile_change = b""
        self.change_in_doubt = False
        """True while the last change may not be durable: it is being stored, or the wait for that was interrupted."""
        self._kept = self._kept_by_change()

    @property
    def mark_delete(self) -> Position:
        return self._line.before(self._acks.mark)

    @property
    def mark(self) -> int:
        """Ordinal of the first entry that is not acknowledged. Rises with ``mark_delete`` and is cheaper."""
        return self._acks.mark

    @property
    def persisted_mark_delete(self) -> Position:
        """The mark-delete position that would survive a crash now."""
        return self._line.before(self._stored_mark)

    @property
    def _stored_mark(self) -> int:
        return self._acks.mark if self._persister is None else self._persister.mark

    @property
    def properties(self) -> dict[str, int]:
        return dict(self._properties)

    @property
    def cursor_properties(self) -> dict[str, str]:
        """The subscription's properties."""
        return dict(self._volatile if self._store is None else self._store.cursor_properties)

    @property
    def trim_limit(self) -> int:
        """Ordinal below which this cursor needs nothing any more, also after a crash (M8)."""
        return min(self._stored_mark, self._acks.mark)

    def trim_limit_at(self, now_ms: int) -> int:
        """Return ``trim_limit``, lowered to keep the entries that the last change passed while it can be undone."""
        if self._kept is None:
            return self.trim_limit
        ordinal, at_ms = self._kept
        if not is_kept(at_ms, now_ms):
            self._kept = None
            return self.trim_limit
        return min(self.trim_limit, ordinal)

    def acknowledge(self, positions: Sequence[Position]) -> None:
        """Acknowledge single entries; idempotent. Positions without an entry, also trimmed ones, are ignored."""
        line, acks = self._line, self._acks
        if len(positions) == 1:
            ordinal = line.exact(*positions[0])
            if ordinal >= 0 and acks.acknowledge(ordinal, ordinal + 1):
                self._changed()
            return
        changed = False
        present = -1
        base = entries = start = stop = 0
        ordinals: list[int] = []
        for ledger_id, entry_id in positions:
            if ledger_id != present:
                present = ledger_id
                base, entries = line.extent(ledger_id)
            if 0 <= entry_id < entries:
                ordinals.append(base + entry_id)
        ordinals.sort()  # neighbours are added as one range, and near ranges are found faster
        for ordinal in ordinals:
            if ordinal != stop:
                changed = acks.acknowledge(start, stop) or changed
                start = ordinal
            stop = ordinal + 1
        if acks.acknowledge(start, stop) or changed:
            self._changed()

    def acknowledge_run(self, ledger_id: int, first: int, stop: int) -> None:
        """Acknowledge the entries ``first`` (inclusive) to ``stop`` of a ledger, as ``acknowledge`` does."""
        base, entries = self._line.extent(ledger_id)
        first, stop = max(first, 0), min(stop, entries)
        if self._acks.acknowledge(base + first, base + stop):
            self._changed()

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int]) -> bool:
        """Acknowledge part of a batch: 64-bit words (signed or not), bit i set = message i is *not* acknowledged.

        Messages that were acknowledged before stay so. Return whether the entire entry is acknowledged now. Raises
        AckSetTooLongError.
        """
        ordinal = self._line.exact(*position)
        if ordinal < 0:
            return position < self._line.position(self._line.base)
        if self._acks.acknowledge_batch(ordinal, self._bits(ordinal, ack_set)):
            self._changed()
        return self._acks.is_acknowledged(ordinal)

    def acknowledge_cumulative(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        """Acknowledge everything up to ``position``; with ``ack_set``, of ``position`` itself only the messages that it
        acknowledges.

        Raises InvalidPositionError behind the last entry, AckSetTooLongError.
        """
        line, acks = self._line, self._acks
        stop = line.ordinal_after(position)
        if position > line.before(line.durable_to):
            raise InvalidPositionError(
                f"{position} lies behind the last entry {line.before(line.durable_to)}"
            )
        bits = self._bits(line.exact(*position), ack_set)
        if bits and line.exact(*position) < 0:
            return  # the batch was trimmed, with everything before it
        changed = acks.acknowledge(acks.mark, stop - 1 if bits else stop)
        if bits:
            changed = acks.acknowledge_batch(stop - 1, bits) or changed
        if changed:
            self._changed()

    def _bits(self, ordinal: int, ack_set: Sequence[int]) -> int:
        """Return ``ack_set`` of the entry at ``ordinal`` as an integer.

        Raises AckSetTooLongError when it has more words than the entry's messages need, since the state would store
        them. The first ack set of an entry in memory is compared with the entry's metadata; later ones can only clear
        bits.
        """
        words = len(ack_set)
        if words > ACK_SET_WORDS_MAX:
            raise AckSetTooLongError(f"ack_set: {words} words, at most {ACK_SET_WORDS_MAX}")
        bits = bits_of(ack_set)
        if bits >> WORD_BITS and ordinal not in self._acks.batches:
            messages = self._messages_at_hand(ordinal)
            if messages and bits >> -(-messages // WORD_BITS) * WORD_BITS:
                at = self._line.position(ordinal)
                raise AckSetTooLongError(
                    f"ack_set: {words} words for the entry {at}, which holds {messages} messages"
                )
        return bits

    def _messages_at_hand(self, ordinal: int) -> int:
        """Return the number of messages in the entry at ``ordinal``; 0 when it is not in memory or has no readable
        metadata."""
        run = self._entries.at_hand(ordinal)
        if run is None or metadata_span(run.buf, *run.spans) is None:
            return 0
        return (batch_sizes(run.buf, run.spans) or (1,))[0]

    @property
    def has_partial_batches(self) -> bool:
        """True when any batch is acknowledged in part; otherwise ``ack_set`` is None for every entry."""
        return bool(self._acks.batches)

    def ack_set(self, position: Position) -> list[int] | None:
        """Return the words of a partly acknowledged batch (bit set = not acknowledged), signed; None for other
        entries."""
        bits = self._acks.batches.get(self._line.exact(*position))
        return None if bits is None else words_of(bits)

    def is_acknowledged(self, position: Position) -> bool:
        line = self._line
        ordinal = line.exact(*position)
        if ordinal < 0:
            return position < line.position(line.base)
        return self._acks.is_acknowledged(ordinal)

    def remains(self, position: Position) -> int | None:
        """Return the messages of an entry that are not acknowledged, as bits: -1 for all, 0 for none, of a batch some;
        None when no entry exists there."""
        line = self._line
        ordinal = line.exact(*position)
        if ordinal < 0:
            return 0 if position < line.position(line.base) else None
        return 0 if self._acks.is_acknowledged(ordinal) else self._acks.batches.get(ordinal, -1)

    async def persisted(self) -> None:
        """Return when all acknowledgements made so far survive a crash (M5). Cancel-safe.

        Raises ManagedLedgerFencedError or ManagedLedgerClosedError; after other failures the write is tried again until
        it succeeds.
        """
        if self._persister is not None:
            await self._persister.wait(self._check)

    async def reset(self, position: Position) -> None:
        """Make ``position`` the next entry read and drop the acknowledgements from it on; durable before it returns
        (M9).

        No other call moves the mark-delete position backward (M4). EARLIEST and LATEST are valid; for a trimmed or
        future position the nearest existing one is used.
        """
        self._check()
        line = self._line
        ordinal = line.ordinal(position)
        self._acks.reset(ordinal)
        self._next = ordinal
        self._changed()
        await self.persisted()

    async def skip(self, entries: int) -> None:
        """Acknowledge the first ``entries`` unacknowledged entries (not messages, as Pulsar does); durable before it
        returns."""
        self._check()
        if entries > 0:
            await self._acknowledge_to(self._acks.nth_pending(entries, self._line.durable_to))

    async def clear(self) -> None:
        """Acknowledge everything; durable before it returns."""
        self._check()
        await self._acknowledge_to(self._line.durable_to)

    # Changes with a preview. A state is an encoded PositionInfo.

    def state(self) -> bytes:
        """Return the present acknowledgements as a state."""
        return self.encoded(self._acks)

    def state_passed(self, entries: int | None) -> bytes:
        """Return the state with the first ``entries`` unacknowledged entries acknowledged too; None: with all of
        them."""
        end = self._line.durable_to
        stop = end if entries is None else self._acks.nth_pending(entries, end)
        return self.encoded(passed(self._acks, stop))

    def state_passed_to(self, position: Position) -> bytes:
        """Return the state with everything up to ``position`` acknowledged too."""
        return self.encoded(passed(self._acks, self._line.ordinal_after(position)))

    def trim_limit_passed_to(self, position: Position) -> int:
        """Return what ``trim_limit`` will be once the state of ``state_passed_to`` is stored."""
        return passed(self._acks, self._line.ordinal_after(position)).mark

    def state_at(self, position: Position) -> bytes:
        """Return the state in which ``position`` is next and nothing from it on is acknowledged."""
        return self.encoded(AckState(self._line.ordinal(position)))

    def effect(self, base: bytes, target: bytes) -> Effect:
        """Return what ``move`` would do now. Raises StoredRecordError for an invalid state."""
        line = self._line
        before, after = (CursorState.decode(state).acks(line) for state in (base, target))
        return effect_of(copied(self._acks), before, after, line.base)

    async def move(self, effect: Effect, change: LastChange) -> None:
        """Apply ``effect``, which was computed without an await since, and record ``change`` with the states before and
        after. All of it is durable together before it returns.

        An effect without any change leaves the last change as it was, so that it can still be undone. It only adds the
        id of ``change`` to the spent ones. Raises as ``persisted``; the change may or may not be durable then.
        """
        self._check()
        if effect.nothing:
            last = self.last_change
            if last is None:
                # What the change would have acknowledged was acknowledged before, maybe not durably yet.
                await self.persisted()
                return
            change = replace(last, spent={**change.spent, change.id: change.at_ms})
        else:
            before, after = self.encoded(effect.now), self.encoded(effect.after)
            if len(before) + len(after) <= STATES_BYTES_MAX:
                change = replace(change, before=before, after=after)
            self._acks.replace(effect.after)
            if effect.again or effect.partly:
                self._next = self._acks.mark
        self._put_change(change.encode())
        self._kept = self._kept_by_change()
        self.change_in_doubt = True
        self._changed()
        await self.persisted()
        self.change_in_doubt = False

    @property
    def last_change(self) -> LastChange | None:
        """The last change made by ``move``. Raises StoredRecordError."""
        encoded = self._volatile_change if self._persister is None else self._persister.change
        return LastChange.decode(encoded) if encoded else None

    def _kept_by_change(self) -> tuple[int, int] | None:
        """Return the ordinal from which on trimming keeps entries so that the last change can be undone, and the
        time of that change. None when it cannot be undone, also because its record is damaged: the cursor stays
        usable then."""
        try:
            change = self.last_change
            if change is None or not change.can_be_undone:
                return None
            before = CursorState.decode(change.before).acks(self._line)
        except StoredRecordError:
            return None
        return before.mark, change.at_ms

    def _put_change(self, encoded: bytes) -> None:
        if self._persister is None:
            self._volatile_change = encoded
        else:
            self._persister.change = encoded

    def encoded(self, acks: AckState) -> bytes:
        """Return acknowledgements as a state."""
        return AckSnapshot.of(acks, self._line, {}).encode()

    def next_positions(self, effect: Effect) -> tuple[Position, Position]:
        """Return the first unacknowledged positions before and after ``effect``."""
        return self._line.position(effect.now.mark), self._line.position(effect.after.mark)

    async def entries_of(self, start: int, stop: int) -> AsyncIterator[tuple[int, Slice]]:
        """Iterate over the entries ``start <= ordinal < stop`` in runs, each with the ordinal of its first entry. Runs
        may have entries before and behind these. Raises LedgerError."""
        self._check()
        while start < stop:
            base, run = await self._entries.run(start, stop)
            yield base, run
            start = base + run.count

    def take_snapshot(self, position: Position, properties: dict[str, int]) -> None:
        """Acknowledge everything up to ``position`` and replace ``properties``; persisted together, as an
        acknowledgement is."""
        self._acks.acknowledge(self._acks.mark, self._line.ordinal_after(position))
        self._properties.clear()
        self._properties.update(properties)
        self._changed()

    async def replacing(self, old: int, new: int) -> None:
        """Name the compacted ledgers ``old`` (-1: none) and ``new`` in the cursor's node. The next owner then deletes
        the one that ``properties`` do not name as COMPACTED_LEDGER.

        Raises LedgerError and the store's errors when they may or may not be named.
        """
        self._check()
        if self._persister is not None:
            await self._persister.replacing(old, new)

    async def replaced(self, kept: int) -> None:
        """Delete those of them that are not ``kept`` (-1: all). Raises as ``replacing``; they are deleted later
        then."""
        self._check()
        if self._persister is not None:
            await self._persister.replaced(kept)

    def set_property(self, name: str, value: int | None) -> None:
        """Set one of ``properties``, or remove it with None; persisted as an acknowledgement is."""
        if self._properties.get(name) == value:
            return
        if value is None:
            del self._properties[name]
        else:
            self._properties[name] = value
        self._changed()

    async def update_cursor_properties(self, properties: dict[str, str]) -> None:
        """Replace the subscription's properties. They are durable before it returns if the cursor is durable.

        Raises LedgerError and the store's errors when they may or may not be stored, InvalidPropertyError.
        """
        self._check()
        check_cursor_properties(properties)
        if self._persister is None:
            self._volatile = dict(properties)
        else:
            await self._persister.write_properties(properties)

    def backlog_entries(self) -> int:
        """Return the number of unacknowledged entries."""
        return self._acks.backlog(self._line.durable_to)

    def stats(self) -> CursorStats:
        line, store, holes = self._line, self._store, self._acks.holes
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
            cursor_ledger_id=store.ledger_id if store is not None else -1,
            cursor_ledger_last_entry=store.ledger_last_entry if store is not None else -1,
            last_ledger_switch_ms=store.last_switch_ms if store is not None else None,
            last_active_ms=store.last_active_ms if store is not None else 0,
            state=state,
            properties=self.properties,
            cursor_properties=self.cursor_properties,
        )

    async def _acknowledge_to(self, stop: int) -> None:
        if self._acks.acknowledge(self._acks.mark, stop):
            self._changed()
        await self.persisted()

    def _changed(self) -> None:
        if self._persister is not None:
            self._persister.changed()

    # Called by the managed ledger

    def trimmed(self) -> None:
        """Acknowledge the entries of deleted ledgers. This cursor does not need them; only other cursors kept them."""
        if self._acks.acknowledge(self._acks.mark, self._line.base):
            self._changed()

    async def close(self) -> None:
        """Make the state durable and stop. Raises the error that prevents it; the cursor is stopped in any case."""
        self._end(ManagedLedgerClosedError(f"cursor {self.name} is closed"))
        if self._persister is not None:
            await self._persister.close()

    async def delete(self) -> None:
        """Remove the stored state and stop.

        Raises ManagedLedgerFencedError and the store's errors; then it is unknown whether the state was removed, and
        this object must not be used any more.
        """
        if self._persister is not None:
            await self._persister.stop()  # a write that finds no node would look like another owner
            await self._persister.store.delete(self._persister.snapshot())
        self.abandon(ManagedLedgerClosedError(f"cursor {self.name} was deleted"))

    def abandon(self, error: ManagedLedgerError) -> None:
        """Stop at once without writing anything more."""
        self._end(error)
        if self._persister is not None:
            self._persister.abandon(error)

    def _end(self, error: ManagedLedgerError) -> None:
        self._error = self._error or error
        self._stop_reading()
