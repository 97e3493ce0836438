"""The list of all topics: the figures of each, their sums, and the orders that lists request. Pure.

Work is proportional to what changed. Every figure is marked by how it is known (``rows.KNOWN``): once known, it stays
as the last known one until a newer one arrives. A figure that was never known is None, and sums count such topics as
unknown.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from operator import attrgetter

from engine.auth.viewer import Viewer
from gateway.services.index.figures import STORAGE, KnownValues, Shown, Values, filled
from gateway.services.index.kept_selections import KeptSelections
from gateway.services.index.rows import LAST
from gateway.services.index.seen_topics import NamespaceOrders, SeenTopics
from gateway.services.index.selection import Chosen, TopicSelection
from gateway.services.index.sums import IndexSums

"""Selections kept at the same time; the least recently requested one is dropped for another."""


class ListedTopics(ABC):
    """The listed topics. Used on one event loop; ``version`` grows with every change."""

    def __init__(self) -> None:
        self.version = 0
        self.on_change: Callable[[str, Values | None, Values | None], None] | None = None
        """Called with (topic of the list, before, after) at each change of the values that hold for certain; None
        where the topic does not exist."""
        self.on_clients: Callable[[str, Values, Values], None] | None = None
        """Called with (topic of the list, before, after) at each change of its values, last known ones included."""
        self.sums = IndexSums()
        self._shown: dict[str, Shown] = {}
        self._by_name: list[Shown] | None = None
        """All topics sorted by name; None after one was added or removed."""
        self._gathering: Shown | None = None
        """A partitioned topic whose parts are still being added."""
        self._recalled: dict[str, tuple[int, Values]] = {}
        self._selections: KeptSelections[TopicSelection] = KeptSelections()
        self._seen: KeptSelections[SeenTopics] = KeptSelections()
        self._orders: NamespaceOrders | None = None
        """The orders of ``_seen``; None while there are none."""

    def __len__(self) -> int:
        return len(self._shown)

    def __contains__(self, name: object) -> bool:
        return name in self._shown

    def __iter__(self) -> Iterator[Shown]:
        return iter(self._shown.values())

    @property
    @abstractmethod
    def at(self) -> int:
        """Time when the newest figures were counted, ms; 0 without any."""

    # Changes

    def recall(self, figures: dict[str, tuple[int, Values]]) -> None:
        """Set figures of topics that an earlier process recorded, with their times in ms: last known ones until
        newer ones arrive."""
        self._recalled = figures
        for shown in list(self._shown.values()):
            if None in shown.values:
                self._reshow(shown)

    def _show(self, shown: Shown) -> None:
        self._shown[shown.name] = shown
        self._by_name = None
        shown.values, shown.known = self._figures_of(shown)
        self.sums.add(shown)
        if self._orders is not None:
            self._orders.show(shown)
        self._touch(shown.name)
        if self.on_change is not None:
            self.on_change(shown.name, None, shown.certain)

    def _hide(self, shown: Shown) -> None:
        del self._shown[shown.name]
        self._by_name = None
        if self._orders is not None:
            self._orders.hide(shown)
        self.sums.remove(shown)
        self._touch(shown.name)
        if self.on_change is not None:
            self.on_change(shown.name, shown.certain, None)

    def _reshow(self, shown: Shown) -> None:
        before = shown.values
        after = self._figures_of(shown)
        if before == after.values and shown.known == after.known:
            return
        certain = shown.certain
        self.sums.replace(shown, after)
        shown.values, shown.known = after
        self.version += 1
        if self.on_change is not None:
            self.on_change(shown.name, certain, shown.certain)
        if self.on_clients is not None:
            self.on_clients(shown.name, before, after.values)
        for selection in self._selections.values():
            if selection.depends(before, after.values):
                selection.touch(shown.name)
        if self._orders is not None:
            self._orders.change(shown, before, after.values)

    def _figures_of(self, shown: Shown) -> KnownValues:
        """Return a topic's figures, with the last known one where a figure is unknown."""
        figures = shown.figures
        if None not in figures.values:
            shown.last = None
            return figures
        if shown.last is None:
            if None not in shown.values and shown is not self._gathering:
                shown.last = self.at, shown.values
            else:
                shown.last = self._recalled.get(shown.name)
        if shown.last is None:
            return figures
        return KnownValues(filled(figures.values, shown.last[1]), LAST)

    def _touch(self, name: str) -> None:
        """Notify the selections of a topic that was added or removed, or changed in more than its values."""
        self.version += 1
        for selection in self._selections.values():
            selection.touch(name)

    # Queries

    def select(
        self, viewer: Viewer, chosen: Chosen, among: Collection[str] = (), now_ms: int = 0
    ) -> TopicSelection | SeenTopics:
        """Return the up-to-date selection of the chosen topics that are seen, which is kept until it is unused
        (``drop_unused``). ``among``: with ``Chosen.attention`` the topics that have its cause; ``now_ms``: for
        filters by age."""
        if not viewer.everything and not chosen.filters:
            return self._select_seen(viewer, chosen)
        others = self._selections.values()
        selection = self._selections.request(
            viewer,
            chosen,
            lambda: TopicSelection(
                viewer, chosen, self._shown, others, among, now_ms, self._in_name_order
            ),
        )
        selection.limit(among)
        selection.catch_up(now_ms)
        return selection

    def _in_name_order(self) -> list[Shown]:
        """Return all topics sorted by name, which the orders of all selections begin with; not to be changed."""
        if self._by_name is None:
            self._by_name = sorted(self._shown.values(), key=attrgetter("name"))
        return self._by_name

    def _select_seen(self, viewer: Viewer, chosen: Chosen) -> SeenTopics:
        if self._orders is None:
            self._orders = NamespaceOrders(self._shown)
        orders = self._orders
        seen = self._seen.request(viewer, chosen, lambda: SeenTopics(viewer, chosen, orders))
        seen.catch_up(self.version)
        return seen

    def drop_unused(self) -> None:
        """Drop the selections that were not requested since the last call."""
        self._seen.drop_unused()
        if not self._seen:
            self._orders = None
        elif self._orders is not None:
            self._orders.keep({chosen for _, chosen in self._seen})
        self._selections.drop_unused()

    def largest_stored(self, viewer: Viewer, namespaces: Collection[str]) -> dict[str, int | None]:
        """Return the stored bytes of the largest topic of each of these namespaces that is seen, by full name; None
        where that of no topic is known. Namespaces without topics are left out. The cost is that of one pass over all
        topics."""
        namespaces = {name for name in namespaces if viewer.sees(name)}
        largest: dict[str, int | None] = {}
        for shown in self._shown.values():
            namespace = shown.namespace
            if namespace in namespaces:
                stored, known = shown.values[STORAGE], largest.get(namespace)
                largest[namespace] = known if stored is None else max(stored, known or 0)
        return largest

    def certain(self, name: str) -> Values:
        """Return a listed topic's values as far as they hold now. Raises KeyError when it does not exist."""
        return self._shown[name].certain

    def partitions(self, name: str) -> int | None:
        """Return a listed topic's number of partitions, 0 for a plain one; None when it does not exist."""
        shown = self._shown.get(name)
        return shown.partitions if shown is not None else None
