"""The topics that pass a filter, in an order that is updated as topics change, without sorting all of them. Pure."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from math import inf
from operator import attrgetter, itemgetter, neg
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, cast

from engine.admin.api.arguments import LONG_MAX
from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.auth.viewer import Viewer
from engine.base.names import TopicParts, split_topic
from gateway.services.backlogs import STILL

T = TypeVar("T")
NARROW_SHARE = 4
"""A wider selection of at most one in so many topics is sorted again; a longer one is filtered, if its order fits."""
SINGLE_MAX = 100
"""Changed topics up to which each is moved within the list by itself; more are moved in one pass that copies what lies
between their places."""
MERGE_SHARE = 10
"""Share of changed topics, one in so many, above which sorting the list again is cheaper than a search for each
place."""
LOCAL_PART = 5
"""Slashes in front of the local name of a topic, or of what is left of it where the name is a legacy one."""
BACKLOG = ROW_COLUMNS.index("backlog")
RATE_OUT = ROW_COLUMNS.index("msg_rate_out")
OLDEST = ROW_COLUMNS.index("oldest_at")
_COLUMN_OF = {
    **{name: column for column, name in enumerate(ROW_COLUMNS)},
    "backlog": ROW_COLUMNS.index("backlog_messages"),
    "oldest_age": OLDEST,
}
"""The column that each field sorts by. For a backlog of unmeasured messages it holds their least number."""


def words_of(text: str) -> tuple[str, ...]:
    """Return the distinct words of a filter in lower case."""
    return tuple(dict.fromkeys(text.lower().split()))


def has_words(name: str, words: tuple[str, ...]) -> bool:
    """Return whether the name contains every word, which are in lower case, in any case and order."""
    lowered = name.lower()
    return all(word in lowered for word in words)


def with_words(items: Sequence[T], texts: Sequence[str], words: tuple[str, ...]) -> list[T]:
    """Return the items whose texts contain every word; texts and words are in lower case."""
    pairs: Iterable[tuple[T, str]] = zip(items, texts, strict=True)
    for word in words:
        pairs = [pair for pair in pairs if word in pair[1]]
    return [item for item, _ in pairs]


Key = tuple[Any, ...]
"""Rank of a topic in an order, which compares with every other, and its name."""


class Chosen(NamedTuple):
    """The filter and order of a list of topics.

    ``q``: words that the full name contains, in any case and order. ``namespace``: as ``split_topic`` returns it, or
    ``tenant/ns`` where ``tenant`` is empty. ``sort``: one of ``rows.FIELDS``, with ``-`` before it for descending;
    equals are sorted by name, unknown ones last. ``standing``: only topics with a backlog that no consumer reduces.
    ``attention``: only topics that need attention for this cause, which are given to ``limit``. ``older_s``: only those
    whose first unacknowledged message is at least so old; ``late``: only subscriptions whose message is older than
    their target.
    """

    q: str = ""
    tenant: str = ""
    namespace: str = ""
    domain: str = ""
    sort: str = "name"
    standing: bool = False
    attention: str = ""
    older_s: int = 0
    late: bool = False

    @property
    def filters(self) -> bool:
        """True unless the list has every topic."""
        return self._replace(sort="name") != Chosen()


class Listed(Protocol):
    """A topic of the list."""

    name: str
    values: tuple[int | None, ...]

    @property
    def partitions(self) -> int: ...

    @property
    def namespace(self) -> str: ...


class _Falling(str):
    """A text that sorts in descending order."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _plain_rank(key: Key) -> str:
    return str.__str__(key[0])


def _age_rank(oldest_at: int | None) -> int | None:
    """Return a number that is larger for an older time: 0 where nothing is unacknowledged, None for an unknown time."""
    if oldest_at is None or oldest_at == OLDEST_UNKNOWN:
        return None
    return LONG_MAX - oldest_at if oldest_at else 0


