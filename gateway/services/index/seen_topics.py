"""Lists of all topics that viewers see, from one order of each namespace that they share. Pure.

A viewer's own order would cost as much for each viewer as the order of all topics, at each change.
"""

from collections.abc import Iterable, Mapping
from heapq import merge, nsmallest
from itertools import chain, islice

from engine.auth.viewer import ALL, Viewer
from gateway.services.index.figures import Shown, Values
from gateway.services.index.selection import Chosen, Key, TopicSelection

PREFIX_MIN, PREFIX_MAX = 256, 2_000
"""Least number of names that are merged, and the most; for more, sorting all takes less time."""


class NamespaceOrders:
    """The topics of each namespace, and the orders of them that viewers request."""

    def __init__(self, listed: Mapping[str, Shown]) -> None:
        self.version = 0
        """A number that grows when a namespace is added or removed."""
        self._topics: dict[str, dict[str, Shown]] = {}
        self._orders: dict[Chosen, dict[str, TopicSelection]] = {}
        self._touched: dict[TopicSelection, None] = {}
        for shown in listed.values():
            self._topics.setdefault(shown.namespace, {})[shown.name] = shown

    def show(self, shown: Shown) -> None:
        """Add a topic."""
        topics = self._topics.get(shown.namespace)
        if topics is None:
            topics = self._topics[shown.namespace] = {}
            self.version += 1
        topics[shown.name] = shown
        self.touch(shown)

    def hide(self, shown: Shown) -> None:
        """Remove a topic, which still has its namespace."""
        topics = self._topics[shown.namespace]
        del topics[shown.name]
        if topics:
            self.touch(shown)
            return
        self.version += 1
        del self._topics[shown.namespace]
        for orders in self._orders.values():
            orders.pop(shown.namespace, None)

    def touch(self, shown: Shown) -> None:
        """Mark a topic that changed in more than its values."""
        for orders in self._orders.values():
            if (order := orders.get(shown.namespace)) is not None:
                self._mark(order, shown)

    def change(self, shown: Shown, before: Values, after: Values) -> None:
        """Mark a topic whose values changed."""
        for orders in self._orders.values():
            order = orders.get(shown.namespace)
            if order is not None and order.depends(before, after):
                self._mark(order, shown)

    def _mark(self, order: TopicSelection, shown: Shown) -> None:
        order.touch(shown.name)
        self._touched[order] = None

    def catch_up(self) -> None:
        """Apply the changes of all marked topics."""
        touched, self._touched = self._touched, {}
        for order in touched:
            order.catch_up()

    def seen(self, viewer: Viewer, chosen: Chosen) -> list[TopicSelection]:
        """Return the orders of the namespaces that a viewer sees."""
        orders = self._orders.setdefault(chosen, {})
        selections = []
        for namespace, topics in self._topics.items():
            if viewer.sees(namespace):
                order = orders.get(namespace)
                if order is None:
                    order = orders[namespace] = TopicSelection(ALL, chosen, topics)
                selections.append(order)
        return selections

    def keep(self, chosen: set[Chosen]) -> None:
        """Drop all orders but these, which viewers use."""
        self._orders = {key: orders for key, orders in self._orders.items() if key in chosen}


class SeenTopics:
    """The sorted topics that a viewer sees (A6), without another filter."""

    def __init__(self, viewer: Viewer, chosen: Chosen, orders: NamespaceOrders) -> None:
        self.is_used = True
        self.chosen = chosen
        self._viewer = viewer
        self._orders = orders
        self._version = self._namespaces = -1
        self._seen: list[TopicSelection] = []
        self._names: list[str] = []
        """The first names in order, as far as they were requested."""

    def __len__(self) -> int:
        return sum(map(len, self._seen))

    def catch_up(self, version: int) -> None:
        """Apply all changes up to this version of the list."""
        if version == self._version:
            return
        self._version = version
        if self._namespaces != self._orders.version:
            self._namespaces = self._orders.version
            self._seen = self._orders.seen(self._viewer, self.chosen)
        self._orders.catch_up()
        self._names = []

    def names(self, start: int = 0, stop: int | None = None) -> list[str]:
        """Return the names in order, as of the last ``catch_up``."""
        wanted = len(self) if stop is None else min(stop, len(self))
        if wanted > len(self._names):
            self._names = [key[-1] for key in self._first(wanted)]
        return self._names[start:stop]

    def _first(self, wanted: int) -> Iterable[Key]:
        """Return at least so many of the first keys."""
        if wanted > PREFIX_MAX:
            return sorted(chain.from_iterable(order.keys for order in self._seen))
        wanted = max(PREFIX_MIN, 2 * wanted)  # other windows of the viewer may be further below
        orders = self._seen
        if wanted < len(orders):
            # The first keys are in the namespaces whose own first ones are the least.
            orders = nsmallest(wanted, orders, key=lambda order: order.keys[0])
        return islice(merge(*(order.keys for order in orders)), wanted)
