"""Policies of how topics and subscriptions are created and deleted without an administrator. Pure."""

from engine.base.errors import InvalidRequest
from engine.tenancy.policies.forms import Choice, Fields, Flag, Whole
from engine.tenancy.policies.policy import EffectKind, Policy
from engine.tenancy.policies.policy_calls import Option, admin, both_admin, ctl, switch, topic_ctl
from engine.tenancy.policies.values import (
    PLAIN,
    WHEN_CAUGHT_UP,
    WHEN_NO_SUBSCRIPTIONS,
    TopicTypeForm,
    check_creation,
)

_INACTIVE = "-delete-while-inactive"
_INACTIVE_OPTIONS = (
    Option("--max-inactive-duration", "maxInactiveDurationSeconds", suffix="s"),
    Option("--delete-mode", "inactiveTopicDeleteMode"),
)


LIFECYCLE: tuple[Policy, ...] = (
    Policy(
        "autoTopicCreation",
        "Automatic topic creation",
        "Whether a missing topic is created when a client uses it, and which type of topic",
        ("autoTopicCreationOverride",),
        Fields(
            {
                "allowAutoTopicCreation": Flag(),
                "topicType": TopicTypeForm(),
                "defaultNumPartitions": Whole("partitions", 0, 10_000),
            },
            {
                "allowAutoTopicCreation": False,
                "topicType": PLAIN,
                "defaultNumPartitions": None,
            },
        ),
        lambda settings: {
            "allowAutoTopicCreation": settings.allow_auto_topic_creation,
            "topicType": settings.allow_auto_topic_creation_type,
            "defaultNumPartitions": settings.default_num_partitions,
        },
        (
            "allow_auto_topic_creation",
            "allow_auto_topic_creation_type",
            "default_num_partitions",
        ),
        check=check_creation,
        commands=(
            admin(
                "auto-topic-creation",
                switch("allowAutoTopicCreation"),
                Option("--type", "topicType"),
                Option("--num-partitions", "defaultNumPartitions"),
            ),
        ),
    ),
    Policy(
        "autoSubscriptionCreation",
        "Automatic subscription creation",
        "Whether a missing subscription is created when a consumer uses it",
        ("autoSubscriptionCreationOverride",),
        Fields({"allowAutoSubscriptionCreation": Flag()}, {"allowAutoSubscriptionCreation": False}),
        lambda settings: {
            "allowAutoSubscriptionCreation": settings.allow_auto_subscription_creation
        },
        ("allow_auto_subscription_creation",),
        topic_key=("autoSubscriptionCreationOverride",),
        commands=both_admin(
            "auto-subscription-creation", switch("allowAutoSubscriptionCreation", off="")
        ),
    ),
    Policy(
        "inactiveTopicPolicies",
        "Inactive topics",
        "Whether inactive topics are deleted, and after how long: topics that have no producers, and no subscriptions "
        "or none with consumers or a backlog",
        ("inactive_topic_policies",),
        Fields(
            {
                "inactiveTopicDeleteMode": Choice((WHEN_NO_SUBSCRIPTIONS, WHEN_CAUGHT_UP)),
                "maxInactiveDurationSeconds": Whole("seconds", 1, kind=InvalidRequest),
                "deleteWhileInactive": Flag(),
            },
            {"inactiveTopicDeleteMode": WHEN_NO_SUBSCRIPTIONS, "deleteWhileInactive": False},
        ),
        lambda settings: {
            "inactiveTopicDeleteMode": settings.broker_delete_inactive_topics_mode,
            "maxInactiveDurationSeconds": (
                settings.broker_delete_inactive_topics_max_inactive_duration_seconds
            ),
            "deleteWhileInactive": settings.broker_delete_inactive_topics_enabled,
        },
        (
            "broker_delete_inactive_topics_mode",
            "broker_delete_inactive_topics_max_inactive_duration_seconds",
            "broker_delete_inactive_topics_enabled",
        ),
        topic_key=("inactiveTopicPolicies",),
        effect=EffectKind.INACTIVITY,
        commands=(
            *both_admin(
                "inactive-topic-policies",
                switch("deleteWhileInactive", f"--enable{_INACTIVE}", f"--disable{_INACTIVE}"),
                *_INACTIVE_OPTIONS,
            ),
            ctl(
                "inactive-topic-policies",
                switch("deleteWhileInactive", f"--enable{_INACTIVE}", ""),
                *_INACTIVE_OPTIONS,
                remove="remove-inactive-topic-policies",
            ),
            topic_ctl(
                "inactive-topic-policies",
                switch("deleteWhileInactive", f"--enable{_INACTIVE}", ""),
                *_INACTIVE_OPTIONS,
            ),
        ),
    ),
    Policy(
        "subscriptionExpirationTime",
        "Inactive subscriptions",
        "Time without a consumer after which a subscription is deleted with its backlog; 0 is never",
        ("subscription_expiration_time_minutes",),
        Whole("minutes", refusal="Invalid value for subscription expiration time"),
        lambda settings: settings.subscription_expiration_time_minutes,
        ("subscription_expiration_time_minutes",),
        effect=EffectKind.SUBSCRIPTION_EXPIRY,
        commands=(admin("subscription-expiration-time", Option("--time")),),
    ),
)
