"""A view of everything that the collector knows."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from engine.auth.viewer import Viewer
from gateway.services.attention.board import Board
from gateway.services.bookies import Bookies
from gateway.services.clock import now_ms
from gateway.services.index.rows import Row
from gateway.services.index.seen_topics import SeenTopics
from gateway.services.index.selection import Chosen, TopicSelection
from gateway.services.index.topic_index import TopicIndex
from gateway.services.subscriptions.subscription_index import SubscriptionIndex
from gateway.services.subscriptions.subscription_selection import SubscriptionSelection


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A view of what is known, which changes with it; ``taken``: time of the last round, ms. Consistent only on the
    link's loop and without an await in between."""

    taken: int
    broker_lines: Callable[[], list[dict[str, Any]]]
    """See ``brokers``."""
    bookie_pages: Bookies
    topics: TopicIndex
    subscriptions: SubscriptionIndex
    known_until: Callable[[], int | None]
    """The collector's method that returns the time up to which everything is known, ms."""
    attention: Board

    @property
    def brokers(self) -> list[dict[str, Any]]:
        """Brokers' lines of the overview, by id."""
        return self.broker_lines()

    @property
    def bookies(self) -> list[dict[str, Any]]:
        """Bookies' lines of the overview, by id."""
        return self.bookie_pages.rows

    @property
    def at(self) -> int:
        """Time when the newest figures were counted, by the brokers' clocks, ms; without any, that of the last
        round."""
        return self.topics.at or self.taken

    def select(self, viewer: Viewer, chosen: Chosen) -> TopicSelection | SeenTopics:
        """Return the chosen topics that are seen, in order."""
        among = self.attention.topics_of(chosen.attention)
        return self.topics.select(viewer, chosen, among, now_ms())

    def select_subscriptions(self, viewer: Viewer, chosen: Chosen) -> SubscriptionSelection:
        """Return the chosen subscriptions that are seen, in order."""
        among = self.attention.subscriptions_of(chosen.attention)
        return self.subscriptions.select(viewer, chosen, now_ms(), among)

    def rows(self, viewer: Viewer, chosen: Chosen, start: int, stop: int) -> tuple[int, list[Row]]:
        """Return the number of chosen topics that are seen, and their rows from ``start`` to ``stop``."""
        selection = self.select(viewer, chosen)
        return len(selection), list(self.rows_of(viewer, selection.names(start, stop)))

    def rows_of(self, viewer: Viewer, names: Iterable[str]) -> Iterator[Row]:
        """Yield the rows of those topics that still exist and are seen."""
        for name in names:
            if name in self.topics and viewer.sees_topic(name):
                yield self.topics.row(name, self.taken)
