"""The topics that pass a filter, in an order that is kept as topics change, without sorting all of them. Pure."""

from bisect import bisect_left, insort
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from engine.admin.api import ROW_COLUMNS
from gateway.services.drain import STILL
from gateway.services.rows import parts_of

REBUILD_SHARE = 8
"""When more than one in so many topics changed, sorting all is cheaper."""
BACKLOG = ROW_COLUMNS.index("backlog")
RATE_OUT = ROW_COLUMNS.index("msg_rate_out")


class Chosen(NamedTuple):
    """``q``: part of the full name in any case. ``namespace``: ``ns`` or ``tenant/ns``. ``sort``: of
    ``rows.FIELDS``, ``-`` before it for descending; equals stand by name, what is unknown last. ``standing``: only with
    a backlog that nobody takes from."""

    q: str = ""
    tenant: str = ""
    namespace: str = ""
    domain: str = ""
    sort: str = "name"
    standing: bool = False


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


class Selection:
    """``listed``: all topics by name; whoever changes one says so by ``touch``."""

    def __init__(self, chosen: Chosen, listed: Mapping[str, Listed]) -> None:
        self.asked = True
        self._chosen = chosen
        if "/" in chosen.namespace:
            tenant, _, namespace = chosen.namespace.partition("/")
            self._chosen = chosen._replace(tenant=tenant, namespace=namespace)
        self._needle = chosen.q.lower()
        self._field = chosen.sort.removeprefix("-")
        self._falls = chosen.sort.startswith("-")
        self._column = ROW_COLUMNS.index(self._field) if self._field in ROW_COLUMNS else None
        watched = {BACKLOG, RATE_OUT} if chosen.standing else set()
        self._watched = sorted(watched | ({self._column} if self._column is not None else set()))
        self._listed = listed
        self._keys: dict[str, tuple[Any, ...]] = {}
        self._order: list[tuple[Any, ...]] = []
        self._touched: dict[str, None] = {}
        self._build()

    def __len__(self) -> int:
        return len(self._order)

    def names(self, start: int = 0, stop: int | None = None) -> list[str]:
        """In order. Up to date after ``catch_up``."""
        return [key[-1] for key in self._order[start:stop]]

    def depends(self, before: tuple[int | None, ...], after: tuple[int | None, ...]) -> bool:
        """Whether a change of a topic's values may move it."""
        return any(before[column] != after[column] for column in self._watched)

    def touch(self, name: str) -> None:
        """The topic came, went, or is another."""
        self._touched[name] = None

    def catch_up(self) -> None:
        """Take in what was touched."""
        if len(self._touched) > 64 + len(self._listed) // REBUILD_SHARE:
            self._build()
            return
        for name in self._touched:
            before = self._keys.pop(name, None)
            if before is not None:
                del self._order[bisect_left(self._order, before)]
            topic = self._listed.get(name)
            if topic is not None and self._passes(topic):
                key = self._keys[name] = self._key(topic)
                insort(self._order, key)
        self._touched = {}

    def _build(self) -> None:
        self._keys = {
            name: self._key(topic) for name, topic in self._listed.items() if self._passes(topic)
        }
        self._order = sorted(self._keys.values())
        self._touched = {}

    def _key(self, topic: Listed) -> tuple[Any, ...]:
        """Ends with the name, so that no two are equal."""
        if self._field == "name":
            return (_Falling(topic.name) if self._falls else "", topic.name)
        if self._column is not None:
            number = topic.values[self._column]
        elif self._field == "partitions":
            number = topic.partitions
        else:
            text = parts_of(topic.name)[self._field]
            return (_Falling(text) if self._falls else text, topic.name)
        if number is None:
            return (1, 0, topic.name)
        return (0, -number if self._falls else number, topic.name)

    def _passes(self, topic: Listed) -> bool:
        chosen = self._chosen
        if chosen.standing:
            backlog, out = topic.values[BACKLOG], topic.values[RATE_OUT]
            if not backlog or (out or 0) >= STILL * 1000:
                return False
        if self._needle and self._needle not in topic.name.lower():
            return False
        if not (chosen.tenant or chosen.namespace or chosen.domain):
            return True
        parts = parts_of(topic.name)
        return (
            chosen.tenant in ("", parts["tenant"])
            and chosen.namespace in ("", parts["namespace"])
            and chosen.domain in ("", parts["domain"])
        )
