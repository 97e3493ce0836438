"""Sums of topics' figures: of all topics, and by namespace for viewers who see some of them. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from typing import TypedDict

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS
from engine.auth.viewer import Viewer
from engine.base.names import split_topic
from gateway.services.index.figures import (
    BACKLOG,
    ESTIMATED,
    MESSAGES,
    OLDEST,
    RATE_IN,
    RATE_OUT,
    STORAGE,
    UNMEASURED,
    KnownValues,
    Shown,
    Sums,
)
from gateway.services.index.rows import LAST, NO, RATES


class TenantNumbers(TypedDict):
    """Sums of one tenant or namespace: rates per second, ``backlog`` in entries, ``backlog_messages`` and how many of
    them are estimated or unmeasured as in ``ROW_COLUMNS``. ``oldest_at``: time of the oldest unacknowledged message, 0
    without any, None where it is not known. ``unknown`` topics are not in the sums."""

    topics: int
    unknown: int
    backlog: int
    backlog_messages: int
    backlog_estimated: int
    backlog_unmeasured: int
    msg_rate_in: float
    msg_rate_out: float
    storage_bytes: int
    oldest_at: int | None


class IndexSums:
    """The sums of all topics, and of each namespace that has some.

    Those of everything cost nothing to read; those of a viewer who sees some namespaces are added up over these (A6).
    """

    def __init__(self) -> None:
        self._all = Sums("")
        self._by_tenant: dict[str, dict[str, Sums]] = {}
        """Sums by tenant and full name of the namespace."""

    def add(self, shown: Shown) -> None:
        """Add a topic with its figures, and set ``shown.sums``."""
        parts = split_topic(shown.name)
        spaces = self._by_tenant.setdefault(parts.tenant, {})
        own = spaces.get(parts.scope)
        if own is None:
            own = spaces[parts.scope] = Sums(parts.scope)
        shown.sums = own
        self._all.count(shown.values, shown.known, 1)
        own.count(shown.values, shown.known, 1)
        if oldest := shown.values[OLDEST]:
            own.oldest.add(oldest, 1)

    def remove(self, shown: Shown) -> None:
        """Remove a topic with its figures."""
        own = shown.sums
        self._all.count(shown.values, shown.known, -1)
        own.count(shown.values, shown.known, -1)
        if oldest := shown.values[OLDEST]:
            own.oldest.add(oldest, -1)
        if not own.topics:
            tenant = own.namespace.partition("/")[0]
            del self._by_tenant[tenant][own.namespace]
            if not self._by_tenant[tenant]:
                del self._by_tenant[tenant]

    def replace(self, shown: Shown, after: KnownValues) -> None:
        """Replace a topic's figures."""
        everything, own = self._all, shown.sums
        totals, of_space = everything.values, own.values
        for column, (old, new) in enumerate(zip(shown.values, after.values, strict=True)):
            if old != new:
                change = (new or 0) - (old or 0)
                totals[column] += change
                of_space[column] += change
        before, oldest = shown.values[OLDEST], after.values[OLDEST]
        if before != oldest:
            if before:
                own.oldest.add(before, -1)
            if oldest:
                own.oldest.add(oldest, 1)
        for known in (everything.known, own.known):
            known[shown.known] -= 1
            known[after.known] += 1

    def totals(self, viewer: Viewer) -> dict[str, float]:
        """Return the sums over the topics that are seen. ``unknown`` topics are not in them; of ``last`` topics the
        last known figures are."""
        topics, values, known = self._added(viewer)
        sums: dict[str, float] = dict(zip(ROW_COLUMNS, values, strict=True))
        del sums["oldest_at"]  # a sum of times means nothing
        for name in RATES:
            sums[name] /= 1000
        return {"topics": topics, **sums, "unknown": known[NO], "last": known[LAST]}

    def oldest(self, viewer: Viewer) -> int | None:
        """Return the time of the oldest unacknowledged message of the topics that are seen, ms; 0 without any, None
        where it is not known."""
        return _oldest_of(self._every() if viewer.everything else self._seen(viewer))

    def _every(self) -> Iterator[Sums]:
        for spaces in self._by_tenant.values():
            yield from spaces.values()

    def of_tenant(self, viewer: Viewer, tenant: str) -> TenantNumbers:
        """Return the sums over the topics of a tenant that are seen; zeros without any."""
        return _numbers(list(self._spaces(viewer, tenant)))

    def of_namespace(self, viewer: Viewer, name: str) -> TenantNumbers:
        """Return the sums over the topics of a namespace, by its full name; zeros without any that are seen."""
        own = self._by_tenant.get(name.partition("/")[0], {}).get(name)
        return _numbers([own] if own and viewer.sees(name) else [])

    def figures_of_namespaces(self, viewer: Viewer, tenant: str, field: str) -> dict[str, float]:
        """Return the number to sort by of each namespace that is seen and has topics, by its name without the tenant.
        ``field``: of SORTED_BY; those without topics have ``figure_without_topics``."""
        figure = _FIGURES[field]
        start = len(tenant) + 1
        return {sums.namespace[start:]: figure(sums) for sums in self._spaces(viewer, tenant)}

    def _added(self, viewer: Viewer) -> tuple[int, Sequence[int], Sequence[int]]:
        if viewer.everything:
            return self._all.topics, self._all.values, self._all.known
        return _sum_of(self._seen(viewer))

    def _seen(self, viewer: Viewer) -> Iterator[Sums]:
        """Yield the sums of each namespace that a viewer of some sees."""
        for tenant in viewer.tenants:
            yield from self._by_tenant.get(tenant, {}).values()
        for name in viewer.namespaces:
            tenant = name.partition("/")[0]
            if tenant not in viewer.tenants and (sums := self._by_tenant.get(tenant, {}).get(name)):
                yield sums

    def _spaces(self, viewer: Viewer, tenant: str) -> Iterator[Sums]:
        for name, sums in self._by_tenant.get(tenant, {}).items():
            if viewer.sees(name):
                yield sums


