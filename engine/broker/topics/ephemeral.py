"""Non-persistent topics: entries are sent to consumers with permits and stored nowhere; others are dropped and counted.

``EphemeralLog`` replaces the managed ledger. An append is complete when it returns, so that no consumer can delay a
producer.
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import replace

from engine.base.ids import EARLIEST, LATEST, Position
from engine.base.slices import Slice, View
from engine.broker.control.counters import Rate
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.consumer import UNLIMITED, Consumer
from engine.broker.dispatch.dispatcher import Dispatcher
from engine.broker.dispatch.dropping import DroppingDispatcher
from engine.broker.errors import NotAllowed
from engine.broker.topics.ports import SubscriptionCursor
from engine.broker.topics.subscriptions.subscription_dispatch import (
    DispatchHost,
    SubscriptionDispatch,
)
from engine.broker.topics.subscriptions.unacked_subscription import (
    UnacknowledgedSubscription,
)
from engine.ledger.reading.reader import LedgerReader
from engine.ledger.writing.writer import AckObserver, LedgerWriter, WriterListener
from engine.managed.ack_state import AckState
from engine.managed.cursors.last_change import LastChange
from engine.managed.cursors.moves import Effect
from engine.managed.errors import CursorNotFoundError, ManagedLedgerClosedError
from engine.managed.ledger import InitialPosition
from engine.managed.settings import LedgerConfig
from engine.managed.stats import (
    CursorStats,
    EntrySummary,
    ManagedLedgerStats,
    MoveProgress,
    OffloadStatus,
)
from engine.managed.writing.appends import AppendSink
from engine.managed.writing.ledger_holders import HeldSpan
from engine.offload.offload_policy import OffloadPolicy

A_CHANGE = "A change of a subscription"
COMPACTION = "Compaction"


def _refused(what: str) -> NotAllowed:
    return NotAllowed(f"{what} on a non-persistent topic is not allowed")


class EphemeralCursor:
    """The cursor of one subscription, which offers the run just appended. Nothing is stored or acknowledged."""

    durable = False
    index = None
    mark = 0
    mark_delete = EARLIEST
    read_position = LATEST
    blocked: str | None = None
    has_partial_batches = False
    change_in_doubt = False

    def __init__(self, name: str, properties: dict[str, str]) -> None:
        self.name = name
        self.cursor_properties = properties
        self.on_unblocked: Callable[[], None] | None = None
        self.offered: View | None = None

    def read_nowait(self, entries_max: int, bytes_max: int) -> list[View]:
        view, self.offered = self.offered, None
        return [] if view is None else [view]

    async def read(self, entries_max: int, bytes_max: int) -> list[View]:
        return self.read_nowait(entries_max, bytes_max)

    async def replay(self, positions: Sequence[Position], bytes_max: int) -> list[View]:
        return []

    def rewind(self) -> None:
        self.offered = None

    def is_acknowledged(self, position: Position) -> bool:
        return False

    def unacknowledged(self, first: Position, last: Position, count: int) -> list[Position]:
        return []

    def remains(self, position: Position) -> int | None:
        return 0

    def set_aside(self, spans: Iterable[tuple[int, int, int]]) -> None:
        pass

    def ack_set(self, position: Position) -> list[int] | None:
        return None

    def acknowledge(self, positions: Sequence[Position]) -> None:
        pass

    def acknowledge_run(self, ledger_id: int, first: int, stop: int) -> None:
        pass

    def acknowledge_batch(self, position: Position, ack_set: Sequence[int]) -> bool:
        return False

    def acknowledge_cumulative(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        pass

    async def persisted(self) -> None:
        pass

    async def update_cursor_properties(self, properties: dict[str, str]) -> None:
        self.cursor_properties = dict(properties)

    @property
    def properties(self) -> dict[str, int]:
        return {}

    def set_property(self, name: str, value: int | None) -> None:
        raise _refused("Replication of subscriptions")

    def take_snapshot(self, position: Position, properties: dict[str, int]) -> None:
        raise _refused("A snapshot")

    def pass_to(self, position: Position) -> None:
        pass

    async def replacing(self, old: int, new: int) -> None:
        raise _refused(COMPACTION)

    async def replaced(self, kept: int) -> None:
        raise _refused(COMPACTION)

    def backlog_entries(self) -> int:
        return 0

    async def reset(self, position: Position) -> None:
        raise _refused("Reset-cursor")

    async def skip(self, entries: int) -> None:
        raise _refused("Skip messages")

    async def clear(self) -> None:
        raise _refused("Clear backlog")

    def state(self) -> bytes:
        raise _refused(A_CHANGE)

    def state_passed(self, entries: int | None) -> bytes:
        raise _refused(A_CHANGE)

    def state_passed_to(self, position: Position) -> bytes:
        raise _refused(A_CHANGE)

    def state_at(self, position: Position) -> bytes:
        raise _refused(A_CHANGE)

    def encoded(self, acks: AckState) -> bytes:
        raise _refused(A_CHANGE)

    def effect(self, base: bytes, target: bytes) -> Effect:
        raise _refused(A_CHANGE)

    def next_positions(self, effect: Effect) -> tuple[Position, Position]:
        raise _refused(A_CHANGE)

    async def move(self, effect: Effect, change: LastChange) -> None:
        raise _refused(A_CHANGE)

    @property
    def last_change(self) -> LastChange | None:
        return None

    def entries_of(self, start: int, stop: int) -> AsyncIterator[tuple[int, Slice]]:
        raise _refused("Reading messages")

    def stats(self) -> CursorStats:
        raise _refused("Statistics of a cursor")


class EphemeralDispatch(SubscriptionDispatch):
    """Dispatch of entries that are not stored: those that no consumer can receive now are dropped and counted."""

    __slots__ = ("_dropped",)

    def __init__(
        self,
        host: DispatchHost,
        cursor: SubscriptionCursor,
        consumers: list[Consumer],
        pass_markers: Callable[[list[View]], None],
        start_over: Callable[[], None],
        dropped: Rate,
    ) -> None:
        """``dropped`` counts the messages that are dropped."""
        self._dropped = dropped
        super().__init__(host, cursor, consumers, pass_markers, start_over)

    def wake(self) -> None:
        super().wake()
        while (view := self._source.next(UNLIMITED)) is not None:
            self._dropped.total += view.messages

    def _make_sharing(self, keys: KeyPolicy | None) -> Dispatcher:
        # Nothing sent awaits an acknowledgement, so a key that moves to another consumer has no order to keep.
        if keys is not None:
            keys = replace(keys, out_of_order=True)
        return DroppingDispatcher(
            self._source, self._context, self._chooser(keys), self._dropped, self._consumers
        )


class EphemeralSubscription(UnacknowledgedSubscription):
    """A subscription to a non-persistent topic, which is deleted with its last consumer."""

    __slots__ = ()

    def _make_dispatch(self) -> SubscriptionDispatch:
        return EphemeralDispatch(
            self._host,
            self.cursor,
            self.consumers,
            self.pass_markers,
            self.disconnect,
            self.counters.dropped,
        )


class EphemeralLog:
    """A ``Log`` without entries. Operations that need stored entries raise NotAllowed."""

    terminated: Position | None = None

    def __init__(self, name: str) -> None:
        self._name = name
        self.cursors: dict[str, EphemeralCursor] = {}
        self.unread_cursors: dict[str, str] = {}
        self.properties: dict[str, str] = {}
        self._appended: tuple[Callable[[], None], ...] = ()
        self._ended: tuple[Callable[[], None], ...] = ()
        self._closed = False
        self._entries = 0
        self._bytes = 0

    def append(self, run: Slice, sink: AppendSink, /) -> None:
        """Offer ``run`` to all cursors. It gets no position: clients receive its entries with the id 0:0."""
        if self._closed:
            sink.append_failed(run, 0, ManagedLedgerClosedError(f"{self._name} is closed"))
            return
        self._entries += run.count
        self._bytes += run.size
        # The receipt precedes the delivery: a consumer must not delay a producer.
        sink.appended(run, 0, run.count)
        for cursor in self.cursors.values():
            cursor.offered = View(run, 0, run.count)
        for callback in self._appended:
            callback()

    async def writable(self) -> None:
        pass

    def on_readable(self, callback: Callable[[], None], /) -> Callable[[], None]:
        self._appended = (*self._appended, callback)

        def stop() -> None:
            self._appended = tuple(present for present in self._appended if present is not callback)

        return stop

    def on_recovered(self, callback: Callable[[Position, Position], None], /) -> None:
        pass

    def watch_acks(self, observer: AckObserver | None, /) -> None:
        pass

    @property
    def last_confirmed(self) -> Position:
        raise _refused("GetLastMessageId")

    @property
    def last_readable(self) -> Position:
        raise _refused("GetLastMessageId")

    async def terminate(self) -> Position:
        raise _refused("Termination")

    async def open_cursor(
        self,
        name: str,
        initial: Position | InitialPosition,
        properties: dict[str, int] | None = None,
        *,
        durable: bool,
        cursor_properties: dict[str, str],
    ) -> EphemeralCursor:
        cursor = self.cursors[name] = EphemeralCursor(name, cursor_properties)
        return cursor

    async def delete_cursor(self, name: str, /) -> None:
        if self.cursors.pop(name, None) is None:
            raise CursorNotFoundError(name)

    def on_trimmed(self, callback: Callable[[], None], /) -> None:
        pass

    def on_cursor_read(self, callback: Callable[[SubscriptionCursor], None], /) -> None:
        pass

    def next_position(self, position: Position, /) -> Position:
        return LATEST

    def entries_between(self, first: Position, stop: Position, /) -> int:
        return 0

    def bytes_behind(self, position: Position, /) -> int:
        return 0

    @property
    def fetched(self) -> tuple[int, int]:
        return 0, 0

    def last_before(self, size: int, /) -> Position:
        return EARLIEST

    async def new_ledger(
        self, custom: dict[str, bytes], listener: WriterListener, /
    ) -> LedgerWriter:
        raise _refused(COMPACTION)

    async def delete_ledger(self, ledger_id: int, /) -> None:
        raise _refused(COMPACTION)

    async def open_ledger(self, ledger_id: int, /) -> LedgerReader:
        raise _refused(COMPACTION)

    async def find_by_time(self, publish_ms: int, after: Position = EARLIEST, /) -> Position:
        raise _refused("Get message ID by timestamp")

    async def find_older(self, before_ms: int, after: Position = EARLIEST, /) -> Position:
        raise _refused("Expiry")

    async def entry_summary(self, position: Position, /) -> EntrySummary:
        raise _refused("Reading a message")

    def entry_summary_at_hand(self, position: Position, /) -> EntrySummary | None:
        return None

    def note_time(self, every_ms: int, /) -> None:
        """Do nothing: no stored entry could expire."""

    async def read_entry(self, position: Position, /) -> Slice:
        raise _refused("Reading a message")

    def entry_at_hand(self, position: Position, /) -> Slice | None:
        return None

    def newest_first(
        self, before: Position | None = None, /
    ) -> AsyncGenerator[tuple[Slice, int], None]:
        raise _refused("Reading messages")

    def oldest_first(
        self, start: Position = EARLIEST, /
    ) -> AsyncGenerator[tuple[Slice, int], None]:
        raise _refused("Reading messages")

    async def update_properties(self, changes: dict[str, str | None], /) -> None:
        raise _refused("Properties")

    @property
    def entries_added(self) -> int:
        return self._entries

    def stats(self) -> ManagedLedgerStats:
        return ManagedLedgerStats(
            name=self._name,
            entries=0,
            size=0,
            entries_added=self._entries,
            bytes_added=self._bytes,
            current_ledger_id=-1,
            current_ledger_entries=0,
            current_ledger_size=0,
            last_ledger_created_ms=0,
            pending_entries=0,
            cache_bytes=0,
            last_confirmed=EARLIEST,
            state="",
            ledgers=(),
            cursors=(),
            unread_cursors={},
        )

    async def update_config(self, config: LedgerConfig, /) -> None:
        pass

    def freed(
        self, config: LedgerConfig, passed: Mapping[str, Position], gone: Collection[str], /
    ) -> tuple[int, Position]:
        return 0, EARLIEST

    def held_spans(self) -> list[HeldSpan]:
        return []

    def trim_soon(self) -> None:
        pass

    async def trim(self, *, retention: bool = True) -> None:
        raise _refused("Trim")

    def offload(self, before: Position, /) -> None:
        raise _refused("Offload")

    @property
    def offloaded_bytes(self) -> int:
        return 0

    @property
    def offload_status(self) -> OffloadStatus:
        return OffloadStatus()

    @property
    def offload_progress(self) -> MoveProgress:
        return MoveProgress()

    @property
    def offload_read_error(self) -> str:
        return ""

    @property
    def offload_policy(self) -> OffloadPolicy | None:
        return None

    def on_fenced(self, callback: Callable[[], None], /) -> None:
        self._ended = (*self._ended, callback)

    def fenced(self, error: Exception, /) -> None:
        if not self._closed:
            self._closed = True
            for callback in self._ended:
                callback()

    async def close(self) -> None:
        self._closed = True
