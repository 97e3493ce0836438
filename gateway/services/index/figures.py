"""The figures of topics and partitions: the brokers that claim them, what is stored, sums of partitions. Pure."""

from collections.abc import Iterable
from heapq import heappop, heappush
from operator import add
from typing import NamedTuple

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from gateway.services.index.rows import AT_REST, KNOWN, LAST, LIVE, NO

Values = tuple[int | None, ...]
"""Figures in the order of ROW_COLUMNS; rates in thousandths per second, so that sums are exact; None: unknown."""

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
"""The figures of a part that may be loaded by a broker that has not answered yet."""
_MEASURED = (MESSAGES, ESTIMATED, UNMEASURED, OLDEST)
"""Columns of a backlog beside its entries."""
STORED = frozenset((SUBSCRIPTIONS, BACKLOG, STORAGE, *_MEASURED))
"""Columns that a topic has without being loaded; the others are 0 then."""


def at_rest(
    subscriptions: int | None, backlog: int | None, storage: int | None, *, last: Values = NOTHING
) -> Values:
    """Return the values of an unloaded part: no clients, and what is stored.

    The store counts a backlog in entries only. While it has as many entries as in ``last``, the values known before, it
    holds as many messages as it did.
    """
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
"""The values of an unloaded part whose stored figures were not read yet."""


class Claim:
    """A broker's report that it has a part loaded. ``is_partly_old``: some values are older ones, because the broker
    does not know them now."""

    __slots__ = ("broker", "is_partly_old", "source", "values")

    def __init__(self, broker: str, source: "BrokerFigures", values: Values) -> None:
        self.broker = broker
        self.source = source
        self.values = values
        self.is_partly_old = False


class Part:
    """A topic or partition.

    ``claim`` is of the broker that has it loaded, ``older`` are earlier claims that were not withdrawn, the newest
    last; ``stored`` are the values without any claim. ``values`` and ``known`` (index into ``rows.KNOWN``) are those of
    them that are counted.
    """

    __slots__ = (
        *("claim", "is_read", "known", "name", "older"),
        *("shown_in", "stored", "stored_at", "values"),
    )

    def __init__(self, name: str, stored: Values) -> None:
        self.name = name
        self.stored = stored
        self.is_read = False
        """True where ``stored`` was read from the store; otherwise it is what was known last."""
        self.stored_at = 0
        """Time of ``stored`` in ms; 0: it never held."""
        self.claim: Claim | None = None
        self.older: tuple[Claim, ...] = ()
        self.shown_in: Shown
        self.values, self.known = stored, NO

    @property
    def figures(self) -> "KnownValues":
        """The counted values."""
        return KnownValues(self.values, self.known)

    def refresh(self) -> bool:
        """Set ``values`` and ``known`` to what holds now; return whether they changed."""
        claim = self.claim
        if claim is None:
            values, best, is_sure = self.stored, AT_REST, self.is_read
        else:
            values, best = claim.values, LIVE
            is_sure = not (claim.is_partly_old or claim.source.silent)
        known = best if is_sure and None not in values else LAST
        # Nothing stored is known of it, although its clients may be: an unloaded part has none.
        if values[BACKLOG] is None:
            known = NO
        if known == self.known and values == self.values:
            return False
        self.values, self.known = values, known
        return True

    def claim_of(self, source: "BrokerFigures") -> Claim:
        """Return the claim of a broker that has the part loaded."""
        if self.claim is not None and self.claim.source is source:
            return self.claim
        (claim,) = (older for older in self.older if older.source is source)
        return claim

    @property
    def at(self) -> int:
        """Time of the values in ms; 0: they never held."""
        if self.claim is None or self.claim.is_partly_old:
            return self.stored_at
        return self.claim.source.at

    @property
    def persistent(self) -> bool:
        return self.name.startswith("persistent:")


class KnownValues(NamedTuple):
    """Values and how they are known, an index into ``rows.KNOWN``."""

    values: Values
    known: int


class _Bag:
    """A multiset of numbers with the least of them."""

    __slots__ = ("_counts", "_heap")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._heap: list[int] = []
        """Every number once, beside removed ones that have not reached the top; at most about twice as many in all."""

    def add(self, number: int, sign: int) -> None:
        """Add ``number``, or with ``sign`` -1 remove it."""
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
        """The least number; 0 without any."""
        while self._heap and self._heap[0] not in self._counts:
            heappop(self._heap)
        return self._heap[0] if self._heap else 0


