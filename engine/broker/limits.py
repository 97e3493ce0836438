"""Settings of the data path: Pulsar's names in snake_case, its defaults unless said otherwise."""

from dataclasses import dataclass, field

_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class DataPathSettings:
    """Bounds of connections, publishing and dispatching."""

    max_message_size: int = field(
        default=5 * 1024 * 1024,
        metadata={"low": 1024, "high": 64 << 20, "help": "maxMessageSize, bytes"},
    )
    keep_alive_interval_seconds: int = field(
        default=30, metadata={"low": 1, "high": 3600, "help": "keepAliveIntervalSeconds"}
    )
    connection_liveness_check_timeout_millis: int = field(
        default=5000,
        metadata={"low": 1, "high": 60_000, "help": "connectionLivenessCheckTimeoutMillis"},
    )
    topic_load_timeout_seconds: int = field(
        default=10, metadata={"low": 1, "high": 600, "help": "topicLoadTimeoutSeconds; Pulsar 60"}
    )
    max_producers_per_connection: int = field(default=10_000, metadata={"low": 1, "high": _MAX})
    max_consumers_per_connection: int = field(default=10_000, metadata={"low": 1, "high": _MAX})
    max_pending_requests_per_connection: int = field(
        default=1000,
        metadata={"low": 1, "high": 100_000, "help": "requests being answered; then reading stops"},
    )
    max_pending_publish_bytes_per_connection: int = field(
        default=32 << 20,
        metadata={"low": 1 << 16, "high": 1 << 34, "help": "unconfirmed; then reading stops"},
    )
    max_message_publish_buffer_size: int = field(
        default=256 << 20,
        metadata={
            "low": 1 << 20,
            "high": 1 << 38,
            "help": "maxMessagePublishBufferSizeInMB, in bytes",
        },
    )
    max_unacked_messages_per_consumer: int = field(
        default=50_000,
        metadata={"low": 0, "high": _MAX, "help": "maxUnackedMessagesPerConsumer; 0: no limit"},
    )
    max_unacked_messages_per_subscription: int = field(
        default=200_000,
        metadata={"low": 0, "high": _MAX, "help": "maxUnackedMessagesPerSubscription; 0: no limit"},
    )
    dispatcher_max_read_batch_size: int = field(
        default=1000,
        metadata={"low": 1, "high": 100_000, "help": "dispatcherMaxReadBatchSize; Pulsar 100"},
    )
    dispatcher_max_read_size_bytes: int = field(
        default=1 << 20,
        metadata={"low": 1, "high": 64 << 20, "help": "dispatcherMaxReadSizeBytes; Pulsar 5 MiB"},
    )
    dispatcher_max_round_robin_batch_size: int = field(
        default=20,
        metadata={"low": 1, "high": 100_000, "help": "dispatcherMaxRoundRobinBatchSize"},
    )
    retention_check_interval_in_seconds: int = field(
        default=120,
        metadata={
            "low": 1,
            "high": 86_400,
            "help": "retentionCheckIntervalInSeconds; changed policies reach loaded topics then, too",
        },
    )
    active_consumer_failover_delay_time_millis: int = field(
        default=1000,
        metadata={"low": 0, "high": 60_000, "help": "activeConsumerFailoverDelayTimeMillis"},
    )
    subscription_pattern_max_length: int = field(
        default=50, metadata={"low": 1, "high": 10_000, "help": "subscriptionPatternMaxLength"}
    )
