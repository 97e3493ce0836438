"""A managed ledger: the entries of one topic as a chain of ledgers."""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.managed.cursor import Cursor
from engine.managed.settings import LedgerConfig
from engine.managed.stats import ManagedLedgerStats


class InitialPosition(Enum):
    """Where a new cursor starts: at the first entry kept, or behind the last one written."""

    EARLIEST = "earliest"
    LATEST = "latest"


class AppendSink(Protocol):
    """Who is told of an append's fate. Called on the event loop, in order of the appends of one managed ledger."""

    def appended(self, run: Slice, start: int, stop: int) -> None:
        """Entries ``start`` (inclusive) to ``stop`` of ``run`` are durable, at ``run.position(i)``."""
        ...

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        """Entries from ``start`` on: refused, or of unknown outcome. Terminal for the run.

        Runs queued behind it fail too, in order. To keep a producer's order, refuse what it still sends until it
        came anew.
        """
        ...


class ManagedLedger:
    """Made by ``ManagedLedgerFactory.open``. All calls on one event loop.

    Raises ManagedLedgerFencedError once another owner opened it (terminal), ManagedLedgerClosedError after ``close``.
    """

    name: str
    config: LedgerConfig
    properties: dict[str, str]
    terminated: Position | None
    cursors: dict[str, Cursor]

    @property
    def last_confirmed(self) -> Position:
        """Last durable entry; ``(ledger, -1)`` of the first ledger while there is none."""
        raise NotImplementedError

    def append(self, run: Slice, sink: AppendSink) -> None:
        """Append all entries of ``run`` to one ledger; sets ``run.ledger_id`` and ``run.first`` when it is written.

        Never waits and never raises for the world's reasons: every outcome goes to ``sink``, possibly within this
        call when refused (closed, fenced, terminated, queue full).
        """
        raise NotImplementedError

    def on_appended(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` once per confirmed range, after the sinks; returns how to stop it. Must not raise."""
        raise NotImplementedError

    def on_fenced(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when this object became useless because another owner took over."""
        raise NotImplementedError

    async def open_cursor(
        self,
        name: str,
        initial: Position | InitialPosition,
        properties: dict[str, int] | None = None,
        durable: bool = True,
        cursor_properties: dict[str, str] | None = None,
    ) -> Cursor:
        """The cursor ``name``, made if missing (durable before it returns); ``initial`` matters only then.

        A position is the first entry to be read; EARLIEST and LATEST of ``engine.base.ids`` work too.
        """
        raise NotImplementedError

    async def delete_cursor(self, name: str) -> None:
        """Delete a cursor with its state. Raises CursorNotFoundError."""
        raise NotImplementedError

    async def read_entry(self, position: Position) -> Slice:
        """The one entry at ``position``. Raises InvalidPositionError when there is none."""
        raise NotImplementedError

    async def find_by_time(self, publish_ms: int) -> Position:
        """Last entry published before ``publish_ms`` (by the metadata's publish time; entries are taken as ordered).

        ``(first ledger, -1)`` when there is none. The next one is ``next_position`` of it: what ``Cursor.reset`` takes.
        """
        raise NotImplementedError

    def next_position(self, position: Position) -> Position:
        """First position behind ``position`` that holds or will hold an entry."""
        raise NotImplementedError

    def previous_position(self, position: Position) -> Position:
        """Last existing entry before ``position``; ``(first ledger, -1)`` when there is none."""
        raise NotImplementedError

    def entries_between(self, first: Position, stop: Position) -> int:
        """Number of entries at or behind ``first`` and before ``stop``; 0 when reversed."""
        raise NotImplementedError

    async def trim(self) -> None:
        """Delete closed ledgers that every durable cursor consumed, by persisted state, and retention lets go."""
        raise NotImplementedError

    async def update_config(self, config: LedgerConfig) -> None:
        """Use new limits and retention from now on; quorums from the next ledger on."""
        raise NotImplementedError

    async def update_properties(self, changes: dict[str, str | None]) -> None:
        """Set properties, or remove those given None; durable before it returns."""
        raise NotImplementedError

    async def terminate(self) -> Position:
        """Seal the topic: no appends any more. Returns the last entry's position; durable before it returns."""
        raise NotImplementedError

    async def close(self) -> None:
        """Persist cursors, close the ledger. Pending appends are waited for, queued ones fail. Safe to call twice."""
        raise NotImplementedError

    def stats(self) -> ManagedLedgerStats:
        raise NotImplementedError
