"""Families of the broker's ``/metrics`` page: Pulsar's names, type and help, in the order of the rows' values. Pure.

Numbers that only grow are counters here, also where Pulsar declares them as gauges. Latencies are in microseconds.
"""

from typing import NamedTuple

from engine.broker.control.written import LATENCIES_MS, SIZES


class Family(NamedTuple):
    """A family of metrics; ``kind``: gauge, counter or summary."""

    name: str
    kind: str
    help: str


def gauge(name: str, text: str) -> Family:
    return Family(f"pulsar_{name}", "gauge", text)


def counter(name: str, text: str) -> Family:
    return Family(f"pulsar_{name}", "counter", text)


TOPICS_COUNT = gauge("topics_count", "Topics of the namespace that this broker has loaded.")
SUMMED = (
    gauge("subscriptions_count", "Subscriptions, also those that cannot be read now."),
    gauge("producers_count", "Producers attached."),
    gauge("consumers_count", "Consumers attached."),
    gauge("rate_in", "Messages published a second."),
    gauge("rate_out", "Messages delivered a second."),
    gauge("throughput_in", "Bytes published a second."),
    gauge("throughput_out", "Bytes delivered a second."),
    gauge("storage_size", "Bytes stored, all replicas together."),
    gauge("storage_logical_size", "Bytes stored, counted once."),
    gauge("msg_backlog", "Entries that subscriptions have not acknowledged."),
)
"""Families of topics that are also summed over the broker, as ``pulsar_broker_…``."""
TOPIC = (
    *SUMMED,
    counter("in_messages_total", "Messages published since the topic was loaded."),
    counter("in_bytes_total", "Bytes published since the topic was loaded."),
    gauge("storage_backlog_size", "Stored bytes of the largest backlog."),
    gauge("delayed_message_index_size_bytes", "Bytes of the index of delayed messages."),
    gauge("storage_offloaded_size", "Bytes of ledgers that are in tiered storage."),
    gauge("storage_read_cache_misses_rate", "Entries read from storage a second, not from memory."),
)
ONLY_TOPIC = (
    gauge("average_msg_size", "Bytes of a message at the present rates."),
    gauge("storage_backlog_quota_limit", "Bytes that a backlog may have; below 0: no limit."),
    gauge(
        "storage_backlog_quota_limit_time", "Seconds that a backlog may last; below 0: no limit."
    ),
    gauge(
        "storage_backlog_age_seconds", "Age of the oldest unacknowledged message, as last found."
    ),
    gauge("publish_rate_limit_times", "How often a connection was stopped for the publish rate."),
)
"""Families of topics whose values cannot be summed."""
COMPACTED = (
    gauge("compaction_compacted_entries_count", "Entries of the compacted ledger."),
    gauge("compaction_compacted_entries_size", "Bytes of the compacted ledger."),
    gauge("compaction_duration_time_in_mills", "Milliseconds of the last compaction here."),
)
"""Families of topics whose compacted ledger is open."""
COMPACTIONS = (
    gauge("compaction_succeed_count", "Compactions since the topic was loaded."),
    gauge("compaction_failed_count", "Compactions that failed since then."),
    gauge("compaction_removed_event_count", "Messages that compactions removed."),
)
"""Families of topics that were compacted here."""
TRANSACTIONAL = (
    gauge("txn_tb_active_total", "Open transactions that published to the topic."),
    gauge("txn_tb_committed_total", "Transactions committed in the topic since it was loaded."),
    gauge("txn_tb_aborted_total", "Transactions aborted in the topic since it was loaded."),
)
"""Families of topics that have transactions."""
GROUP_USED = (
    counter("resource_group_messages_used_total", "Messages counted against the group's rates."),
    counter("resource_group_bytes_used_total", "Bytes counted against the group's rates."),
)
GROUP_QUOTAS = (
    gauge("resource_group_calculated_messages_quota", "This broker's share in messages a second."),
    gauge("resource_group_calculated_bytes_quota", "This broker's share in bytes a second."),
)
"""Families, as those of ``GROUP_USED``, of each resource group and direction that is limited on this broker."""
EVICTIONS = counter(
    "storage_backlog_quota_exceeded_evictions_total",
    "How often messages were evicted because a backlog exceeded its quota.",
)
BROKER_EVICTIONS = EVICTIONS._replace(
    name="pulsar_broker_" + EVICTIONS.name.removeprefix("pulsar_")
)