def _rank_of_age(sums: Sums) -> float:
    """Return a number that is greater for an older message, the least for no known one."""
    oldest = sums.oldest.least
    return -float(oldest) if oldest > 0 else -inf


def figure_without_topics(field: str) -> float:
    """Return the number to sort by of a namespace without topics."""
    return _FIGURES[field](Sums(""))


_FIGURES: dict[str, Callable[[Sums], float]] = {
    "topics": lambda sums: sums.topics,
    "backlog": lambda sums: sums.values[MESSAGES],
    "oldest_age": _rank_of_age,
    "msg_rate_in": lambda sums: sums.values[RATE_IN],
    "msg_rate_out": lambda sums: sums.values[RATE_OUT],
    "storage_bytes": lambda sums: sums.values[STORAGE],
}
SORTED_BY = tuple(_FIGURES)
"""Fields of TenantNumbers by which lists are sorted: ``backlog`` in messages, ``oldest_age`` by the oldest message."""


def _numbers(spaces: list[Sums]) -> TenantNumbers:
    topics, values, known = _sum_of(spaces)
    return {
        "topics": topics,
        "unknown": known[NO],
        "backlog": values[BACKLOG],
        "backlog_messages": values[MESSAGES],
        "backlog_estimated": values[ESTIMATED],
        "backlog_unmeasured": values[UNMEASURED],
        "msg_rate_in": values[RATE_IN] / 1000,
        "msg_rate_out": values[RATE_OUT] / 1000,
        "storage_bytes": values[STORAGE],
        "oldest_at": _oldest_of(spaces),
    }


def _oldest_of(spaces: Iterable[Sums]) -> int | None:
    oldest = min((least for sums in spaces if (least := sums.oldest.least)), default=0)
    return None if oldest == OLDEST_UNKNOWN else oldest


def _sum_of(spaces: Iterable[Sums]) -> tuple[int, Sequence[int], Sequence[int]]:
    total = Sums("")
    for sums in spaces:
        total.add(sums)
    return total.topics, total.values, total.known
