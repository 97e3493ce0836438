"""Settings of a broker, with Pulsar's names in snake_case; the help texts have Pulsar's spelling in brackets."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from engine.base.addresses import ServiceUrl
from engine.base.settings import (
    count,
    data_folder,
    flag,
    live,
    maybe_port,
    number,
    port,
    secret,
    size,
    text,
)
from engine.broker.policies import (
    TopicPolicies,
)
from engine.managed.settings import LedgerConfig
from engine.net.listener_urls import ListenerAddress, Listeners, parse_addresses, parse_listeners
from engine.offload.offload_policy import OffloadPolicy

MIB = 1 << 20
INTERCEPTORS = "org.apache.pulsar.common.intercept."
INDEXES = "AppendIndexMetadataInterceptor"
TIMES = "AppendBrokerTimestampMetadataInterceptor"
_config = lru_cache(maxsize=256)(LedgerConfig)
"""Constructor of configurations that returns an equal one again, because most topics have the same."""


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Settings of a broker as a member of its cluster: addresses, names, connections."""

    bind_address: str = text(
        "127.0.0.1",
        "address to listen on; other than loopback only with authentication, or insecure_anywhere (bindAddress)",
    )
    advertised_address: str = text(
        "", "name sent to clients; empty: bind_address (advertisedAddress)"
    )
    advertised_listeners: str = text(
        "",
        "addresses sent to clients, by the listener that they name or connected by: "
        "name:scheme://host:port,…; instead of advertised_address (advertisedListeners)",
    )
    internal_listener_name: str = text(
        "",
        "listener of other brokers, and of clients that name none; empty: the first of advertised_listeners "
        "(internalListenerName)",
    )
    bind_addresses: str = text(
        "",
        "further addresses to listen on, each of a listener: name:scheme://host:port,… with pulsar or pulsar+ssl "
        "(bindAddresses)",
    )
    broker_port: int = port(6650, "Pulsar's protocol (brokerServicePort)", low=0)
    broker_service_port_tls: int | None = maybe_port(
        "Pulsar's protocol by TLS 1.2 or later (brokerServicePortTls)", low=0
    )
    broker_http_port: int = port(8081, "metrics, readiness, calls of the gateway; private", low=0)
    broker_http_port_tls: int | None = maybe_port(
        "the same by TLS 1.2 or later; the registration has it as webServiceUrlTls", low=0
    )
    max_http_server_connections: int = count(
        2048,
        "connections to broker_http_port; more are answered 503 (maxHttpServerConnections)",
        low=1,
    )
    max_http_server_connections_per_address: int = count(
        1024, "connections to broker_http_port from one client address; 0: no limit"
    )
    broker_max_connections: int = count(
        0, "connections of clients; 0: no limit (brokerMaxConnections)"
    )
    broker_max_connections_per_ip: int = count(
        0, "connections of clients from one address; 0: no limit (brokerMaxConnectionsPerIp)"
    )
    metadata_store_session_timeout_millis: int = count(
        5_000, "milliseconds (metadataStoreSessionTimeoutMillis)", low=1_000, high=60_000
    )
    cluster_name: str = text("standalone", "the cluster this broker belongs to (clusterName)")
    data_dir: Path = data_folder("folder of the instance, which has the internal token")
    internal_token: str = secret(
        "token by which the instance's processes recognize each other, or file:///path of one; empty: the file in "
        "data_dir"
    )
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
    broker_shutdown_timeout_ms: int = live(
        count(
            15_000,
            "milliseconds in which a stopping broker hands over its topics (brokerShutdownTimeoutMs)",
            high=600_000,
        )
    )

    @property
    def listeners(self) -> Listeners:
        """The listeners of ``advertised_listeners``, the internal one first. Raises ValueError."""
        listeners = parse_listeners("advertised_listeners", self.advertised_listeners)
        if listeners and self.advertised_address:
            raise ValueError("advertised_address and advertised_listeners exclude each other")
        internal = self.internal_listener_name or next(iter(listeners), "")
        if internal not in listeners and self.internal_listener_name:
            raise ValueError(
                f"internal_listener_name: advertised_listeners has no listener {internal!r}"
            )
        return {name: listeners[name] for name in sorted(listeners, key=lambda n: n != internal)}

    @property
    def bindings(self) -> list[ListenerAddress]:
        """The addresses of ``bind_addresses``. Raises ValueError."""
        bindings, listeners = parse_addresses("bind_addresses", self.bind_addresses), self.listeners
        for address in bindings:
            if address.scheme not in ("pulsar", "pulsar+ssl"):
                raise ValueError(
                    f"bind_addresses: {address.url} must have the scheme pulsar or pulsar+ssl; gateways serve HTTP"
                )
            if address.listener not in listeners:
                raise ValueError(
                    f"bind_addresses: advertised_listeners has no listener {address.listener!r}"
                )
        return bindings

    @property
    def host(self) -> str:
        """Name of this node in addresses given to others."""
        for urls in self.listeners.values():
            return ServiceUrl.parse(urls.service_url or urls.service_url_tls).host
        return self.advertised_address or self.bind_address


