"""How many producers, consumers and subscriptions a topic may have, and which policies bind it. Pure."""

from dataclasses import replace

from engine.base.names import TopicName
from engine.broker.ports import BacklogQuota, TopicPolicies
from engine.tenancy.topics import SYSTEM_PREFIX


def reached(limit: int, count: int) -> bool:
    """Whether ``count`` leaves no room for one more; a ``limit`` of 0 is none. What is there already may stay."""
    return 0 < limit <= count


def binding(name: TopicName, policies: TopicPolicies) -> TopicPolicies:
    """What holds for the topic ``name``: the cluster's own topics are bound by no limit, lifetime or quota; where
    nothing is kept nothing can be too old or too much, and subscriptions are not counted, as in Pulsar."""
    system = name.local.startswith(SYSTEM_PREFIX)
    if not system and name.persistent:
        return policies
    kept = replace(
        policies,
        message_ttl_s=0,
        max_subscriptions=0,
        size_quota=BacklogQuota(),
        age_quota=BacklogQuota(),
    )
    if not system:
        return kept
    return replace(kept, max_producers=0, max_consumers=0, max_consumers_per_subscription=0)
