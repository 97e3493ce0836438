"""Interfaces that compaction needs of the managed ledger and of the cursor that records its result."""

from collections.abc import AsyncIterator, Mapping
from typing import Protocol

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.broker.dispatch.ports import DispatchCursor
from engine.ledger.reading.reader import LedgerReader
from engine.ledger.writing.writer import LedgerWriter, WriterListener
from engine.managed.ledger import InitialPosition


class CompactionCursor(DispatchCursor, Protocol):
    """Part of the managed ledger's ``Cursor``, which documents it."""

    @property
    def durable(self) -> bool: ...

    @property
    def properties(self) -> dict[str, int]: ...

    @property
    def mark(self) -> int: ...

    @property
    def mark_delete(self) -> Position: ...

    @property
    def read_position(self) -> Position: ...

    def pass_to(self, position: Position, /) -> None: ...

    def entries_of(self, start: int, stop: int, /) -> AsyncIterator[tuple[int, Slice]]: ...

    def take_snapshot(self, position: Position, properties: dict[str, int], /) -> None: ...

    async def persisted(self) -> None: ...

    async def reset(self, position: Position, /) -> None: ...

    async def replacing(self, old: int, new: int, /) -> None: ...

    async def replaced(self, kept: int, /) -> None: ...


class CompactedLog(Protocol):
    """Part of ``ManagedLedger``, which documents it."""

    @property
    def last_confirmed(self) -> Position: ...

    @property
    def last_readable(self) -> Position: ...

    @property
    def cursors(self) -> Mapping[str, CompactionCursor]: ...

    @property
    def unread_cursors(self) -> Mapping[str, str]: ...

    async def open_cursor(
        self,
        name: str,
        initial: Position | InitialPosition,
        *,
        durable: bool,
        cursor_properties: dict[str, str],
    ) -> CompactionCursor: ...

    def next_position(self, position: Position, /) -> Position: ...

    def bytes_behind(self, position: Position, /) -> int: ...

    def entries_between(self, first: Position, stop: Position, /) -> int: ...

    async def new_ledger(
        self, custom: dict[str, bytes], listener: WriterListener, /
    ) -> LedgerWriter: ...

    async def delete_ledger(self, ledger_id: int, /) -> None: ...

    async def open_ledger(self, ledger_id: int, /) -> LedgerReader: ...
