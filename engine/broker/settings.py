"""Settings of a broker, with Pulsar's names in snake_case; Pulsar's own stand in brackets."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.base.addresses import is_loopback
from engine.base.settings import count, flag, folder, live, maybe_port, number, port, size, text
from engine.broker.ports import TopicPolicies
from engine.managed.settings import LedgerConfig

MIB = 1 << 20
INTERCEPTORS = "org.apache.pulsar.common.intercept."
INDEXES = "AppendIndexMetadataInterceptor"
TIMES = "AppendBrokerTimestampMetadataInterceptor"
_config = lru_cache(maxsize=256)(LedgerConfig)
"""Most topics are configured alike: they share one."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Of a broker as a member of its cluster: where it listens, how it is named."""

    bind_address: str = text(
        "127.0.0.1", "address to listen on; only loopback without authentication (bindAddress)"
    )
    advertised_address: str = text(
        "", "name told to clients; empty: bind_address (advertisedAddress)"
    )
    broker_port: int = port(6650, "Pulsar's protocol (brokerServicePort)", low=0)
    broker_service_port_tls: int | None = maybe_port(
        "Pulsar's protocol by TLS 1.2 or later (brokerServicePortTls)", low=0
    )
    tls_certificate_file_path: str = text(
        "", "PEM file shown on broker_service_port_tls, leaf first (tlsCertificateFilePath)"
    )
    tls_key_file_path: str = text("", "PEM file of its key, unencrypted (tlsKeyFilePath)")
    tls_trust_certs_file_path: str = text(
        "", "PEM file of who may sign clients' certificates (tlsTrustCertsFilePath)"
    )
    tls_require_trusted_client_cert_on_connect: bool = flag(
        False, "whether a client must show one (tlsRequireTrustedClientCertOnConnect)"
    )
    broker_http_port: int = port(8081, "metrics, readiness, calls of the gateway; private", low=0)
    max_http_server_connections: int = count(
        2048, "to broker_http_port; more are answered 503 (maxHttpServerConnections)", low=1
    )
    max_http_server_connections_per_address: int = count(
        1024, "the same of one client address, so that it leaves room for others; 0: no limit"
    )
    broker_max_connections: int = count(
        0, "connections of clients; 0: no limit (brokerMaxConnections)"
    )
    broker_max_connections_per_ip: int = count(
        0, "of one address; 0: no limit (brokerMaxConnectionsPerIp)"
    )
    metadata_store_session_timeout_millis: int = count(
        5_000, "milliseconds (metadataStoreSessionTimeoutMillis)", low=1_000, high=60_000
    )
    cluster_name: str = text("standalone", "the cluster this broker belongs to (clusterName)")
    data_dir: Path = folder("data", "holds the internal token; the instance's")
    internal_token: str = text(
        "", "by which the instance's processes know each other; empty: the file in data_dir"
    )
    authentication_enabled: bool = flag(False, "true is not supported yet (authenticationEnabled)")
    expose_topic_level_metrics_in_prometheus: bool = flag(
        True,
        "metrics of each topic and subscription, else of namespaces (exposeTopicLevelMetricsInPrometheus)",
    )
    expose_consumer_level_metrics_in_prometheus: bool = flag(
        False, "metrics of each consumer (exposeConsumerLevelMetricsInPrometheus)"
    )
    expose_producer_level_metrics_in_prometheus: bool = flag(
        False, "metrics of each producer (exposeProducerLevelMetricsInPrometheus)"
    )
    default_number_of_namespace_bundles: int = count(
        4, "of a new namespace (defaultNumberOfNamespaceBundles)", low=1, high=1 << 20
    )
    broker_shutdown_timeout_ms: int = live(
        count(
            15_000,
            "milliseconds in which a broker that stops hands over its topics (brokerShutdownTimeoutMs)",
            high=600_000,
        )
    )

    def __post_init__(self) -> None:
        """Raises ValueError, in one line that names the setting and what it may be."""
        if self.authentication_enabled:
            raise ValueError("authentication_enabled must be false: not supported yet")
        needed = ["tls_certificate_file_path", "tls_key_file_path"]
        if self.tls_require_trusted_client_cert_on_connect:
            needed.append("tls_trust_certs_file_path")
        if self.broker_service_port_tls is not None:
            for name in needed:
                if not getattr(self, name):
                    raise ValueError(
                        f"{name} must name a file where broker_service_port_tls is set"
                    )
        if not is_loopback(self.bind_address):
            raise ValueError(
                f"bind_address {self.bind_address!r} is not loopback: without authentication only loopback "
                "(127.0.0.0/8, ::1, localhost) is served"
            )

    @property
    def host(self) -> str:
        """Name of this node in addresses given to others."""
        return self.advertised_address or self.bind_address


