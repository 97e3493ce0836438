"""What is known of a topic's or partition's numbers: who claims it, what is stored, the sum of its parts. Pure."""

from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from engine.admin.api import OLDEST_UNKNOWN, ROW_COLUMNS
from gateway.services.index.rows import AT_REST, KNOWN, LAST, LIVE, NO

Values = tuple[int | None, ...]
"""In the order of ROW_COLUMNS; rates in thousandths per second, so that sums are exact."""

PRODUCERS = ROW_COLUMNS.index("producers")
SUBSCRIPTIONS = ROW_COLUMNS.index("subscriptions")
BACKLOG = ROW_COLUMNS.index("backlog")
STORAGE = ROW_COLUMNS.index("storage_bytes")
RATE_IN = ROW_COLUMNS.index("msg_rate_in")
RATE_OUT = ROW_COLUMNS.index("msg_rate_out")
BYTES_IN = ROW_COLUMNS.index("bytes_rate_in")
BYTES_OUT = ROW_COLUMNS.index("bytes_rate_out")
MESSAGES = ROW_COLUMNS.index("backlog_messages")
ESTIMATED = ROW_COLUMNS.index("backlog_estimated")
UNMEASURED = ROW_COLUMNS.index("backlog_unmeasured")
OLDEST = ROW_COLUMNS.index("oldest_at")
NOTHING: Values = (0,) * len(ROW_COLUMNS)
UNKNOWN: Values = (None,) * len(ROW_COLUMNS)
"""Of a part that some broker which was not heard yet may have loaded."""
_MEASURED = (MESSAGES, ESTIMATED, UNMEASURED, OLDEST)
"""What is known of a backlog beside its entries."""
STORED = frozenset((SUBSCRIPTIONS, BACKLOG, STORAGE, *_MEASURED))
"""Columns that a topic has without being loaded; the others are 0 then."""


def at_rest(
    subscriptions: int | None, backlog: int | None, storage: int | None, *, last: Values = NOTHING
) -> Values:
    """Of a part that nobody has loaded: no clients, and what is stored. ``last``: what was known of it before: a
    backlog of as many entries holds as many messages as it did."""
    values = list(NOTHING)
    values[SUBSCRIPTIONS], values[BACKLOG], values[STORAGE] = subscriptions, backlog, storage
    if backlog is None:
        values[MESSAGES] = values[ESTIMATED] = values[UNMEASURED] = values[OLDEST] = None
    elif backlog and backlog == last[BACKLOG]:
        for column in _MEASURED:
            values[column] = last[column]
    elif backlog:
        values[MESSAGES] = values[UNMEASURED] = backlog
        values[OLDEST] = OLDEST_UNKNOWN
    return tuple(values)


def unloaded(values: Values) -> Values:
    """Return the values of a part that its broker unloaded: no clients, and what it stored then."""
    return tuple(value if column in STORED else 0 for column, value in enumerate(values))


UNREAD = at_rest(None, None, None)
"""Nobody has it loaded, and what is stored was not read yet."""


class Claim:
    """A broker has a part loaded. ``kept``: some values are older, since the broker does not know them now."""

    __slots__ = ("broker", "kept", "source", "values")

    def __init__(self, broker: str, source: "Source", values: Values) -> None:
        self.broker = broker
        self.source = source
        self.values = values
        self.kept = False


class Part:
    """A topic or partition. ``claim``: the broker that has it loaded; ``older``: others that say so, the newest last;
    ``rest``: what holds without any. ``values`` and ``known`` (one of ``rows.KNOWN``) are what of that is counted."""

    __slots__ = (
        *("claim", "known", "name", "older", "read", "rest"),
        *("shown_in", "taken", "values"),
    )

    def __init__(self, name: str, rest: Values) -> None:
        self.name = name
        self.rest = rest
        self.read = False
        """Whether ``rest`` is what is stored. Otherwise it is what was known last."""
        self.taken = 0
        """When ``rest`` was true, in ms; 0: it never was."""
        self.claim: Claim | None = None
        self.older: tuple[Claim, ...] = ()
        self.shown_in: Shown
        self.values, self.known = rest, NO

    @property
    def figures(self) -> "Figures":
        """What is counted."""
        return Figures(self.values, self.known)

    def look(self) -> bool:
        """Take as ``values`` and ``known`` what holds now; whether that is something else."""
        claim = self.claim
        if claim is None:
            values, best, is_sure = self.rest, AT_REST, self.read
        else:
            values, best = claim.values, LIVE
            is_sure = not (claim.kept or claim.source.silent)
        known = best if is_sure and None not in values else LAST
        if values[BACKLOG] is None:
            known = NO
        if known == self.known and values == self.values:
            return False
        self.values, self.known = values, known
        return True

    def claim_of(self, source: "Source") -> Claim:
        """The broker's, which has it loaded."""
        if self.claim is not None and self.claim.source is source:
            return self.claim
        (claim,) = (each for each in self.older if each.source is source)
        return claim

    @property
    def at(self) -> int:
        """When the values were true, ms; 0: never."""
        if self.claim is None or self.claim.kept:
            return self.taken
        return self.claim.source.at

    @property
    def persistent(self) -> bool:
        return self.name.startswith("persistent:")