LAST_MINUTE = "Entries stored in the last whole minute"
_LATENCY_NAMES = ("0_5", "1", "5", "10", "20", "50", "100", "200", "1000")
_SIZE_NAMES = ("128", "512", "1_kb", "2_kb", "4_kb", "16_kb", "100_kb", "1_mb")
WRITTEN = (
    gauge("storage_write_rate", "Entries stored a second, in the last whole minute."),
    *(
        gauge(
            f"storage_write_latency_le_{name}",
            f"{LAST_MINUTE} within {bound:g} ms, not in a smaller bucket.",
        )
        for name, bound in zip(_LATENCY_NAMES, LATENCIES_MS, strict=True)
    ),
    gauge("storage_write_latency_overflow", f"{LAST_MINUTE}, in more than a second."),
    gauge("storage_write_latency_count", f"{LAST_MINUTE}."),
    gauge("storage_write_latency_sum", "Sum of their latencies in microseconds."),
    *(
        gauge(
            f"entry_size_le_{name}",
            f"{LAST_MINUTE}, of at most {size} bytes, not in a smaller bucket.",
        )
        for name, size in zip(_SIZE_NAMES, SIZES, strict=True)
    ),
    gauge("entry_size_le_overflow", f"{LAST_MINUTE}, larger than a MiB."),
    gauge("entry_size_count", f"{LAST_MINUTE}."),
    gauge("entry_size_sum", "Bytes of entries stored in the last whole minute."),
)
SUBSCRIPTION = (
    gauge("subscription_back_log", "Entries not acknowledged."),
    gauge("subscription_back_log_no_delayed", "Entries not acknowledged and not delayed."),
    gauge(
        "subscription_storage_backlog_age_seconds",
        "Age of the first unacknowledged entry; 0: nothing is unacknowledged, no value: not known.",
    ),
    gauge("subscription_delayed", "Entries that wait for their delivery time."),
    gauge(
        "subscription_delayed_message_index_size_bytes", "Bytes of the index of delayed messages."
    ),
    gauge("subscription_in_replay", "Entries to be delivered again."),
    gauge(
        "subscription_blocked_on_unacked_messages", "1 while too much is unacknowledged, else 0."
    ),
    gauge("subscription_consumers_count", "Consumers attached."),
    gauge("subscription_unacked_messages", "Messages delivered and not acknowledged."),
    gauge("subscription_msg_rate_out", "Messages delivered a second."),
    gauge("subscription_msg_throughput_out", "Bytes delivered a second."),
    gauge("subscription_msg_rate_redeliver", "Messages delivered again a second."),
    gauge("subscription_msg_ack_rate", "Messages acknowledged a second."),
    gauge("subscription_msg_rate_expired", "Entries expired a second."),
    gauge("subscription_total_msg_expired", "Entries expired since the topic was loaded."),
    gauge(
        "subscription_msg_drop_rate", "Messages dropped a second: no consumer could receive them."
    ),
    gauge("subscription_last_expire_timestamp", "Time of the last check for expiry; 0: not yet."),
    gauge(
        "subscription_last_consumed_flow_timestamp",
        "Time when permits were last received, ms since 1970; 0: none yet.",
    ),
    gauge(
        "subscription_last_consumed_timestamp",
        "Time of the last delivery, ms since 1970; 0: none yet.",
    ),
    gauge(
        "subscription_last_acked_timestamp",
        "Time of the last acknowledgement, ms since 1970; 0: none yet.",
    ),
    gauge(
        "subscription_last_mark_delete_advanced_timestamp",
        "Time when the mark-delete position last advanced, ms since 1970; 0: not yet.",
    ),
)
THROTTLED = (
    gauge(
        "subscription_dispatch_throttled_msg_events",
        "How often a dispatch rate in messages stopped it since the topic was loaded.",
    ),
    gauge(
        "subscription_dispatch_throttled_bytes_events",
        "How often a dispatch rate in bytes stopped it since the topic was loaded.",
    ),
)
"""Families by the level of the rate, of subscriptions that were throttled."""
OUT = (
    counter("out_messages_total", "Messages delivered since the topic was loaded."),
    counter("out_bytes_total", "Bytes delivered since the topic was loaded."),
)
"""Families of subscriptions, and of consumers where these are shown."""
CONSUMER = (
    gauge("consumer_msg_rate_redeliver", "Messages delivered again a second."),
    gauge("consumer_unacked_messages", "Messages delivered and not acknowledged."),
    gauge("consumer_blocked_on_unacked_messages", "1 while too much is unacknowledged, else 0."),
    gauge("consumer_msg_rate_out", "Messages delivered a second."),
    gauge("consumer_msg_throughput_out", "Bytes delivered a second."),
    gauge("consumer_msg_ack_rate", "Messages acknowledged a second."),
    gauge("consumer_available_permits", "Messages that it has permits for."),
)
PRODUCER = (
    gauge("producer_msg_rate_in", "Messages published a second."),
    gauge("producer_msg_throughput_in", "Bytes published a second."),
    gauge("producer_msg_average_Size", "Bytes of a message at the present rates."),
)
REPLICATION = (
    gauge("replication_rate_in", "Messages received from the cluster a second."),
    gauge("replication_rate_out", "Messages stored in the cluster a second."),
    gauge("replication_throughput_in", "Bytes received from the cluster a second."),
    gauge("replication_throughput_out", "Bytes stored in the cluster a second."),
    gauge("replication_backlog", "Entries that are not known to be stored in the cluster."),
    gauge("replication_rate_expired", "Entries a second that expired before they were sent."),
    gauge("replication_connected_count", "Replicators that are connected."),
    gauge("replication_disconnected_count", "Replicators that are not connected."),
    counter(
        "replication_restarts_total",
        "Producers replaced because nothing was confirmed or read for a minute.",
    ),
    gauge("replication_delay_in_seconds", "Age of the oldest entry sent without a receipt."),
)
"""Families by remote_cluster, of topics that are sent to other clusters."""
LEDGERS = (
    gauge("ml_AddEntryMessagesRate", "Entries stored a second, in the last whole minute."),
    gauge("ml_AddEntryBytesRate", "Bytes stored a second, in the last whole minute."),
    gauge("ml_AddEntryWithReplicasBytesRate", "Bytes stored a second, all replicas together."),
    gauge("ml_AddEntrySucceed", f"{LAST_MINUTE}."),
)
"""Families of the managed ledgers of a namespace in which entries were stored."""
STORED = (
    gauge("ml_StoredMessagesSize", "Bytes stored, all replicas together."),
    gauge("ml_NumberOfMessagesInBacklog", "Entries that subscriptions have not acknowledged."),
)
"""Families of all managed ledgers of a namespace: sums of ``pulsar_storage_size`` and ``pulsar_msg_backlog``."""
LATENCY_BUCKETS = gauge(
    "ml_AddEntryLatencyBuckets", "Entries stored a second, by milliseconds that it took."
)
LATENCY_OVERFLOW = gauge(
    "ml_AddEntryLatencyBuckets_OVERFLOW", "Those that took longer than a second."
)
LOOKUPS = Family("pulsar_broker_lookup", "summary", "Milliseconds of lookups that were answered.")
TOPIC_LOADS = Family("pulsar_topic_load_times", "summary", "Milliseconds of loading topics.")
LOAD_QUANTILES = {
    0.5: "median",
    0.75: "75percentile",
    0.95: "95percentile",
    0.99: "99_percentile",
} | {
    0.999: "99_9_percentile",
    0.9999: "99_99_percentile",
}
CACHE = (
    gauge(
        "ml_cache_used_size", "Bytes of the newest entries in memory, in whole received buffers."
    ),
    gauge("ml_cache_entries", "Entries in the cache."),
    counter("ml_cache_inserted_entries_total", "Entries added to the cache since the start."),
    counter("ml_cache_evicted_entries_total", "Entries evicted because the cache was full."),
    gauge("ml_cache_evictions", "How often the cache was full since the start."),
)
NAMESPACE_MISSES = gauge(
    "ml_ReadEntriesOpsCacheMissesRate", "Entries read from storage a second, not from memory."
)
MISSES = (
    gauge("ml_cache_misses_rate", "Entries read from storage a second, of all topics."),
    gauge("ml_cache_misses_throughput", "Their bytes a second."),
    gauge("broker_storage_read_cache_misses_rate", "Entries read from storage a second."),
)
IN_TOTAL = counter("broker_in_bytes_total", "Bytes published since the start.")
OUT_TOTAL = counter("broker_out_bytes_total", "Bytes delivered since the start.")
SIZE_BUCKETS = gauge("ml_EntrySizeBuckets", "Entries stored a second, by their bytes.")
SIZE_OVERFLOW = gauge("ml_EntrySizeBuckets_OVERFLOW", "Those that are larger than a MiB.")


def ranges(bounds: tuple[float, ...]) -> list[str]:
    """Return the ranges of buckets as the label ``quantile`` names them."""
    return [f"{float(low)}_{float(high)}" for low, high in zip((0, *bounds), bounds, strict=False)]