@dataclass(frozen=True, slots=True)
class DataPathSettings:
    """Of the data path: bounds of connections, publishing and dispatching. Pulsar's defaults unless said otherwise."""

    max_message_size: int = size(
        5 * MIB, "bytes of a message or batch (maxMessageSize)", low=1024, high=64 * MIB
    )
    keep_alive_interval_seconds: int = count(
        30, "seconds of silence before a ping (keepAliveIntervalSeconds)", low=1, high=3600
    )
    connection_liveness_check_timeout_millis: int = count(
        5000, "milliseconds (connectionLivenessCheckTimeoutMillis)", low=1, high=60_000
    )
    topic_load_timeout_seconds: int = count(
        10, "seconds; Pulsar 60 (topicLoadTimeoutSeconds)", low=1, high=600
    )
    max_producers_per_connection: int = count(10_000, "more are refused", low=1)
    max_consumers_per_connection: int = count(10_000, "more are refused", low=1)
    max_pending_requests_per_connection: int = count(
        1000, "requests being answered; then reading stops", low=1, high=100_000
    )
    max_pending_publish_bytes_per_connection: int = size(
        32 * MIB, "bytes not yet confirmed; then reading stops", low=1 << 16, high=1 << 34
    )
    max_message_publish_buffer_size: int = size(
        256 * MIB,
        "the same of all connections, bytes, beside 64 KiB that each may have whatever the others hold "
        "(maxMessagePublishBufferSizeInMB)",
        low=MIB,
        high=1 << 38,
    )
    broker_publisher_throttling_max_message_rate: int = live(
        count(
            0,
            "messages per second of all producers of a broker; 0: no limit "
            "(brokerPublisherThrottlingMaxMessageRate)",
        )
    )
    broker_publisher_throttling_max_byte_rate: int = live(
        size(
            0,
            "bytes per second of all producers of a broker; 0: no limit "
            "(brokerPublisherThrottlingMaxByteRate)",
            high=(1 << 63) - 1,
        )
    )
    dispatch_throttling_rate_in_msg: int = live(
        count(
            0,
            "messages per second to all consumers of a broker; 0: no limit (dispatchThrottlingRateInMsg)",
        )
    )
    dispatch_throttling_rate_in_byte: int = live(
        size(
            0,
            "bytes per second to all consumers of a broker; 0: no limit (dispatchThrottlingRateInByte)",
            high=(1 << 63) - 1,
        )
    )
    dispatch_throttling_on_non_backlog_consumer_enabled: bool = live(
        flag(
            True,
            "dispatch rates also hold for subscriptions that are not behind "
            "(dispatchThrottlingOnNonBacklogConsumerEnabled)",
        )
    )
    dispatch_throttling_on_batch_message_enabled: bool = live(
        flag(
            False,
            "to dispatch rates a batch is one message (dispatchThrottlingOnBatchMessageEnabled)",
        )
    )
    managed_ledger_cursor_backlogged_threshold: int = count(
        1000,
        "entries; from then on a subscription is behind (managedLedgerCursorBackloggedThreshold)",
    )
    max_unacked_messages_per_broker: int = count(
        0,
        "out at all consumers together; then subscriptions with a large share get no more until half of it is "
        "acknowledged; 0: no limit (maxUnackedMessagesPerBroker)",
    )
    max_unacked_messages_per_subscription_on_broker_blocked: float = number(
        0.16,
        "part of that which is a large share (maxUnackedMessagesPerSubscriptionOnBrokerBlocked)",
        low=0.0,
        high=1.0,
    )
    dispatcher_max_read_batch_size: int = live(
        count(
            1000,
            "entries that are read for a subscription at once; Pulsar 100 (dispatcherMaxReadBatchSize)",
            low=1,
            high=100_000,
        )
    )
    dispatcher_max_read_size_bytes: int = live(
        size(
            MIB,
            "bytes that are read for a subscription at once; Pulsar 5 MiB (dispatcherMaxReadSizeBytes)",
            low=1,
            high=64 * MIB,
        )
    )
    subscription_key_shared_use_consistent_hashing: bool = flag(
        True,
        "whether keys go by a ring; else who comes gets half of the widest range "
        "(subscriptionKeySharedUseConsistentHashing)",
    )
    subscription_key_shared_consistent_hashing_replica_points: int = count(
        100,
        "points of a consumer on the ring (subscriptionKeySharedConsistentHashingReplicaPoints)",
        low=1,
        high=1_000,
    )
    key_shared_look_ahead_msg_in_replay_threshold_per_consumer: int = count(
        2_000,
        "entries that wait for their key or consumer, per consumer; 0: no limit "
        "(keySharedLookAheadMsgInReplayThresholdPerConsumer)",
        high=1_000_000,
    )
    key_shared_look_ahead_msg_in_replay_threshold_per_subscription: int = count(
        20_000,
        "and in all; 0: no limit (keySharedLookAheadMsgInReplayThresholdPerSubscription)",
        high=1_000_000,
    )
    dispatcher_max_round_robin_batch_size: int = live(
        count(
            20,
            "entries to a consumer of a shared subscription before the next one's turn "
            "(dispatcherMaxRoundRobinBatchSize)",
            low=1,
            high=100_000,
        )
    )
    is_delayed_delivery_deliver_at_time_strict: bool = flag(
        True,
        "no delayed message is delivered before its time, and at most a tick after it; false: at most a tick "
        "before it; Pulsar false (isDelayedDeliveryDeliverAtTimeStrict)",
    )
    delayed_delivery_min_index_count_per_bucket: int = count(
        10_000,
        "entries of a subscription that wait in memory alone; more are stored; Pulsar 50000 "
        "(delayedDeliveryMinIndexCountPerBucket)",
        low=1,
        high=1_000_000,
    )
    delayed_delivery_max_indexes_per_bucket_snapshot_segment: int = count(
        5_000,
        "of them in one stored part, which is what is read at a time "
        "(delayedDeliveryMaxIndexesPerBucketSnapshotSegment)",
        low=1,
        high=100_000,
    )
    delayed_delivery_max_num_buckets: int = count(
        16,
        "ledgers that they are stored in; more are merged; Pulsar without limit (delayedDeliveryMaxNumBuckets)",
        low=2,
        high=1_000,
    )
    retention_check_interval_in_seconds: int = count(
        120,
        "seconds (retentionCheckIntervalInSeconds)",
        low=1,
        high=86_400,
    )
    message_expiry_check_interval_in_minutes: int = count(
        5,
        "minutes between looks for messages older than the TTL (messageExpiryCheckIntervalInMinutes)",
        low=1,
        high=1440,
    )
    backlog_quota_check_interval_in_seconds: int = count(
        60,
        "seconds between looks at backlogs beyond a quota (backlogQuotaCheckIntervalInSeconds)",
        low=1,
        high=86_400,
    )
    enable_persistent_topics: bool = flag(
        True, "this broker serves persistent topics (enablePersistentTopics)"
    )
    enable_non_persistent_topics: bool = flag(
        True, "this broker serves non-persistent topics (enableNonPersistentTopics)"
    )
    broker_delete_inactive_topics_frequency_seconds: int = count(
        60,
        "seconds between looks for topics that nobody uses (brokerDeleteInactiveTopicsFrequencySeconds)",
        low=1,
        high=86_400,
    )
    subscription_expiry_check_interval_in_minutes: int = count(
        5,
        "minutes between looks for subscriptions that nobody uses (subscriptionExpiryCheckIntervalInMinutes)",
        low=1,
        high=1440,
    )
    deduplication_entries_interval: int = count(
        1000,
        "entries between snapshots of what is stored of which producer (brokerDeduplicationEntriesInterval)",
        low=1,
    )
    deduplication_snapshot_frequency_in_seconds: int = count(
        120,
        "seconds between looks whether it is time for one (brokerDeduplicationSnapshotFrequencyInSeconds)",
        low=1,
        high=86_400,
    )
    deduplication_max_number_of_producers: int = count(
        10_000,
        "names known of a topic for deduplication, with at most 2 MiB together "
        "(brokerDeduplicationMaxNumberOfProducers)",
        low=1,
    )
    deduplication_producer_inactivity_timeout_minutes: int = count(
        360,
        "minutes after which one that nobody uses is forgotten (brokerDeduplicationProducerInactivityTimeoutMinutes)",
        low=1,
    )
    broker_service_compaction_monitor_interval_in_seconds: int = count(
        60,
        "seconds between looks whether a topic's compaction is due (brokerServiceCompactionMonitorIntervalInSeconds)",
        low=1,
        high=86_400,
    )
    topic_compaction_retain_null_key: bool = flag(
        False, "messages without a key outlive compaction (topicCompactionRetainNullKey)"
    )
    active_consumer_failover_delay_time_millis: int = count(
        1000, "milliseconds (activeConsumerFailoverDelayTimeMillis)", high=60_000
    )
    enable_broker_side_subscription_pattern_evaluation: bool = flag(
        True,
        "patterns of clients are matched, and their topics watched, by the broker "
        "(enableBrokerSideSubscriptionPatternEvaluation)",
    )
    exposing_broker_entry_metadata_to_client_enabled: bool = flag(
        False,
        "clients that read it get the broker's metadata of entries (exposingBrokerEntryMetadataToClientEnabled)",
    )
    active_consumer_failover_consistent_hashing: bool = flag(
        False,
        "whether the ring chooses the active consumer of a partition too, not only of a topic without partitions "
        "(activeConsumerFailoverConsistentHashing)",
    )
    subscription_pattern_max_length: int = count(
        50, "characters (subscriptionPatternMaxLength)", low=1, high=10_000
    )


