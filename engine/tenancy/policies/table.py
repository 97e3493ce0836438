"""The table of policies: names, stored paths, forms and defaults. Pure.

REST routes, effective values and the console's forms need nothing but a row. Code that acts on a policy reads its
effective value (``in_force``). Names and JSON forms are those of Apache Pulsar 4.0.8.
"""

from collections.abc import Mapping
from typing import Any

from engine.base.errors import InvalidRequest
from engine.metadata.records import Document
from engine.tenancy.policies.forms import (
    INT_MAX,
    LONG_MAX,
    Choice,
    Decimal,
    Fields,
    Flag,
    Names,
    Several,
    Whole,
)
from engine.tenancy.policies.policy import Policy
from engine.tenancy.policies.values import (
    OFFLOAD_UNSET,
    PLAIN,
    OffloadForm,
    QuotaForm,
    TopicTypeForm,
    check_creation,
    check_persistence,
    check_replication,
    check_retention,
)
from engine.tenancy.settings import SUBSCRIPTION_TYPES, PolicySettings
from engine.tenancy.strategy import BY_OLD_NAME, OLD_NAMES, Strategy

QUORUM_MAX = 5
WHEN_NO_SUBSCRIPTIONS = "delete_when_no_subscriptions"
WHEN_CAUGHT_UP = "delete_when_subscriptions_caught_up"


def _offload(name: str, title: str, meaning: str, field: str, **more: Any) -> Policy:
    """Return the policy of one number in a namespace's offload policies; any number is stored, as in Pulsar."""
    return Policy(
        name,
        title,
        meaning,
        ("offload_policies", field),
        Whole("", -1, LONG_MAX, lenient=True),
        lambda settings: more.get("unset"),
        within=OFFLOAD_UNSET,
        shown=False,
        **more,
    )


def _quota_default(settings: PolicySettings) -> Document:
    size = settings.backlog_quota_default_limit_bytes
    return {
        "limit": size,
        "limitSize": size,
        "limitTime": settings.backlog_quota_default_limit_second,
        "policy": settings.backlog_quota_default_retention_policy,
    }


def _count(title: str, meaning: str, name: str, key: str, setting: str, **more: Any) -> Policy:
    """Return the policy of a limit, where 0 means no limit."""
    return Policy(
        name,
        title,
        f"{meaning}; 0 is no limit",
        (key,),
        Whole("", refusal=more.pop("refusal", "")),
        lambda settings: getattr(settings, setting),
        (setting,),
        **more,
    )


_OLD_STRATEGY = "schema_auto_update_compatibility_strategy"


def _by_old_name(namespace: Mapping[str, Any]) -> str | None:
    name = namespace.get(_OLD_STRATEGY)
    strategy = BY_OLD_NAME.get(name) if isinstance(name, str) else None
    return None if strategy is None else strategy.value


def _up_to(unit: str, high: int = INT_MAX) -> Whole:
    """Return the form of a rate, where values of 0 and below mean no limit."""
    return Whole(unit, -1, high, lenient=True)


_DISPATCH_RATE = Fields(
    {
        "dispatchThrottlingRateInMsg": _up_to("messages"),
        "dispatchThrottlingRateInByte": _up_to("bytes", LONG_MAX),
        "relativeToPublishRate": Flag(),
        "ratePeriodInSecond": _up_to("seconds"),
    },
    {
        "dispatchThrottlingRateInMsg": 0,
        "dispatchThrottlingRateInByte": 0,
        "relativeToPublishRate": False,
        "ratePeriodInSecond": 0,
    },
)


def _dispatch_rate(
    name: str, title: str, target: str, key: str, setting: str, **more: str
) -> Policy:
    """Return the policy of a dispatch rate; ``setting`` is the common prefix of the broker's settings."""
    relative = "dispatch_throttling_rate_relative_to_publish_rate"
    return Policy(
        name,
        title,
        f"Messages and bytes sent to {target} in a period; -1 and 0 are no limit",
        (key,),
        _DISPATCH_RATE,
        lambda settings: {
            "dispatchThrottlingRateInMsg": getattr(settings, f"{setting}_in_msg"),
            "dispatchThrottlingRateInByte": getattr(settings, f"{setting}_in_byte"),
            "relativeToPublishRate": getattr(settings, relative),
            "ratePeriodInSecond": 1,
        },
        (f"{setting}_in_msg", f"{setting}_in_byte", relative),
        topic_name=name,
        topic_key=(name,),
        per_cluster=True,
        also=more.get("also", ""),
        per_subscription=more.get("per_subscription", ""),
    )


