"""Policies that limit numbers and sizes. Pure."""

from typing import Any

from engine.tenancy.policies.forms import Whole
from engine.tenancy.policies.policy import Policy
from engine.tenancy.policies.policy_calls import (
    Option,
    PolicyRoute,
    admin,
    both_admin,
    ctl,
    topic_admin,
    topic_ctl,
)


def _limit(name: str, title: str, meaning: str, key: str, **more: Any) -> Policy:
    """Return the policy of a limit, where 0 means no limit; ``key`` is also the name of the broker's setting."""
    return Policy(
        name,
        title,
        f"{meaning}; 0 is no limit",
        (key,),
        Whole(""),
        lambda settings: getattr(settings, key),
        (key,),
        **more,
    )


LIMITS: tuple[Policy, ...] = (
    _limit(
        "maxProducersPerTopic",
        "Max producers per topic",
        "Maximum number of producers of a topic",
        "max_producers_per_topic",
        topic_key=("maxProducerPerTopic",),
        topic_route=PolicyRoute("maxProducers"),
        commands=(
            admin("max-producers-per-topic", Option("--max-producers-per-topic")),
            topic_admin("max-producers", Option("--max-producers")),
            ctl("max-producers-per-topic", Option("--size")),
            topic_ctl("max-producers", Option("--max-producers")),
        ),
    ),
    _limit(
        "maxConsumersPerTopic",
        "Max consumers per topic",
        "Maximum number of consumers of all subscriptions of a topic together",
        "max_consumers_per_topic",
        topic_key=("maxConsumerPerTopic",),
        topic_route=PolicyRoute("maxConsumers"),
        commands=(
            admin("max-consumers-per-topic", Option("--max-consumers-per-topic")),
            topic_admin("max-consumers", Option("--max-consumers")),
            ctl("max-consumers-per-topic", Option("--size")),
            topic_ctl("max-consumers", Option("--max-consumers")),
        ),
    ),
    _limit(
        "maxConsumersPerSubscription",
        "Max consumers per subscription",
        "Maximum number of consumers of a subscription",
        "max_consumers_per_subscription",
        topic_key=("maxConsumersPerSubscription",),
        topic_route=PolicyRoute("maxConsumersPerSubscription", unset_status=204),
        commands=(
            *both_admin(
                "max-consumers-per-subscription", Option("--max-consumers-per-subscription")
            ),
            ctl("max-consumers-per-subscription", Option("--size")),
        ),
    ),
    _limit(
        "maxSubscriptionsPerTopic",
        "Max subscriptions per topic",
        "Maximum number of subscriptions of a topic",
        "max_subscriptions_per_topic",
        topic_key=("maxSubscriptionsPerTopic",),
        topic_route=PolicyRoute("maxSubscriptionsPerTopic", unset_status=204),
        commands=both_admin("max-subscriptions-per-topic", Option("--max-subscriptions-per-topic")),
    ),
    _limit(
        "maxTopicsPerNamespace",
        "Max topics per namespace",
        "Maximum number of topics and partitions in a namespace",
        "max_topics_per_namespace",
        unset=0,
        commands=(admin("max-topics-per-namespace", Option("--max-topics-per-namespace")),),
    ),
    _limit(
        "maxUnackedMessagesPerConsumer",
        "Max unacknowledged messages per consumer",
        "Number of unacknowledged messages at which a consumer of a Shared or Key_Shared subscription is sent no more",
        "max_unacked_messages_per_consumer",
        topic_key=("maxUnackedMessagesOnConsumer",),
        topic_route=PolicyRoute("maxUnackedMessagesOnConsumer"),
        commands=(
            # The option's name is Apache's mistake.
            admin("max-unacked-messages-per-consumer", Option("--max-unacked-messages-per-topic")),
            topic_admin("max-unacked-messages-per-consumer", Option("--maxNum")),
            topic_ctl("max-unacked-messages-per-consumer", Option("--maxNum")),
        ),
    ),
    _limit(
        "maxUnackedMessagesPerSubscription",
        "Max unacknowledged messages per subscription",
        "Number of unacknowledged messages at which a Shared or Key_Shared subscription sends no more to its consumers",
        "max_unacked_messages_per_subscription",
        topic_key=("maxUnackedMessagesOnSubscription",),
        topic_route=PolicyRoute("maxUnackedMessagesOnSubscription"),
        commands=(
            admin(
                "max-unacked-messages-per-subscription",
                Option("--max-unacked-messages-per-subscription"),
            ),
            topic_admin("max-unacked-messages-per-subscription", Option("--maxNum")),
            topic_ctl("max-unacked-messages-per-subscription", Option("--maxNum")),
        ),
    ),
    Policy(
        "maxMessageSize",
        "Max message size",
        "Maximum size of a message or batch; 0 is the broker's limit",
        (),
        Whole(
            "bytes",
            refusal="topic-level maxMessageSize must be greater than or equal to 0 and must be "
            "smaller than that in the broker-level",
        ),
        lambda settings: 0,
        topic_key=("maxMessageSize",),
        topic_route=PolicyRoute("maxMessageSize", unset_status=204, applied=False),
        commands=(topic_admin("max-message-size", Option("--max-message-size")),),
    ),
)
