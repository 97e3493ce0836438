"""Settings of a broker that are policies where neither topic nor namespace say otherwise: Pulsar's names."""

from dataclasses import dataclass

from engine.base.settings import count, flag, size, text
from engine.tenancy.strategy import Strategy


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Limits of 0 are none. Quorums are 1 as in Pulsar's standalone, set by the supervisor where there are more
    bookies."""

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
        "what happens beyond these (backlogQuotaDefaultRetentionPolicy)",
        choices=("producer_request_hold", "producer_exception", "consumer_backlog_eviction"),
    )
    max_producers_per_topic: int = count(0, "0: no limit (maxProducersPerTopic)")
    max_consumers_per_topic: int = count(0, "0: no limit (maxConsumersPerTopic)")
    max_consumers_per_subscription: int = count(0, "0: no limit (maxConsumersPerSubscription)")
    max_subscriptions_per_topic: int = count(0, "0: no limit (maxSubscriptionsPerTopic)")
    max_topics_per_namespace: int = count(0, "0: no limit (maxTopicsPerNamespace)")
    allow_auto_topic_creation: bool = flag(
        True, "a topic is made by its first client (allowAutoTopicCreation)"
    )
    allow_auto_topic_creation_type: str = text(
        "non-partitioned",
        "of topics so made (allowAutoTopicCreationType)",
        choices=("non-partitioned", "partitioned"),
    )
    default_num_partitions: int = count(
        1, "of partitioned topics so made (defaultNumPartitions)", low=1, high=10_000
    )
    schema_compatibility_strategy: str = text(
        "FULL",
        "what may follow a topic's schema (schemaCompatibilityStrategy)",
        choices=tuple(
            strategy.value for strategy in Strategy if strategy is not Strategy.UNDEFINED
        ),
    )
    is_allow_auto_update_schema_enabled: bool = flag(
        True, "clients may add versions to a topic's schema (isAllowAutoUpdateSchemaEnabled)"
    )
    is_schema_validation_enforced: bool = flag(
        False,
        "producers need a schema where the topic has one (isSchemaValidationEnforced)",
    )
    allow_auto_subscription_creation: bool = flag(
        True, "a subscription is made by its first consumer (allowAutoSubscriptionCreation)"
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
        """Raises ValueError naming the setting."""
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
        minutes, megabytes = (
            self.default_retention_time_in_minutes,
            self.default_retention_size_in_mb,
        )
        if (minutes == 0) != (megabytes == 0):
            raise ValueError(
                "default_retention_time_in_minutes and default_retention_size_in_mb must be 0 both or neither"
            )
