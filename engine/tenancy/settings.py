"""Settings of a broker that are policies where neither topic nor namespace say otherwise: Pulsar's names."""

from dataclasses import dataclass, field

INT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """Limits of 0 are none. Quorums are 1 as in Pulsar's standalone, set by the supervisor where there are more
    bookies."""

    ttl_duration_default_in_seconds: int = field(
        default=0,
        metadata={"low": 0, "high": INT_MAX, "help": "ttlDurationDefaultInSeconds; 0: none"},
    )
    default_retention_time_in_minutes: int = field(
        default=0,
        metadata={
            "low": -1,
            "high": INT_MAX,
            "help": "defaultRetentionTimeInMinutes; -1: for ever",
        },
    )
    default_retention_size_in_mb: int = field(
        default=0,
        metadata={
            "low": -1,
            "high": INT_MAX,
            "help": "defaultRetentionSizeInMB; -1: without limit",
        },
    )
    backlog_quota_default_limit_bytes: int = field(
        default=-1,
        metadata={
            "low": -1,
            "high": (1 << 63) - 1,
            "help": "backlogQuotaDefaultLimitBytes; -1: none",
        },
    )
    backlog_quota_default_limit_second: int = field(
        default=-1,
        metadata={"low": -1, "high": INT_MAX, "help": "backlogQuotaDefaultLimitSecond; -1: none"},
    )
    backlog_quota_default_retention_policy: str = field(
        default="producer_request_hold",
        metadata={
            "choices": (
                "producer_request_hold",
                "producer_exception",
                "consumer_backlog_eviction",
            ),
            "help": "backlogQuotaDefaultRetentionPolicy",
        },
    )
    max_producers_per_topic: int = field(
        default=0, metadata={"low": 0, "high": INT_MAX, "help": "maxProducersPerTopic"}
    )
    max_consumers_per_topic: int = field(
        default=0, metadata={"low": 0, "high": INT_MAX, "help": "maxConsumersPerTopic"}
    )
    max_consumers_per_subscription: int = field(
        default=0, metadata={"low": 0, "high": INT_MAX, "help": "maxConsumersPerSubscription"}
    )
    max_subscriptions_per_topic: int = field(
        default=0, metadata={"low": 0, "high": INT_MAX, "help": "maxSubscriptionsPerTopic"}
    )
    max_topics_per_namespace: int = field(
        default=0, metadata={"low": 0, "high": INT_MAX, "help": "maxTopicsPerNamespace"}
    )
    allow_auto_topic_creation: bool = field(
        default=True, metadata={"help": "allowAutoTopicCreation"}
    )
    allow_auto_topic_creation_type: str = field(
        default="non-partitioned", metadata={"choices": ("non-partitioned", "partitioned")}
    )
    default_num_partitions: int = field(
        default=1, metadata={"low": 1, "high": 10_000, "help": "defaultNumPartitions"}
    )
    allow_auto_subscription_creation: bool = field(
        default=True, metadata={"help": "allowAutoSubscriptionCreation"}
    )
    managed_ledger_default_ensemble_size: int = field(default=1, metadata={"low": 1, "high": 64})
    managed_ledger_default_write_quorum: int = field(default=1, metadata={"low": 1, "high": 64})
    managed_ledger_default_ack_quorum: int = field(default=1, metadata={"low": 1, "high": 64})

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
