"""Deletion of topics and subscriptions that were unused for long, when policies permit it.

A topic is judged unused and closed to new clients in the same moment. A client that attaches before keeps the topic.
A client that connects later creates it again, after everything of the old one is deleted. The time without use is
counted here from when the topic was loaded or last touched. Nothing is remembered of topics whose policies do not
delete them.
"""

import asyncio
import logging
from collections.abc import Sequence

from engine.base.clock import Clock
from engine.base.names import SYSTEM_PREFIX
from engine.broker.compaction.topic_compaction import CURSOR as COMPACTION
from engine.broker.errors import ConsumerBusy, SubscriptionNotFound
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic

log = logging.getLogger(__name__)

CHECKED_AT_ONCE = 1000
"""Number of topics checked before other tasks may run."""
RETURN_MS = 300_000
"""Greatest time in which a topic's consumers connect again after their broker crashed."""


class Inactivity:
    """The times without use of one broker's topics."""

    def __init__(self, registry: TopicRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._since_s: dict[Topic, float] = {}

    def count(self, touched: Sequence[Topic]) -> None:
        """Restart the time of topics with an event in the last second, which may have been used. Called each second."""
        if self._since_s:
            for topic in self._registry.counters.used:
                self._since_s.pop(topic, None)

    async def topics_due(self) -> list[Topic]:
        """Return the topics that were unused at all checks for as long as their policies require.

        Lets other tasks run in between.
        """
        now_s = self._clock.monotonic_s()
        unused: dict[Topic, float] = {}
        for number, topic in enumerate(self._registry):
            if self._may_be_deleted(topic):
                unused[topic] = self._since_s.setdefault(topic, now_s)
            elif _is_left_to_links(topic):
                # The same topic there may be in use because of this one alone, and so keep this one in use.
                topic.replication.rest()
            if number % CHECKED_AT_ONCE == CHECKED_AT_ONCE - 1:
                await asyncio.sleep(0)
        for topic in [topic for topic in self._since_s if topic not in unused]:
            del self._since_s[topic]
        return [
            topic for topic, since_s in unused.items() if now_s - since_s >= wait_s(topic.policies)
        ]

    def _may_be_deleted(self, topic: Topic) -> bool:
        return not self._registry.counters.is_touched(topic) and is_unused(topic, topic.policies)

    async def delete(self, topic: Topic) -> None:
        """Delete the topic, unless it is in use by now or its policies changed.

        Raises BrokerError and the log's errors. Then the topic exists completely, or its deletion is finished at its
        next use.
        """
        rule = topic.policies.inactive_topics
        if topic not in self._since_s or not self._may_be_deleted(topic):
            return
        if await self._registry.deletions.delete_unused(topic, caught_up=rule.when_caught_up):
            log.info("unused topic deleted topic=%s", topic.name)

    async def expire_subscriptions(self, topic: Topic) -> None:
        """Delete durable subscriptions without a consumer for longer than the policy allows. Raises BrokerError."""
        limit_ms = topic.policies.subscriptions.expiration_minutes * 60_000
        now_ms = self._clock.wall_ms()
        # After a crash the consumers of a loaded topic have not connected again yet, and would look absent.
        if not limit_ms or now_ms - topic.loaded_ms < min(limit_ms, RETURN_MS):
            return
        for name in expired(topic, topic.policies, now_ms):
            if name not in expired(topic, topic.policies, self._clock.wall_ms()):
                continue  # used while others were deleted
            try:
                await topic.subscriptions.delete(name)
            except (ConsumerBusy, SubscriptionNotFound) as error:
                log.debug("subscription stays topic=%s name=%s: %s", topic.name, name, error)
            else:
                log.info("unused subscription deleted topic=%s name=%s", topic.name, name)


def _is_left_to_links(topic: Topic) -> bool:
    """Return whether the topic would be deleted if no other cluster sent to it."""
    rule = topic.policies.inactive_topics
    return (
        rule.delete
        and topic.name.persistent
        and topic.is_left_to_links(caught_up=rule.when_caught_up)
    )


def is_unused(topic: Topic, policies: TopicPolicies) -> bool:
    """Return whether the topic is unused now and ``policies`` delete it after ``wait_s`` of that."""
    rule = policies.inactive_topics
    if not rule.delete or not topic.name.persistent or topic.name.local.startswith(SYSTEM_PREFIX):
        return False
    return topic.is_unused(caught_up=rule.when_caught_up)


def wait_s(policies: TopicPolicies) -> float:
    """Return for how many seconds a topic must be unused before it is deleted: at least as long as its retention."""
    minutes = policies.storage.retention_minutes
    return max(policies.inactive_topics.after_s, float("inf") if minutes < 0 else minutes * 60.0)


def expired(topic: Topic, policies: TopicPolicies, now_ms: int) -> list[str]:
    """Return the names of durable subscriptions without a consumer for longer than ``policies`` permit.

    The compaction's subscription is excepted: it needs no consumer, and the compacted ledger would be deleted with it.
    """
    limit_ms = policies.subscriptions.expiration_minutes * 60_000
    return [
        subscription.name
        for subscription in topic.subscriptions.values()
        if limit_ms
        and subscription.durable
        and subscription.name != COMPACTION
        and now_ms - subscription.active_ms > limit_ms
    ]
