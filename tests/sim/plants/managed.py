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
from engine.metadata.store import Stat
from tests.sim.plants.planting import Patches
from tests.sim.topics.observer import Observer


def session_never_lapses() -> Patches:
    """A broker ignores the proof of its session: it believes in it however long the metadata store was silent."""
    return [(MemoryStore, "_silence", lambda self: 0.0)]


def session_given_up_late() -> Patches:
    """A broker gives its session up only after the server may have: another one serves its topics already."""
    late = "EXPIRE_FRACTION", "SUSPECT_FRACTION"
    return [(module, name, 1.5) for module in (session_store, memory) for name in late]


def lease_off() -> Patches:
    """No mistake but a control: brokers trust their session for ever and nobody counts owners. The fence alone must
    keep every promise about data, so a campaign with this finds nothing."""

    return [*session_never_lapses(), (Observer, "look", lambda self: None)]


def lost_race_for_the_list_taken_for_won() -> Patches:
    """A compare-and-set of a topic's list or a cursor's node that lost is taken for success."""
    real = StoredNode.write

    async def write(self: StoredNode, value: bytes) -> None:
        with contextlib.suppress(ManagedLedgerFencedError):
            await real(self, value)

    return [(StoredNode, "write", write)]


def cursors_are_those_read_first() -> Patches:
    """Cursors that the previous owner made after their names were read, before the list was ours, are not loaded."""
    real = StoredNode._wrote

    def wrote(self: StoredNode, stat: Stat) -> None:
        real(self, stat)
        self.children_hold = True

    return [(StoredNode, "_wrote", wrote)]


def cursor_read_early_is_believed() -> Patches:
    """A cursor is taken with the state that was read before the topic was ours, whoever wrote it since."""
    real = CursorStore.take

    async def take(self: CursorStore, found: tuple[bytes, Stat] | None = None) -> CursorState:
        if found is not None:
            stat = await self._node._store.exists(self._node.path)
            if stat is not None:
                found = found[0], stat
        return await real(self, found)

    return [(CursorStore, "take", take)]


def list_not_recovered() -> Patches:
    """A new owner believes the ledger list and settles nothing."""

    async def recover_nothing(self: LedgerList, known: object) -> None:
        return

    return [(LedgerList, "recover", recover_nothing)]


def ack_confirmed_before_persisted() -> Patches:
    """An acknowledgement is confirmed while its cursor's state is in memory only."""

    async def persisted(self: Cursor) -> None:
        return

    return [(Cursor, "persisted", persisted)]


def mark_delete_before_acks() -> Patches:
    """A cursor's mark-delete is stored ahead of its acknowledgements: at the highest instead of the lowest hole."""
    real = Persister.snapshot

    def snapshot(self: Persister) -> Any:
        found = real(self)
        return replace(found, mark_delete=found.last) if found.last is not None else found

    return [(Persister, "snapshot", snapshot)]


def trimmed_by_the_unpersisted_mark() -> Patches:
    """Ledgers go when they are acknowledged, not when that survives a crash."""
    return [
        (Cursor, "trim_limit", property(lambda self: self._acks.mark)),
    ]


def reset_answered_before_durable() -> Patches:
    """A cursor that was set back is confirmed while its stored state is still ahead."""

    async def reset(self: Cursor, position: Position) -> None:
        ordinal = self._line.ordinal(position)
        self._acks.reset(ordinal)
        self._next = ordinal
        self._changed()

    return [(Cursor, "reset", reset)]


def unconfirmed_entries_delivered() -> Patches:
    """The entry cache serves entries from the moment they are sent to the bookies."""
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
    """Runs that became durable together are confirmed last first."""
    real = Appends.confirmed

    def confirmed(self: Appends, below: int) -> list[Confirmation]:
        return real(self, below)[::-1]

    return [(Appends, "confirmed", confirmed)]


def producer_goes_on_after_failure() -> Patches:
    """After a failed append the broker takes what the same producer had sent behind it."""

    def append_failed(self: Publish, run: Any, start: int, error: Exception) -> None:
        self._end(start)

    return [(Publish, "append_failed", append_failed)]