@dataclass(frozen=True, slots=True)
class LedgerDefaults:
    """When topics' ledgers are rolled, and what is kept of them in memory."""

    managed_ledger_max_entries_per_ledger: int = count(
        50_000, "then the next ledger (managedLedgerMaxEntriesPerLedger)", low=1
    )
    managed_ledger_max_size_per_ledger_mbytes: int = count(
        2048, "MiB; then the next ledger (managedLedgerMaxSizePerLedgerMbytes)", low=1, high=1 << 20
    )
    managed_ledger_min_ledger_rollover_time_minutes: int = count(
        10, "minutes; no next ledger before (managedLedgerMinLedgerRolloverTimeMinutes)"
    )
    managed_ledger_max_ledger_rollover_time_minutes: int = count(
        240, "minutes; then the next ledger (managedLedgerMaxLedgerRolloverTimeMinutes)", low=1
    )
    managed_ledger_cache_size_mb: int = live(
        count(
            64,
            "MiB of the newest entries of all topics, in whole received buffers "
            "(managedLedgerCacheSizeMB)",
            low=1,
            high=1 << 20,
        )
    )

    broker_entry_metadata_interceptors: str = text(
        "",
        "what is stored before each entry, separated by commas: AppendIndexMetadataInterceptor, "
        "AppendBrokerTimestampMetadataInterceptor (brokerEntryMetadataInterceptors)",
    )

    def __post_init__(self) -> None:
        """Raises ValueError, in one line that names the setting and what it may be."""
        unknown = self._interceptors - {INDEXES, TIMES}
        if unknown:
            raise ValueError(
                f"broker_entry_metadata_interceptors may name {INDEXES} and {TIMES}, not {min(unknown)}"
            )

    @property
    def _interceptors(self) -> set[str]:
        names = self.broker_entry_metadata_interceptors.split(",")
        return {name.strip().removeprefix(INTERCEPTORS) for name in names if name.strip()}

    def config(self, policies: TopicPolicies) -> LedgerConfig:
        """Configuration of a topic's managed ledger."""
        interceptors = self._interceptors
        retention_s = (
            policies.retention_minutes * 60.0
            if policies.retention_minutes > 0
            else (float(policies.retention_minutes))
        )
        retention_mb = policies.retention_mb
        return _config(
            ensemble=policies.ensemble,
            write_quorum=policies.write_quorum,
            ack_quorum=policies.ack_quorum,
            ledger_entries_max=self.managed_ledger_max_entries_per_ledger,
            ledger_bytes_max=self.managed_ledger_max_size_per_ledger_mbytes << 20,
            ledger_age_max_s=self.managed_ledger_max_ledger_rollover_time_minutes * 60.0,
            ledger_age_min_s=self.managed_ledger_min_ledger_rollover_time_minutes * 60.0,
            retention_s=retention_s,
            retention_bytes=retention_mb << 20 if retention_mb > 0 else retention_mb,
            entry_indexes=INDEXES in interceptors,
            entry_times=TIMES in interceptors,
        )
