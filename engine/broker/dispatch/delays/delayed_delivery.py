"""Delayed delivery of one subscription: entries are set aside until their delivery time (D5)."""

from collections.abc import Callable

from engine.base.slices import View
from engine.broker.context import Context
from engine.broker.dispatch.delays.alarm import DeliveryAlarm
from engine.broker.dispatch.delays.delay_keeper import DelayKeeper
from engine.broker.dispatch.delays.delayed import DelayIndex
from engine.broker.dispatch.facts import EntryFacts
from engine.broker.dispatch.ports import DelayCursor
from engine.broker.dispatch.redelivery import ReplayQueue
from engine.broker.dispatch.source import EntrySource


class DelayedDelivery:
    """Entries that wait for their delivery time, in memory and stored, and the alarm for the next of them."""

    __slots__ = ("_cursor", "_source", "alarm", "index", "keeper")

    def __init__(
        self,
        source: EntrySource,
        cursor: DelayCursor,
        context: Context,
        wake: Callable[[], None],
        start_over: Callable[[], None],
    ) -> None:
        """``wake`` and ``start_over`` are those of the dispatcher; ``cursor`` is the one that ``source`` reads."""
        settings = context.settings
        self._source = source
        self._cursor = cursor
        self.index = DelayIndex(
            settings.delayed_delivery_min_index_count_per_bucket,
            settings.delayed_delivery_max_indexes_per_bucket_snapshot_segment,
        )
        self.keeper = DelayKeeper(
            self.index,
            cursor,
            source.scope,
            context.entropy,
            settings.delayed_delivery_max_num_buckets,
            wake,
            start_over,
        )
        strict = settings.is_delayed_delivery_deliver_at_time_strict
        self.alarm = DeliveryAlarm(self.index, context.clock, wake, strict=strict)

    @property
    def entries(self) -> int:
        """Number of entries that wait for their delivery time, at most the backlog."""
        count = len(self.index)
        # Entries in stored runs may have been acknowledged since; only the backlog counts those.
        return min(count, self._cursor.backlog_entries()) if count else 0

    def take_due(self, waiting: ReplayQueue, room: int, entries_max: int) -> None:
        """Move due entries from the index to ``waiting``, ``entries_max`` at a time, until ``room`` wait there."""
        is_acknowledged = self._cursor.is_acknowledged
        while len(waiting) < room:
            due = self.index.take(self.alarm.due_ms, entries_max)
            if not due:
                return
            # Entries in stored runs are not removed when they are acknowledged.
            waiting.add(position for position in due if not is_acknowledged(position))

    def due(
        self, view: View, special: dict[int, EntryFacts], entries_max: int, now_ms: int
    ) -> View | None:
        """Return the first entries of ``view`` that may be sent together, a chunk by itself; None without any.

        At most ``entries_max`` are considered. Entries before them are set aside until their time; entries behind them
        are given back to the source.
        """
        indexes = view.indexes[:entries_max]
        start, stop = 0, len(indexes)
        while start < stop and self._set_aside(view, indexes[start], special, now_ms):
            start += 1
        after = min(start + 1, stop)
        first = special.get(indexes[start]) if start < stop else None
        if first is None or first.chunk is None:
            due_ms = now_ms + self.alarm.early_ms
            while after < stop and _may_join(special.get(indexes[after]), due_ms):
                after += 1
        if after < view.count:
            self._source.give_back(view.part(after, view.count))
        return view.part(start, after) if start < after else None

    def _set_aside(self, view: View, i: int, special: dict[int, EntryFacts], now_ms: int) -> bool:
        """Set an entry aside when its delivery time has not come; return whether it was."""
        facts = special.get(i)
        if facts is None or facts.deliver_at_ms <= now_ms + self.alarm.early_ms:
            return False
        self.index.add(view.run.position(i), facts.deliver_at_ms)
        return True

    def close(self) -> None:
        """Forget the entries in memory; those stored are read by ``keeper`` when it is opened again."""
        self.keeper.close()
        self.alarm.cancel()


def _may_join(facts: EntryFacts | None, due_ms: int) -> bool:
    """Return whether an entry may be sent together with those before it."""
    return facts is None or (facts.chunk is None and facts.deliver_at_ms <= due_ms)
