"""Numbers over time, in slots of ten seconds. Pure.

A subject (the cluster, a topic, a subscription) has one point per slot. Its rates are means over the slot, weighted by
how long each value applied; its backlog is that at the slot's end. A point is recorded when it differs from the
previous one, so that idle subjects cost nothing. The recorded slots are stored separately, once for all subjects.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from engine.admin.api.rows import ROW_COLUMNS

SLOT_MS = 10_000
HOUR_SLOTS = 3_600_000 // SLOT_MS
MINUTE_SLOTS = 60_000 // SLOT_MS
DAY_SLOTS = 24 * HOUR_SLOTS
WEEK_SLOTS = 7 * DAY_SLOTS
STEP_SLOTS = 30
"""Slots of a step, which is kept for days."""

COLUMNS = ("msg_rate_in", "msg_rate_out", "bytes_rate_in", "bytes_rate_out", "backlog")
RATES = len(COLUMNS) - 1
Point = tuple[int | None, ...]
"""Values in the order of COLUMNS, rates in thousandths per second; None: unknown at that time."""
NOT_KNOWN: Point = (None,) * len(COLUMNS)
IDLE: Point = (None, 0, None, None, 0)
"""Point of a subscription without a backlog and without traffic."""
_PLACES = tuple(ROW_COLUMNS.index(column) for column in COLUMNS)
_RATE_OUT = COLUMNS.index("msg_rate_out")


class Subject(NamedTuple):
    """A topic by its full name, one of its subscriptions, or, with both empty, the totals of the cluster. A link to
    another cluster, a broker or a bookie takes the place of a topic, by ``link_name``, ``broker_name`` and
    ``bookie_name``."""

    topic: str = ""
    subscription: str = ""


TOTALS = Subject()
LINK = "link:"
BROKER = "broker:"
BOOKIE = "bookie:"
PARTS = (LINK, BROKER, BOOKIE)
"""Begins of the names of links, brokers and bookies, which no topic's name has."""
BROKER_COLUMNS = (*COLUMNS[:RATES], "topics")
BOOKIE_COLUMNS = ("usage", "used_bytes", "total_bytes", "", "ledgers")
"""Columns of bookies, whose first values are not rates but means as those are; one is not used."""


def link_name(remote: str) -> str:
    """Return the name of the link between this cluster and a remote one, which stands for a topic's."""
    return LINK + remote


def broker_name(broker: str) -> str:
    """Return the name of a broker, which stands for a topic's. Its points are in ``BROKER_COLUMNS``."""
    return BROKER + broker


def bookie_name(bookie: str) -> str:
    """Return the name of a bookie, which stands for a topic's. Its points are in ``BOOKIE_COLUMNS``."""
    return BOOKIE + bookie


def point_of(values: Sequence[int | None]) -> Point:
    """Return the point of a row's values, which are in the order of ROW_COLUMNS."""
    return tuple([values[index] for index in _PLACES])


class Recorded(NamedTuple):
    """A point to be stored; ``gone``: the topic was deleted, or the subscription is idle."""

    subject: Subject
    point: Point
    gone: bool


class _Gathering:
    """Sums of one subject in the present slot.

    ``held``: the values that apply now; None: the subject does not exist. ``known_ms``: for how long rates were known.
    """

    __slots__ = ("held", "known_ms", "recorded", "since_ms", "sums")

    def __init__(self, held: Point | None, recorded: Point | None, since_ms: int) -> None:
        self.held = held
        self.recorded = recorded
        """The point that was recorded last."""
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
        """The point of the slot. A column that is unknown at the slot's end is unknown."""
        held = self.held or NOT_KNOWN
        if not self.known_ms:
            return held
        means = [
            None if rate is None else round(total / self.known_ms)
            for rate, total in zip(held[:RATES], self.sums, strict=True)
        ]
        return (*means, *held[RATES:])