class Fold:
    """The parts of a partitioned topic and their sum, updated with each change of a part."""

    __slots__ = ("_known", "_oldest", "_subscriptions", "_sums", "_unknown", "parts")

    def __init__(self) -> None:
        self.parts: dict[str, Part] = {}
        self._sums = [0] * len(ROW_COLUMNS)
        self._unknown = [0] * len(ROW_COLUMNS)
        self._subscriptions: dict[int, int] = {}
        """Number of parts by their number of subscriptions."""
        self._oldest = _Bag()
        """Times of parts with a backlog; ``OLDEST_UNKNOWN`` is less than any time."""
        self._known = [0] * len(KNOWN)

    def replace(self, before: KnownValues | None, after: KnownValues | None) -> None:
        """Replace a part's figures; None before it is added, or after it is removed."""
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
    def figures(self) -> KnownValues:
        """Sums over the parts, but the highest number of subscriptions, which all parts have alike, and the earliest
        time. None where that of any part is unknown."""
        self._sums[SUBSCRIPTIONS] = max(self._subscriptions, default=0)
        self._sums[OLDEST] = self._oldest.least
        unknown = self._unknown
        values = tuple(
            None if unknown[column] else value for column, value in enumerate(self._sums)
        )
        worst = max((known for known, count in enumerate(self._known) if count), default=AT_REST)
        return KnownValues(values, worst)


class Sums:
    """Sums over the figures of some topics: those of ``namespace``, a full name.

    ``values`` in the order of ROW_COLUMNS, unknown ones left out; ``known``: number of topics by how they are known.
    ``oldest``: times of their oldest unacknowledged messages, which are counted for namespaces alone.
    """

    __slots__ = ("known", "namespace", "oldest", "topics", "values")

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self.topics = 0
        self.values = [0] * len(ROW_COLUMNS)
        self.known = [0] * len(KNOWN)
        self.oldest = _Bag()

    def count(self, values: Values, known: int, sign: int) -> None:
        """Add a topic's figures, or with ``sign`` -1 subtract them."""
        self.topics += sign
        self.known[known] += sign
        for column, value in enumerate(values):
            if value is not None:
                self.values[column] += sign * value

    def add(self, other: "Sums") -> None:
        """Add the sums over other topics."""
        self.topics += other.topics
        self.values = [*map(add, self.values, other.values)]
        self.known = [*map(add, self.known, other.known)]


class Shown:
    """A topic of the list.

    A partitioned topic has a ``fold``, any other a ``part``. ``last`` are the figures to show while some are unknown,
    with their time in ms; None while all are known. ``sums``: those of its namespace, while it is listed.
    """

    __slots__ = ("fold", "known", "last", "name", "part", "partitions", "sums", "values")

    def __init__(self, name: str, partitions: int, part: Part | None) -> None:
        self.name = name
        self.partitions = partitions
        self.part = part
        self.fold = Fold() if part is None else None
        self.last: tuple[int, Values] | None = None
        self.sums: Sums
        self.values, self.known = KnownValues(NOTHING, AT_REST) if part is None else part.figures

    @property
    def figures(self) -> KnownValues:
        """Figures of its parts, without the last known ones."""
        return self.part.figures if self.part is not None else self.fold.figures  # type: ignore[union-attr]

    @property
    def namespace(self) -> str:
        """Full name of its namespace."""
        return self.sums.namespace

    @property
    def certain(self) -> Values:
        """Values that hold now; unknown while they are the last known ones."""
        return UNKNOWN if self.known == LAST else self.values

    @property
    def parts(self) -> Iterable[Part]:
        return (
            (self.part,) if self.part is not None else self.fold.parts.values() if self.fold else ()
        )


class BrokerFigures:
    """The figures that one broker reports. ``at``: when it counted them, ms; 0 before its first answer. ``silent``:
    it has not reported in time, so that they may have changed."""

    __slots__ = (
        *("at", "bytes_in", "bytes_out", "parts"),
        *("rate_in", "rate_out", "silent"),
    )

    def __init__(self) -> None:
        self.at = 0
        self.parts: dict[str, Part] = {}
        self.silent = False
        self.rate_in = self.rate_out = self.bytes_in = self.bytes_out = 0

    def put(self, before: Values, after: Values) -> None:
        """Replace the values of one of its parts in the sums of rates."""
        self.rate_in += (after[RATE_IN] or 0) - (before[RATE_IN] or 0)
        self.rate_out += (after[RATE_OUT] or 0) - (before[RATE_OUT] or 0)
        self.bytes_in += (after[BYTES_IN] or 0) - (before[BYTES_IN] or 0)
        self.bytes_out += (after[BYTES_OUT] or 0) - (before[BYTES_OUT] or 0)


def filled(values: Values, last: Values) -> Values:
    """Return the values, with the last known ones in place of unknown ones."""
    return tuple(old if value is None else value for value, old in zip(values, last, strict=True))


def without_clients(values: Values) -> Values:
    """Return the values of a part that is loaded nowhere: 0 for those unknown ones that only a loaded part has."""
    return tuple(
        0 if value is None and column not in STORED else value
        for column, value in enumerate(values)
    )
