"""The topics that pass a filter, in an order that is kept as topics change, without sorting all of them. Pure."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping
from math import inf
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Protocol

from engine.admin.api import LONG_MAX, OLDEST_UNKNOWN, ROW_COLUMNS
from engine.base.names import split_topic
from gateway.services.backlogs import STILL

NARROW_SHARE = 4
"""Of a selection longer than one in so many topics, finding them in its order is dearer than sorting all again."""
MERGE_SHARE = 50
"""When more than one in so many topics changed, going through all once is cheaper than finding each place."""
BACKLOG = ROW_COLUMNS.index("backlog")
RATE_OUT = ROW_COLUMNS.index("msg_rate_out")
OLDEST = ROW_COLUMNS.index("oldest_at")
_COLUMN_OF = {
    **{name: column for column, name in enumerate(ROW_COLUMNS)},
    "backlog": ROW_COLUMNS.index("backlog_messages"),
    "oldest_age": OLDEST,
}
"""By which number a field sorts. Of a backlog of unknown messages that is how many there are at least."""


def words_of(text: str) -> tuple[str, ...]:
    """The words of a filter, in small letters."""
    return tuple(dict.fromkeys(text.lower().split()))


def has_words(name: str, words: tuple[str, ...]) -> bool:
    """Whether every word is somewhere in the name, in any case and order."""
    lowered = name.lower()
    return all(word in lowered for word in words)


class Chosen(NamedTuple):
    """``q``: words that the full name has, in any case and order. ``namespace``: as of
    ``split_topic``, without ``tenant`` also behind it as ``tenant/ns``. ``sort``: of
    ``rows.FIELDS``, ``-`` before it for descending; equals stand by name, what is unknown last. ``standing``: only with
    a backlog that nobody takes from. ``attention``: only those that need it for this cause, which ``limit`` tells."""

    q: str = ""
    tenant: str = ""
    namespace: str = ""
    domain: str = ""
    sort: str = "name"
    standing: bool = False
    attention: str = ""


class Listed(Protocol):
    """A topic of the list."""

    name: str
    partitions: int
    values: tuple[int | None, ...]


class _Falling(str):
    """A text that sorts the other way round."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)


def _age_rank(oldest_at: int | None) -> int | None:
    """Larger for what is older; 0 where nothing is unacknowledged, None where the time is not known."""
    if oldest_at is None or oldest_at == OLDEST_UNKNOWN:
        return None
    return LONG_MAX - oldest_at if oldest_at else 0


