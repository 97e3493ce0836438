"""The figures of all subscriptions, updated by changes that brokers and the metadata store report. Pure.

Figures are reported for topics and partitions (here: parts); a subscription of a partitioned topic has the sum over its
parts. A part that no broker has loaded keeps what was known last, without clients, until what is stored of it was read.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, NamedTuple

from engine.admin.api.rows import OLDEST_UNKNOWN, SubscriptionCell
from engine.auth.viewer import Viewer
from gateway.services.index.kept_selections import KeptSelections
from gateway.services.index.rows import parts_of
from gateway.services.index.selection import Chosen
from gateway.services.subscriptions.subscription_selection import (
    COLUMNS,
    OLDEST,
    TARGET,
    SubscriptionSelection,
    Values,
)

"""Selections kept at the same time; the least recently requested one is dropped for another."""
_CLIENTS = frozenset(map(COLUMNS.index, ("msg_rate_out", "consumers", "unacked")))
"""Columns that are 0 while no broker has the topic loaded."""


class PartFigures(NamedTuple):
    """A subscription of one part. ``kind``: its type, empty where it is not known."""

    kind: str
    values: Values


class ListedSubscription:
    """A subscription of the list. ``name`` is its key: the topic and the subscription's name."""

    __slots__ = ("kind", "name", "title", "topic", "values")

    def __init__(self, topic: str, title: str, cell: PartFigures) -> None:
        self.name = key_of(topic, title)
        self.topic = topic
        self.title = title
        self.kind, self.values = cell

    @property
    def namespace(self) -> str:
        """Full name of the namespace."""
        parts = parts_of(self.topic)
        return f"{parts['tenant']}/{parts['namespace']}"

    @property
    def partitions(self) -> int:
        return 0

    def row(self) -> dict[str, Any]:
        """Return its part of a row of the list."""
        row: dict[str, Any] = {
            "topic": self.topic,
            "subscription": self.title,
            "type": self.kind,
            **dict(zip(COLUMNS, self.values, strict=True)),
        }
        row["msg_rate_out"] = (row["msg_rate_out"] or 0) / 1000
        if row["oldest_at"] == OLDEST_UNKNOWN:
            row["oldest_at"] = None
        row["age_target_s"] = row["age_target_s"] or None
        return row


def key_of(topic: str, title: str) -> str:
    return f"{topic}\n{title}"