@dataclass(frozen=True, slots=True)
class DataPathSettings:
    """Bounds of connections, publishing and dispatch. Defaults are Pulsar's, where a text names no other."""

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
    max_producers_per_connection: int = count(10_000, "producers; more are refused", low=1)
    max_consumers_per_connection: int = count(10_000, "consumers; more are refused", low=1)
    max_pending_requests_per_connection: int = count(
        1000,
        "requests being answered, at which the connection is no longer read",
        low=1,
        high=100_000,
    )
    max_pending_publish_bytes_per_connection: int = size(
        32 * MIB,
        "unconfirmed bytes, at which the connection is no longer read",
        low=1 << 16,
        high=1 << 34,
    )
    max_message_publish_buffer_size: int = size(
        256 * MIB,
        "unconfirmed bytes of all connections, at which none is read beyond its own 64 KiB "
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
            "dispatch rates also apply to subscriptions without a backlog "
            "(dispatchThrottlingOnNonBacklogConsumerEnabled)",
        )
    )
    dispatch_throttling_on_batch_message_enabled: bool = live(
        flag(
            False,
            "dispatch rates count a batch as one message (dispatchThrottlingOnBatchMessageEnabled)",
        )
    )
    managed_ledger_cursor_backlogged_threshold: int = count(
        1000,
        "entries from which a subscription has a backlog (managedLedgerCursorBackloggedThreshold)",
    )
    max_unacked_messages_per_broker: int = count(
        0,
        "messages unacknowledged by all consumers, at which subscriptions with a large share receive no more until "
        "half is acknowledged; 0: no limit (maxUnackedMessagesPerBroker)",
    )
    max_unacked_messages_per_subscription_on_broker_blocked: float = number(
        0.16,
        "part of max_unacked_messages_per_broker that is a large share "
        "(maxUnackedMessagesPerSubscriptionOnBrokerBlocked)",
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
        "whether keys are assigned by a hash ring; else a new consumer receives half of the widest range "
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
        "entries that wait for their key or consumer, per subscription; 0: no limit "
        "(keySharedLookAheadMsgInReplayThresholdPerSubscription)",
        high=1_000_000,
    )
    dispatcher_max_round_robin_batch_size: int = live(
        count(
            20,
            "entries sent to a consumer of a shared subscription before the next consumer's turn "
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
        "delayed entries of a subscription that are kept only in memory; more are stored; Pulsar 50000 "
        "(delayedDeliveryMinIndexCountPerBucket)",
        low=1,
        high=1_000_000,
    )
    delayed_delivery_max_indexes_per_bucket_snapshot_segment: int = count(
        5_000,
        "delayed entries in one stored part, which is read as a whole "
        "(delayedDeliveryMaxIndexesPerBucketSnapshotSegment)",
        low=1,
        high=100_000,
    )
    delayed_delivery_max_num_buckets: int = count(
        16,
        "ledgers with delayed entries per subscription; more are merged; Pulsar without limit "
        "(delayedDeliveryMaxNumBuckets)",
        low=2,
        high=1_000,
    )
    retention_check_interval_in_seconds: int = count(
        120,
        "seconds between checks of retention (retentionCheckIntervalInSeconds)",
        low=1,
        high=86_400,
    )
    cluster_migration_check_duration_seconds: int = count(
        10,
        "seconds between checks whether topics are migrated to another cluster; 0 is never "
        "(clusterMigrationCheckDurationSeconds)",
        high=86_400,
    )
    message_expiry_check_interval_in_minutes: int = count(
        5,
        "minutes between checks for messages older than the TTL (messageExpiryCheckIntervalInMinutes)",
        low=1,
        high=1440,
    )
    backlog_quota_check_interval_in_seconds: int = count(
        60,
        "seconds between checks of backlog quotas (backlogQuotaCheckIntervalInSeconds)",
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
        "seconds between checks for unused topics (brokerDeleteInactiveTopicsFrequencySeconds)",
        low=1,
        high=86_400,
    )
    subscription_expiry_check_interval_in_minutes: int = count(
        5,
        "minutes between checks for unused subscriptions (subscriptionExpiryCheckIntervalInMinutes)",
        low=1,
        high=1440,
    )
    deduplication_entries_interval: int = count(
        1000,
        "entries between snapshots of a topic's deduplication (brokerDeduplicationEntriesInterval)",
        low=1,
    )
    deduplication_snapshot_frequency_in_seconds: int = count(
        120,
        "seconds between checks whether a snapshot is due (brokerDeduplicationSnapshotFrequencyInSeconds)",
        low=1,
        high=86_400,
    )
    deduplication_max_number_of_producers: int = count(
        10_000,
        "producer names remembered per topic for deduplication, at most 2 MiB together "
        "(brokerDeduplicationMaxNumberOfProducers)",
        low=1,
    )
    deduplication_producer_inactivity_timeout_minutes: int = count(
        360,
        "minutes after which the name of an absent producer is forgotten "
        "(brokerDeduplicationProducerInactivityTimeoutMinutes)",
        low=1,
    )
    broker_service_compaction_monitor_interval_in_seconds: int = count(
        60,
        "seconds between checks whether a topic's compaction is due (brokerServiceCompactionMonitorIntervalInSeconds)",
        low=1,
        high=86_400,
    )
    enable_replicated_subscriptions: bool = flag(
        True,
        "positions of replicated subscriptions are copied to the clusters that the topic is replicated to "
        "(enableReplicatedSubscriptions)",
    )
    replicated_subscriptions_snapshot_frequency_millis: int = count(
        1000,
        "milliseconds between snapshots of a topic with replicated subscriptions, while messages arrive "
        "(replicatedSubscriptionsSnapshotFrequencyMillis)",
        low=10,
        high=3_600_000,
    )
    replicated_subscriptions_snapshot_timeout_seconds: int = count(
        30,
        "seconds after which a snapshot is given up; doubled up to 32 times as long while no other cluster answers "
        "(replicatedSubscriptionsSnapshotTimeoutSeconds)",
        low=1,
        high=86_400,
    )
    replicated_subscriptions_snapshot_max_cached_per_subscription: int = count(
        10,
        "snapshots kept that a subscription has not passed yet, at even distances; Pulsar the newest "
        "(replicatedSubscriptionsSnapshotMaxCachedPerSubscription)",
        low=1,
        high=1_000,
    )
    topic_compaction_retain_null_key: bool = flag(
        False, "compaction retains messages without a key (topicCompactionRetainNullKey)"
    )
    active_consumer_failover_delay_time_millis: int = count(
        1000,
        "milliseconds before a new active consumer receives (activeConsumerFailoverDelayTimeMillis)",
        high=60_000,
    )
    enable_broker_side_subscription_pattern_evaluation: bool = flag(
        True,
        "patterns of clients are matched, and their topics watched, by the broker "
        "(enableBrokerSideSubscriptionPatternEvaluation)",
    )
    exposing_broker_entry_metadata_to_client_enabled: bool = flag(
        False,
        "clients that support it receive the broker's metadata of entries (exposingBrokerEntryMetadataToClientEnabled)",
    )
    active_consumer_failover_consistent_hashing: bool = flag(
        False,
        "whether the hash ring chooses the active consumer of a partition, too, not only of a plain topic "
        "(activeConsumerFailoverConsistentHashing)",
    )
    subscription_pattern_max_length: int = count(
        50, "characters of a topic pattern (subscriptionPatternMaxLength)", low=1, high=10_000
    )


@dataclass(frozen=True, slots=True)
class LedgerDefaults:
    """Limits at which topics' ledgers are rolled over, and the cache of their entries."""

    managed_ledger_max_entries_per_ledger: int = count(
        50_000, "entries, then the next ledger is opened (managedLedgerMaxEntriesPerLedger)", low=1
    )
    managed_ledger_max_size_per_ledger_mbytes: int = count(
        2048,
        "MiB, then the next ledger is opened (managedLedgerMaxSizePerLedgerMbytes)",
        low=1,
        high=1 << 20,
    )
    managed_ledger_min_ledger_rollover_time_minutes: int = count(
        10,
        "minutes before which no next ledger is opened (managedLedgerMinLedgerRolloverTimeMinutes)",
    )
    managed_ledger_max_ledger_rollover_time_minutes: int = count(
        240,
        "minutes, then the next ledger is opened (managedLedgerMaxLedgerRolloverTimeMinutes)",
        low=1,
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
        """Check the values. Raises ValueError, in one line that names the setting and its permitted values."""
        unknown = self._interceptors - {INDEXES, TIMES}
        if unknown:
            raise ValueError(
                f"broker_entry_metadata_interceptors may name {INDEXES} and {TIMES}, not {min(unknown)}"
            )

    @property
    def _interceptors(self) -> set[str]:
        names = self.broker_entry_metadata_interceptors.split(",")
        return {name.strip().removeprefix(INTERCEPTORS) for name in names if name.strip()}

    def config(self, policies: TopicPolicies, storage: OffloadPolicy | None = None) -> LedgerConfig:
        """Return the configuration of the managed ledger of a topic with ``policies``. ``storage``: the tiered storage
        of topics that have no policy about it."""
        interceptors = self._interceptors
        retention_s = (
            policies.storage.retention_minutes * 60.0
            if policies.storage.retention_minutes > 0
            else (float(policies.storage.retention_minutes))
        )
        retention_mb = policies.storage.retention_mb
        return _config(
            ensemble=policies.storage.ensemble,
            write_quorum=policies.storage.write_quorum,
            ack_quorum=policies.storage.ack_quorum,
            ledger_entries_max=self.managed_ledger_max_entries_per_ledger,
            ledger_bytes_max=self.managed_ledger_max_size_per_ledger_mbytes << 20,
            ledger_age_max_s=self.managed_ledger_max_ledger_rollover_time_minutes * 60.0,
            ledger_age_min_s=self.managed_ledger_min_ledger_rollover_time_minutes * 60.0,
            retention_s=retention_s,
            retention_bytes=retention_mb << 20 if retention_mb > 0 else retention_mb,
            entry_indexes=INDEXES in interceptors,
            entry_times=TIMES in interceptors,
            offload=policies.offload.policy(storage),
        )


class BatchedWrites(NamedTuple):
    """Limits of the records that are stored in one entry of a transaction log."""

    records_max: int
    bytes_max: int
    delay_max_ms: int


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    """Transactions: their coordinators, and what topics and subscriptions store of them. Defaults are Pulsar's."""

    transaction_coordinator_enabled: bool = flag(
        False, "transactions are offered to clients (transactionCoordinatorEnabled)"
    )
    max_active_transactions_per_coordinator: int = count(
        0,
        "open transactions of a coordinator, at which new ones are refused; 0: no limit "
        "(maxActiveTransactionsPerCoordinator)",
    )
    max_active_transactions_per_owner: int = count(
        0,
        "open transactions of one role at a coordinator, at which new ones are refused; 0: no limit",
    )
    transaction_timeout_max_ms: int = count(
        86_400_000,
        "milliseconds after which a transaction is aborted at the latest, whatever its client requested",
        low=1,
        high=2_592_000_000,
    )
    transaction_buffer_snapshot_max_transaction_count: int = count(
        1000,
        "changes of a topic's readable end between snapshots of its transactions "
        "(transactionBufferSnapshotMaxTransactionCount)",
        low=1,
    )
    transaction_buffer_snapshot_min_time_in_millis: int = count(
        5000,
        "milliseconds after which changes are in a snapshot (transactionBufferSnapshotMinTimeInMillis)",
        low=1,
        high=86_400_000,
    )
    transaction_buffer_segmented_snapshot_enabled: bool = flag(
        False,
        "aborted transactions are stored in segments, for topics with very many "
        "(transactionBufferSegmentedSnapshotEnabled)",
    )
    transaction_buffer_snapshot_segment_size: int = size(
        256 << 10,
        "bytes of a segment of aborted transactions (transactionBufferSnapshotSegmentSize)",
        low=128,
        high=4 << 20,
    )
    transaction_buffer_client_max_concurrent_requests: int = count(
        1000,
        "topics and subscriptions that a broker is ending transactions on at the same time "
        "(transactionBufferClientMaxConcurrentRequests)",
        low=1,
        high=100_000,
    )
    transaction_buffer_client_operation_timeout_in_mills: int = count(
        3000,
        "milliseconds after which such a request is repeated (transactionBufferClientOperationTimeoutInMills)",
        low=10,
        high=600_000,
    )
    transaction_pending_ack_log_index_min_lag: int = count(
        500,
        "entries of a subscription's log of transactional acknowledgements between two of its trimming index "
        "(transactionPendingAckLogIndexMinLag)",
        low=1,
    )
    transaction_log_batched_write_enabled: bool = flag(
        False,
        "records of a coordinator are stored several in an entry (transactionLogBatchedWriteEnabled)",
    )
    transaction_log_batched_write_max_records: int = count(
        512,
        "records in one entry at most (transactionLogBatchedWriteMaxRecords)",
        low=1,
        high=100_000,
    )
    transaction_log_batched_write_max_size: int = size(
        4 << 20,
        "bytes of these records at most (transactionLogBatchedWriteMaxSize)",
        low=128,
        high=4 << 20,
    )
    transaction_log_batched_write_max_delay_in_millis: int = count(
        1,
        "milliseconds for which a record waits for others (transactionLogBatchedWriteMaxDelayInMillis)",
        low=1,
        high=60_000,
    )
    transaction_pending_ack_batched_write_enabled: bool = flag(
        False,
        "records of acknowledgements in transactions are stored several in an entry "
        "(transactionPendingAckBatchedWriteEnabled)",
    )
    transaction_pending_ack_batched_write_max_records: int = count(
        512,
        "records in one entry at most (transactionPendingAckBatchedWriteMaxRecords)",
        low=1,
        high=100_000,
    )
    transaction_pending_ack_batched_write_max_size: int = size(
        4 << 20,
        "bytes of these records at most (transactionPendingAckBatchedWriteMaxSize)",
        low=128,
        high=4 << 20,
    )
    transaction_pending_ack_batched_write_max_delay_in_millis: int = count(
        1,
        "milliseconds for which a record waits for others (transactionPendingAckBatchedWriteMaxDelayInMillis)",
        low=1,
        high=60_000,
    )

    @property
    def log_batches(self) -> BatchedWrites | None:
        """Bounds of the records of coordinators that are stored together; None: each in an entry of its own."""
        if not self.transaction_log_batched_write_enabled:
            return None
        return BatchedWrites(
            self.transaction_log_batched_write_max_records,
            self.transaction_log_batched_write_max_size,
            self.transaction_log_batched_write_max_delay_in_millis,
        )

    @property
    def pending_ack_batches(self) -> BatchedWrites | None:
        """The same of acknowledgements."""
        if not self.transaction_pending_ack_batched_write_enabled:
            return None
        return BatchedWrites(
            self.transaction_pending_ack_batched_write_max_records,
            self.transaction_pending_ack_batched_write_max_size,
            self.transaction_pending_ack_batched_write_max_delay_in_millis,
        )
