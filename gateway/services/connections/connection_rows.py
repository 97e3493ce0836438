"""The connections of a cluster: rows, those that pass a filter in an order, and groups of them. Pure.

Brokers report connections as lists of cells, which are filtered and sorted as they are. Rows are made of those alone
that are shown.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from heapq import nsmallest
from operator import itemgetter
from typing import Any, NamedTuple

from engine.admin.api.brokers import CONNECTION_COLUMNS
from gateway.services.connections.client_libraries import ClientLibrary, library_of, version_key
from gateway.services.index.kept_selections import KeptResults
from gateway.services.index.selection import with_words, words_of

GROUPS_MAX = 100
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


Cells = Sequence[Any]
"""A connection as its broker reports it: CONNECTION_COLUMNS."""
Entry = tuple[str, Cells]
"""A connection with its broker."""
_CELL = {name: place for place, name in enumerate(CONNECTION_COLUMNS)}
_NUMBER, _SINCE, _VERSION = _CELL["number"], _CELL["since_ms"], _CELL["version"]
_ADDRESS, _APPLICATION, _ROLE = _CELL["address"], _CELL["application"], _CELL["role"]
_ORIGINAL, _PROXY = _CELL["original_role"], _CELL["proxy_version"]
_PRODUCERS, _CONSUMERS = _CELL["producers"], _CELL["consumers"]


class Libraries(dict[str, ClientLibrary]):
    """The libraries of the versions that were met, since many clients send the same."""

    def __missing__(self, sent: str) -> ClientLibrary:
        library = self[sent] = library_of(sent)
        return library


def _role(cells: Cells) -> str | None:
    original: str | None = cells[_ORIGINAL]
    role: str | None = cells[_ROLE]
    return role if original is None else original


def _proxy(cells: Cells) -> str | None:
    return (cells[_ROLE] if cells[_ORIGINAL] is not None else None) or cells[_PROXY] or None


def connection_of(broker: str, cells: Cells, libraries: Libraries) -> ListedConnection:
    """Return a connection by its broker and its CONNECTION_COLUMNS."""
    values = dict(zip(CONNECTION_COLUMNS, cells, strict=True))
    client = libraries[values["version"]]
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
        role=_role(cells),
        proxy=_proxy(cells),
        listener=values["listener"],
        producers=values["producers"],
        consumers=values["consumers"],
        unacked=values["unacked"],
        **{name: values[name] / 1000 for name in RATES},
    )


class ConnectionTable:
    """The connections as of ``at``, by their brokers; ``silent``: brokers that did not answer, with the reason, whose
    connections are not known. Immutable, but for the results that it keeps."""

    def __init__(
        self,
        at: int,
        connections: Mapping[str, list[Cells]],
        silent: Mapping[str, str],
        brokers: int,
        libraries: Libraries | None = None,
    ) -> None:
        self.at = at
        self.silent = dict(silent)
        self.brokers = brokers
        """Number of brokers that were asked."""
        self._libraries = Libraries() if libraries is None else libraries
        self._all: list[Entry] = [
            (broker, cells)
            for broker in sorted(connections)
            for cells in sorted(connections[broker], key=itemgetter(_NUMBER))
        ]
        self._kept = KeptResults[Filter, list[Entry]]()

    def __len__(self) -> int:
        return len(self._all)

    @cached_property
    def _texts(self) -> list[str]:
        """The texts in which words of a filter are searched, in lower case."""
        application = self._value_of("application")
        # Connections of one program differ in the address alone, so few texts are put together.
        others: dict[tuple[Any, ...], str] = {}
        texts = []
        for entry in self._all:
            broker, cells = entry
            key = cells[_VERSION], cells[_APPLICATION], cells[_ORIGINAL], cells[_ROLE], broker
            other = others.get(key)
            if other is None:
                role = _role(cells) or ""
                other = " ".join((cells[_VERSION], application(entry), role, broker)).lower()
                others[key] = other
            texts.append(f"{cells[_ADDRESS].lower()} {other}")
        return texts

    def count(self, chosen: Filter) -> int:
        """Return the number of connections that pass the filter."""
        return len(self._selected(chosen))

    def selected(
        self, chosen: Filter, start: int = 0, stop: int | None = None
    ) -> list[ListedConnection]:
        """Return the connections from ``start`` to ``stop`` of those that pass the filter, in its order; equals by
        broker and number."""
        entries = self._selected(chosen)[start:stop]
        return [connection_of(broker, cells, self._libraries) for broker, cells in entries]

    def _selected(self, chosen: Filter) -> list[Entry]:
        return self._kept.get_or_make(
            chosen, lambda: self._sorted(self._filtered(chosen), chosen.sort)
        )

    def _filtered(self, chosen: Filter) -> list[Entry]:
        entries: list[Entry] = self._all
        if words := words_of(chosen.q):
            entries = with_words(entries, self._texts, words)
        for field in ("library", "role", "application", "broker", "host"):
            if wanted := getattr(chosen, field):
                value = self._value_of(field)
                entries = [entry for entry in entries if value(entry) == wanted]
        if chosen.version:
            start, version = f"{chosen.version.rstrip('.')}.", self._value_of("version")
            entries = [entry for entry in entries if f"{version(entry)}.".startswith(start)]
        if chosen.proxy:
            has = chosen.proxy == "yes"
            entries = [entry for entry in entries if (_proxy(entry[1]) is not None) == has]
        if chosen.kind:
            passes = _KINDS[chosen.kind]
            entries = [entry for entry in entries if passes(entry[1])]
        return entries

    def _sorted(self, entries: list[Entry], sort: str) -> list[Entry]:
        """Return the entries, which are by broker and number, in an order, where equals stay as they are."""
        field = sort.removeprefix("-")
        return sorted(entries, key=self._rank(field), reverse=sort.startswith("-"))

    def groups(self, chosen: Filter, grouping: str) -> list[dict[str, Any]]:
        """Return how many of the selected connections are alike in a field, most first, at most GROUPS_MAX."""
        value = self._library_version if grouping == "version" else self._value_of(grouping)
        counts: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0])
        for entry in self._selected(chosen):
            sums = counts[value(entry)]
            sums[0] += 1
            sums[1] += entry[1][_PRODUCERS]
            sums[2] += entry[1][_CONSUMERS]
        first = nsmallest(GROUPS_MAX, counts.items(), key=lambda item: (-item[1][0], item[0] or ""))
        return [
            {
                "library": named[0] if grouping == "version" else "",
                "value": named[1] if grouping == "version" else named or "",
                "connections": sums[0],
                "producers": sums[1],
                "consumers": sums[2],
            }
            for named, sums in first
        ]

    def _library_version(self, entry: Entry) -> tuple[str, str]:
        library = self._libraries[entry[1][_VERSION]]
        return library.library, library.version

    def _value_of(self, field: str) -> Callable[[Entry], Any]:
        """Return the function that returns this field of an entry."""
        libraries = self._libraries
        match field:
            case "broker":
                return itemgetter(0)
            case "host":
                return lambda entry: entry[1][_ADDRESS].rpartition(":")[0]
            case "library" | "language" | "version":
                place = ClientLibrary._fields.index(field)
                return lambda entry: libraries[entry[1][_VERSION]][place]
            case "application":
                return lambda entry: (
                    libraries[entry[1][_VERSION]].description or entry[1][_APPLICATION]
                )
            case "role":
                return lambda entry: _role(entry[1])
            case "since":
                return lambda entry: entry[1][_SINCE]
        place = _CELL[field]
        return lambda entry: entry[1][place]

    def _rank(self, field: str) -> Callable[[Entry], Any]:
        value = self._value_of(field)
        if field == "version":
            ranks: dict[str, Any] = {}
            for _, cells in self._all:
                sent = cells[_VERSION]
                if sent not in ranks:
                    library = self._libraries[sent]
                    ranks[sent] = library.library, version_key(library.version)
            return lambda entry: ranks[entry[1][_VERSION]]
        if field == "role":
            return lambda entry: value(entry) or ""
        return value


_KINDS: dict[str, Callable[[Cells], bool]] = {
    "producer": lambda cells: cells[_PRODUCERS] > 0,
    "consumer": lambda cells: cells[_CONSUMERS] > 0,
    "neither": lambda cells: not cells[_PRODUCERS] and not cells[_CONSUMERS],
}
KINDS = tuple(_KINDS)
