"""Windows over messages: by count or time, tumbling or sliding, by arrival or by event time with watermarks. Pure.

A message leaves for good as soon as no later window can contain it, so that it can be acknowledged with the last window
that did.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from engine.functions.instance.instance_plan import WindowPlan

T = TypeVar("T")


class _Timed(NamedTuple, Generic[T]):
    at_ms: int
    item: T


@dataclass(slots=True)
class WindowCall(Generic[T]):
    """One evaluation: the window's ``items``, which may be none, and those that no later window contains."""

    items: list[T]
    leaving: list[T]
    end_ms: int


class Windows(Generic[T]):
    """The messages that windows may still contain. By event time the trigger is the watermark: the latest event time
    less the permitted lag."""

    def __init__(self, window: WindowPlan) -> None:
        self._window = window
        self._by_event = bool(window.timestamps)
        self._length = window.count
        self._length_ms = window.length_ms
        neither = window.slide_count is None and window.slide_ms is None
        self._slide = window.count if neither else window.slide_count
        self._slide_ms = window.length_ms if neither else window.slide_ms
        self._items: deque[_Timed[T]] = deque()
        self._since = 0
        """Messages since the last window by count."""
        self._next_ms: int | None = None
        """End of the next window by time."""
        self._latest_ms = -1
        self._watermark_ms = -1

    def __len__(self) -> int:
        return len(self._items)

    @property
    def tick_ms(self) -> int | None:
        """The interval at which ``tick`` is due; None: never."""
        return self._window.watermark_every_ms if self._by_event else self._slide_ms

    def is_late(self, event_ms: int) -> bool:
        """Return whether the watermark has passed this event time: its windows were evaluated."""
        return self._by_event and event_ms <= self._watermark_ms

    def add(self, item: T, at_ms: int) -> list[WindowCall[T]]:
        """Add a message that arrived, or happened, at ``at_ms``. Return the windows that are complete by it."""
        if self._by_event:
            self._insert(_Timed(at_ms, item))
            self._latest_ms = max(self._latest_ms, at_ms)
            return []
        self._items.append(_Timed(at_ms, item))
        if self._slide is None:
            if self._next_ms is None and self._slide_ms:
                # Windows contain their end: with this one, exactly the interval that begins with the message.
                self._next_ms = at_ms + self._slide_ms - 1
            return []
        self._since += 1
        if self._since < self._slide:
            return []
        self._since = 0
        return [self._evaluate(at_ms, at_ms, len(self._items))]

    def _insert(self, timed: _Timed[T]) -> None:
        """Keep the messages in the order of event times; those of equal time in that of arrival."""
        later: list[_Timed[T]] = []
        while self._items and self._items[-1].at_ms > timed.at_ms:
            later.append(self._items.pop())
        self._items.append(timed)
        self._items.extend(reversed(later))

    def tick(self, now_ms: int) -> list[WindowCall[T]]:
        """Return the windows that are complete by the time or, by event time, by the watermark."""
        if self._by_event:
            self._watermark_ms = max(self._watermark_ms, self._latest_ms - self._window.max_lag_ms)
            until = self._watermark_ms
            if self._slide_ms is None:
                return list(self._counted(until))
            return list(self._timed(until))
        if self._slide_ms is None or self._next_ms is None:
            return []
        calls = []
        while self._next_ms <= now_ms:
            end, self._next_ms = self._next_ms, self._next_ms + self._slide_ms
            calls.append(self._evaluate(end, self._next_ms, self._up_to(end)))
            if not self._items:
                self._next_ms = None  # windows begin with the next message
                break
        return calls

    def _timed(self, until_ms: int) -> Iterable[WindowCall[T]]:
        """Yield the windows of event time that end by ``until_ms``. Ends are multiples of the sliding interval."""
        assert self._slide_ms is not None
        slide = self._slide_ms
        while self._items:
            earliest = self._items[0].at_ms
            first_end = -(-earliest // slide) * slide
            end = max(first_end, self._next_ms or 0)
            if end > until_ms:
                return
            self._next_ms = end + slide
            yield self._evaluate(end, self._next_ms, self._up_to(end))

    def _counted(self, until_ms: int) -> Iterable[WindowCall[T]]:
        """Yield windows after every so many messages that the watermark has passed."""
        assert self._slide is not None
        while True:
            due = self._up_to(until_ms)
            # Those that the last window kept were counted before.
            if due - self._since < self._slide:
                return
            count = self._since + self._slide
            end = self._items[count - 1].at_ms
            before = len(self._items)
            yield self._evaluate(end, end, count)
            self._since = count - (before - len(self._items))

    def _up_to(self, end_ms: int) -> int:
        return sum(1 for timed in self._items if timed.at_ms <= end_ms)

    def _evaluate(self, end_ms: int, next_ms: int, count: int) -> WindowCall[T]:
        """Return the window over the first ``count`` messages that ends at ``end_ms``; the next ends at ``next_ms``."""
        items = self._items
        leaving: list[T] = []
        if self._length is not None:
            for _ in range(max(0, count - self._length)):
                leaving.append(items.popleft().item)
                count -= 1
        if self._length_ms is not None:
            while count and items[0].at_ms <= end_ms - self._length_ms:
                leaving.append(items.popleft().item)
                count -= 1
        inside = [items[index].item for index in range(count)]
        stay = self._staying(next_ms, count)
        leaving.extend(items.popleft().item for _ in range(count - stay))
        return WindowCall(inside, leaving, end_ms)

    def _staying(self, next_ms: int, count: int) -> int:
        """Return how many of the window's ``count`` messages, the last ones, the next window may contain."""
        if self._length is not None:
            return min(count, self._length - self._slide if self._slide else self._length)
        assert self._length_ms is not None
        if self._slide is not None:
            return count
        return sum(1 for i in range(count) if self._items[i].at_ms > next_ms - self._length_ms)
