"""Settings of a broker: Pulsar's names in snake_case, ranges and meanings in each field's metadata."""

from dataclasses import dataclass, field
from pathlib import Path

from engine.base.addresses import is_loopback
from engine.broker.ports import TopicPolicies
from engine.managed.settings import LedgerConfig
from engine.metadata.connect import FORM, MetadataUrl

_COUNT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Of a broker as a member of its cluster: where it listens, how it is named, where metadata lives."""

    bind_address: str = field(
        default="127.0.0.1",
        metadata={
            "help": "address to listen on (bindAddress); only loopback without authentication"
        },
    )
    advertised_address: str = field(
        default="",
        metadata={"help": "name told to clients (advertisedAddress); empty: bind_address"},
    )
    broker_port: int = field(
        default=6650, metadata={"low": 0, "high": 65535, "port": True, "help": "brokerServicePort"}
    )
    broker_http_port: int = field(
        default=8081,
        metadata={"low": 0, "high": 65535, "port": True, "help": "metrics, readiness, admin RPC"},
    )
    max_http_server_connections: int = field(
        default=2048,
        metadata={
            "low": 1,
            "high": _COUNT_MAX,
            "help": "maxHttpServerConnections, to broker_http_port",
        },
    )
    broker_max_connections: int = field(
        default=0,
        metadata={"low": 0, "high": _COUNT_MAX, "help": "brokerMaxConnections; 0: no limit"},
    )
    broker_max_connections_per_ip: int = field(
        default=0,
        metadata={"low": 0, "high": _COUNT_MAX, "help": "brokerMaxConnectionsPerIp; 0: no limit"},
    )
    zookeeper_port: int = field(
        default=2181,
        metadata={"low": 1, "high": 65535, "port": True, "help": "used when metadata_url is empty"},
    )
    metadata_url: str = field(default="", metadata={"help": f"{FORM} (metadataStoreUrl)"})
    metadata_store_session_timeout_millis: int = field(
        default=10_000,
        metadata={"low": 1_000, "high": 60_000, "help": "metadataStoreSessionTimeoutMillis"},
    )
    cluster_name: str = field(default="standalone", metadata={"help": "clusterName"})
    data_dir: Path = field(default=Path("data"), metadata={"help": "holds the internal token"})
    internal_token: str = field(default="", metadata={"help": "empty: from the data directory"})
    authentication_enabled: bool = field(
        default=False, metadata={"help": "authenticationEnabled; true is not supported yet"}
    )
    log_level: str = field(
        default="INFO", metadata={"choices": ("DEBUG", "INFO", "WARNING", "ERROR")}
    )
    default_number_of_namespace_bundles: int = field(
        default=4, metadata={"low": 1, "high": 1 << 20, "help": "defaultNumberOfNamespaceBundles"}
    )
    broker_shutdown_timeout_ms: int = field(
        default=15_000, metadata={"low": 0, "high": 600_000, "help": "brokerShutdownTimeoutMs"}
    )

    def __post_init__(self) -> None:
        """Raises ValueError, in one line that names the setting and what it may be."""
        MetadataUrl.parse(self.store_url, "metadata_url")
        if self.authentication_enabled:
            raise ValueError("authentication_enabled must be false: not supported yet")
        if not is_loopback(self.bind_address):
            raise ValueError(
                f"bind_address {self.bind_address!r} is not loopback: without authentication only loopback "
                "(127.0.0.0/8, ::1, localhost) is served"
            )

    @property
    def host(self) -> str:
        """Name of this node in addresses given to others."""
        return self.advertised_address or self.bind_address

    @property
    def store_url(self) -> str:
        """The metadata store's."""
        return self.metadata_url or f"zk:127.0.0.1:{self.zookeeper_port}"