class SubscriptionIndex:
    """The list, for one event loop. ``version`` grows with every change."""

    def __init__(self) -> None:
        self.version = 0
        self._cells: dict[str, dict[str, PartFigures]] = {}
        """Subscriptions by part and name."""
        self._topic: dict[str, str] = {}
        """The listed topic of each part that is listed."""
        self._parts: dict[str, dict[str, None]] = {}
        """Parts with subscriptions, by listed topic."""
        self._shown: dict[str, ListedSubscription] = {}
        self._by_name: list[ListedSubscription] | None = None
        """All subscriptions sorted by key; None after one was added or removed."""
        self._with_target: dict[str, ListedSubscription] = {}
        self._stale: dict[tuple[str, str], None] = {}
        """Subscriptions of partitioned topics that are to be summed again before the list is read."""
        self._selections: KeptSelections[SubscriptionSelection] = KeptSelections()

    def __len__(self) -> int:
        self._sum_stale()
        return len(self._shown)

    # Reports

    def report(self, part: str, cells: Iterable[Iterable[Any]]) -> None:
        """Apply a broker's row of a part that it has loaded, which has all its subscriptions."""
        self._put(part, {cell.name: _cell(cell) for cell in (SubscriptionCell(*c) for c in cells)})

    def end(self, part: str) -> None:
        """Note that no broker has the part loaded any more."""
        cells = self._cells.get(part)
        if cells is not None:
            resting = {title: _without_clients(cell) for title, cell in cells.items()}
            self._put(part, resting if part in self._topic else {})

    def read_at_rest(self, part: str, backlogs: Mapping[str, int | None]) -> None:
        """Apply what is stored of a part that no broker has loaded: unacknowledged entries by subscription."""
        known = self._cells.get(part, {})
        self._put(
            part,
            {title: _at_rest(known.get(title), backlog) for title, backlog in backlogs.items()},
        )

    def place(self, part: str, topic: str) -> None:
        """List the subscriptions of a part under a topic."""
        self._topic[part] = topic
        if cells := self._cells.get(part):
            self._parts.setdefault(topic, {})[part] = None
            self._changed(topic, part, cells)

    def remove(self, part: str) -> None:
        """Cease to list the subscriptions of a part; they are listed again where it is placed."""
        topic = self._topic.pop(part)
        if cells := self._cells.get(part):
            self._drop_part(topic, part)
            self._changed(topic, part, cells)

    def _put(self, part: str, cells: dict[str, PartFigures]) -> None:
        before = self._cells.get(part, {})
        if before == cells:
            return
        if cells:
            self._cells[part] = cells
        else:
            del self._cells[part]
        topic = self._topic.get(part)
        if topic is None:
            return
        if cells and not before:
            self._parts.setdefault(topic, {})[part] = None
        elif not cells:
            self._drop_part(topic, part)
        titles = {**before, **cells}
        self._changed(topic, part, [t for t in titles if before.get(t) != cells.get(t)])

    def _drop_part(self, topic: str, part: str) -> None:
        parts = self._parts[topic]
        del parts[part]
        if not parts:
            del self._parts[topic]

    def _changed(self, topic: str, part: str, titles: Iterable[str]) -> None:
        self.version += 1
        if topic == part:
            for title in titles:
                self._sum(topic, title)
        else:
            self._stale |= dict.fromkeys((topic, title) for title in titles)

    def _sum_stale(self) -> None:
        stale, self._stale = self._stale, {}
        for topic, title in stale:
            self._sum(topic, title)

    def _sum(self, topic: str, title: str) -> None:
        """Add up a subscription over its parts, and list it, or not any more."""
        cells = [
            cell
            for part in self._parts.get(topic, ())
            if (cell := self._cells[part].get(title)) is not None
        ]
        key = key_of(topic, title)
        shown = self._shown.get(key)
        if not cells:
            if shown is not None:
                del self._shown[key]
                self._by_name = None
                self._with_target.pop(key, None)
                self._touch(key)
            return
        total = cells[0] if len(cells) == 1 else _summed(cells)
        if shown is None:
            shown = self._shown[key] = ListedSubscription(topic, title, total)
            self._by_name = None
            self._touch(key)
        else:
            before = shown.values
            shown.kind, shown.values = total
            for selection in self._selections.values():
                if selection.depends(before, total.values):
                    selection.touch(key)
        if total.values[TARGET]:
            self._with_target[key] = shown
        else:
            self._with_target.pop(key, None)

    def _touch(self, key: str) -> None:
        for selection in self._selections.values():
            selection.touch(key)

    # Queries

    def select(
        self, viewer: Viewer, chosen: Chosen, now_ms: int, among: Collection[str] = ()
    ) -> SubscriptionSelection:
        """Return the up-to-date selection of the chosen subscriptions that are seen, which is kept until it is unused
        (``drop_unused``). ``among``: with ``Chosen.attention`` the keys of those that have its cause."""
        self._sum_stale()
        others = self._selections.values()
        selection = self._selections.request(
            viewer,
            chosen,
            lambda: SubscriptionSelection(
                viewer, chosen, self._shown, others, among, now_ms, self._in_name_order
            ),
        )
        selection.limit(among)
        selection.catch_up(now_ms)
        return selection

    def _in_name_order(self) -> list[ListedSubscription]:
        """Return all subscriptions sorted by key; not to be changed."""
        if self._by_name is None:
            self._by_name = sorted(self._shown.values(), key=attrgetter("name"))
        return self._by_name

    def drop_unused(self) -> None:
        """Drop the selections that were not requested since the last call."""
        self._selections.drop_unused()

    def get(self, key: str) -> ListedSubscription | None:
        """Return a listed subscription by its key."""
        return self._shown.get(key)

    def of_topic(self, topic: str) -> Iterator[ListedSubscription]:
        """Yield the subscriptions of a topic."""
        self._sum_stale()
        cells = (self._cells[part] for part in self._parts.get(topic, ()))
        for title in dict.fromkeys(title for titles in cells for title in titles):
            yield self._shown[key_of(topic, title)]

    def late(self, now_ms: int) -> Iterator[tuple[ListedSubscription, int]]:
        """Yield the subscriptions whose oldest message is older than their target, each with the time when it became
        so, ms."""
        self._sum_stale()
        for shown in self._with_target.values():
            oldest_at, target_s = shown.values[OLDEST], shown.values[TARGET]
            assert oldest_at is not None
            assert target_s is not None
            if oldest_at > 0 and oldest_at + target_s * 1000 < now_ms:
                yield shown, oldest_at + target_s * 1000


def _cell(cell: SubscriptionCell) -> PartFigures:
    values = (
        *(cell.backlog, cell.rate_out, cell.oldest_at, cell.messages, cell.estimated),
        *(cell.unmeasured, cell.consumers, cell.unacked, cell.target_s),
    )
    return PartFigures(cell.kind, values)


def _without_clients(cell: PartFigures) -> PartFigures:
    values = enumerate(cell.values)
    return cell._replace(values=tuple(0 if at in _CLIENTS else value for at, value in values))


def _at_rest(known: PartFigures | None, backlog: int | None) -> PartFigures:
    """Return a stored subscription. The store counts a backlog in entries only: while it has as many as were known
    before, it is as old and holds as many messages as it did."""
    if known is not None and known.values[0] == backlog:
        return _without_clients(known)
    kind, target_s = ("", 0) if known is None else (known.kind, known.values[TARGET])
    if backlog is None:
        return PartFigures(kind, (None, 0, OLDEST_UNKNOWN, None, None, None, 0, 0, target_s))
    oldest = OLDEST_UNKNOWN if backlog else 0
    return PartFigures(kind, (backlog, 0, oldest, backlog, 0, backlog, 0, 0, target_s))


def _summed(cells: list[PartFigures]) -> PartFigures:
    """Return the sum over the parts, the earliest time and the largest target. None where a part's is unknown."""
    values: list[int | None] = []
    for column, numbers in enumerate(zip(*(cell.values for cell in cells), strict=True)):
        known = [number for number in numbers if number is not None]
        if len(known) < len(numbers):
            values.append(None)
        elif column == OLDEST:
            values.append(min((number for number in known if number), default=0))
        else:
            values.append(max(known) if column == TARGET else sum(known))
    return PartFigures(next((cell.kind for cell in cells if cell.kind), ""), tuple(values))
