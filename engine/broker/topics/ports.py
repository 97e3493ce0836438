"""What a topic needs of the log under it: the managed ledger is one, the memory of a non-persistent topic another."""

from collections.abc import Callable, Mapping
from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.managed.cursors.cursor import Cursor
from engine.managed.ledger import InitialPosition
from engine.managed.settings import LedgerConfig
from engine.managed.stats import ManagedLedgerStats
from engine.managed.writing.appends import AppendSink


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
    def cursors(self) -> Mapping[str, Cursor]: ...

    @property
    def unread_cursors(self) -> Mapping[str, str]: ...

    def on_cursor_read(self, callback: Callable[[Cursor], None], /) -> None: ...

    async def open_cursor(
        self,
        name: str,
        initial: Position | InitialPosition,
        *,
        durable: bool,
        cursor_properties: dict[str, str],
    ) -> Cursor: ...

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
