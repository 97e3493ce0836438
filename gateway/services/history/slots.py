"""Numbers over time in slots of ten seconds. Pure.

A subject (the cluster, a topic, a subscription) has one point a slot: its rates are means over the slot, by how long
each value held, its backlog is what it was at the end. A point is recorded when it differs from the one before, so
that subjects at rest cost nothing; which slots were recorded at all is kept besides, once for all subjects.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from engine.admin.api import ROW_COLUMNS

SLOT_MS = 10_000
HOUR_SLOTS = 3_600_000 // SLOT_MS
MINUTE_SLOTS = 60_000 // SLOT_MS
DAY_SLOTS = 24 * HOUR_SLOTS

COLUMNS = ("msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out", "backlog")
RATES = len(COLUMNS) - 1
Point = tuple[int | None, ...]
"""In the order of COLUMNS, rates in thousandths per second; None: not known then."""
NOT_KNOWN: Point = (None,) * len(COLUMNS)
IDLE: Point = (None, 0, None, None, 0)
"""Of a subscription in which nothing waits and nothing flows."""
_PLACES = tuple(ROW_COLUMNS.index(column) for column in COLUMNS)
_RATE_OUT = COLUMNS.index("msg_rate_out")


class Subject(NamedTuple):
    """Both empty: the totals of the cluster; without a subscription the topic by its full name."""

    topic: str = ""
    subscription: str = ""


TOTALS = Subject()


def point_of(values: Sequence[int | None]) -> Point:
    """Of a row's values, which are in the order of ROW_COLUMNS."""
    return tuple([values[place] for place in _PLACES])


class Recorded(NamedTuple):
    """A point to be kept; ``gone``: the topic is no more, the subscription is idle."""

    subject: Subject
    point: Point
    gone: bool


class _Gathering:
    """A subject in the slot that is under way."""

    __slots__ = ("held", "kept", "known_ms", "since_ms", "sums")

    def __init__(self, held: Point | None, kept: Point | None, since_ms: int) -> None:
        self.held = held
        self.kept = kept
        """The point recorded last."""
        self.since_ms = since_ms
        self.sums = [0] * RATES
        self.known_ms = 0

    def change(self, held: Point | None, now_ms: int) -> None:
        self.count(now_ms)
        self.held = held

    def count(self, now_ms: int) -> None:
        span_ms = now_ms - self.since_ms
        if span_ms <= 0:
            return
        self.since_ms = now_ms
        held = self.held
        if held is None or held[_RATE_OUT] is None:
            return
        self.known_ms += span_ms
        for column, rate in enumerate(held[:RATES]):
            if rate:
                self.sums[column] += rate * span_ms

    @property
    def point(self) -> Point:
        """A column that is not known at the end of the slot is not known."""
        held = self.held or NOT_KNOWN
        if not self.known_ms:
            return held
        means = [
            None if rate is None else round(total / self.known_ms)
            for rate, total in zip(held[:RATES], self.sums, strict=True)
        ]
        return (*means, *held[RATES:])


class Slots:
    """Gathers the slot under way. Memory and work are in proportion to the subjects that change.

    ``kept``: the last point of each subject, as recorded before; it is taken over. Tell every subject that there is as
    a change from None before the first slot ends.
    """

    def __init__(self, kept: dict[Subject, Point], now_ms: int) -> None:
        self.begun_ms = now_ms
        self._kept = kept
        self._open: dict[Subject, _Gathering] = {}

    @property
    def number(self) -> int:
        """Of the slot under way: how many were before it since the epoch."""
        return self.begun_ms // SLOT_MS

    def change(
        self, subject: Subject, before: Point | None, after: Point | None, now_ms: int
    ) -> None:
        """A subject's numbers are others from now on; None: it is not there."""
        gathering = self._open.get(subject)
        if gathering is None:
            kept = self._kept.pop(subject, None) if before is None else before
            gathering = self._open[subject] = _Gathering(before, kept, self.begun_ms)
            if before is None:
                gathering.since_ms = now_ms
        gathering.change(after, now_ms)

    def finish(self, now_ms: int) -> Iterator[Recorded]:
        """The slot is over, the next begins: what is to be recorded of it, worked out as it is taken. All of it must be
        taken before the next slot ends; what changes meanwhile counts in that."""
        kept, self._kept = self._kept, {}
        ended, self._open = self._open, {}
        self.begun_ms = now_ms
        return self._recorded(kept, ended, now_ms)

    def _recorded(
        self, kept: dict[Subject, Point], ended: dict[Subject, _Gathering], now_ms: int
    ) -> Iterator[Recorded]:
        for subject in kept:
            yield Recorded(subject, IDLE if subject.subscription else NOT_KNOWN, True)
        for subject, gathering in ended.items():
            gathering.count(now_ms)
            point, held = gathering.point, gathering.held
            changed = self._open.get(subject)
            if changed is not None:
                changed.kept = point
            elif held is not None and point != held:
                self._open[subject] = _Gathering(held, point, now_ms)
            if point != gathering.kept or held is None:
                yield Recorded(subject, point, held is None or held == IDLE)

    def skip(self, now_ms: int) -> None:
        """The slot is over and nothing is known of it; what changed in it counts in the next."""
        for gathering in self._open.values():
            gathering.sums, gathering.known_ms = [0] * RATES, 0
            gathering.since_ms = now_ms
        self.begun_ms = now_ms


def expanded(
    rows: Iterable[tuple[int, Point]], known: Iterable[tuple[int, int]], first: int, last: int
) -> list[Point]:
    """A point for each slot from ``first`` to ``last``. ``rows``: recorded points by slot, ascending, from the last one
    that is not after ``first``; ``known``: first and last of each run of slots that were recorded."""
    covered = bytearray(max(0, last - first + 1))
    for begin, end in known:
        for slot in range(max(begin, first), min(end, last) + 1):
            covered[slot - first] = 1
    ahead = iter(rows)
    coming = next(ahead, None)
    point = NOT_KNOWN
    made = []
    for slot in range(first, last + 1):
        while coming is not None and coming[0] <= slot:
            point, coming = coming[1], next(ahead, None)
        made.append(point if covered[slot - first] else NOT_KNOWN)
    return made


def joined(points: Sequence[Point], count: int) -> Iterator[Point]:
    """Points of ``count`` slots each: means of the rates that are known, and the last backlog that is."""
    for start in range(0, len(points), count):
        some = points[start : start + count]
        yield tuple(
            _mean(column) if place < RATES else _last(column)
            for place, column in enumerate(zip(*some, strict=True))
        )


def _mean(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known)) if known else None


def _last(values: Sequence[int | None]) -> int | None:
    return next((value for value in reversed(values) if value is not None), None)