class Slots:
    """Points of the present slot. Memory and work are proportional to the number of subjects that change.

    ``last_points``: the last recorded point of each subject; the mapping is consumed. The caller reports every subject
    as a change from None before the first slot ends.
    """

    def __init__(self, last_points: dict[Subject, Point], now_ms: int) -> None:
        self.begun_ms = now_ms
        self._last_points = last_points
        self._open: dict[Subject, _Gathering] = {}

    @property
    def number(self) -> int:
        """Number of the present slot, counted from the epoch."""
        return self.begun_ms // SLOT_MS

    def change(
        self, subject: Subject, before: Point | None, after: Point | None, now_ms: int
    ) -> None:
        """Record that a subject's numbers change; None: the subject does not exist."""
        gathering = self._open.get(subject)
        if gathering is None:
            recorded = self._last_points.pop(subject, None) if before is None else before
            gathering = self._open[subject] = _Gathering(before, recorded, self.begun_ms)
            if before is None:
                gathering.since_ms = now_ms
        gathering.change(after, now_ms)

    def finish(self, now_ms: int) -> Iterator[Recorded]:
        """End the slot and begin the next; return the points to be stored, computed lazily.

        The iterator must be exhausted before the next slot ends; changes meanwhile count in that slot.
        """
        last_points, self._last_points = self._last_points, {}
        ended, self._open = self._open, {}
        self.begun_ms = now_ms
        return self._recorded(last_points, ended, now_ms)

    def _recorded(
        self, last_points: dict[Subject, Point], ended: dict[Subject, _Gathering], now_ms: int
    ) -> Iterator[Recorded]:
        # Subjects that were not reported since the start were deleted, or became idle, while nothing was recorded.
        for subject in last_points:
            yield Recorded(subject, IDLE if subject.subscription else NOT_KNOWN, True)
        for subject, gathering in ended.items():
            gathering.count(now_ms)
            point, held = gathering.point, gathering.held
            changed = self._open.get(subject)
            if changed is not None:
                changed.recorded = point
            elif held is not None and point != held:
                # The next slot's mean differs from this one's although nothing changes in it.
                self._open[subject] = _Gathering(held, point, now_ms)
            if point != gathering.recorded or held is None:
                yield Recorded(subject, point, held is None or held == IDLE)

    def skip(self, now_ms: int) -> None:
        """End a slot of which nothing is known; values that changed in it count in the next."""
        for gathering in self._open.values():
            gathering.sums, gathering.known_ms = [0] * RATES, 0
            gathering.since_ms = now_ms
        self.begun_ms = now_ms


def expanded(
    rows: Iterable[tuple[int, Point]],
    known: Iterable[tuple[int, int]],
    first: int,
    last: int,
    every: int = 1,
) -> list[Point]:
    """Return a point for each slot from ``first`` to ``last``, or for the last one of ``every`` so many of them.

    ``rows``: recorded points by ascending slot, beginning with the last one that is not after ``first``. ``known``:
    first and last slot of each run of recorded slots.
    """
    covered = bytearray(max(0, last - first + 1))
    for begin, end in known:
        start, stop = max(begin, first) - first, min(end, last) + 1 - first
        if start < stop:
            covered[start:stop] = bytes((1,)) * (stop - start)
    remaining = iter(rows)
    upcoming = next(remaining, None)
    point = NOT_KNOWN
    points = []
    for slot in range(first + every - 1, last + 1, every):
        while upcoming is not None and upcoming[0] <= slot:
            point, upcoming = upcoming[1], next(remaining, None)
        points.append(point if covered[slot - first] else NOT_KNOWN)
    return points


def joined(points: Sequence[Point], count: int) -> Iterator[Point]:
    """Yield points of ``count`` slots each: the means of the known rates, and the last known backlog."""
    for start in range(0, len(points), count):
        group = points[start : start + count]
        yield tuple(
            _mean(column) if index < RATES else _last(column)
            for index, column in enumerate(zip(*group, strict=True))
        )


def _mean(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known)) if known else None


def _last(values: Sequence[int | None]) -> int | None:
    return next((value for value in reversed(values) if value is not None), None)
