"""Numbers of messages in a backlog of entries, derived from existing counters. No entry is read.

Brokers count a backlog in entries; an entry is one message or one batch. Entries published since the topic was loaded
count with their mean number of messages. Older ones count with the mean of the entries sent to consumers, else with the
messages of the entry that the check of the backlog quotas read last. Where neither is known, each counts as one
message, which is the least that it holds.
"""

from typing import NamedTuple

from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic


class Measured(NamedTuple):
    """A backlog: ``messages`` in ``entries``. ``estimated``: entries that count with a mean; ``unmeasured``: entries of
    unknown size, which count as one message each. Without either, ``messages`` is exact. Backlogs are added by adding
    each number."""

    entries: int = 0
    messages: int = 0
    estimated: int = 0
    unmeasured: int = 0

    @property
    def exact(self) -> bool:
        return not (self.estimated or self.unmeasured)


NOTHING = Measured()


class MessageMeans:
    """Mean numbers of messages in a topic's entries at one moment, for all its subscriptions."""

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
        consumers = [consumer for s in subscriptions for consumer in s.consumers]
        entries = sum(consumer.entries_out for consumer in consumers)
        entries += sum(subscription.counters.entries_out for subscription in subscriptions)
        if entries:
            return sum(
                subscription.counters.total_out[0] for subscription in subscriptions
            ), entries
        oldest = self._topic.quotas.oldest
        return (0, 0) if oldest is None else (oldest.messages, 1)


def measure_topic(topic: Topic) -> Measured:
    """Return the sum of the backlogs of all subscriptions that can be read."""
    means = MessageMeans(topic)
    return _sum([means.measure(subscription) for subscription in topic.subscriptions.values()])


def _by_mean(entries: int, known: tuple[int, int]) -> Measured:
    """Estimate a backlog by the messages and entries of ``known``; fewer messages than entries are no measure."""
    messages, of = known
    if not 0 < of <= messages:
        return Measured(entries, entries, 0, entries)
    return Measured(entries, round(entries * messages / of), entries)


def _sum(backlogs: list[Measured] | tuple[Measured, ...]) -> Measured:
    return Measured(*map(sum, zip(*backlogs, strict=True))) if backlogs else NOTHING
