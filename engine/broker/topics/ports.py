"""What a topic needs of the log under it: the managed ledger is one, the memory of a non-persistent topic another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.dispatch.ports import DispatchCursor
from engine.managed.ledger import InitialPosition
from engine.managed.settings import LedgerConfig
from engine.managed.stats import CursorStats, ManagedLedgerStats
from engine.managed.writing.appends import AppendSink


class SubscriptionCursor(DispatchCursor, Protocol):
    """Where a subscription stands. The managed ledger's ``Cursor`` says how each behaves and what it raises."""

    on_unblocked: Callable[[], None] | None

    @property
    def durable(self) -> bool: ...

    @property
    def cursor_properties(self) -> dict[str, str]: ...

    @property
    def mark(self) -> int: ...

    @property
    def mark_delete(self) -> Position: ...

    @property
    def read_position(self) -> Position: ...

    @property
    def blocked(self) -> str | None: ...

    def backlog_entries(self) -> int: ...

    def stats(self) -> CursorStats: ...

    # Acknowledgements

    def acknowledge(self, positions: Sequence[Position], /) -> None: ...

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int], /) -> bool: ...

    def acknowledge_cumulative(
        self, position: Position, ack_set: Sequence[int] = (), /
    ) -> None: ...

    async def persisted(self) -> None: ...

    async def update_cursor_properties(self, properties: dict[str, str], /) -> None: ...

    # Moves

    async def reset(self, position: Position, /) -> None: ...

    async def skip(self, entries: int, /) -> None: ...

    async def clear(self) -> None: ...


class Log(Protocol):
    """The entries of one topic: appended in order, kept, read through cursors. ``ManagedLedger`` says how each behaves
    and what it raises."""

    def append(self, run: Slice, sink: AppendSink, /) -> None: ...

    async def writable(self) -> None: ...

    def on_appended(self, callback: Callable[[], None], /) -> Callable[[], None]: ...

    @property
    def last_confirmed(self) -> Position: ...

    @property
    def terminated(self) -> Position | None: ...

    async def terminate(self) -> Position: ...

    # Cursors

    @property
    def cursors(self) -> Mapping[str, SubscriptionCursor]: ...

    @property
    def unread_cursors(self) -> Mapping[str, str]: ...

    def on_cursor_read(self, callback: Callable[[SubscriptionCursor], None], /) -> None: ...

    async def open_cursor(
        self,
        name: str,
        initial: Position | InitialPosition,
        *,
        durable: bool,
        cursor_properties: dict[str, str],
    ) -> SubscriptionCursor: ...

    async def delete_cursor(self, name: str, /) -> None: ...

    # Positions and entries

    def next_position(self, position: Position, /) -> Position: ...

    def entries_between(self, first: Position, stop: Position, /) -> int: ...

    async def find_by_time(self, publish_ms: int, /) -> Position: ...

    async def read_entry(self, position: Position, /) -> Slice: ...

    # Upkeep and the end

    @property
    def properties(self) -> Mapping[str, str]: ...

    def stats(self) -> ManagedLedgerStats: ...

    async def update_config(self, config: LedgerConfig, /) -> None: ...

    def trim_soon(self) -> None: ...

    async def trim(self) -> None: ...

    def on_fenced(self, callback: Callable[[], None], /) -> None: ...

    def fenced(self, error: Exception, /) -> None: ...

    async def close(self) -> None: ...
