"""Changes of a subscription's position that administrators, clients and policies make."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from engine.base.ids import Position
from engine.broker.errors import BrokerError, NotAllowed, ServiceNotReady, SubscriptionBusy
from engine.broker.topics.ports import ReadableLog, SubscriptionCursor
from engine.broker.topics.subscriptions.subscription_dispatch import SubscriptionDispatch
from engine.managed.cursors.last_change import LastChange
from engine.managed.cursors.moves import Effect


class PassedReader(Protocol):
    """Parts of a subscription, or of another reader behind a cursor, that change when its cursor moves forward."""

    @property
    def closed(self) -> bool:
        """True when the reader has ended."""
        ...

    @property
    def closing(self) -> bool:
        """True when its topic is being closed."""
        ...

    def recheck_read_ahead(self) -> None:
        """Handle that the cursor is about to be moved forward."""
        ...

    def cursor_moved(self) -> None:
        """Handle that the cursor was moved forward."""
        ...

    def count_expired(self, entries: int) -> None: ...


class MovedSubscription(PassedReader, Protocol):
    """Parts of a subscription that change with its position."""

    async def restart(self) -> None:
        """Disconnect all consumers and forget what was read and sent, because the cursor is moved back."""
        ...

    async def clear_pending(self) -> None:
        """Forget what open transactions acknowledged, after the cursor was moved back; durable on return."""
        ...

    @property
    def dispatch(self) -> SubscriptionDispatch: ...

    def touched(self) -> None: ...


class ForwardMoves:
    """The moves of one cursor over entries that its reader need not have any more."""

    __slots__ = ("_cursor", "_log", "_reader")

    def __init__(self, reader: PassedReader, cursor: SubscriptionCursor, log: ReadableLog) -> None:
        self._reader = reader
        self._cursor = cursor
        self._log = log

    async def skip(self, entries: int) -> None:
        """Acknowledge the first ``entries`` unacknowledged entries; durable when the call returns."""
        self._reader.recheck_read_ahead()
        try:
            await self._cursor.skip(entries)
        finally:
            # The entries are acknowledged in memory, also when the wait for durability failed or was cancelled.
            self._reader.cursor_moved()

    async def clear(self) -> None:
        """Acknowledge everything; durable when the call returns."""
        self._reader.recheck_read_ahead()
        try:
            await self._cursor.clear()
        finally:
            self._reader.cursor_moved()  # as in skip

    async def expire(self, before_ms: int) -> int:
        """Acknowledge everything up to the last entry published before ``before_ms``; return the number of entries.

        Publish times are assumed to rise. An entry that is known to have been appended after ``before_ms`` stays,
        whatever its publish time is (D11). Raises the log's errors; cancel-safe.
        """
        if self._reader.closed or not self._cursor.backlog_entries():
            return 0
        last = await self._log.find_older(before_ms, self._cursor.mark_delete)
        return self.expire_to(last)

    def expire_to(self, position: Position) -> int:
        """Do as ``pass_over``, and count the entries as expired."""
        count = self.pass_over(position)
        self._reader.count_expired(count)
        return count

    def pass_over(self, position: Position) -> int:
        """Acknowledge everything up to ``position`` without a consumer; return the number of entries.

        Stored with the cursor's next write, or when a caller awaits ``SubscriptionCursor.persisted``.
        """
        ended = self._reader.closed or self._reader.closing
        if ended or position <= self._cursor.mark_delete:
            return 0
        before = self._cursor.backlog_entries()
        self._cursor.acknowledge_cumulative(position)
        self._reader.cursor_moved()
        return before - self._cursor.backlog_entries()


class CursorMoves(ForwardMoves):
    """The moves of one subscription's cursor. ``lock`` is held during a move that disconnects consumers, and while a
    consumer attaches."""

    __slots__ = ("_host", "lock")

    def __init__(
        self, host: MovedSubscription, cursor: SubscriptionCursor, log: ReadableLog
    ) -> None:
        super().__init__(host, cursor, log)
        self._host = host
        self.lock = asyncio.Lock()

    async def reset(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        """Disconnect the consumers, then make ``position`` the next entry delivered (D7); durable when it returns.

        Of the batch at ``position`` only the messages whose bits are set in ``ack_set`` are delivered, all when it is
        empty. Raises SubscriptionBusy while another move is in progress, ServiceNotReady when deleted meanwhile.
        """
        if self.lock.locked():
            raise SubscriptionBusy("another change of the subscription is in progress")
        async with self.lock:
            if self._host.closed:
                raise ServiceNotReady("Subscription was deleted")
            await self._host.restart()
            self._host.dispatch.sought(position)
            try:
                await self._cursor.reset(position)
                if any(ack_set):
                    self._cursor.acknowledge_batch(position, ack_set)
                    await self._cursor.persisted()
                await self._host.clear_pending()
            finally:
                self._host.touched()

    async def move(self, plan: Callable[[], tuple[Effect, LastChange]]) -> Effect:
        """Make the change that ``plan`` computes, with no other change in between; durable when the call returns.

        ``plan`` raises when the change must not be made. Consumers are disconnected only if messages are to be
        delivered again; ``plan`` is called before that and once more afterwards. Raises as ``reset``.
        """
        if self.lock.locked():
            raise SubscriptionBusy("another change of the subscription is in progress")
        async with self.lock:
            if self._host.closed:
                raise ServiceNotReady("Subscription was deleted")
            effect, change = plan()
            back = bool(effect.again or effect.partly)
            if back:
                await self._host.restart()
                effect, change = plan()  # the wait for the read may have let other changes through
            else:
                self._host.recheck_read_ahead()
            try:
                await self._cursor.move(effect, change)
                if back:
                    await self._host.clear_pending()
            finally:
                if back:
                    self._host.touched()
                else:
                    self._host.cursor_moved()
            return effect


class CompactionMoves(CursorMoves):
    """No moves: only compaction moves its cursor, since the entries before it count as compacted (M11)."""

    __slots__ = ()

    async def reset(self, position: Position, ack_set: Sequence[int] = ()) -> None:
        raise self._refused()

    async def move(self, plan: Callable[[], tuple[Effect, LastChange]]) -> Effect:
        raise self._refused()

    async def skip(self, entries: int) -> None:
        raise self._refused()

    async def clear(self) -> None:
        raise self._refused()

    def pass_over(self, position: Position) -> int:
        return 0

    def _refused(self) -> BrokerError:
        return NotAllowed(f"Subscription {self._cursor.name} is moved by compaction alone")