def _without(order: list[Key], places: list[int]) -> list[Key]:
    """Return the order without the keys at these places, which are sorted."""
    kept: list[Key] = []
    start = 0
    for place in places:
        kept += order[start:place]
        start = place + 1
    kept += order[start:]
    return kept


def _with(order: list[Key], come: list[Key]) -> list[Key]:
    """Return the order with further keys, which are sorted."""
    merged: list[Key] = []
    start = 0
    for key in come:
        place = bisect_left(order, key, start)
        merged += order[start:place]
        merged.append(key)
        start = place
    merged += order[start:]
    return merged


class TopicSelection:
    """The sorted topics of one ``Chosen`` that a viewer sees (A6), as of ``catch_up``.

    ``listed`` has all topics by name; ``touch`` is called after each change of one. ``others`` are selections of the
    same list. When a short one of them holds all of this, as while a filter is typed, only that is searched.
    ``by_name`` returns all topics sorted by name, which selections share.
    """

    column_of: ClassVar[Mapping[str, int]] = _COLUMN_OF
    backlog_column = BACKLOG
    rate_out_column = RATE_OUT
    oldest_column = OLDEST

    def __init__(
        self,
        viewer: Viewer,
        chosen: Chosen,
        listed: Mapping[str, Listed],
        others: Iterable["TopicSelection"] = (),
        among: Collection[str] = (),
        now_ms: int = 0,
        by_name: Callable[[], Sequence[Listed]] | None = None,
    ) -> None:
        self.is_used = True
        self._viewer = viewer
        self._chosen = chosen
        if not chosen.tenant and "/" in chosen.namespace:
            tenant, _, namespace = chosen.namespace.partition("/")
            self._chosen = chosen._replace(tenant=tenant, namespace=namespace)
        self._words = words_of(chosen.q)
        scope = self._chosen.tenant or self._chosen.namespace
        self._scope = f"/{scope}/" if scope else ""
        self._is_timed = bool(chosen.older_s or chosen.late)
        self._is_scoped = self._is_timed or bool(
            scope or chosen.domain or chosen.standing or chosen.attention
        )
        self._field = chosen.sort.removeprefix("-")
        self._falls = chosen.sort.startswith("-")
        self._column = self.column_of.get(self._field)
        watched = {self.backlog_column, self.rate_out_column} if chosen.standing else set()
        watched |= self._timed_columns if self._is_timed else set()
        self._watched = sorted(watched | ({self._column} if self._column is not None else set()))
        self._listed = listed
        self._keys: dict[str, Key] = {}
        self._order: list[Key] = []
        self._touched: dict[str, None] = {}
        self._among = frozenset(among)
        self._now_ms = now_ms
        self._coming: list[tuple[int, str]] = []
        """A heap of the times from which topics pass that do not yet; of several entries of a topic the last counts."""
        bound = len(listed) // NARROW_SHARE
        wider = [selection for selection in others if selection._holds(self)]
        alike = [selection for selection in wider if selection._chosen.sort == chosen.sort]
        short = [selection for selection in wider if len(selection) <= bound]
        if short or not alike:
            base = min(short, key=len, default=None)
            if base is not None:
                base.catch_up(now_ms)
            if base is None and by_name is not None:
                self._build(by_name())
            else:
                names = sorted(listed if base is None else base._keys)
                self._build([listed[name] for name in names])
        else:
            base = min(alike, key=len)
            base.catch_up(now_ms)
            self._filter(base)

    def __len__(self) -> int:
        return len(self._order)

    @property
    def keys(self) -> list[Key]:
        """The keys in order, as of the last ``catch_up``; not to be changed."""
        return self._order

    def names(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return the names in order, as of the last ``catch_up``."""
        return [key[-1] for key in self._order[start:stop]]

    def depends(self, before: tuple[int | None, ...], after: tuple[int | None, ...]) -> bool:
        """Return whether a change of a topic's values may move it in, out or within the selection."""
        for column in self._watched:  # noqa: SIM110 - any() takes thrice the time
            if before[column] != after[column]:
                return True
        return False

    def limit(self, among: Collection[str]) -> None:
        """Set the topics that have the cause of ``Chosen.attention`` now."""
        if self._chosen.attention and self._among != among:
            before, self._among = self._among, frozenset(among)
            for name in before ^ self._among:
                self.touch(name)

    def touch(self, name: str) -> None:
        """Mark a topic that was added, removed or changed."""
        self._touched[name] = None

    def catch_up(self, now_ms: int = 0) -> None:
        """Apply the changes of all touched topics, and the passing of time."""
        self._now_ms = max(self._now_ms, now_ms)
        while self._coming and self._coming[0][0] <= self._now_ms:
            self._touched[heappop(self._coming)[1]] = None
        touched, self._touched = self._touched, {}
        gone: list[Key] = []
        come: list[Key] = []
        for name in touched:
            before = self._keys.pop(name, None)
            if before is not None:
                gone.append(before)
            topic = self._listed.get(name)
            if topic is not None and self._passes(topic):
                key = self._keys[name] = self._key(topic)
                come.append(key)
        self._move(gone, come)

    def _move(self, gone: list[Key], come: list[Key]) -> None:
        """Remove keys from the order and insert others."""
        order = self._order
        if len(gone) + len(come) <= SINGLE_MAX:
            for key in gone:
                del order[bisect_left(order, key)]
            for key in come:
                insort(order, key)
        elif len(gone) > len(order) // MERGE_SHARE or len(come) > len(order) // MERGE_SHARE:
            removed = {key[-1] for key in gone}
            self._order = [key for key in order if key[-1] not in removed] + come
            self._order.sort()
        else:
            kept = _without(order, sorted(bisect_left(order, key) for key in gone))
            self._order = _with(kept, sorted(come))

    def _build(self, topics: Sequence[Listed]) -> None:
        """Sort the topics that pass out of these, which contain all of them and are sorted by name."""
        topics = self._passing(topics)
        keys = self._keys_of(topics)
        self._keys = dict(zip(map(itemgetter(-1), keys), keys, strict=True))
        # Falling texts compare by a call of Python, plain ones do not. A reversed sort leaves equals as they are, which
        # are by name: ranks alone are compared.
        is_falling = bool(keys) and isinstance(keys[0][0], _Falling)
        rank = _plain_rank if is_falling else itemgetter(0)
        self._order = sorted(keys, key=rank, reverse=is_falling)

    def _filter(self, wider: "TopicSelection") -> None:
        """Copy the topics that pass from a selection with the same order."""
        listed = self._listed
        passing = {topic.name for topic in self._passing([listed[name] for name in wider._keys])}
        self._order = [key for key in wider._order if key[-1] in passing]
        self._keys = {key[-1]: key for key in self._order}

    def _passing(self, topics: Sequence[Listed]) -> Sequence[Listed]:
        for word in self._words:
            topics = [topic for topic in topics if word in topic.name.lower()]
        if not self._viewer.everything:
            sees = self._viewer.sees
            topics = [topic for topic in topics if sees(topic.namespace)]
        if self._is_scoped:
            topics = [topic for topic in topics if self._is_in_scope(topic)]
        return topics

    def _keys_of(self, topics: Sequence[Listed]) -> list[Key]:
        """Return ``_key`` of each topic, without a call per topic where a column is the rank."""
        column = self._column
        names = [topic.name for topic in topics]
        if column is None:
            if self._field in ("name", "partitions"):
                return [self._key(topic) for topic in topics]
            texts: Iterable[str] = self._texts_of(topics)
            return list(zip(map(_Falling, texts) if self._falls else texts, names, strict=True))
        numbers = [topic.values[column] for topic in topics]
        if column == self.oldest_column:
            numbers = [_age_rank(number) for number in numbers]
        if None in numbers:
            sign = -1 if self._falls else 1
            ranks: Iterable[float] = [
                inf if number is None else sign * number for number in numbers
            ]
            return list(zip(ranks, names, strict=True))
        known = cast(list[int], numbers)
        return list(zip(map(neg, known) if self._falls else known, names, strict=True))

    def _holds(self, other: "TopicSelection") -> bool:
        """Return whether every topic that passes the other passes this one."""
        own, wanted = self._chosen, other._chosen
        return (
            (self._viewer.everything or self._viewer == other._viewer)
            and own.standing in (False, wanted.standing)
            and own.attention in ("", wanted.attention)
            and own.older_s <= wanted.older_s
            and own.late in (False, wanted.late)
            and own.tenant in ("", wanted.tenant)
            and own.namespace in ("", wanted.namespace)
            and own.domain in ("", wanted.domain)
            and all(any(word in longer for longer in other._words) for word in self._words)
        )

    def _key(self, topic: Listed) -> Key:
        """Return the rank, which compares with every other, and the name, so that no two keys are equal."""
        if self._field == "name":
            return (_Falling(topic.name) if self._falls else "", topic.name)
        number: int | None
        if self._column is not None and self._column == self.oldest_column:
            number = _age_rank(topic.values[self._column])
        elif self._column is not None:
            number = topic.values[self._column]
        elif self._field == "partitions":
            number = topic.partitions
        else:
            (text,) = self._texts_of((topic,))
            return (_Falling(text) if self._falls else text, topic.name)
        if number is None:
            return (inf, topic.name)
        return (-number if self._falls else number, topic.name)

    @property
    def _timed_columns(self) -> set[int]:
        """The columns that ``_due_ms`` depends on."""
        return {self.oldest_column}

    def _parts_of(self, topic: Listed) -> TopicParts:
        return split_topic(self._topic_of(topic))

    def _topic_of(self, topic: Listed) -> str:
        """Return the full name of the topic."""
        return topic.name

    def _texts_of(self, topics: Sequence[Listed]) -> list[str]:
        """Return the text of each topic that it is sorted by."""
        if self._field == "topic":
            # What ``split_topic`` returns of a name with all parts, at a quarter of the time.
            return [self._topic_of(topic).split("/", LOCAL_PART)[-1] for topic in topics]
        return list(map(attrgetter(self._field), map(self._parts_of, topics)))

    def _due_ms(self, topic: Listed) -> int | None:
        """Return the time from which the topic passes by its age; None: it does not."""
        oldest_at = topic.values[self.oldest_column]
        if oldest_at is None or oldest_at <= 0:
            return None
        return oldest_at + self._chosen.older_s * 1000

    def _is_due(self, topic: Listed) -> bool:
        due_ms = self._due_ms(topic)
        if due_ms is not None and due_ms > self._now_ms:
            heappush(self._coming, (due_ms, topic.name))
            return False
        return due_ms is not None

    def _passes(self, topic: Listed) -> bool:
        return (
            self._viewer.sees(topic.namespace)
            and has_words(topic.name, self._words)
            and self._is_in_scope(topic)
        )

    def _is_in_scope(self, topic: Listed) -> bool:
        chosen = self._chosen
        if chosen.attention and topic.name not in self._among:
            return False
        if chosen.standing:
            backlog = topic.values[self.backlog_column]
            out = topic.values[self.rate_out_column]
            if not backlog or (out or 0) >= STILL * 1000:
                return False
        if chosen.tenant or chosen.namespace or chosen.domain:
            if self._scope not in topic.name:  # excludes most topics without splitting their names
                return False
            parts = self._parts_of(topic)
            if (
                chosen.tenant not in ("", parts.tenant)
                or chosen.namespace not in ("", parts.namespace)
                or chosen.domain not in ("", parts.domain)
            ):
                return False
        # Last, because it remembers when the topic will pass.
        return not self._is_timed or self._is_due(topic)
