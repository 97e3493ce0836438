"""Backlog quotas of a topic: beyond them producers are refused and disconnected, or subscriptions are moved on.

The backlog is checked periodically and when a producer attaches, never per message. When it is not known, because a
subscription cannot be read or storage does not answer, the last result stays in force (D12).
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
from engine.broker.policies import (
    BacklogPolicies,
    QuotaAction,
)
from engine.broker.topics.ports import ReadableLog
from engine.broker.topics.publish import Producer
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.subscriptions.subscriptions import Subscriptions

log = logging.getLogger(__name__)

EVICTED_TO = 0.9
"""Part of a size quota that eviction leaves, so that it is not needed again at once (Pulsar's value)."""


class QuotaHost(Protocol):
    """Parts of a topic that its quotas use."""

    name: TopicName
    subscriptions: Subscriptions

    @property
    def log(self) -> ReadableLog: ...

    @property
    def producers(self) -> Mapping[str, Producer]: ...

    def touched(self) -> None: ...


class Oldest(NamedTuple):
    """The first entry that the slowest subscription has not acknowledged.

    ``publish_ms`` is in milliseconds since the epoch; ``messages`` is the number of messages in the entry.
    """

    subscription: str
    position: Position
    publish_ms: int
    messages: int


class BacklogQuotas:
    """The quotas of one topic. ``oldest`` is the last result; None while no durable subscription has a backlog."""

    __slots__ = (
        "_clock", "_host", "_is_too_large", "_is_too_old", "_policies", "evicted_for_age", "evicted_for_size", "oldest",
    )  # fmt: skip

    def __init__(self, host: QuotaHost, clock: Clock) -> None:
        self._host = host
        self._policies = BacklogPolicies()
        self._clock = clock
        self._is_too_large = False
        self._is_too_old = False
        self.oldest: Oldest | None = None
        self.evicted_for_size = 0
        """Number of evictions because the backlog was too large."""
        self.evicted_for_age = 0
        """Number of evictions because the backlog was too old."""

    def apply(self, policies: BacklogPolicies) -> None:
        """Apply the topic's quotas, which may have changed, from the next check on."""
        self._policies = policies

    async def admit(self) -> None:
        """Refuse a producer while the backlog is beyond a quota whose action is to refuse. Cancel-safe.

        Raises BacklogHeld, BacklogExceeded.
        """
        policies = self._policies
        if policies.size_quota.action is not QuotaAction.EVICT and self._check_size():
            raise _refusal(policies.size_quota.action)
        if policies.age_quota.action is not QuotaAction.EVICT and policies.age_quota.limit > 0:
            try:
                await self._check_oldest()
            except MagnetarError as error:
                log.info("age of the backlog not known topic=%s: %s", self._host.name, error)
            if self._is_too_old:
                raise _refusal(policies.age_quota.action)

    async def check(self) -> None:
        """Disconnect producers or move subscriptions on beyond the quotas. Called periodically.

        Raises the log's errors, after the quota of the size was applied.
        """
        quota = self._policies.size_quota
        if self._check_size():
            if quota.action is QuotaAction.EVICT:
                self.evicted_for_size += 1
                self._evict(quota.limit)
            else:
                self._disconnect_producers("large")
        await self._check_oldest()
        quota = self._policies.age_quota
        if self._is_too_old:
            if quota.action is QuotaAction.EVICT:
                self.evicted_for_age += 1
                await self._host.subscriptions.expire(self._clock.wall_ms() - quota.limit * 1000)
            else:
                self._disconnect_producers("old")

    def is_large(self, limit: int) -> bool | None:
        """Return whether the largest backlog has reached ``limit`` bytes; None while a subscription cannot be read."""
        if limit < 0:
            return False
        if self._host.subscriptions.unread:
            return None
        slowest = self._slowest()
        mark_delete = None if slowest is None else slowest.cursor.mark_delete
        size = 0 if mark_delete is None else self._host.log.bytes_behind(mark_delete)
        return size >= limit

    async def is_old(self, limit_s: int, now_ms: int) -> bool | None:
        """Update ``oldest`` and return whether it is older than ``limit_s``; with 0 or less, no message is.

        None while a subscription cannot be read. Raises the log's errors; then nothing has changed.
        """
        if self._host.subscriptions.unread:
            return None
        slowest = self._slowest()
        if slowest is None:
            self.oldest = None
            return False
        position, summary = await slowest.oldest.find()
        if self.oldest is None or self.oldest.position != position:
            self._host.touched()
        self.oldest = Oldest(slowest.name, position, *summary)
        return 0 < limit_s * 1000 < now_ms - summary.publish_ms

    def oldest_ms(self) -> int | None:
        """Return the publish time of the first entry that a subscription has not acknowledged, epoch milliseconds.

        0 when everything is acknowledged, None when it is not known. Nothing is read from storage, see ``OldestEntry``.
        """
        behind = [
            subscription
            for subscription in self._host.subscriptions.values()
            if subscription.name != COMPACTION and subscription.cursor.backlog_entries()
        ]
        if not any(subscription.durable for subscription in behind):
            self.oldest = None
        slowest = min(behind, key=lambda subscription: subscription.cursor.mark, default=None)
        if slowest is None:
            return 0
        first = slowest.oldest.at_hand()
        if first is not None and slowest.durable:
            self.oldest = Oldest(slowest.name, first.position, *first.summary)
        return slowest.oldest.publish_ms()

    def _check_size(self) -> bool:
        is_large = self.is_large(self._policies.size_quota.limit)
        self._is_too_large = self._is_too_large if is_large is None else is_large
        return self._is_too_large

    async def _check_oldest(self) -> None:
        """Check the age of the backlog against the quota. Raises as ``is_old``."""
        limit_s = self._policies.age_quota.limit
        is_old = await self.is_old(limit_s, self._clock.wall_ms())
        self._is_too_old = self._is_too_old if is_old is None else is_old

    def _slowest(self) -> Subscription | None:
        """Return the subscription with the largest backlog; None when there is no backlog."""
        counted = self.counted()
        slowest = min(counted, key=lambda subscription: subscription.cursor.mark, default=None)
        return slowest if slowest is not None and slowest.cursor.backlog_entries() else None

    def counted(self) -> list[Subscription]:
        """Return the durable subscriptions except the compaction's, whose unread entries are no backlog."""
        return [
            subscription
            for subscription in self._host.subscriptions.values()
            if subscription.durable and subscription.name != COMPACTION
        ]

    def evicted_to(self, limit: int) -> Position:
        """Return the last entry that is evicted when the backlog has reached a quota of ``limit`` bytes."""
        return self._host.log.last_before(int(limit * EVICTED_TO))

    def _evict(self, limit: int) -> None:
        """Move every durable subscription behind the position of ``evicted_to``."""
        last = self.evicted_to(limit)
        for subscription in self.counted():
            evicted = subscription.moves.pass_over(last)
            if evicted:
                log.info(
                    "backlog evicted topic=%s subscription=%s entries=%d",
                    self._host.name,
                    subscription.name,
                    evicted,
                )

    def _disconnect_producers(self, why: str) -> None:
        producers = list(self._host.producers.values())
        if producers:
            log.info(
                "backlog too %s, producers disconnected topic=%s count=%d",
                why,
                self._host.name,
                len(producers),
            )
        for producer in producers:
            producer.disconnect()


def _refusal(action: QuotaAction) -> BrokerError:
    kind = BacklogHeld if action is QuotaAction.HOLD else BacklogExceeded
    return kind("Cannot create producer on topic with backlog quota exceeded")
