"""Statistics of topics for administrators and the console, in Pulsar's JSON shapes. Nothing is awaited.

The shape is TopicStats of Pulsar's Admin REST API; internal statistics are in ``internal_info``. Fields of features
that do not exist here have their neutral values, because clients read them.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from engine.admin.api.arguments import JsonObject
from engine.admin.api.rows import OLDEST_UNKNOWN
from engine.admin.api.statistics import TopicStats
from engine.base.ids import EARLIEST, Position
from engine.broker.administration import key_shared
from engine.broker.administration.backlog_messages import MessageMeans, measure_topic
from engine.broker.control.counters import Rate, Traffic
from engine.broker.control.rate_limit import RateLevel
from engine.broker.dispatch.choose.sticky import KeyStats
from engine.broker.dispatch.consumer import Consumer
from engine.broker.topics.geo.replicated_position import ReplicatedPosition
from engine.broker.topics.geo.replicator import Replicator
from engine.broker.topics.geo.unstored_replicator import UnstoredReplicator
from engine.broker.topics.limits import is_system
from engine.broker.topics.publish import Producer
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.subscriptions.subscriptions import RESERVED_CURSORS
from engine.broker.topics.topic import Topic
from engine.broker.transactions.ports import TransactionCounts
from engine.managed.stats import CursorStats, ManagedLedgerStats
from engine.managed.stored.resting import LogAtRest
from engine.schema.kinds import version_of
from engine.wire import pulsar_pb2 as pb
from engine.wire.varints import varint


def iso(ms: int) -> str:
    """Return epoch milliseconds as ISO 8601 in UTC, as Java writes it: without trailing zeros."""
    moment = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return moment + f".{ms % 1000:03d}".rstrip("0").rstrip(".") + "Z"


def message_id(position: Position, partition: int) -> JsonObject:
    """Return Pulsar's MessageId."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": partition,
        "batchSize": 0,
        "batchIndex": -1,
    }


def backlog_bytes(topic: Topic) -> int:
    """Return the stored bytes of the largest backlog of durable cursors."""
    durable = [cursor.mark_delete for cursor in topic.log.cursors.values() if cursor.durable]
    return max(map(topic.log.bytes_behind, durable), default=0)


def ranges_bytes(cursor: CursorStats) -> int:
    """Return the bytes of the acknowledged ranges in Pulsar's encoding. Where the statistics do not list all ranges, it
    is estimated from those that they list."""
    shown = cursor.acknowledged_ranges
    size = sum(_position_bytes(first, 1) + _position_bytes(last, 0) for first, last in shown)
    return size * cursor.acknowledged_range_count // len(shown) if shown else 0


def _position_bytes(position: Position, before: int) -> int:
    """Return the bytes of a position, ``before`` entries earlier, as an endpoint of a MessageRange."""
    ledger, entry = position.ledger_id, position.entry_id - before
    return 4 + len(varint(ledger)) + len(varint(entry))


def topic_stats(topic: Topic, flags: TopicStats, owner: str) -> JsonObject:
    """Return Pulsar's TopicStats."""
    ledger = topic.log.stats()
    subscriptions = _subscriptions(topic, ledger, flags)
    out: JsonObject = {
        **_traffic(topic, subscriptions),
        "storageSize": ledger.size,
        "backlogSize": backlog_bytes(topic),
        **_quotas(topic),
        "publishRateLimitedTimes": topic.rates.publish_limited_times,
        "earliestMsgPublishTimeInBacklogs": 0,
        **_tiered(topic, ledger),
        **_transactions(topic),
        "publishers": [
            _publisher(producer, flags)
            for producer in topic.producers.values()
            if not (producer.origin or flags.exclude_publishers)
        ],
        "waitingPublishers": len(topic.publishers.waiting),
        "subscriptions": subscriptions,
        "replication": _replication(topic),
        "deduplicationStatus": topic.deduplication.status,
        **_acknowledged_ranges(ledger.cursors),
        "delayedMessageIndexSizeInBytes": _total(
            subscriptions, "delayedMessageIndexSizeInBytes", 0
        ),
        "compaction": _compaction(topic),
        **({} if topic.publishers.epoch is None else {"topicEpoch": topic.publishers.epoch}),
        "ownerBroker": owner,
        # Not in Pulsar; for the console, as in the topic's row.
        "oldestUnacknowledgedAt": _oldest_at(topic),
    }
    return out if topic.name.persistent else _non_persistent(topic, out)


