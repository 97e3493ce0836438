"""Mistakes in compaction and in reading compacted topics."""

from collections.abc import AsyncIterator
from typing import Any

from engine.base.ids import Position
from engine.base.slices import View
from engine.broker.compaction import last_values
from engine.broker.compaction.compacted_cursor import CompactedCursor
from engine.broker.compaction.compactor import CompactionSource, Sink
from engine.broker.compaction.last_values import Selection
from engine.managed.cursors import cursor_store
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.cursor_store import CursorStore
from tests.sim.plants.planting import Patches


def compacted_ledger_counts_before_it_is_stored() -> Patches:
    """Move the cursor to a ledger whose last entries may not be confirmed yet."""

    async def close(self: Sink) -> None:
        if self._parts:
            await self._flush()

    return [(Sink, "close", close)]


def what_only_the_last_compaction_kept_is_forgotten() -> Patches:
    """Compact only the entries behind the horizon."""
    real = CompactionSource.entries

    def entries(self: CompactionSource) -> AsyncIterator[list[tuple[Position, bytes]]]:
        self._previous = None
        return real(self)

    return [(CompactionSource, "entries", entries)]


def compacted_ledger_deleted_by_the_next_owner() -> Patches:
    """Delete both ledgers of an interrupted compaction when the topic is loaded, including the one in use."""
    return [(cursor_store, "COMPACTED_LEDGER", "another property")]


def old_compacted_ledger_deleted_first() -> Patches:
    """Delete the ledger in use before the cursor names the new one."""
    real = Cursor.replacing

    async def replacing(self: Cursor, old: int, new: int) -> None:
        await real(self, old, new)
        assert self._persister is not None
        self._persister.store._spared.discard(old)
        await self._persister.store._sweep()

    return [(Cursor, "replacing", replacing)]


def cut_off_compactions_leave_their_ledgers() -> Patches:
    """Record a ledger nowhere before the cursor names it, and the old one not at all."""

    async def replacing(self: CursorStore, state: Any, old: int, new: int) -> None:
        pass

    async def replaced(self: CursorStore, state: Any, kept: int) -> None:
        pass

    return [(CursorStore, "replacing", replacing), (CursorStore, "replaced", replaced)]


def an_empty_message_takes_its_batch_along() -> Patches:
    """Keep nothing of a batch with an empty message."""
    real = Selection.kept

    def kept(self: Selection, number: int, entry: bytes) -> bytes | None:
        remaining = real(self, number, entry)
        metadata, _ = last_values._read(entry)
        batch = metadata is not None and metadata.HasField("num_messages_in_batch")
        return None if batch and remaining != entry and b"\x18\x00" in entry else remaining

    return [(Selection, "kept", kept)]


def readers_go_on_in_the_topic_whatever_left_it() -> Patches:
    """Leave unchecked whether the horizon has moved when a reader is beyond it."""
    real = CompactedCursor.read_nowait

    def read_nowait(self: CompactedCursor, entries_max: int, bytes_max: int) -> list[View] | None:
        if self._known is not None and self._at > self._known.horizon:
            views = self._cursor.read_nowait(entries_max, bytes_max)
            self._pass(views)
            return views
        return real(self, entries_max, bytes_max)

    return [(CompactedCursor, "read_nowait", read_nowait)]
