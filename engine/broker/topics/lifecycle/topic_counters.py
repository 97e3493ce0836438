"""Counters of a broker's topics: the rates computed once a second, and sums that outlive the topics."""

from operator import add
from typing import NamedTuple

from engine.broker.topic_table import TopicTable
from engine.broker.topics.limits import is_system
from engine.broker.topics.topic import Topic


class Totals(NamedTuple):
    """Bytes published and sent, separately for system topics, and the number of evictions by backlog quotas."""

    bytes_in: int = 0
    bytes_out: int = 0
    system_in: int = 0
    system_out: int = 0
    evicted_for_size: int = 0
    evicted_for_age: int = 0

    def plus(self, topic: Topic) -> "Totals":
        """Return these sums plus those of ``topic`` since it was loaded."""
        bytes_in, bytes_out = topic.published.bytes.total, topic.subscriptions.total_out[1]
        quotas = topic.quotas
        of_topic = (
            *(
                (0, 0, bytes_in, bytes_out)
                if is_system(topic.name)
                else (bytes_in, bytes_out, 0, 0)
            ),
            *(quotas.evicted_for_size, quotas.evicted_for_age),
        )
        return Totals(*map(add, self, of_topic))


class TopicCounters:
    """The topics of one broker whose counters may have changed, and the sums of those that were unloaded."""

    __slots__ = ("_loaded", "_totals_before", "_unloading", "touched", "used")

    def __init__(self, loaded: TopicTable[Topic]) -> None:
        self._loaded = loaded
        self.touched: dict[Topic, bool] = {}
        """Topics whose rates are computed next; False for those that are included only until their rates are zero."""
        self.used: list[Topic] = []
        """Topics with an event in the last second counted."""
        self._unloading: dict[Topic, None] = {}
        """Topics that are being unloaded."""
        self._totals_before = Totals()
        """Sums of topics that were unloaded."""

    def tick(self, elapsed_s: float) -> list[Topic]:
        """Compute rates from counters, once a second, of the topics that may have changed since the last call.

        Return those topics, including topics that are no longer served.
        """
        touched = list(self.touched)
        self.used = [topic for topic, happened in self.touched.items() if happened]
        self.touched.clear()
        for topic in touched:
            if topic.tick(elapsed_s) and self._loaded.get(topic.name.full) is topic:
                self.touched.setdefault(topic, False)
        return touched

    def is_touched(self, topic: Topic) -> bool:
        """Return whether an event may have changed the topic since the last ``tick``."""
        return self.touched.get(topic, False)

    def counted(self) -> tuple[list[Topic], Totals]:
        """Return the topics that are served or being unloaded, and the sums of those unloaded before.

        Together the sums never decrease.
        """
        return [*self._loaded.sorted(), *self._unloading], self._totals_before

    def begin_unload(self, topic: Topic) -> None:
        """Note that ``topic`` is no longer served and still counts."""
        self._unloading[topic] = None

    def end_unload(self, topic: Topic) -> None:
        """Add the sums of ``topic``, which counts no more, to those of the topics unloaded before."""
        del self._unloading[topic]
        self._totals_before = self._totals_before.plus(topic)