def _transactions(topic: Topic) -> JsonObject:
    known = TransactionCounts(0, 0, 0) if topic.transactions is None else topic.transactions.counts
    return {
        "ongoingTxnCount": known.ongoing,
        "abortedTxnCount": known.aborted,
        "committedTxnCount": known.committed,
    }


def _tiered(topic: Topic, ledger: ManagedLedgerStats) -> JsonObject:
    """Return the figures of tiered storage; 0 for a time or ledger that there was none of, as in Pulsar."""
    moved = ledger.moved
    return {
        "offloadedStorageSize": topic.log.offloaded_bytes,
        "lastOffloadLedgerId": max(moved.last_ledger_id, 0),
        "lastOffloadSuccessTimeStamp": max(moved.last_success_ms, 0),
        "lastOffloadFailureTimeStamp": max(moved.last_failure_ms, 0),
    }


def _subscriptions(topic: Topic, ledger: ManagedLedgerStats, flags: TopicStats) -> JsonObject:
    cursors = {cursor.name: cursor for cursor in ledger.cursors}
    means = MessageMeans(topic)
    return {
        **{
            name: _subscription(topic, subscription, cursors.get(name), flags, means)
            for name, subscription in sorted(topic.subscriptions.items())
        },
        **{name: _unread(why, ledger.entries) for name, why in topic.subscriptions.unread.items()},
    }


def _traffic(topic: Topic, subscriptions: JsonObject) -> JsonObject:
    """Return the rates and totals of published and delivered messages."""
    published = topic.published
    messages_out, bytes_out = topic.subscriptions.total_out
    return {
        "msgRateIn": published.messages.per_second,
        "msgThroughputIn": published.bytes.per_second,
        "msgRateOut": _total(subscriptions, "msgRateOut", 0.0),
        "msgThroughputOut": _total(subscriptions, "msgThroughputOut", 0.0),
        "bytesInCounter": published.bytes.total,
        "msgInCounter": published.messages.total,
        "systemTopicBytesInCounter": published.bytes.total if is_system(topic.name) else 0,
        "bytesOutCounter": bytes_out,
        "msgOutCounter": messages_out,
        "bytesOutInternalCounter": 0,
        "averageMsgSize": published.average_size,
        "msgChunkPublished": any(
            producer.chunks.per_second for producer in topic.producers.values()
        ),
    }


def _acknowledged_ranges(cursors: Sequence[CursorStats]) -> JsonObject:
    return {
        "nonContiguousDeletedMessagesRanges": sum(
            cursor.acknowledged_range_count for cursor in cursors
        ),
        "nonContiguousDeletedMessagesRangesSerializedSize": sum(map(ranges_bytes, cursors)),
    }


def _compaction(topic: Topic) -> JsonObject:
    return {
        "lastCompactionRemovedEventCount": topic.compaction.removed,
        "lastCompactionSucceedTimestamp": topic.compaction.succeeded_ms,
        "lastCompactionFailedTimestamp": topic.compaction.failed_ms,
        "lastCompactionDurationTimeInMills": topic.compaction.duration_ms,
    }


def _total(subscriptions: JsonObject, field: str, start: float) -> Any:
    return sum((subscription[field] for subscription in subscriptions.values()), start)


