"""Mistakes above ledgers: topics, cursors, producers, ownership."""

import contextlib
from dataclasses import replace
from typing import Any

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.topics.publish import Publish
from engine.managed.cursors.cursor import Cursor
from engine.managed.cursors.cursor_store import CursorStore
from engine.managed.cursors.persister import Persister
from engine.managed.errors import ManagedLedgerFencedError
from engine.managed.stored.node import StoredNode
from engine.managed.stored.records import CursorState
from engine.managed.writing.appender import Appender
from engine.managed.writing.appends import Appends, AppendSink, Confirmation
from engine.managed.writing.rolling import LedgerList
from engine.metadata import memory, session_store
from engine.metadata.memory import MemoryStore
from engine.metadata.store import SessionState, Stat
from tests.sim.plants.planting import Patches
from tests.sim.topics.observer import Observer


def session_never_lapses() -> Patches:
    """Regard a broker's session as valid however long the metadata store was silent."""

    def proven(self: MemoryStore) -> bool:
        return self._state is not SessionState.EXPIRED and not self._closed

    # ``session_proven`` does not call ``_silence``.
    return [
        (MemoryStore, "_silence", lambda self: 0.0),
        (MemoryStore, "session_proven", property(proven)),
    ]


def session_given_up_late() -> Patches:
    """Give a session up only after the server may have ended it: another broker serves its topics already."""
    late = "EXPIRE_FRACTION", "SUSPECT_FRACTION"
    return [(module, name, 1.5) for module in (session_store, memory) for name in late]


def lease_off() -> Patches:
    """Trust sessions for ever and count no owners. This is a control, not a mistake: the fence alone must keep every
    promise about data, so a campaign with it finds nothing."""

    return [*session_never_lapses(), (Observer, "look", lambda self: None)]


def lost_race_for_the_list_taken_for_won() -> Patches:
    """Regard a failed compare-and-set of a topic's list or a cursor's node as success."""
    real = StoredNode.write

    async def write(self: StoredNode, value: bytes) -> None:
        with contextlib.suppress(ManagedLedgerFencedError):
            await real(self, value)

    return [(StoredNode, "write", write)]


def cursors_are_those_read_first() -> Patches:
    """Do not load cursors that the previous owner created after their names were read, and before the new owner had the
    list."""
    real = StoredNode._wrote

    def wrote(self: StoredNode, stat: Stat) -> None:
        real(self, stat)
        self.children_hold = True

    return [(StoredNode, "_wrote", wrote)]


def cursor_read_early_is_believed() -> Patches:
    """Load a cursor with the state that was read before the topic was acquired, whichever process wrote it since."""
    real = CursorStore.take

    async def take(self: CursorStore, known: tuple[bytes, Stat] | None = None) -> CursorState:
        if known is not None:
            stat = await self._node._store.exists(self._node.path)
            if stat is not None:
                known = known[0], stat
        return await real(self, known)

    return [(CursorStore, "take", take)]


def list_not_recovered() -> Patches:
    """Accept the ledger list as a new owner and settle nothing."""

    async def recover_nothing(self: LedgerList, known: object) -> None:
        return

    return [(LedgerList, "recover", recover_nothing)]


def ack_confirmed_before_persisted() -> Patches:
    """Confirm an acknowledgement while its cursor's state is in memory only."""

    async def persisted(self: Cursor) -> None:
        return

    return [(Cursor, "persisted", persisted)]


def mark_delete_before_acks() -> Patches:
    """Store a cursor's mark-delete ahead of its acknowledgements: at the highest instead of the lowest hole."""
    real = Persister.snapshot

    def snapshot(self: Persister) -> Any:
        state = real(self)
        return replace(state, mark_delete=state.last) if state.last is not None else state

    return [(Persister, "snapshot", snapshot)]


def trimmed_by_the_unpersisted_mark() -> Patches:
    """Delete ledgers when they are acknowledged, not when that is durable."""
    return [
        (Cursor, "trim_limit", property(lambda self: self._acks.mark)),
    ]


def reset_answered_before_durable() -> Patches:
    """Confirm the reset of a cursor while its stored state is still ahead."""

    async def reset(self: Cursor, position: Position) -> None:
        ordinal = self._line.ordinal(position)
        self._acks.reset(ordinal)
        self._next = ordinal
        self._changed()

    return [(Cursor, "reset", reset)]


def unconfirmed_entries_delivered() -> Patches:
    """Serve entries from the cache from the moment they are sent to the bookies."""
    real = Appender.append

    def append(self: Appender, run: Slice, sink: AppendSink) -> None:
        before = self.appends.sent_entries
        real(self, run, sink)
        if self.appends.sent_entries > before:
            self._line.grow(run.count, run.size)
            self.notify_readers()

    def confirmed(self: Appender, below: int) -> None:
        if self._state.ended or not self._tenure.proven():
            return
        for run, sink, start, stop in self.appends.confirmed(below):
            sink.appended(run, start, stop)
        self.notify_readers()

    return [(Appender, "append", append), (Appender, "confirmed", confirmed)]


def unordered_confirmation() -> Patches:
    """Confirm runs that became durable together last first."""
    real = Appends.confirmed

    def confirmed(self: Appends, below: int) -> list[Confirmation]:
        return real(self, below)[::-1]

    return [(Appends, "confirmed", confirmed)]


def producer_goes_on_after_failure() -> Patches:
    """Accept the messages that a producer had sent behind a failed append."""

    def append_failed(self: Publish, run: Any, start: int, error: Exception) -> None:
        self._end(start)

    return [(Publish, "append_failed", append_failed)]
