"""How many messages a backlog of entries holds, from counters that exist when it is asked. Nothing is read.

Brokers count a backlog in entries; an entry is one message or one batch. Entries published since the topic was loaded
have the mean of those. Older ones have the mean of what consumers were sent, else the size of the entry that the check
of the backlog quotas read last. Where neither is known, each counts as the one message that it holds at least.
"""

from typing import NamedTuple

from engine.broker.topics.subscription import Subscription
from engine.broker.topics.topic import Topic


class Measured(NamedTuple):
    """A backlog: ``messages`` in ``entries``. ``estimated``: entries whose messages are a mean; ``unmeasured``: entries
    of unknown size, which are in ``messages`` as one each. With neither, ``messages`` is exact. The sum of backlogs is
    the sum of each number."""

    entries: int = 0
    messages: int = 0
    estimated: int = 0
    unmeasured: int = 0

    @property
    def exact(self) -> bool:
        return not (self.estimated or self.unmeasured)


NOTHING = Measured()


class MessageMeans:
    """What is known now of how many messages a topic's entries hold; for all its subscriptions."""

    __slots__ = ("_added", "_published", "_topic")

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._added = topic.log.entries_added
        self._published = topic.published.messages.total - topic.repeated_messages

    def measure(self, subscription: Subscription) -> Measured:
        """Return the subscription's backlog; no entry is read."""
        cursor, log = subscription.cursor, self._topic.log
        entries = cursor.backlog_entries()
        if not entries:
            return NOTHING
        added, published = self._added, self._published
        end = log.next_position(log.last_confirmed)
        behind = log.entries_between(log.next_position(cursor.mark_delete), end)
        if behind == entries == added <= published and not cursor.has_partial_batches:
            return Measured(entries, published)
        old = min(max(behind - added, 0), entries)
        fresh = entries - old
        # Because an entry holds at least one message, as many messages as entries are one in each.
        is_plain = added == published
        known = Measured(fresh, fresh) if is_plain else _by_mean(fresh, (published, added))
        return _sum((known, _by_mean(old, self._sent_or_sampled()))) if old else known

    def _sent_or_sampled(self) -> tuple[int, int]:
        """Return messages and entries whose quotient is the size of entries from before the topic was loaded; zeros
        when it is not known."""
        subscriptions = self._topic.subscriptions.values()
        here = sum(each.entries_out for one in subscriptions for each in one.consumers)
        entries = here + sum(one.entries_out for one in subscriptions)
        if entries:
            return sum(one.total_out[0] for one in subscriptions), entries
        oldest = self._topic.quotas.oldest
        return (0, 0) if oldest is None else (oldest.messages, 1)


def measure_topic(topic: Topic) -> Measured:
    """Return the sum of the backlogs of all subscriptions that can be read."""
    means = MessageMeans(topic)
    return _sum([means.measure(each) for each in topic.subscriptions.values()])


def _by_mean(entries: int, known: tuple[int, int]) -> Measured:
    """Estimate a backlog by the messages and entries of ``known``; fewer messages than entries are no measure."""
    messages, of = known
    if not 0 < of <= messages:
        return Measured(entries, entries, 0, entries)
    return Measured(entries, round(entries * messages / of), entries)


def _sum(backlogs: list[Measured] | tuple[Measured, ...]) -> Measured:
    return Measured(*map(sum, zip(*backlogs, strict=True))) if backlogs else NOTHING
