"""Settings of a broker that apply where neither the topic nor its namespace sets a policy, with Pulsar's names."""

from dataclasses import dataclass

from engine.base.settings import count, flag, live, size, text
from engine.tenancy.bundles import BUNDLES_MAX, DEFAULT_BUNDLES
from engine.tenancy.strategy import Strategy

SUBSCRIPTION_TYPES = ("Exclusive", "Shared", "Failover", "Key_Shared")


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """Limits on the number of tenants and namespaces, where 0 is no limit, and the number of bundles of a new one."""

    max_tenants: int = live(count(0, "tenants of the cluster; 0: no limit (maxTenants)"))
    max_namespaces_per_tenant: int = live(
        count(0, "namespaces of one tenant; 0: no limit (maxNamespacesPerTenant)")
    )
    default_number_of_namespace_bundles: int = count(
        DEFAULT_BUNDLES,
        "bundles of a new namespace; Pulsar 4 (defaultNumberOfNamespaceBundles)",
        low=1,
        high=BUNDLES_MAX,
    )


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Values of policies where none is set; a limit of 0 is no limit.

    Quorums are 1 as in Pulsar's standalone; the supervisor sets them where there are more bookies.
    """

    ttl_duration_default_in_seconds: int = count(
        0,
        "seconds after which a message counts as consumed; 0: never (ttlDurationDefaultInSeconds)",
    )
    default_retention_time_in_minutes: int = count(
        0,
        "minutes for which consumed messages are kept; -1: for ever (defaultRetentionTimeInMinutes)",
        low=-1,
    )
    default_retention_size_in_mb: int = count(
        0,
        "MiB of consumed messages that are kept; -1: without limit (defaultRetentionSizeInMB)",
        low=-1,
    )
    backlog_quota_default_limit_bytes: int = size(
        -1,
        "bytes not yet consumed; -1: no limit (backlogQuotaDefaultLimitBytes)",
        low=-1,
        high=(1 << 63) - 1,
    )
    backlog_quota_default_limit_second: int = count(
        -1,
        "seconds, age of the oldest message not yet consumed; -1: no limit (backlogQuotaDefaultLimitSecond)",
        low=-1,
    )
    backlog_quota_default_retention_policy: str = text(
        "producer_request_hold",
        "what happens when a backlog exceeds these limits (backlogQuotaDefaultRetentionPolicy)",
        choices=("producer_request_hold", "producer_exception", "consumer_backlog_eviction"),
    )
    max_producers_per_topic: int = count(
        0, "producers of one topic; 0: no limit (maxProducersPerTopic)"
    )
    max_consumers_per_topic: int = count(
        0, "consumers of one topic; 0: no limit (maxConsumersPerTopic)"
    )
    max_consumers_per_subscription: int = count(
        0, "consumers of one subscription; 0: no limit (maxConsumersPerSubscription)"
    )
    max_subscriptions_per_topic: int = count(
        0, "subscriptions of one topic; 0: no limit (maxSubscriptionsPerTopic)"
    )
    max_topics_per_namespace: int = live(
        count(0, "topics of one namespace; 0: no limit (maxTopicsPerNamespace)")
    )
    allow_auto_topic_creation: bool = live(
        flag(True, "a topic is created by its first client (allowAutoTopicCreation)")
    )
    allow_auto_topic_creation_type: str = live(
        text(
            "non-partitioned",
            "type of a topic that its first client creates (allowAutoTopicCreationType)",
            choices=("non-partitioned", "partitioned"),
        )
    )
    default_num_partitions: int = live(
        count(
            1,
            "partitions of a partitioned topic that its first client creates (defaultNumPartitions)",
            low=1,
            high=10_000,
        )
    )
    broker_delete_inactive_topics_enabled: bool = live(
        flag(False, "unused topics are deleted (brokerDeleteInactiveTopicsEnabled)")
    )
    broker_delete_inactive_topics_mode: str = live(
        text(
            "delete_when_no_subscriptions",
            "which topics are unused: those without subscriptions, or also those whose subscriptions have "
            "acknowledged all (brokerDeleteInactiveTopicsMode)",
            choices=("delete_when_no_subscriptions", "delete_when_subscriptions_caught_up"),
        )
    )
    broker_delete_inactive_topics_max_inactive_duration_seconds: int = live(
        count(
            60,
            "seconds after which an unused topic is deleted "
            "(brokerDeleteInactiveTopicsMaxInactiveDurationSeconds)",
            low=1,
        )
    )
    subscription_expiration_time_minutes: int = count(
        0,
        "minutes without a consumer after which a subscription is deleted; 0: never "
        "(subscriptionExpirationTimeMinutes)",
    )
    max_unacked_messages_per_consumer: int = count(
        50_000,
        "unacknowledged messages at which a consumer is sent no more; 0: no limit (maxUnackedMessagesPerConsumer)",
    )
    max_unacked_messages_per_subscription: int = count(
        200_000,
        "unacknowledged messages at which a subscription's consumers are sent no more; 0: no limit "
        "(maxUnackedMessagesPerSubscription)",
    )
    delayed_delivery_enabled: bool = flag(
        True, "messages are held until their delivery time (delayedDeliveryEnabled)"
    )
    delayed_delivery_tick_time_millis: int = count(
        1000,
        "milliseconds, resolution of the delivery time (delayedDeliveryTickTimeMillis)",
        low=1,
        high=86_400_000,
    )
    delayed_delivery_max_delay_in_millis: int = count(
        0,
        "milliseconds from publishing to delivery; more is refused; 0: no limit (delayedDeliveryMaxDelayInMillis)",
        high=(1 << 63) - 1,
    )
    broker_deduplication_enabled: bool = flag(
        False, "what a producer sends twice is stored once (brokerDeduplicationEnabled)"
    )
    deduplication_snapshot_interval_seconds: int = count(
        120,
        "seconds between snapshots of producers' sequence ids, on topics with new messages; "
        "0: never (brokerDeduplicationSnapshotIntervalSeconds)",
    )
    max_publish_rate_per_topic_in_messages: int = live(
        count(
            0,
            "messages per second to a topic; 0: no limit (maxPublishRatePerTopicInMessages)",
        )
    )
    max_publish_rate_per_topic_in_bytes: int = live(
        size(
            0,
            "bytes per second to a topic; 0: no limit (maxPublishRatePerTopicInBytes)",
            high=(1 << 63) - 1,
        )
    )
    dispatch_throttling_rate_per_topic_in_msg: int = live(
        count(
            0,
            "messages per second from a topic to its consumers; 0: no limit "
            "(dispatchThrottlingRatePerTopicInMsg)",
        )
    )
    dispatch_throttling_rate_per_topic_in_byte: int = live(
        size(
            0,
            "bytes per second from a topic to its consumers; 0: no limit (dispatchThrottlingRatePerTopicInByte)",
            high=(1 << 63) - 1,
        )
    )
    dispatch_throttling_rate_per_subscription_in_msg: int = live(
        count(
            0,
            "messages per second to the consumers of a subscription; 0: no limit "
            "(dispatchThrottlingRatePerSubscriptionInMsg)",
        )
    )
    dispatch_throttling_rate_per_subscription_in_byte: int = live(
        size(
            0,
            "bytes per second to the consumers of a subscription; 0: no limit "
            "(dispatchThrottlingRatePerSubscriptionInByte)",
            high=(1 << 63) - 1,
        )
    )
    dispatch_throttling_rate_per_replicator_in_msg: int = live(
        count(
            0,
            "messages per second from a topic to another cluster; 0: no limit "
            "(dispatchThrottlingRatePerReplicatorInMsg)",
        )
    )
    dispatch_throttling_rate_per_replicator_in_byte: int = live(
        size(
            0,
            "bytes per second from a topic to another cluster; 0: no limit "
            "(dispatchThrottlingRatePerReplicatorInByte)",
            high=(1 << 63) - 1,
        )
    )
    dispatch_throttling_rate_relative_to_publish_rate: bool = live(
        flag(
            False,
            "dispatch rates of topics and subscriptions are added to the publish rate "
            "(dispatchThrottlingRateRelativeToPublishRate)",
        )
    )
    subscribe_throttling_rate_per_consumer: int = live(
        count(
            0,
            "times that a consumer may subscribe in a period; 0: no limit "
            "(subscribeThrottlingRatePerConsumer)",
        )
    )
    subscribe_rate_period_per_consumer_in_second: int = live(
        count(
            30,
            "seconds of the period in which a consumer's subscribe calls are counted "
            "(subscribeRatePeriodPerConsumerInSecond)",
            low=1,
            high=86_400,
        )
    )
    subscription_types_enabled: str = live(
        text(
            ",".join(SUBSCRIPTION_TYPES),
            "types that consumers may use, of Exclusive, Shared, Failover and Key_Shared, with commas between "
            "(subscriptionTypesEnabled)",
        )
    )
    broker_service_compaction_threshold_in_bytes: int = size(
        0,
        "bytes published since the last compaction that start the next; 0: none does "
        "(brokerServiceCompactionThresholdInBytes)",
        high=(1 << 63) - 1,
    )
    schema_compatibility_strategy: str = text(
        "FULL",
        "which schemas may follow a topic's schema (schemaCompatibilityStrategy)",
        choices=tuple(
            strategy.value for strategy in Strategy if strategy is not Strategy.UNDEFINED
        ),
    )
    is_allow_auto_update_schema_enabled: bool = live(
        flag(True, "clients may add versions to a topic's schema (isAllowAutoUpdateSchemaEnabled)")
    )
    is_schema_validation_enforced: bool = flag(
        False,
        "producers need a schema where the topic has one (isSchemaValidationEnforced)",
    )
    encryption_require_on_producer: bool = flag(
        False, "producers must encrypt what they send (encryptionRequireOnProducer)"
    )
    allow_auto_subscription_creation: bool = live(
        flag(
            True, "a subscription is created by its first consumer (allowAutoSubscriptionCreation)"
        )
    )
    managed_ledger_default_ensemble_size: int = count(
        1, "bookies of a ledger (managedLedgerDefaultEnsembleSize)", low=1, high=64
    )
    managed_ledger_default_write_quorum: int = count(
        1, "bookies of an entry (managedLedgerDefaultWriteQuorum)", low=1, high=64
    )
    managed_ledger_default_ack_quorum: int = count(
        1, "bookies that confirm an entry (managedLedgerDefaultAckQuorum)", low=1, high=64
    )

    def __post_init__(self) -> None:
        """Raise ValueError with the setting's name when the values do not fit together."""
        ensemble = self.managed_ledger_default_ensemble_size
        write = self.managed_ledger_default_write_quorum
        if write > ensemble:
            raise ValueError(
                f"managed_ledger_default_write_quorum must be at most the ensemble size {ensemble}, not {write}"
            )
        if self.managed_ledger_default_ack_quorum > write:
            raise ValueError(
                f"managed_ledger_default_ack_quorum must be at most the write quorum {write}, "
                f"not {self.managed_ledger_default_ack_quorum}"
            )
        for name in self.subscription_types_enabled.split(","):
            if name not in SUBSCRIPTION_TYPES:
                raise ValueError(
                    f"subscription_types_enabled must be of {', '.join(SUBSCRIPTION_TYPES)}, not {name!r}"
                )
        minutes, megabytes = (
            self.default_retention_time_in_minutes,
            self.default_retention_size_in_mb,
        )
        if (minutes == 0) != (megabytes == 0):
            raise ValueError(
                "default_retention_time_in_minutes and default_retention_size_in_mb must be 0 both or neither"
            )