@dataclass(frozen=True, slots=True)
class DataPathSettings:
    """Of the data path: bounds of connections, publishing and dispatching. Pulsar's defaults unless said otherwise."""

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
    max_producers_per_connection: int = field(
        default=10_000, metadata={"low": 1, "high": _COUNT_MAX}
    )
    max_consumers_per_connection: int = field(
        default=10_000, metadata={"low": 1, "high": _COUNT_MAX}
    )
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
        metadata={
            "low": 0,
            "high": _COUNT_MAX,
            "help": "maxUnackedMessagesPerConsumer; 0: no limit",
        },
    )
    max_unacked_messages_per_subscription: int = field(
        default=200_000,
        metadata={
            "low": 0,
            "high": _COUNT_MAX,
            "help": "maxUnackedMessagesPerSubscription; 0: no limit",
        },
    )
    dispatcher_max_read_batch_size: int = field(
        default=1000,
        metadata={"low": 1, "high": 100_000, "help": "dispatcherMaxReadBatchSize; Pulsar 100"},
    )
    dispatcher_max_read_size_bytes: int = field(
        default=1 << 20,
        metadata={"low": 1, "high": 64 << 20, "help": "dispatcherMaxReadSizeBytes; Pulsar 5 MiB"},
    )
    subscription_key_shared_consistent_hashing_replica_points: int = field(
        default=100,
        metadata={
            "low": 1,
            "high": 1_000,
            "help": "points of a consumer on the ring (subscriptionKeySharedConsistentHashingReplicaPoints)",
        },
    )
    key_shared_look_ahead_msg_in_replay_threshold_per_consumer: int = field(
        default=2_000,
        metadata={
            "low": 0,
            "high": 1_000_000,
            "help": "entries that wait for their key or consumer, per consumer; 0 is unlimited "
            "(keySharedLookAheadMsgInReplayThresholdPerConsumer)",
        },
    )
    key_shared_look_ahead_msg_in_replay_threshold_per_subscription: int = field(
        default=20_000,
        metadata={
            "low": 0,
            "high": 1_000_000,
            "help": "and in all; 0 is unlimited (keySharedLookAheadMsgInReplayThresholdPerSubscription)",
        },
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
            "help": "retentionCheckIntervalInSeconds",
        },
    )
    active_consumer_failover_delay_time_millis: int = field(
        default=1000,
        metadata={"low": 0, "high": 60_000, "help": "activeConsumerFailoverDelayTimeMillis"},
    )
    subscription_pattern_max_length: int = field(
        default=50, metadata={"low": 1, "high": 10_000, "help": "subscriptionPatternMaxLength"}
    )


@dataclass(frozen=True, slots=True)
class LedgerDefaults:
    """When topics' ledgers are rolled, and what is kept of them in memory."""

    managed_ledger_max_entries_per_ledger: int = field(
        default=50_000, metadata={"low": 1, "high": _COUNT_MAX}
    )
    managed_ledger_max_size_per_ledger_mbytes: int = field(
        default=2048, metadata={"low": 1, "high": 1 << 20}
    )
    managed_ledger_min_ledger_rollover_time_minutes: int = field(
        default=10, metadata={"low": 0, "high": _COUNT_MAX}
    )
    managed_ledger_max_ledger_rollover_time_minutes: int = field(
        default=240, metadata={"low": 1, "high": _COUNT_MAX}
    )
    managed_ledger_cache_size_mb: int = field(
        default=64, metadata={"low": 1, "high": 1 << 20, "help": "managedLedgerCacheSizeMB"}
    )

    def config(self, policies: TopicPolicies) -> LedgerConfig:
        """Configuration of a topic's managed ledger."""
        retention_s = (
            policies.retention_minutes * 60.0
            if policies.retention_minutes > 0
            else (float(policies.retention_minutes))
        )
        retention_mb = policies.retention_mb
        return LedgerConfig(
            ensemble=policies.ensemble,
            write_quorum=policies.write_quorum,
            ack_quorum=policies.ack_quorum,
            ledger_entries_max=self.managed_ledger_max_entries_per_ledger,
            ledger_bytes_max=self.managed_ledger_max_size_per_ledger_mbytes << 20,
            ledger_age_max_s=self.managed_ledger_max_ledger_rollover_time_minutes * 60.0,
            ledger_age_min_s=self.managed_ledger_min_ledger_rollover_time_minutes * 60.0,
            retention_s=retention_s,
            retention_bytes=retention_mb << 20 if retention_mb > 0 else retention_mb,
        )