POLICIES: tuple[Policy, ...] = (
    Policy(
        "messageTTL",
        "Message TTL",
        "Messages older than this are acknowledged automatically; 0 is never",
        ("message_ttl_in_seconds",),
        Whole("seconds", refusal="Invalid value for message TTL, message TTL must >= 0"),
        lambda settings: settings.ttl_duration_default_in_seconds,
        ("ttl_duration_default_in_seconds",),
        topic_name="messageTTL",
        topic_key=("messageTTLInSeconds",),
        takes=True,
    ),
    Policy(
        "retention",
        "Retention",
        "Time and size for which acknowledged messages are kept; -1 is no limit; with 0 and 0 they are deleted at once",
        ("retention_policies",),
        Fields(
            {
                "retentionTimeInMinutes": Whole(
                    "minutes",
                    -1,
                    refusal="Invalid retention policy: time limit must be >= -1",
                    kind=InvalidRequest,
                ),
                "retentionSizeInMB": Whole(
                    "MiB",
                    -1,
                    refusal="Invalid retention policy: size limit must be >= -1",
                    kind=InvalidRequest,
                ),
            },
            {"retentionTimeInMinutes": 0, "retentionSizeInMB": 0},
        ),
        lambda settings: {
            "retentionTimeInMinutes": settings.default_retention_time_in_minutes,
            "retentionSizeInMB": settings.default_retention_size_in_mb,
        },
        ("default_retention_time_in_minutes", "default_retention_size_in_mb"),
        topic_name="retention",
        topic_key=("retentionPolicies",),
        takes=True,
        check=check_retention,
    ),
    Policy(
        "backlogQuota.destination_storage",
        "Backlog quota: size",
        "Action while a subscription's unacknowledged messages exceed this size; -1 is no limit",
        ("backlog_quota_map", "destination_storage"),
        QuotaForm("limitSize"),
        _quota_default,
        ("backlog_quota_default_limit_bytes", "backlog_quota_default_retention_policy"),
        topic_name="backlogQuota.destination_storage",
        topic_key=("backLogQuotaMap", "destination_storage"),
        takes=True,
    ),
    Policy(
        "backlogQuota.message_age",
        "Backlog quota: age",
        "Action while a subscription's oldest unacknowledged message is older than this; -1 is no limit",
        ("backlog_quota_map", "message_age"),
        QuotaForm("limitTime"),
        _quota_default,
        ("backlog_quota_default_limit_second", "backlog_quota_default_retention_policy"),
        topic_name="backlogQuota.message_age",
        topic_key=("backLogQuotaMap", "message_age"),
        takes=True,
    ),
    _count(
        "Max producers per topic",
        "Maximum number of producers of a topic",
        "maxProducersPerTopic",
        "max_producers_per_topic",
        "max_producers_per_topic",
        topic_name="maxProducers",
        topic_key=("maxProducerPerTopic",),
    ),
    _count(
        "Max consumers per topic",
        "Maximum number of consumers of all subscriptions of a topic together",
        "maxConsumersPerTopic",
        "max_consumers_per_topic",
        "max_consumers_per_topic",
        topic_name="maxConsumers",
        topic_key=("maxConsumerPerTopic",),
    ),
    _count(
        "Max consumers per subscription",
        "Maximum number of consumers of a subscription",
        "maxConsumersPerSubscription",
        "max_consumers_per_subscription",
        "max_consumers_per_subscription",
        topic_name="maxConsumersPerSubscription",
        topic_key=("maxConsumersPerSubscription",),
    ),
    _count(
        "Max subscriptions per topic",
        "Maximum number of subscriptions of a topic",
        "maxSubscriptionsPerTopic",
        "max_subscriptions_per_topic",
        "max_subscriptions_per_topic",
        topic_name="maxSubscriptionsPerTopic",
        topic_key=("maxSubscriptionsPerTopic",),
    ),
    _count(
        "Max topics per namespace",
        "Maximum number of topics and partitions in a namespace",
        "maxTopicsPerNamespace",
        "max_topics_per_namespace",
        "max_topics_per_namespace",
        unset=0,
    ),
    Policy(
        "persistence",
        "Ledger replication",
        "Number of bookies that store a topic's new ledgers, and number of them that must confirm a message",
        ("persistence",),
        Fields(
            {
                name: Whole(
                    "bookies",
                    1,
                    QUORUM_MAX,
                    refusal=f"{name} must be from 1 to {QUORUM_MAX}",
                    kind=InvalidRequest,
                )
                for name in ("bookkeeperEnsemble", "bookkeeperWriteQuorum", "bookkeeperAckQuorum")
            }
            | {"managedLedgerMaxMarkDeleteRate": Decimal("acknowledgements stored per second")},
            {"managedLedgerMaxMarkDeleteRate": 0.0},
        ),
        lambda settings: {
            "bookkeeperEnsemble": settings.managed_ledger_default_ensemble_size,
            "bookkeeperWriteQuorum": settings.managed_ledger_default_write_quorum,
            "bookkeeperAckQuorum": settings.managed_ledger_default_ack_quorum,
            "managedLedgerMaxMarkDeleteRate": 0.0,
        },
        (
            "managed_ledger_default_ensemble_size",
            "managed_ledger_default_write_quorum",
            "managed_ledger_default_ack_quorum",
        ),
        topic_name="persistence",
        topic_key=("persistence",),
        check=check_persistence,
    ),
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
        topic_name="autoSubscriptionCreation",
        topic_key=("autoSubscriptionCreationOverride",),
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
        topic_name="inactiveTopicPolicies",
        topic_key=("inactiveTopicPolicies",),
        takes=True,
    ),
    Policy(
        "subscriptionExpirationTime",
        "Inactive subscriptions",
        "Time without a consumer after which a subscription is deleted with its backlog; 0 is never",
        ("subscription_expiration_time_minutes",),
        Whole("minutes", refusal="Invalid value for subscription expiration time"),
        lambda settings: settings.subscription_expiration_time_minutes,
        ("subscription_expiration_time_minutes",),
        takes=True,
    ),
    Policy(
        "delayedDelivery",
        "Delayed delivery",
        "Whether messages are held until their delivery time, its resolution, and the maximum delay; 0 is no limit",
        ("delayed_delivery_policies",),
        Fields(
            {
                "tickTime": Whole("milliseconds", high=LONG_MAX),
                "active": Flag(),
                "maxDeliveryDelayInMillis": Whole("milliseconds", high=LONG_MAX),
            },
            {"tickTime": 0, "active": False, "maxDeliveryDelayInMillis": 0},
        ),
        lambda settings: {
            "tickTime": settings.delayed_delivery_tick_time_millis,
            "active": settings.delayed_delivery_enabled,
            "maxDeliveryDelayInMillis": settings.delayed_delivery_max_delay_in_millis,
        },
        (
            "delayed_delivery_tick_time_millis",
            "delayed_delivery_enabled",
            "delayed_delivery_max_delay_in_millis",
        ),
        topic_name="delayedDelivery",
        topic_key=("delayedDeliveryEnabled",),
        topic_fields=(
            ("tickTime", "delayedDeliveryTickTimeMillis"),
            ("active", "delayedDeliveryEnabled"),
            ("maxDeliveryDelayInMillis", "delayedDeliveryMaxDelayInMillis"),
        ),
    ),
    _count(
        "Max unacknowledged messages per consumer",
        "Number of unacknowledged messages at which a consumer of a Shared or Key_Shared subscription is sent no more",
        "maxUnackedMessagesPerConsumer",
        "max_unacked_messages_per_consumer",
        "max_unacked_messages_per_consumer",
        topic_name="maxUnackedMessagesOnConsumer",
        topic_key=("maxUnackedMessagesOnConsumer",),
    ),
    _count(
        "Max unacknowledged messages per subscription",
        "Number of unacknowledged messages at which a Shared or Key_Shared subscription sends no more to its consumers",
        "maxUnackedMessagesPerSubscription",
        "max_unacked_messages_per_subscription",
        "max_unacked_messages_per_subscription",
        topic_name="maxUnackedMessagesOnSubscription",
        topic_key=("maxUnackedMessagesOnSubscription",),
    ),
    Policy(
        "deduplication",
        "Deduplication",
        "Whether a message that a producer sent twice is stored once",
        ("deduplicationEnabled",),
        Flag(),
        lambda settings: settings.broker_deduplication_enabled,
        ("broker_deduplication_enabled",),
        topic_name="deduplicationEnabled",
        topic_key=("deduplicationEnabled",),
    ),
    Policy(
        "deduplicationSnapshotInterval",
        "Deduplication: snapshots",
        "Interval at which producers' sequence ids are stored, on topics with new messages; 0 is never",
        ("deduplicationSnapshotIntervalSeconds",),
        Whole("seconds", refusal="interval must be greater than or equal to 0"),
        lambda settings: settings.deduplication_snapshot_interval_seconds,
        ("deduplication_snapshot_interval_seconds",),
        topic_name="deduplicationSnapshotInterval",
        topic_key=("deduplicationSnapshotIntervalSeconds",),
    ),
    Policy(
        "publishRate",
        "Publish rate",
        "Messages and bytes per second that all producers of a topic may send together; -1 and 0 are no limit",
        ("publishMaxMessageRate",),
        Fields(
            {
                "publishThrottlingRateInMsg": _up_to("messages per second"),
                "publishThrottlingRateInByte": _up_to("bytes per second", LONG_MAX),
            },
            {"publishThrottlingRateInMsg": -1, "publishThrottlingRateInByte": -1},
        ),
        lambda settings: {
            "publishThrottlingRateInMsg": settings.max_publish_rate_per_topic_in_messages,
            "publishThrottlingRateInByte": settings.max_publish_rate_per_topic_in_bytes,
        },
        ("max_publish_rate_per_topic_in_messages", "max_publish_rate_per_topic_in_bytes"),
        topic_name="publishRate",
        topic_key=("publishRate",),
        per_cluster=True,
    ),
    _dispatch_rate(
        "dispatchRate",
        "Dispatch rate per topic",
        "a topic's subscriptions together",
        "topicDispatchRate",
        "dispatch_throttling_rate_per_topic",
        also="clusterDispatchRate",
    ),
    _dispatch_rate(
        "subscriptionDispatchRate",
        "Dispatch rate per subscription",
        "each subscription",
        "subscriptionDispatchRate",
        "dispatch_throttling_rate_per_subscription",
        per_subscription="dispatchRate",
    ),
    Policy(
        "subscribeRate",
        "Subscribe rate",
        "Number of times that a consumer may subscribe to a topic in a period; -1 and 0 are no limit",
        ("clusterSubscribeRate",),
        Fields(
            {
                "subscribeThrottlingRatePerConsumer": _up_to("times"),
                "ratePeriodInSecond": _up_to("seconds"),
            },
            {"subscribeThrottlingRatePerConsumer": -1, "ratePeriodInSecond": 30},
        ),
        lambda settings: {
            "subscribeThrottlingRatePerConsumer": settings.subscribe_throttling_rate_per_consumer,
            "ratePeriodInSecond": settings.subscribe_rate_period_per_consumer_in_second,
        },
        ("subscribe_throttling_rate_per_consumer", "subscribe_rate_period_per_consumer_in_second"),
        topic_name="subscribeRate",
        topic_key=("subscribeRate",),
        per_cluster=True,
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
        topic_name="maxMessageSize",
        topic_key=("maxMessageSize",),
    ),
    Policy(
        "subscriptionTypesEnabled",
        "Subscription types",
        "Types of subscriptions that consumers may use; an empty list stands for those that the broker allows",
        ("subscription_types_enabled",),
        Several(SUBSCRIPTION_TYPES),
        lambda settings: settings.subscription_types_enabled.split(","),
        ("subscription_types_enabled",),
        topic_name="subscriptionTypesEnabled",
        topic_key=("subscriptionTypesEnabled",),
        unset=[],
        topic_unset=[],
        nothing=([],),
        topic_nothing=([],),
        removed=[],
    ),
    Policy(
        "compactionThreshold",
        "Compaction",
        "Bytes published since the last compaction that start the next; 0 is never",
        ("compaction_threshold",),
        Whole("bytes", high=LONG_MAX, refusal="compactionThreshold must be 0 or more"),
        lambda settings: settings.broker_service_compaction_threshold_in_bytes,
        ("broker_service_compaction_threshold_in_bytes",),
        topic_name="compactionThreshold",
        topic_key=("compactionThreshold",),
    ),
    Policy(
        "schemaCompatibilityStrategy",
        "Schema compatibility",
        "Which schemas may follow a topic's schema; the transitive strategies compare with all versions",
        ("schema_compatibility_strategy",),
        Choice(tuple(strategy.value for strategy in Strategy)),
        lambda settings: settings.schema_compatibility_strategy,
        ("schema_compatibility_strategy",),
        topic_name="schemaCompatibilityStrategy",
        topic_key=("schemaCompatibilityStrategy",),
        unset=Strategy.UNDEFINED.value,
        nothing=(Strategy.UNDEFINED.value,),
        topic_nothing=(Strategy.UNDEFINED.value,),
        older=_by_old_name,
    ),
    Policy(
        "schemaAutoUpdateCompatibilityStrategy",
        "Schema compatibility, old form",
        "The older policy, which applies where Schema compatibility is not set",
        (_OLD_STRATEGY,),
        Choice(tuple(BY_OLD_NAME)),
        lambda settings: OLD_NAMES[Strategy(settings.schema_compatibility_strategy)],
        ("schema_compatibility_strategy",),
    ),
    Policy(
        "isAllowAutoUpdateSchema",
        "Schema auto-update",
        "Whether clients may add versions to a topic's schema, or administrators alone",
        ("is_allow_auto_update_schema",),
        Flag(),
        lambda settings: settings.is_allow_auto_update_schema_enabled,
        ("is_allow_auto_update_schema_enabled",),
        unset=True,
    ),
    Policy(
        "schemaValidationEnforced",
        "Schema required",
        "Whether producers must have a schema where the topic has one",
        ("schema_validation_enforced",),
        Flag(),
        lambda settings: settings.is_schema_validation_enforced,
        ("is_schema_validation_enforced",),
        topic_name="schemaValidationEnforced",
        topic_key=("schemaValidationEnforced",),
        unset=False,
        topic_unset=False,
        nothing=(False,),
    ),
    Policy(
        "encryptionRequired",
        "Encryption required",
        "Whether producers must encrypt what they send",
        ("encryption_required",),
        Flag(),
        lambda settings: settings.encryption_require_on_producer,
        ("encryption_require_on_producer",),
        unset=False,
        nothing=(False,),
        removed=False,
    ),
    Policy(
        "subscriptionAuthMode",
        "Subscription names",
        "Whether a subscription's name must begin with its consumer's role; without authentication there are no roles",
        ("subscription_auth_mode",),
        Choice(("None", "Prefix")),
        lambda settings: "None",
        unset="None",
        nothing=("None",),
        removed="None",
        shown=False,
    ),
    Policy(
        "replication",
        "Clusters",
        "Clusters that hold a topic; replication to other clusters is not built yet",
        ("replication_clusters",),
        Names(),
        lambda settings: [],
        topic_name="replication",
        topic_key=("replicationClusters",),
        check=check_replication,
        unset=[],
        shown=False,
    ),
    Policy(
        "allowedClusters",
        "Allowed clusters",
        "Clusters that may hold a topic of the namespace; an empty list stands for those of its tenant",
        ("allowed_clusters",),
        Names(),
        lambda settings: [],
        unset=[],
        nothing=([],),
        shown=False,
    ),
    Policy(
        "replicatorDispatchRate",
        "Replication dispatch rate",
        "Messages and bytes sent to each other cluster in a period; replication is not built yet",
        ("replicatorDispatchRate",),
        _DISPATCH_RATE,
        lambda settings: {
            "dispatchThrottlingRateInMsg": 0,
            "dispatchThrottlingRateInByte": 0,
            "relativeToPublishRate": False,
            "ratePeriodInSecond": 1,
        },
        topic_name="replicatorDispatchRate",
        topic_key=("replicatorDispatchRate",),
        per_cluster=True,
        shown=False,
    ),
    Policy(
        "offloadPolicies",
        "Offloading",
        "Storage to which ledgers that are seldom read are moved; offloading is not built yet",
        ("offload_policies",),
        OffloadForm(),
        lambda settings: None,
        topic_name="offloadPolicies",
        topic_key=("offloadPolicies",),
        shown=False,
    ),
    _offload(
        "offloadThreshold",
        "Offloading: size",
        "Bytes of a topic that remain on bookies when its ledgers are moved; below 0 is without limit",
        "managedLedgerOffloadThresholdInBytes",
        unset=-1,
    ),
    _offload(
        "offloadThresholdInSeconds",
        "Offloading: age",
        "Age of a topic's ledgers at which they are moved from bookies; below 0 is without limit",
        "managedLedgerOffloadThresholdInSeconds",
        unset=-1,
    ),
    _offload(
        "offloadDeletionLagMs",
        "Offloading: deletion",
        "Time for which a moved ledger remains on bookies",
        "managedLedgerOffloadDeletionLagInMillis",
    ),
)
BY_NAME = {policy.name: policy for policy in POLICIES}
SIZE_QUOTA = BY_NAME["backlogQuota.destination_storage"]
AGE_QUOTA = BY_NAME["backlogQuota.message_age"]
RETENTION = BY_NAME["retention"]
SUBSCRIPTION_RATE = BY_NAME["subscriptionDispatchRate"]
REPLICATION = BY_NAME["replication"]
ALLOWED_CLUSTERS = BY_NAME["allowedClusters"]
OFFLOADING = BY_NAME["offloadPolicies"]
