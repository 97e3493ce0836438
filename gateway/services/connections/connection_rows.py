"""The connections of a cluster: rows, those that pass a filter in an order, and groups of them. Pure."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from engine.admin.api.brokers import CONNECTION_COLUMNS
from gateway.services.connections.client_libraries import ClientLibrary, library_of, version_key
from gateway.services.index.selection import has_words, words_of

GROUPS_MAX = 100
ORDERS_MAX = 16
"""Filters and orders of which the result is kept, for those who look at the same list."""
RATES = ("msg_rate_in", "bytes_rate_in", "msg_rate_out", "bytes_rate_out")
FIELDS = (
    *("address", "library", "version", "language", "application", "role", "broker", "since"),
    *("producers", "consumers", "unacked", *RATES),
)
"""Fields that rows can be sorted by."""
GROUPINGS = ("version", "library", "language", "role", "application", "broker", "host")


class ListedConnection(NamedTuple):
    """A client's connection. ``number``: of its broker, see ``engine.admin.api.brokers``."""

    broker: str
    number: int
    since: int
    address: str
    sent: str
    """The version as the client sent it."""
    library: str
    language: str
    version: str
    application: str
    role: str | None
    proxy: str | None
    """The role of the proxy that the client came through, or its version; None without one."""
    listener: str
    producers: int
    consumers: int
    unacked: int
    msg_rate_in: float
    bytes_rate_in: float
    msg_rate_out: float
    bytes_rate_out: float

    @property
    def id(self) -> str:
        """The number and the time, which no other connection of the broker has."""
        return f"{self.number}-{self.since}"

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def text(self) -> str:
        """Text in which words of a filter are searched."""
        parts = (self.address, self.sent, self.application, self.role or "", self.broker)
        return " ".join(parts)

    def row(self) -> dict[str, Any]:
        """Return the row of the console's list."""
        return {**self._asdict(), "id": self.id}


class Filter(NamedTuple):
    """Filter and order of a list of connections; empty: all.

    ``q``: words; ``version``: its beginning, by whole parts: ``2`` is 2.x and not 20.1; ``proxy``: ``yes`` or ``no``;
    ``kind``: ``producer``, ``consumer`` or ``neither``, of what is open; the others are exact.
    """

    q: str = ""
    library: str = ""
    version: str = ""
    role: str = ""
    application: str = ""
    broker: str = ""
    host: str = ""
    proxy: str = ""
    kind: str = ""
    sort: str = "-since"


def connection_of(
    broker: str, cells: Sequence[Any], libraries: dict[str, ClientLibrary]
) -> ListedConnection:
    """Return a connection by its broker and its CONNECTION_COLUMNS. ``libraries``: those of the versions that were
    met before, since many clients send the same."""
    values = dict(zip(CONNECTION_COLUMNS, cells, strict=True))
    client = libraries.get(values["version"])
    if client is None:
        client = libraries[values["version"]] = library_of(values["version"])
    original = values["original_role"]
    role = values["role"] if original is None else original
    proxy = values["role"] if original is not None else None
    return ListedConnection(
        broker=broker,
        number=values["number"],
        since=values["since_ms"],
        address=values["address"],
        sent=values["version"],
        library=client.library,
        language=client.language,
        version=client.version,
        application=client.description or values["application"],
        role=role,
        proxy=proxy or values["proxy_version"] or None,
        listener=values["listener"],
        producers=values["producers"],
        consumers=values["consumers"],
        unacked=values["unacked"],
        **{name: values[name] / 1000 for name in RATES},
    )


class ConnectionTable:
    """The connections as of ``at``; ``silent``: brokers that did not answer, with the reason, whose connections are not
    known. Immutable, but for the results that it keeps."""

    def __init__(
        self,
        at: int,
        connections: Iterable[ListedConnection],
        silent: Mapping[str, str],
        brokers: int,
    ) -> None:
        self.at = at
        self.silent = dict(silent)
        self.brokers = brokers
        """Number of brokers that were asked."""
        self._all = list(connections)
        self._kept: dict[Filter, list[ListedConnection]] = {}

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def _texts(self) -> list[str]:
        return [connection.text.lower() for connection in self._all]

    def selected(self, chosen: Filter) -> list[ListedConnection]:
        """Return the connections that pass the filter, in its order; equals by broker and number."""
        kept = self._kept.get(chosen)
        if kept is None:
            if len(self._kept) >= ORDERS_MAX:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[chosen] = self._sorted(self._filtered(chosen), chosen.sort)
        return kept

    def _filtered(self, chosen: Filter) -> list[ListedConnection]:
        rows: list[ListedConnection] = self._all
        if words := words_of(chosen.q):
            texts = self._texts
            rows = [row for row, text in zip(rows, texts, strict=True) if has_words(text, words)]
        for field in ("library", "role", "application", "broker", "host"):
            if wanted := getattr(chosen, field):
                rows = [row for row in rows if getattr(row, field) == wanted]
        if chosen.version:
            start = f"{chosen.version.rstrip('.')}."
            rows = [row for row in rows if f"{row.version}.".startswith(start)]
        if chosen.proxy:
            rows = [row for row in rows if (row.proxy is not None) == (chosen.proxy == "yes")]
        if chosen.kind:
            rows = [row for row in rows if _KINDS[chosen.kind](row)]
        return rows

    def _sorted(self, rows: list[ListedConnection], sort: str) -> list[ListedConnection]:
        field, descending = sort.removeprefix("-"), sort.startswith("-")
        rows = sorted(rows, key=lambda row: (row.broker, row.number))
        rows.sort(key=_rank(field), reverse=descending)
        return rows

    def groups(self, chosen: Filter, grouping: str) -> list[dict[str, Any]]:
        """Return how many of the selected connections are alike in a field, most first, at most GROUPS_MAX."""
        counts: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
        for row in self.selected(chosen):
            named = (
                (row.library, row.version) if grouping == "version" else (_field(row, grouping),)
            )
            sums = counts[named]
            sums[0] += 1
            sums[1] += row.producers
            sums[2] += row.consumers
        ranked = sorted(counts.items(), key=lambda item: (-item[1][0], item[0]))
        return [
            {
                "library": named[0] if grouping == "version" else "",
                "value": named[-1],
                "connections": sums[0],
                "producers": sums[1],
                "consumers": sums[2],
            }
            for named, sums in ranked[:GROUPS_MAX]
        ]


def _field(row: ListedConnection, field: str) -> str:
    return str(getattr(row, field) or "")


def _rank(field: str) -> Callable[[ListedConnection], Any]:
    if field == "version":
        return lambda row: (row.library, version_key(row.version))
    if field in ("role", "library", "language", "application", "broker", "address"):
        return lambda row: _field(row, field)
    return lambda row: getattr(row, field)


_KINDS: dict[str, Callable[[ListedConnection], bool]] = {
    "producer": lambda row: row.producers > 0,
    "consumer": lambda row: row.consumers > 0,
    "neither": lambda row: not row.producers and not row.consumers,
}
KINDS = tuple(_KINDS)