def _non_persistent(topic: Topic, out: JsonObject) -> JsonObject:
    """Return Pulsar's NonPersistentTopicStats. The drop rates of the topic and its publishers are 0: each message is
    confirmed at once, so Pulsar's limit on messages in flight never applies."""
    for publisher in out["publishers"]:
        publisher["msgDropRate"] = 0.0
    for name, subscription in topic.subscriptions.items():
        out["subscriptions"][name] |= {
            "msgDropRate": subscription.counters.dropped.per_second,
            "backlogSize": 0,
        }
    for cluster, replication in out["replication"].items():
        replicator = topic.replication.replicators.get(cluster)
        drops = replicator.dropped if isinstance(replicator, UnstoredReplicator) else Rate()
        replication["msgDropRate"] = drops.per_second
    del out["deduplicationStatus"]
    return out | {
        "backlogQuotaLimitSize": 0,
        "backlogQuotaLimitTime": 0,
        "oldestBacklogMessageAgeSeconds": 0,
        "msgDropRate": 0.0,
    }


def _quotas(topic: Topic) -> JsonObject:
    """Return the fields of backlog quotas. The oldest message is that of the last check."""
    out: JsonObject = {
        "backlogQuotaLimitSize": topic.policies.backlog.size_quota.limit,
        "backlogQuotaLimitTime": topic.policies.backlog.age_quota.limit,
        "oldestBacklogMessageAgeSeconds": -1,
    }
    oldest = topic.quotas.oldest
    if oldest is not None:
        age_ms = topic.context.clock.wall_ms() - oldest.publish_ms
        out["oldestBacklogMessageAgeSeconds"] = max(age_ms // 1000, 0)
        out["oldestBacklogMessageSubscriptionName"] = oldest.subscription
    return out


def _publisher(producer: Producer, flags: TopicStats) -> JsonObject:
    return {
        "accessMode": pb.ProducerAccessMode.Name(producer.access_mode),
        "msgRateIn": producer.published.messages.per_second,
        "msgThroughputIn": producer.published.bytes.per_second,
        "averageMsgSize": producer.published.average_size,
        "chunkedMessageRate": producer.chunks.per_second,
        "producerId": producer.producer_id,
        "supportsPartialProducer": producer.outlet.partial_producers,
        "producerName": producer.name,
        "address": _address(producer.outlet.address),
        "connectedSince": iso(producer.connected_ms),
        "clientVersion": producer.outlet.client_version,
        "metadata": producer.metadata,
        **_version(flags, version_of(producer.schema_version)),
    }


def sources_of(topic: Topic) -> dict[str, Producer]:
    """Return the replicators of other clusters that are attached, by cluster."""
    return {producer.origin: producer for producer in topic.producers.values() if producer.origin}


def _replication(topic: Topic) -> JsonObject:
    """Return Pulsar's ReplicatorStats by cluster: of those that the topic is sent to or comes from."""
    sources = sources_of(topic)
    replicators = topic.replication.replicators
    return {
        cluster: _of_cluster(replicators.get(cluster), sources.get(cluster))
        for cluster in sorted(replicators.keys() | sources.keys())
    }


def _of_cluster(replicator: Replicator | None, source: Producer | None) -> JsonObject:
    received = Traffic() if source is None else source.published
    sent = Traffic() if replicator is None else replicator.sent
    expired = Rate() if replicator is None else replicator.expired
    out: JsonObject = {
        "msgRateIn": received.messages.per_second,
        "msgInCount": received.messages.total,
        "msgThroughputIn": received.bytes.per_second,
        "bytesInCount": received.bytes.total,
        "msgRateOut": sent.messages.per_second,
        "msgOutCount": sent.messages.total,
        "msgThroughputOut": sent.bytes.per_second,
        "bytesOutCount": sent.bytes.total,
        "msgRateExpired": expired.per_second,
        "msgExpiredCount": expired.total,
        "replicationBacklog": 0 if replicator is None else replicator.backlog,
        "connected": replicator is not None and replicator.connected,
        "replicationDelayInSeconds": 0 if replicator is None else replicator.delay_s,
    }
    if source is not None:
        out["inboundConnection"] = _address(source.outlet.address)
        out["inboundConnectedSince"] = iso(source.connected_ms)
    if replicator is not None and replicator.connected:
        out["outboundConnection"] = _address(replicator.address)
        out["outboundConnectedSince"] = iso(replicator.connected_ms)
    if replicator is not None:
        # Not in Pulsar: the reason why nothing is sent, null while it is.
        out["blockedBy"] = replicator.error or None
    return out


def _version(flags: TopicStats, number: int | None) -> JsonObject:
    """Return the version of the topic's schema that a client uses, null without one: not in Pulsar, for the
    console."""
    return {"schemaVersion": number} if flags.schema_versions else {}


def _address(text: str) -> str:
    return text if text.startswith("/") else f"/{text}"


def rate_out(subscription: Subscription) -> tuple[float, float]:
    """Return the delivered messages and bytes per second."""
    consumers = subscription.consumers
    return (
        sum((consumer.out.messages.per_second for consumer in consumers), 0.0),
        sum((consumer.out.bytes.per_second for consumer in consumers), 0.0),
    )


def backlog_without_delayed(subscription: Subscription) -> int:
    """Return the number of unacknowledged entries that do not wait for a delivery time."""
    return max(subscription.cursor.backlog_entries() - subscription.dispatch.state.delayed, 0)


def last_consumed_ms(subscription: Subscription) -> int:
    """Return the time of the last delivery, ms since the epoch; 0: none since the topic was loaded."""
    times = [consumer.consumed_ms for consumer in subscription.consumers]
    return max([subscription.counters.consumed_ms, *times])


def _subscription(
    topic: Topic,
    subscription: Subscription,
    cursor: CursorStats | None,
    flags: TopicStats,
    means: MessageMeans,
) -> JsonObject:
    rate, throughput = rate_out(subscription)
    messages, size = subscription.counters.total_out
    consumers = subscription.consumers
    waiting = means.measure(subscription)
    backlog_size = -1
    if flags.subscription_backlog_size and cursor is not None:
        backlog_size = topic.log.bytes_behind(cursor.mark_delete)
    kind = subscription.dispatch.kind
    state, keys = subscription.dispatch.state, subscription.dispatch.key_stats
    active = state.active
    return {
        "msgRateOut": rate,
        "msgThroughputOut": throughput,
        "bytesOutCounter": size,
        "msgOutCounter": messages,
        "msgRateRedeliver": sum((consumer.redelivered.per_second for consumer in consumers), 0.0),
        "messageAckRate": sum((consumer.acked.per_second for consumer in consumers), 0.0),
        "msgBacklog": waiting.entries,
        "backlogSize": backlog_size,
        "msgBacklogNoDelayed": backlog_without_delayed(subscription),
        "blockedSubscriptionOnUnackedMsgs": state.blocked,
        "msgDelayed": state.delayed,
        "msgInReplay": state.replaying,
        "unackedMessages": sum(consumer.unacked for consumer in consumers),
        "msgRateExpired": subscription.counters.expired.per_second,
        "totalMsgExpired": subscription.counters.expired.total,
        "lastExpireTimestamp": subscription.counters.expired_ms,
        "type": kind.title if kind is not None else "None",
        **({"activeConsumerName": active.name} if active is not None else {}),
        "lastConsumedFlowTimestamp": subscription.counters.flow_ms,
        "lastConsumedTimestamp": last_consumed_ms(subscription),
        "lastAckedTimestamp": subscription.counters.acked_ms,
        "lastMarkDeleteAdvancedTimestamp": subscription.counters.advanced_ms,
        "consumers": []
        if flags.exclude_consumers
        else [_consumer(consumer, keys.get(consumer), flags) for consumer in consumers],
        "isDurable": subscription.durable,
        "nonContiguousDeletedMessagesRanges": cursor.acknowledged_range_count if cursor else 0,
        "subscriptionProperties": cursor.cursor_properties if cursor else {},
        "durable": subscription.durable,
        **_SAME_FOR_ALL,
        "chunkedMessageRate": sum((consumer.chunks.per_second for consumer in consumers), 0.0),
        "nonContiguousDeletedMessagesRangesSerializedSize": ranges_bytes(cursor) if cursor else 0,
        "delayedMessageIndexSizeInBytes": state.delayed_bytes,
        **_throttled(subscription),
        "isReplicated": subscription.replicated,
        "replicated": subscription.replicated,
        **key_shared.of_subscription(subscription.dispatch.keys),
        **key_shared.draining(keys.values()),
        # Not in Pulsar; for the console: messages in the backlog, its position, what dispatch waits for, and what other
        # clusters know of it.
        "backlogMessages": waiting.messages,
        "backlogEstimated": waiting.estimated,
        "backlogUnmeasured": waiting.unmeasured,
        "oldestUnacknowledgedAt": oldest_or_unknown(subscription.oldest.publish_ms()),
        "markDeletePosition": str(subscription.cursor.mark_delete),
        "readPosition": str(subscription.cursor.read_position),
        "pausedFor": state.paused_for,
        "blockedBy": subscription.cursor.blocked,
        **_copied(subscription.replication),
    }


def _copied(state: ReplicatedPosition | None) -> JsonObject:
    """Return what a replicated subscription knows of snapshots and updates; nothing for another one."""
    if state is None:
        return {}
    return {
        "snapshotsAhead": len(state.snapshots),
        "lastSnapshotTimestamp": state.snapshot_ms,
        "lastUpdateSentTimestamp": state.sent_ms,
        "lastUpdateAppliedTimestamp": state.applied_ms,
        "lastUpdateAppliedFrom": state.applied_from,
    }


def _unread(why: str, entries: int) -> JsonObject:
    """Return the statistics of a subscription that cannot be read now. Its acknowledgements are unknown: ``entries``,
    all of the topic, is the most that its backlog can be."""
    zeros = (
        *("bytesOutCounter", "msgOutCounter", "msgDelayed", "msgInReplay", "unackedMessages"),
        *("lastConsumedFlowTimestamp", "lastConsumedTimestamp", "lastAckedTimestamp"),
        *("totalMsgExpired", "lastExpireTimestamp"),
        *("lastMarkDeleteAdvancedTimestamp", "nonContiguousDeletedMessagesRanges"),
    )
    rates = (
        *("msgRateOut", "msgThroughputOut", "msgRateRedeliver", "messageAckRate"),
        "msgRateExpired",
    )
    return {
        **dict.fromkeys(rates, 0.0),
        **dict.fromkeys(zeros, 0),
        "msgBacklog": entries,
        "msgBacklogNoDelayed": entries,
        "backlogMessages": entries,
        "backlogEstimated": 0,
        "backlogUnmeasured": entries,
        "oldestUnacknowledgedAt": OLDEST_UNKNOWN,
        "backlogSize": -1,
        "blockedSubscriptionOnUnackedMsgs": False,
        "type": "None",
        "consumers": [],
        "isDurable": True,
        "durable": True,
        "subscriptionProperties": {},
        **_SAME_FOR_ALL,
        "markDeletePosition": str(EARLIEST),
        "readPosition": str(EARLIEST),
        "pausedFor": "storage",
        "blockedBy": why,
    }


_SAME_FOR_ALL: JsonObject = {
    "chunkedMessageRate": 0.0,
    "earliestMsgPublishTimeInBacklog": 0,
    "isReplicated": False,
    "allowOutOfOrderDelivery": False,
    "consumersAfterMarkDeletePosition": {},
    **key_shared.draining(()),
    "nonContiguousDeletedMessagesRangesSerializedSize": 0,
    "delayedMessageIndexSizeInBytes": 0,
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
    **{
        f"dispatchThrottled{what}EventsBy{level.value}Limit": 0
        for level in RateLevel
        for what in ("Msg", "Bytes")
    },
    "replicated": False,
}


def _throttled(subscription: Subscription) -> JsonObject:
    return {
        f"dispatchThrottled{'Bytes' if in_bytes else 'Msg'}EventsBy{level.value}Limit": count
        for (level, in_bytes), count in subscription.dispatch.throttled.items()
    }


def _consumer(consumer: Consumer, keys: KeyStats | None, flags: TopicStats) -> JsonObject:
    sent, entries = consumer.out.messages.total, consumer.entries_out
    out: dict[str, Any] = {
        "msgRateOut": consumer.out.messages.per_second,
        "msgThroughputOut": consumer.out.bytes.per_second,
        "bytesOutCounter": consumer.out.bytes.total,
        "msgOutCounter": sent,
        "msgRateRedeliver": consumer.redelivered.per_second,
        "messageAckRate": consumer.acked.per_second,
        "chunkedMessageRate": consumer.chunks.per_second,
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "avgMessagesPerEntry": round(sent / entries) if entries else 0,
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        **key_shared.draining(()),
        **key_shared.of_consumer(consumer.keys, keys),
        "address": _address(consumer.outlet.address),
        "connectedSince": iso(consumer.connected_ms),
        "clientVersion": consumer.outlet.client_version,
        "lastAckedTimestamp": consumer.acked_ms,
        "lastConsumedTimestamp": consumer.consumed_ms,
        "lastConsumedFlowTimestamp": consumer.flow_ms,
        "metadata": consumer.metadata,
        "lastAckedTime": iso(consumer.acked_ms),
        "lastConsumedTime": iso(consumer.consumed_ms),
        **_version(flags, consumer.schema_version),
    }
    return out


UNKNOWN = (None, None, None)
"""The measures of a backlog when a subscription of the topic cannot be read."""


def topic_row(topic: Topic) -> list[object]:
    """Return the topic's row: its name, then ``ROW_COLUMNS``."""
    subscriptions = topic.subscriptions.values()
    unread = topic.subscriptions.unread
    out = [rate_out(subscription) for subscription in subscriptions]
    waiting = None if unread else measure_topic(topic)
    return [
        topic.name.full,
        len(topic.producers),
        sum(len(subscription.consumers) for subscription in subscriptions),
        len(subscriptions) + sum(1 for name in unread if name not in topic.subscriptions),
        _thousandths(topic.published.messages.per_second),
        _thousandths(sum(messages for messages, _ in out)),
        _thousandths(topic.published.bytes.per_second),
        _thousandths(sum(size for _, size in out)),
        None if waiting is None else waiting.entries,
        topic.log.bytes_behind(EARLIEST),
        *(UNKNOWN if waiting is None else waiting[1:]),
        _oldest_at(topic),
    ]


def _oldest_at(topic: Topic) -> int:
    """Return ``oldest_at`` of the topic's row."""
    return oldest_or_unknown(None if topic.subscriptions.unread else topic.quotas.oldest_ms())


def oldest_or_unknown(publish_ms: int | None) -> int:
    """Return the time of a first unacknowledged entry as rows have it."""
    return OLDEST_UNKNOWN if publish_ms is None else publish_ms


def at_rest(log: LogAtRest) -> tuple[object, ...]:
    """Return the figures of a topic that is loaded nowhere, see ``TOPICS_AT_REST``."""
    if log.backlogs is None:
        return None, None, log.storage_bytes, None
    subscribed = {
        name: entries
        for name, entries in log.backlogs.items()
        if not name.startswith(RESERVED_CURSORS)
    }
    known = [entries for entries in subscribed.values() if entries is not None]
    backlog = sum(known) if len(known) == len(subscribed) else None
    return len(subscribed), backlog, log.storage_bytes, subscribed


def _thousandths(rate: float) -> int:
    return round(rate * 1000)
