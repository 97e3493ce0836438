"""A topic's backlog against its quotas: producers are refused and sent away, or subscriptions moved on, beyond them.

Looked at by the clock and when a producer comes, never when a message does. What cannot be known now, because a
subscription cannot be read or storage is silent, changes nothing: what was last found stands (D12).
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from engine.base.clock import Clock
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.compaction.topic_compaction import CURSOR as COMPACTION
from engine.broker.errors import BacklogExceeded, BacklogHeld, BrokerError
from engine.broker.ports import QuotaAction, TopicPolicies
from engine.broker.topics.ports import Log
from engine.broker.topics.publish import Producer
from engine.broker.topics.subscription import Subscription

log = logging.getLogger(__name__)

EVICTED_TO = 0.9
"""Share of a size quota that eviction leaves, so that it is not needed again at once (Pulsar's)."""


class QuotaHost(Protocol):
    """What the quotas need of their topic."""

    name: TopicName
    log: Log
    policies: TopicPolicies
    subscriptions: dict[str, Subscription]

    @property
    def producers(self) -> Mapping[str, Producer]: ...

    @property
    def unread(self) -> Mapping[str, str]: ...

    def touched(self) -> None: ...

    async def expire(self, before_ms: int) -> None: ...


class Oldest(NamedTuple):
    """The first entry that the slowest subscription has not acknowledged. ``publish_ms``: epoch milliseconds.
    ``messages``: in it."""

    subscription: str
    position: Position
    publish_ms: int
    messages: int


class BacklogQuotas:
    """Of one topic. ``oldest``: as last found; None while no durable subscription has a backlog."""

    __slots__ = (
        "_clock", "_host", "_too_much", "_too_old", "evicted_for_age", "evicted_for_size", "oldest",
    )  # fmt: skip

    def __init__(self, host: QuotaHost, clock: Clock) -> None:
        self._host = host
        self._clock = clock
        self._too_much = False
        self._too_old = False
        self.oldest: Oldest | None = None
        self.evicted_for_size = 0
        """How often messages were given up because the backlog was too large."""
        self.evicted_for_age = 0
        """The same where it was too old."""

    async def admit(self) -> None:
        """Refuse a producer while the backlog is beyond a quota that says so. Cancel-safe.

        Raises BacklogHeld, BacklogExceeded.
        """
        policies = self._host.policies
        if policies.size_quota.action is not QuotaAction.EVICT and self._look_at_size():
            raise _refusal(policies.size_quota.action)
        if policies.age_quota.action is not QuotaAction.EVICT and policies.age_quota.limit > 0:
            try:
                await self._look_at_oldest()
            except MagnetarError as error:
                log.info("age of the backlog not known topic=%s: %s", self._host.name, error)
            if self._too_old:
                raise _refusal(policies.age_quota.action)

    async def check(self) -> None:
        """By the clock: send producers away, or move subscriptions on. Raises the log's errors, with the size done."""
        quota = self._host.policies.size_quota
        if self._look_at_size():
            if quota.action is QuotaAction.EVICT:
                self.evicted_for_size += 1
                self._evict(quota.limit)
            else:
                self._send_away("large")
        await self._look_at_oldest()
        quota = self._host.policies.age_quota
        if self._too_old:
            if quota.action is QuotaAction.EVICT:
                self.evicted_for_age += 1
                await self._host.expire(self._clock.wall_ms() - quota.limit * 1000)
            else:
                self._send_away("old")

    def is_large(self, limit: int) -> bool | None:
        """Whether the largest backlog has reached ``limit`` bytes; None while a subscription cannot be read."""
        if limit < 0:
            return False
        if self._host.unread:
            return None
        slowest = self._slowest()
        mark_delete = None if slowest is None else slowest.cursor.mark_delete
        size = 0 if mark_delete is None else self._host.log.bytes_behind(mark_delete)
        return size >= limit

    async def is_old(self, limit_s: int, now_ms: int) -> bool | None:
        """Whether the oldest message, which it finds, is older than ``limit_s`` (0 and less: none is); None while a
        subscription cannot be read. Raises the log's errors; then nothing has changed."""
        if self._host.unread:
            return None
        slowest = self._slowest()
        if slowest is None:
            self.oldest = None
            return False
        position = self._host.log.next_position(slowest.cursor.mark_delete)
        oldest = self.oldest
        if oldest is None or oldest.position != position:
            oldest = Oldest(slowest.name, position, *await self._host.log.entry_summary(position))
            self._host.touched()
        self.oldest = oldest._replace(subscription=slowest.name)
        return 0 < limit_s * 1000 < now_ms - oldest.publish_ms

    def oldest_ms(self) -> int | None:
        """Return the publish time of the first entry that a subscription has not acknowledged, epoch milliseconds.

        0: all is acknowledged; None: not known. Nothing is read: where the entry is not in memory, it is what the last
        check found, which may be older than the entry is, never younger."""
        behind = [
            each
            for each in self._host.subscriptions.values()
            if each.name != COMPACTION and each.cursor.backlog_entries()
        ]
        if not any(each.durable for each in behind):
            self.oldest = None
        slowest = min(behind, key=lambda each: each.cursor.mark, default=None)
        if slowest is None:
            return 0
        position, oldest = self._host.log.next_position(slowest.cursor.mark_delete), self.oldest
        if oldest is not None and oldest.position == position:
            return oldest.publish_ms
        summary = self._host.log.entry_summary_at_hand(position)
        if summary is not None:
            if slowest.durable:
                self.oldest = Oldest(slowest.name, position, *summary)
            return summary.publish_ms
        return oldest.publish_ms if oldest is not None and oldest.position < position else None

    def _look_at_size(self) -> bool:
        found = self.is_large(self._host.policies.size_quota.limit)
        self._too_much = self._too_much if found is None else found
        return self._too_much

    async def _look_at_oldest(self) -> None:
        """Raises as ``is_old``."""
        limit_s = self._host.policies.age_quota.limit
        found = await self.is_old(limit_s, self._clock.wall_ms())
        self._too_old = self._too_old if found is None else found

    def _slowest(self) -> Subscription | None:
        """The one with the largest backlog; None when there is no backlog."""
        slowest = min(self.counted(), key=lambda each: each.cursor.mark, default=None)
        return slowest if slowest is not None and slowest.cursor.backlog_entries() else None

    def counted(self) -> list[Subscription]:
        """Durable subscriptions but the compaction's: what it has not seen yet is nobody's backlog."""
        return [
            each
            for each in self._host.subscriptions.values()
            if each.durable and each.name != COMPACTION
        ]

    def evicted_to(self, limit: int) -> Position:
        """The last entry that goes when the backlog has reached a quota of ``limit`` bytes that evicts."""
        return self._host.log.last_before(int(limit * EVICTED_TO))

    def _evict(self, limit: int) -> None:
        """Leave what ``evicted_to`` says to every durable subscription."""
        last = self.evicted_to(limit)
        for subscription in self.counted():
            evicted = subscription.pass_over(last)
            if evicted:
                log.info(
                    "backlog evicted topic=%s subscription=%s entries=%d",
                    *(self._host.name, subscription.name, evicted),
                )

    def _send_away(self, why: str) -> None:
        producers = list(self._host.producers.values())
        if producers:
            log.info(
                "backlog too %s, producers sent away topic=%s count=%d",
                *(why, self._host.name, len(producers)),
            )
        for producer in producers:
            producer.disconnect()


def _refusal(action: QuotaAction) -> BrokerError:
    kind = BacklogHeld if action is QuotaAction.HOLD else BacklogExceeded
    return kind("Cannot create producer on topic with backlog quota exceeded")
