"""Topics and subscriptions that nobody uses for long are deleted, where policies say so.

Whether a topic is used is decided at one moment, at which it also closes to whoever comes: a producer or consumer is
either there before, and the topic stays, or comes after, and makes it anew when all of the old one is gone. How long it
has been so is counted here, from when the topic was loaded or last touched; nothing is kept where no policy asks.
"""

import asyncio
import logging
from collections.abc import Sequence

from engine.base.clock import Clock
from engine.broker.compaction.topic_compaction import CURSOR as COMPACTION
from engine.broker.errors import ConsumerBusy, SubscriptionNotFound
from engine.broker.ports import TopicPolicies
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.tenancy.topics import SYSTEM_PREFIX

log = logging.getLogger(__name__)

LOOKED_AT = 1000
"""Topics looked at in one go."""
RETURN_MS = 300_000
"""How long a loaded topic's consumers may take to come again after a broker that died, at most."""


class Inactivity:
    """Of one broker's topics."""

    def __init__(self, registry: TopicRegistry, clock: Clock) -> None:
        self._registry = registry
        self._clock = clock
        self._since_s: dict[Topic, float] = {}

    def count(self, touched: Sequence[Topic]) -> None:
        """Once a second: what something happened to may have been used."""
        if self._since_s:
            for topic in self._registry.used:
                self._since_s.pop(topic, None)

    async def topics_due(self) -> list[Topic]:
        """Those unused for as long as their policies ask, by this look and all since. Lets others run meanwhile."""
        now_s = self._clock.monotonic_s()
        found: dict[Topic, float] = {}
        for number, topic in enumerate(self._registry):
            if self._may_go(topic):
                found[topic] = self._since_s.setdefault(topic, now_s)
            if number % LOOKED_AT == LOOKED_AT - 1:
                await asyncio.sleep(0)
        for topic in [topic for topic in self._since_s if topic not in found]:
            del self._since_s[topic]
        return [t for t, since_s in found.items() if now_s - since_s >= wait_s(t.policies)]

    def _may_go(self, topic: Topic) -> bool:
        return not self._registry.is_touched(topic) and is_unused(topic, topic.policies)

    async def delete(self, topic: Topic) -> None:
        """Delete it, unless somebody uses it by now or its policies changed. Raises BrokerError and the log's errors:
        then it is there whole, or goes with its next use."""
        rule = topic.policies.inactive_topics
        if topic not in self._since_s or not self._may_go(topic):
            return
        if await self._registry.delete_unused(topic, caught_up=rule.when_caught_up):
            log.info("topic deleted, nobody uses it topic=%s", topic.name)

    async def expire_subscriptions(self, topic: Topic) -> None:
        """Delete durable subscriptions without a consumer for longer than the policy allows. Raises BrokerError."""
        limit_ms = topic.policies.subscription_expiration_minutes * 60_000
        now_ms = self._clock.wall_ms()
        if not limit_ms or now_ms - topic.loaded_ms < min(limit_ms, RETURN_MS):
            return
        for name in expired(topic, topic.policies, now_ms):
            if name not in expired(topic, topic.policies, self._clock.wall_ms()):
                continue  # it was used while others were deleted
            try:
                await topic.delete_subscription(name)
            except (ConsumerBusy, SubscriptionNotFound) as error:
                log.debug("subscription stays topic=%s name=%s: %s", topic.name, name, error)
            else:
                log.info("subscription deleted, nobody uses it topic=%s name=%s", topic.name, name)


def is_unused(topic: Topic, policies: TopicPolicies) -> bool:
    """Whether ``policies`` let the topic go that nobody uses now, once that lasted for ``wait_s``."""
    rule = policies.inactive_topics
    if not rule.delete or not topic.name.persistent or topic.name.local.startswith(SYSTEM_PREFIX):
        return False
    return topic.is_unused(caught_up=rule.when_caught_up)


def wait_s(policies: TopicPolicies) -> float:
    """How long it must have been unused: also as long as its messages are to be kept."""
    kept = policies.retention_minutes
    return max(policies.inactive_topics.after_s, float("inf") if kept < 0 else kept * 60.0)


def expired(topic: Topic, policies: TopicPolicies, now_ms: int) -> list[str]:
    """Durable subscriptions without a consumer for longer than ``policies`` allow. Not the compaction's: it has none,
    and what was compacted would go with it."""
    limit_ms = policies.subscription_expiration_minutes * 60_000
    return [
        each.name
        for each in topic.subscriptions.values()
        if limit_ms
        and each.durable
        and each.name != COMPACTION
        and now_ms - each.active_ms > limit_ms
    ]