class Figures(NamedTuple):
    """``known``: how (``rows.KNOWN``)."""

    values: Values
    known: int


class _Bag:
    """Numbers, several of them alike, and the least of them."""

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []
        """Each of the numbers, and some that are not there any more, twice as many in all at most."""

    def add(self, number: int, sign: int) -> None:
        """Count ``number`` once more, or with ``sign`` -1 once less."""
        count = self._counts.get(number, 0) + sign
        if not count:
            del self._counts[number]
            return
        if number not in self._counts:
            heappush(self._heap, number)
            if len(self._heap) > 2 * len(self._counts) + 16:
                self._heap = sorted({*self._counts, number})
        self._counts[number] = count

    @property
    def least(self) -> int:
        """0 without any."""
        while self._heap and self._heap[0] not in self._counts:
            heappop(self._heap)
        return self._heap[0] if self._heap else 0


class Fold:
    """The parts of a partitioned topic and their sum, kept as they change."""

    __slots__ = ("_known", "_oldest", "_subscriptions", "_sums", "_unknown", "parts")

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self._sums = [0] * len(ROW_COLUMNS)
        self._unknown = [0] * len(ROW_COLUMNS)
        self._subscriptions: dict[int, int] = {}
        """How many parts have so many."""
        self._oldest = _Bag()
        """Of parts with a backlog; ``OLDEST_UNKNOWN`` is less than any time."""
        self._known = [0] * len(KNOWN)

    def replace(self, before: Figures | None, after: Figures | None) -> None:
        """A part has other figures than before; None: it was, or is, not among them."""
        for figures, sign in ((before, -1), (after, 1)):
            if figures is None:
                continue
            self._known[figures.known] += sign
            for column, value in enumerate(figures.values):
                if value is None:
                    self._unknown[column] += sign
                elif column == OLDEST:
                    if value:
                        self._oldest.add(value, sign)
                elif column != SUBSCRIPTIONS:
                    self._sums[column] += sign * value
                else:
                    count = self._subscriptions.get(value, 0) + sign
                    if count:
                        self._subscriptions[value] = count
                    else:
                        del self._subscriptions[value]

    @property
    def figures(self) -> Figures:
        """Sums; of subscriptions, which all parts have alike, the highest number, of times the least. None where any
        part's is unknown."""
        self._sums[SUBSCRIPTIONS] = max(self._subscriptions, default=0)
        self._sums[OLDEST] = self._oldest.least
        unknown = self._unknown
        values = tuple(
            None if unknown[column] else value for column, value in enumerate(self._sums)
        )
        worst = max((known for known, count in enumerate(self._known) if count), default=AT_REST)
        return Figures(values, worst)


class Shown:
    """A topic of the list. ``fold``: of a partitioned one; without it ``part`` is the topic. ``last``: figures to show
    while some are not known, with when they were true; None while all are."""

    __slots__ = ("fold", "known", "last", "name", "part", "partitions", "values")

    def __init__(self, name: str, partitions: int, part: Part | None) -> None:
        self.name = name
        self.partitions = partitions
        self.part = part
        self.fold = Fold() if part is None else None
        self.last: tuple[int, Values] | None = None
        self.values, self.known = Figures(NOTHING, AT_REST) if part is None else part.figures

    @property
    def figures(self) -> Figures:
        """Of its parts, whatever was known before."""
        return self.part.figures if self.part is not None else self.fold.figures  # type: ignore[union-attr]

    @property
    def certain(self) -> Values:
        """What holds now; without the numbers that are the last known."""
        return UNKNOWN if self.known == LAST else self.values

    @property
    def parts(self) -> Iterable[Part]:
        return (
            (self.part,) if self.part is not None else self.fold.parts.values() if self.fold else ()
        )


class Source:
    """A broker's part of the numbers. ``at``: when it counted them, ms; 0 before its first answer. ``silent``: it may
    count others by now."""

    __slots__ = (
        *("at", "bytes_in", "bytes_out", "parts"),
        *("rate_in", "rate_out", "silent", "unseen"),
    )

    def __init__(self) -> None:
        self.at = 0
        self.parts: dict[str, Part] = {}
        self.unseen: dict[str, None] = {}
        """Of a list of everything that is coming: what was not named yet."""
        self.silent = False
        self.rate_in = self.rate_out = self.bytes_in = self.bytes_out = 0

    def put(self, before: Values, after: Values) -> None:
        """A part of it has other numbers."""
        self.rate_in += (after[RATE_IN] or 0) - (before[RATE_IN] or 0)
        self.rate_out += (after[RATE_OUT] or 0) - (before[RATE_OUT] or 0)
        self.bytes_in += (after[BYTES_IN] or 0) - (before[BYTES_IN] or 0)
        self.bytes_out += (after[BYTES_OUT] or 0) - (before[BYTES_OUT] or 0)


def filled(values: Values, last: Values) -> Values:
    """With the last that was known in the place of what is not."""
    return tuple(old if value is None else value for value, old in zip(values, last, strict=True))


def without_clients(values: Values) -> Values:
    """Of what is loaded nowhere."""
    return tuple(
        0 if value is None and column not in STORED else value
        for column, value in enumerate(values)
    )
