"""Settings of a broker, with Pulsar's names in snake_case; Pulsar's own stand in brackets."""

from dataclasses import dataclass
from pathlib import Path

from engine.base.addresses import is_loopback
from engine.base.settings import count, flag, folder, maybe_port, port, size, text
from engine.broker.ports import TopicPolicies
from engine.managed.settings import LedgerConfig

MIB = 1 << 20


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
        2048, "to broker_http_port (maxHttpServerConnections)", low=1
    )
    broker_max_connections: int = count(
        0, "connections of clients; 0: no limit (brokerMaxConnections)"
    )
    broker_max_connections_per_ip: int = count(
        0, "of one address; 0: no limit (brokerMaxConnectionsPerIp)"
    )
    metadata_store_session_timeout_millis: int = count(
        10_000, "milliseconds (metadataStoreSessionTimeoutMillis)", low=1_000, high=60_000
    )
    cluster_name: str = text("standalone", "the cluster this broker belongs to (clusterName)")
    data_dir: Path = folder("data", "holds the internal token; the instance's")
    internal_token: str = text(
        "", "by which the instance's processes know each other; empty: the file in data_dir"
    )
    authentication_enabled: bool = flag(False, "true is not supported yet (authenticationEnabled)")
    default_number_of_namespace_bundles: int = count(
        4, "of a new namespace (defaultNumberOfNamespaceBundles)", low=1, high=1 << 20
    )
    broker_shutdown_timeout_ms: int = count(
        15_000, "milliseconds to hand over topics in (brokerShutdownTimeoutMs)", high=600_000
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
        "the same of all connections, bytes (maxMessagePublishBufferSizeInMB)",
        low=MIB,
        high=1 << 38,
    )
    max_unacked_messages_per_consumer: int = count(
        50_000, "then it gets no more; 0: no limit (maxUnackedMessagesPerConsumer)"
    )
    max_unacked_messages_per_subscription: int = count(
        200_000, "then it gets no more; 0: no limit (maxUnackedMessagesPerSubscription)"
    )
    dispatcher_max_read_batch_size: int = count(
        1000, "entries of one read; Pulsar 100 (dispatcherMaxReadBatchSize)", low=1, high=100_000
    )
    dispatcher_max_read_size_bytes: int = size(
        MIB, "bytes of one read; Pulsar 5 MiB (dispatcherMaxReadSizeBytes)", low=1, high=64 * MIB
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
    dispatcher_max_round_robin_batch_size: int = count(
        20,
        "entries to a consumer before the next one's turn (dispatcherMaxRoundRobinBatchSize)",
        low=1,
        high=100_000,
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
    active_consumer_failover_delay_time_millis: int = count(
        1000, "milliseconds (activeConsumerFailoverDelayTimeMillis)", high=60_000
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
    managed_ledger_cache_size_mb: int = count(
        64,
        "MiB of the newest entries of all topics, in whole received buffers "
        "(managedLedgerCacheSizeMB)",
        low=1,
        high=1 << 20,
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