class Selection:
    """``listed``: all topics by name; whoever changes one says so by ``touch``. ``others``: selections of the same
    list: when a short one of them holds all of this, as happens while somebody types, only that is looked through."""

    def __init__(
        self,
        chosen: Chosen,
        listed: Mapping[str, Listed],
        others: Iterable["Selection"] = (),
        among: Collection[str] = (),
    ) -> None:
        self.asked = True
        self._chosen = chosen
        if not chosen.tenant and "/" in chosen.namespace:
            tenant, _, namespace = chosen.namespace.partition("/")
            self._chosen = chosen._replace(tenant=tenant, namespace=namespace)
        self._words = words_of(chosen.q)
        scope = self._chosen.tenant or self._chosen.namespace
        self._scope = f"/{scope}/" if scope else ""
        self._is_scoped = bool(scope or chosen.domain or chosen.standing or chosen.attention)
        self._field = chosen.sort.removeprefix("-")
        self._falls = chosen.sort.startswith("-")
        self._column = _COLUMN_OF.get(self._field)
        watched = {BACKLOG, RATE_OUT} if chosen.standing else set()
        self._watched = sorted(watched | ({self._column} if self._column is not None else set()))
        self._listed = listed
        self._keys: dict[str, tuple[Any, ...]] = {}
        self._order: list[tuple[Any, ...]] = []
        self._touched: dict[str, None] = {}
        self._among = frozenset(among)
        bound = len(listed) // NARROW_SHARE
        wider = [each for each in others if each._holds(self)]
        alike = [each for each in wider if each._chosen.sort == chosen.sort]
        short = [each for each in wider if len(each) <= bound]
        if short or not alike:
            found = min(short, key=len, default=None)
            if found is not None:
                found.catch_up()
            self._build(listed if found is None else found._keys)
        else:
            found = min(alike, key=len)
            found.catch_up()
            self._take(found)

    def __len__(self) -> int:
        return len(self._order)

    def names(self, start: int = 0, stop: int | None = None) -> list[str]:
        """In order. Up to date after ``catch_up``."""
        return [key[-1] for key in self._order[start:stop]]

    def depends(self, before: tuple[int | None, ...], after: tuple[int | None, ...]) -> bool:
        """Whether a change of a topic's values may move it."""
        for column in self._watched:  # noqa: SIM110 - any() takes thrice the time
            if before[column] != after[column]:
                return True
        return False

    def limit(self, among: Collection[str]) -> None:
        """Which topics have the cause of ``Chosen.attention`` now."""
        if self._chosen.attention and self._among != among:
            before, self._among = self._among, frozenset(among)
            for name in before ^ self._among:
                self.touch(name)

    def touch(self, name: str) -> None:
        """The topic came, went, or is another."""
        self._touched[name] = None

    def catch_up(self) -> None:
        """Take in what was touched."""
        touched, self._touched = self._touched, {}
        is_merged = len(touched) > len(self._order) // MERGE_SHARE
        if is_merged:
            self._order = [key for key in self._order if key[-1] not in touched]
        for name in touched:
            before = self._keys.pop(name, None)
            if before is not None and not is_merged:
                del self._order[bisect_left(self._order, before)]
            topic = self._listed.get(name)
            if topic is not None and self._passes(topic):
                key = self._keys[name] = self._key(topic)
                if is_merged:
                    self._order.append(key)
                else:
                    insort(self._order, key)
        if is_merged:
            self._order.sort()

    def _build(self, names: Iterable[str]) -> None:
        """Of these names, which hold all that pass."""
        topics = self._passing(names)
        topics.sort(
            key=attrgetter("name")
        )  # quick, as it mostly stands so; then ranks alone are compared
        self._keys = dict(zip([topic.name for topic in topics], self._keys_of(topics), strict=True))
        self._order = sorted(self._keys.values(), key=itemgetter(0))

    def _take(self, wider: "Selection") -> None:
        """What passes of another one in the same order."""
        passing = {topic.name for topic in self._passing(wider._keys)}
        self._order = [key for key in wider._order if key[-1] in passing]
        self._keys = {key[-1]: key for key in self._order}

    def _passing(self, names: Iterable[str]) -> list[Listed]:
        for word in self._words:
            names = [name for name in names if word in name.lower()]
        listed = self._listed
        topics = [listed[name] for name in names]
        if self._is_scoped:
            topics = [topic for topic in topics if self._is_in_scope(topic)]
        return topics

    def _keys_of(self, topics: list[Listed]) -> list[tuple[Any, ...]]:
        """As of ``_key``, without a call for each number."""
        column = self._column
        if column is None or column == OLDEST:
            return [self._key(topic) for topic in topics]
        sign = -1 if self._falls else 1
        return [
            (inf if (number := topic.values[column]) is None else sign * number, topic.name)
            for topic in topics
        ]

    def _holds(self, other: "Selection") -> bool:
        """Whether all of the other is in this one."""
        mine, its = self._chosen, other._chosen
        return (
            mine.standing in (False, its.standing)
            and mine.attention in ("", its.attention)
            and mine.tenant in ("", its.tenant)
            and mine.namespace in ("", its.namespace)
            and mine.domain in ("", its.domain)
            and all(any(word in longer for longer in other._words) for word in self._words)
        )

    def _key(self, topic: Listed) -> tuple[Any, ...]:
        """The rank, which compares with all others, and the name, so that no two are equal."""
        if self._field == "name":
            return (_Falling(topic.name) if self._falls else "", topic.name)
        number: int | None
        if self._column == OLDEST:
            number = _age_rank(topic.values[OLDEST])
        elif self._column is not None:
            number = topic.values[self._column]
        elif self._field == "partitions":
            number = topic.partitions
        else:
            text = getattr(split_topic(topic.name), self._field)
            return (_Falling(text) if self._falls else text, topic.name)
        if number is None:
            return (inf, topic.name)
        return (-number if self._falls else number, topic.name)

    def _passes(self, topic: Listed) -> bool:
        return has_words(topic.name, self._words) and self._is_in_scope(topic)

    def _is_in_scope(self, topic: Listed) -> bool:
        chosen = self._chosen
        if chosen.attention and topic.name not in self._among:
            return False
        if chosen.standing:
            backlog, out = topic.values[BACKLOG], topic.values[RATE_OUT]
            if not backlog or (out or 0) >= STILL * 1000:
                return False
        if not (chosen.tenant or chosen.namespace or chosen.domain):
            return True
        if self._scope not in topic.name:  # much cheaper than its parts
            return False
        parts = split_topic(topic.name)
        return (
            chosen.tenant in ("", parts.tenant)
            and chosen.namespace in ("", parts.namespace)
            and chosen.domain in ("", parts.domain)
        )
