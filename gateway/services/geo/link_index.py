"""Replication of all topics, assembled from the brokers' incremental answers, and its sums by remote cluster. Pure.

A link is what this cluster sends to a remote one, or receives from it. Sums are kept for each broker, so that those of
a silent broker are known to be old. A topic or partition that was unloaded with messages that were not sent is kept
with its last figures while no broker has it loaded: nothing is sent for it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.admin.link_causes import SENDING
from gateway.services.feeds.row_list import RowChanges

UNLOADED = "unloaded"
"""Cause of a topic that no broker has loaded."""
UNLOADED_WHY = "no broker has the topic loaded; it is loaded again when a client uses it"
KEPT_MS = 10_000
"""Time for which an unloaded topic is kept although a broker seems to have it: the feeds report moves in any order."""


class Sent(NamedTuple):
    """Replication of a topic or partition to a cluster; see ``engine.admin.api.rows.LINK_ROWS``. Rates are in
    thousandths per second."""

    backlog: int
    oldest: int | None
    messages: int
    bytes: int
    cause: str | None
    why: str
    since: int

    @property
    def is_behind(self) -> bool:
        """Return whether messages wait, or cannot be sent."""
        return self.backlog > 0 or self.cause is not None

    @property
    def is_stopped(self) -> bool:
        return self.cause is not None and self.cause not in SENDING


class TopicLink(NamedTuple):
    """Replication of a topic or partition to a remote cluster. ``broker``: that reported it; empty for one that no
    broker has loaded."""

    topic: str
    broker: str
    sent: Sent


@dataclass(slots=True)
class LinkSums:
    """Sums over the topics of one broker that are sent to a cluster or received from it. Rates are in thousandths."""

    topics: int = 0
    backlog: int = 0
    messages: int = 0
    bytes: int = 0
    causes: Counter[str] = field(default_factory=Counter)
    behind: dict[str, Sent] = field(default_factory=dict)
    received_topics: int = 0
    received_messages: int = 0
    received_bytes: int = 0

    def add(self, topic: str, sent: Sent | None, received: list[int] | None, sign: int = 1) -> None:
        """Add a topic; with a ``sign`` of -1 subtract it."""
        if sent is not None:
            self.topics += sign
            self.backlog += sign * sent.backlog
            self.messages += sign * sent.messages
            self.bytes += sign * sent.bytes
            if sent.cause is not None:
                self.causes[sent.cause] += sign
            if sign < 0:
                self.behind.pop(topic, None)
            elif sent.is_behind:
                self.behind[topic] = sent
        if received is not None:
            self.received_topics += sign
            self.received_messages += sign * received[0]
            self.received_bytes += sign * received[1]

    @property
    def is_empty(self) -> bool:
        return not self.topics and not self.received_topics


Links = list[tuple[str, Sent | None, list[int] | None]]
"""The other clusters of a topic, each with what is sent and received."""


class LinkIndex:
    """Links of all brokers, for one event loop. ``version`` grows with every change.

    ``is_unloaded`` returns whether a topic exists and no broker has it loaded.
    """

    def __init__(self, is_unloaded: Callable[[str], bool], now_ms: Callable[[], int]) -> None:
        self.version = 0
        self.at: dict[str, int] = {}
        """Time of the last report by broker, by its clock, ms."""
        self._is_unloaded = is_unloaded
        self._now_ms = now_ms
        self._rows: dict[str, dict[str, Links]] = {}
        """Links by broker and topic."""
        self._sums: dict[str, dict[str, LinkSums]] = {}
        """Sums by broker and remote cluster."""
        self._owner: dict[str, str] = {}
        """The broker whose row counts, by topic: the one that reported the topic last."""
        self._unloaded: dict[str, tuple[int, Links]] = {}
        """Links of topics that were unloaded with unsent messages, with the time when that was noted, ms."""

    # Reports of brokers

    def reported(self, broker: str) -> Iterable[str]:
        """Return the topics and partitions with a row of this broker."""
        return self._rows.get(broker, ())

    def apply(self, broker: str, changes: RowChanges) -> None:
        """Apply changes of a broker's ``LINK_ROWS``."""
        rows = self._rows.setdefault(broker, {})
        self.at[broker] = changes.at
        for topic, *links in changes.rows:
            if topic in self._owner:
                self._count(self._owner[topic], topic, -1)
            self._owner[topic] = broker
            self._unloaded.pop(topic, None)
            rows[topic] = [
                (remote, None if sent is None else Sent(*sent), received)
                for remote, sent, received in links
            ]
            self._count(broker, topic, 1)
        for topic in changes.gone:
            self._remove(broker, topic)
        if changes.rows or changes.gone:
            self.version += 1

    def forget(self, broker: str) -> None:
        """Remove a broker that has left. Topics that it did not send completely are kept as unloaded."""
        for topic in list(self.reported(broker)):
            self._remove(broker, topic)
        for by_broker in (self._rows, self._sums, self.at):
            by_broker.pop(broker, None)
        self.version += 1

    def _remove(self, broker: str, topic: str) -> None:
        links = self._rows[broker].get(topic)
        if links is None:
            return
        # The previous owner's removal may arrive after the new owner's first row, which then counts.
        if self._owner.get(topic) == broker:
            self._count(broker, topic, -1)
            del self._owner[topic]
            if any(sent is not None and sent.backlog for _, sent, _ in links):
                self._unloaded[topic] = self._now_ms(), links
        del self._rows[broker][topic]

    def _count(self, broker: str, topic: str, sign: int) -> None:
        """Add the topic's row of its owner to the sums, or subtract it."""
        sums = self._sums.setdefault(broker, {})
        for remote, sent, received in self._rows.get(broker, {}).get(topic, ()):
            entry = sums.setdefault(remote, LinkSums())
            entry.add(topic, sent, received, sign)
            if entry.is_empty:
                del sums[remote]

    # Queries

    def remotes(self) -> set[str]:
        """Return the clusters that topics are sent to or received from."""
        names = {remote for sums in self._sums.values() for remote in sums}
        return names | {
            remote for topic in self._left() for remote, _, _ in self._unloaded[topic][1]
        }

    def sums(self, remote: str) -> dict[str, LinkSums]:
        """Return the sums of a link by broker, among those that reported it; under the empty name those of topics that
        no broker has loaded."""
        by_broker = {broker: sums[remote] for broker, sums in self._sums.items() if remote in sums}
        unloaded = LinkSums()
        for topic, sent in self._unsent(remote):
            unloaded.add(topic, sent, None)
        return by_broker if unloaded.is_empty else by_broker | {"": unloaded}

    def topics(self, remote: str, *, all_topics: bool) -> Iterator[TopicLink]:
        """Yield the topics and partitions that are sent to a cluster, of them only those that are behind unless
        ``all_topics``."""
        if all_topics:
            for topic, broker in self._owner.items():
                for name, sent, _ in self._rows[broker][topic]:
                    if name == remote and sent is not None:
                        yield TopicLink(topic, broker, sent)
        else:
            for broker, sums in self._sums.items():
                if remote in sums:
                    for topic, sent in sums[remote].behind.items():
                        yield TopicLink(topic, broker, sent)
        for topic, sent in self._unsent(remote):
            yield TopicLink(topic, "", sent)

    def of_topics(self, topics: Iterable[str]) -> dict[str, Links]:
        """Return the links of those topics and partitions that have some."""
        return {
            topic: self._rows[self._owner[topic]][topic] for topic in topics if topic in self._owner
        }

    def _unsent(self, remote: str) -> Iterator[tuple[str, Sent]]:
        for topic in self._left():
            since, links = self._unloaded[topic]
            for name, sent, _ in links:
                if name == remote and sent is not None and sent.backlog:
                    yield (
                        topic,
                        Sent(sent.backlog, sent.oldest, 0, 0, UNLOADED, UNLOADED_WHY, since),
                    )

    def _left(self) -> list[str]:
        """Return the topics that no broker has loaded; drop those that were deleted or are not replicated any more."""
        left = []
        for topic, (since, _) in list(self._unloaded.items()):
            if self._is_unloaded(topic):
                left.append(topic)
            elif self._now_ms() - since > KEPT_MS:
                del self._unloaded[topic]
        return left
