"""Interface between a topic and its log, which is a managed ledger or the memory of a non-persistent topic."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Protocol

from engine.base.ids import EARLIEST, Position
from engine.base.slices import Slice
from engine.broker.compaction.ports import CompactedLog, CompactionCursor
from engine.broker.dispatch.ports import DelayCursor
from engine.ledger.writing.writer import AckObserver
from engine.managed.ack_state import AckState
from engine.managed.cursors.last_change import LastChange
from engine.managed.cursors.moves import Effect
from engine.managed.ledger import InitialPosition
from engine.managed.settings import LedgerConfig
from engine.managed.stats import (
    CursorStats,
    EntrySummary,
    ManagedLedgerStats,
    MoveProgress,
    OffloadStatus,
)
from engine.managed.writing.appends import Appendable
from engine.managed.writing.ledger_holders import HeldSpan
from engine.offload.offload_policy import OffloadPolicy


class SubscriptionCursor(CompactionCursor, DelayCursor, Protocol):
    """The position of a subscription. The managed ledger's ``Cursor`` documents the methods and what they raise."""

    on_unblocked: Callable[[], None] | None

    @property
    def cursor_properties(self) -> dict[str, str]: ...

    @property
    def blocked(self) -> str | None: ...

    def backlog_entries(self) -> int: ...

    def stats(self) -> CursorStats: ...

    def unacknowledged(self, first: Position, last: Position, count: int, /) -> list[Position]: ...

    # Acknowledgements

    def acknowledge(self, positions: Sequence[Position], /) -> None: ...

    def acknowledge_run(self, ledger_id: int, first: int, stop: int, /) -> None: ...

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int], /) -> bool: ...

    def acknowledge_cumulative(
        self, position: Position, ack_set: Sequence[int] = (), /
    ) -> None: ...

    async def update_cursor_properties(self, properties: dict[str, str], /) -> None: ...

    def set_property(self, name: str, value: int | None, /) -> None: ...

    # Moves

    async def reset(self, position: Position, /) -> None: ...

    async def skip(self, entries: int, /) -> None: ...

    async def clear(self) -> None: ...

    # Changes that are previewed

    def state(self) -> bytes: ...

    def state_passed(self, entries: int | None, /) -> bytes: ...

    def state_passed_to(self, position: Position, /) -> bytes: ...

    def state_at(self, position: Position, /) -> bytes: ...

    def encoded(self, acks: AckState, /) -> bytes: ...

    def effect(self, base: bytes, target: bytes, /) -> Effect: ...

    def next_positions(self, effect: Effect, /) -> tuple[Position, Position]: ...

    async def move(self, effect: Effect, change: LastChange, /) -> None: ...

    @property
    def change_in_doubt(self) -> bool: ...

    @property
    def last_change(self) -> LastChange | None: ...


class AppendableLog(Appendable, Protocol):
    """The end of a log to which entries are appended."""

    async def writable(self) -> None: ...

    def on_readable(self, callback: Callable[[], None], /) -> Callable[[], None]: ...

    def on_recovered(self, callback: Callable[[Position, Position], None], /) -> None: ...

    def watch_acks(self, observer: AckObserver | None, /) -> None: ...

    @property
    def entries_added(self) -> int: ...

    @property
    def terminated(self) -> Position | None: ...

    async def terminate(self) -> Position: ...


class ReadableLog(Protocol):
    """The positions and entries of a log, read without a cursor."""

    @property
    def last_confirmed(self) -> Position: ...

    @property
    def last_readable(self) -> Position: ...

    @property
    def fetched(self) -> tuple[int, int]: ...

    def next_position(self, position: Position, /) -> Position: ...

    def entries_between(self, first: Position, stop: Position, /) -> int: ...

    def bytes_behind(self, position: Position, /) -> int: ...

    def last_before(self, size: int, /) -> Position: ...

    async def find_by_time(self, publish_ms: int, after: Position = EARLIEST, /) -> Position: ...

    async def find_older(self, before_ms: int, after: Position = EARLIEST, /) -> Position: ...

    async def entry_summary(self, position: Position, /) -> EntrySummary: ...

    def entry_summary_at_hand(self, position: Position, /) -> EntrySummary | None: ...

    def note_time(self, every_ms: int, /) -> None: ...

    async def read_entry(self, position: Position, /) -> Slice: ...

    def entry_at_hand(self, position: Position, /) -> Slice | None: ...

    def newest_first(
        self, before: Position | None = None, /
    ) -> AsyncGenerator[tuple[Slice, int], None]: ...

    def oldest_first(
        self, start: Position = EARLIEST, /
    ) -> AsyncGenerator[tuple[Slice, int], None]: ...


class AdministeredLog(Protocol):
    """The upkeep of a log and its end."""

    @property
    def properties(self) -> Mapping[str, str]: ...

    async def update_properties(self, changes: dict[str, str | None], /) -> None: ...

    def stats(self) -> ManagedLedgerStats: ...

    async def update_config(self, config: LedgerConfig, /) -> None: ...

    def freed(
        self, config: LedgerConfig, passed: Mapping[str, Position], gone: Collection[str], /
    ) -> tuple[int, Position]: ...

    def held_spans(self) -> list[HeldSpan]: ...

    def trim_soon(self) -> None: ...

    async def trim(self, *, retention: bool = True) -> None: ...

    def offload(self, before: Position, /) -> None: ...

    @property
    def offloaded_bytes(self) -> int: ...

    @property
    def offload_status(self) -> OffloadStatus: ...

    @property
    def offload_progress(self) -> MoveProgress: ...

    @property
    def offload_read_error(self) -> str: ...

    @property
    def offload_policy(self) -> OffloadPolicy | None: ...

    def on_fenced(self, callback: Callable[[], None], /) -> None: ...

    def fenced(self, error: Exception, /) -> None: ...

    async def close(self) -> None: ...


class SubscribedLog(ReadableLog, Protocol):
    """A log with its cursors."""

    @property
    def unread_cursors(self) -> Mapping[str, str]: ...

    @property
    def cursors(self) -> Mapping[str, SubscriptionCursor]: ...

    def on_cursor_read(self, callback: Callable[[SubscriptionCursor], None], /) -> None: ...

    async def open_cursor(
        self,
        name: str,
        initial: Position | InitialPosition,
        properties: dict[str, int] | None = None,
        *,
        durable: bool,
        cursor_properties: dict[str, str],
    ) -> SubscriptionCursor: ...

    async def delete_cursor(self, name: str, /) -> None: ...


class Log(SubscribedLog, CompactedLog, AppendableLog, AdministeredLog, Protocol):
    """The entries of one topic: appended in order, stored, read through cursors.

    ``ManagedLedger`` documents the methods and what they raise. Only a topic needs all of it: its parts use what they
    name.
    """

    def on_trimmed(self, callback: Callable[[], None], /) -> None: ...
