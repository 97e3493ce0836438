"""What administrators and the console see of topics: Pulsar's JSON shapes, filled from live objects. No waiting.

Shapes: TopicStats and PersistentTopicInternalStats of Pulsar's Admin REST API. Fields of what is not built are there
with their neutral values, because clients read them.
"""

from datetime import UTC, datetime
from typing import Any

from engine.admin.api import JsonObject, TopicStats
from engine.base.ids import EARLIEST, Position
from engine.broker.administration import key_shared
from engine.broker.dispatch.choose.sticky import KeyStats
from engine.broker.dispatch.consumer import Consumer
from engine.broker.topics.publish import Producer
from engine.broker.topics.subscription import Subscription
from engine.broker.topics.topic import RESERVED_CURSORS, Topic
from engine.managed.stats import CursorStats
from engine.managed.stored.resting import LogAtRest


def iso(ms: int) -> str:
    """Epoch milliseconds as ISO 8601 in UTC."""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


def message_id(position: Position, partition: int) -> JsonObject:
    """Pulsar's MessageId."""
    return {
        "ledgerId": position.ledger_id,
        "entryId": position.entry_id,
        "partitionIndex": partition,
        "batchSize": 0,
        "batchIndex": -1,
    }


def backlog_bytes(topic: Topic) -> int:
    """Stored bytes of the largest backlog."""
    cursors = topic.log.cursors.values()
    return max((topic.log.bytes_behind(each.mark_delete) for each in cursors), default=0)


def topic_stats(topic: Topic, flags: TopicStats, owner: str) -> JsonObject:
    """Pulsar's TopicStats."""
    ledger = topic.log.stats()
    cursors = {cursor.name: cursor for cursor in ledger.cursors}
    subscriptions = {
        name: _subscription(topic, subscription, cursors.get(name), flags)
        for name, subscription in sorted(topic.subscriptions.items())
    }
    subscriptions |= {name: _unread(why, ledger.entries) for name, why in topic.unread.items()}
    published = topic.published
    out: JsonObject = {
        "msgRateIn": published.messages.per_second,
        "msgThroughputIn": published.bytes.per_second,
        "msgRateOut": sum((each["msgRateOut"] for each in subscriptions.values()), 0.0),
        "msgThroughputOut": sum((each["msgThroughputOut"] for each in subscriptions.values()), 0.0),
        "bytesInCounter": published.bytes.total,
        "msgInCounter": published.messages.total,
        "systemTopicBytesInCounter": 0,
        "bytesOutCounter": sum(each["bytesOutCounter"] for each in subscriptions.values()),
        "msgOutCounter": sum(each["msgOutCounter"] for each in subscriptions.values()),
        "bytesOutInternalCounter": 0,
        "averageMsgSize": published.average_size,
        "msgChunkPublished": topic.chunks_published,
        "storageSize": ledger.size,
        "backlogSize": backlog_bytes(topic),
        **_quotas(topic),
        "publishRateLimitedTimes": 0,
        "earliestMsgPublishTimeInBacklogs": 0,
        "offloadedStorageSize": 0,
        "lastOffloadLedgerId": 0,
        "lastOffloadSuccessTimeStamp": 0,
        "lastOffloadFailureTimeStamp": 0,
        "ongoingTxnCount": 0,
        "abortedTxnCount": 0,
        "committedTxnCount": 0,
        "publishers": []
        if flags.exclude_publishers
        else [_publisher(producer) for producer in topic.producers.values()],
        "waitingPublishers": 0,
        "subscriptions": subscriptions,
        "replication": {},
        "deduplicationStatus": "Disabled",
        "nonContiguousDeletedMessagesRanges": sum(
            cursor.acknowledged_range_count for cursor in cursors.values()
        ),
        "nonContiguousDeletedMessagesRangesSerializedSize": 0,
        "delayedMessageIndexSizeInBytes": 0,
        "compaction": {
            "lastCompactionRemovedEventCount": 0,
            "lastCompactionSucceedTimestamp": 0,
            "lastCompactionFailedTimestamp": 0,
            "lastCompactionDurationTimeInMills": 0,
        },
        "ownerBroker": owner,
    }
    return out if topic.name.persistent else _non_persistent(topic, out)


def _non_persistent(topic: Topic, out: JsonObject) -> JsonObject:
    """Pulsar's NonPersistentTopicStats. The rates of topic and publishers tell what is dropped on the way in:
    nothing, since no producer is ever ahead of its receipts."""
    for publisher in out["publishers"]:
        publisher["msgDropRate"] = 0.0
    for name, subscription in topic.subscriptions.items():
        out["subscriptions"][name] |= {
            "msgDropRate": subscription.dropped.per_second,
            "backlogSize": 0,
        }
    del out["deduplicationStatus"]
    return out | {
        "backlogQuotaLimitSize": 0,
        "backlogQuotaLimitTime": 0,
        "oldestBacklogMessageAgeSeconds": 0,
        "msgDropRate": 0.0,
    }


def _quotas(topic: Topic) -> JsonObject:
    """The oldest message is the one last found by the check."""
    out: JsonObject = {
        "backlogQuotaLimitSize": topic.policies.size_quota.limit,
        "backlogQuotaLimitTime": topic.policies.age_quota.limit,
        "oldestBacklogMessageAgeSeconds": -1,
    }
    oldest = topic.quotas.oldest
    if oldest is not None:
        age_ms = topic.context.clock.wall_ms() - oldest.publish_ms
        out["oldestBacklogMessageAgeSeconds"] = max(age_ms // 1000, 0)
        out["oldestBacklogMessageSubscriptionName"] = oldest.subscription
    return out


def _publisher(producer: Producer) -> JsonObject:
    return {
        "accessMode": "Shared",
        "msgRateIn": producer.published.messages.per_second,
        "msgThroughputIn": producer.published.bytes.per_second,
        "averageMsgSize": producer.published.average_size,
        "chunkedMessageRate": 0.0,
        "producerId": producer.producer_id,
        "supportsPartialProducer": False,
        "producerName": producer.name,
        "address": _address(producer.outlet.address),
        "connectedSince": iso(producer.connected_ms),
        "clientVersion": producer.outlet.client_version,
        "metadata": producer.metadata,
    }


def _address(text: str) -> str:
    return text if text.startswith("/") else f"/{text}"


def rate_out(subscription: Subscription) -> tuple[float, float]:
    """Messages and bytes per second that go out."""
    consumers = subscription.consumers
    return (
        sum((consumer.out.messages.per_second for consumer in consumers), 0.0),
        sum((consumer.out.bytes.per_second for consumer in consumers), 0.0),
    )


def total_out(subscription: Subscription) -> tuple[int, int]:
    """Messages and bytes that went out since the topic was loaded."""
    consumers = subscription.consumers
    return (
        subscription.out.messages.total + sum(each.out.messages.total for each in consumers),
        subscription.out.bytes.total + sum(each.out.bytes.total for each in consumers),
    )


def backlog_without_delayed(subscription: Subscription) -> int:
    """Unacknowledged entries that do not wait for a delivery time."""
    return max(subscription.cursor.backlog_entries() - subscription.state.delayed, 0)


def last_consumed_ms(subscription: Subscription) -> int:
    """When a message last went out, ms since the epoch; 0: not since the topic was loaded."""
    return max([subscription.consumed_ms, *(each.consumed_ms for each in subscription.consumers)])


def _subscription(
    topic: Topic,
    subscription: Subscription,
    cursor: CursorStats | None,
    flags: TopicStats,
) -> JsonObject:
    rate, throughput = rate_out(subscription)
    messages, size = total_out(subscription)
    consumers = subscription.consumers
    backlog = subscription.cursor.backlog_entries()
    backlog_size = -1
    if flags.subscription_backlog_size and cursor is not None:
        backlog_size = topic.log.bytes_behind(cursor.mark_delete)
    kind = subscription.kind
    state, keys = subscription.state, subscription.key_stats
    active = state.active
    return {
        "msgRateOut": rate,
        "msgThroughputOut": throughput,
        "bytesOutCounter": size,
        "msgOutCounter": messages,
        "msgRateRedeliver": sum((each.redelivered.per_second for each in consumers), 0.0),
        "messageAckRate": sum((each.acked.per_second for each in consumers), 0.0),
        "msgBacklog": backlog,
        "backlogSize": backlog_size,
        "msgBacklogNoDelayed": backlog_without_delayed(subscription),
        "blockedSubscriptionOnUnackedMsgs": state.blocked,
        "msgDelayed": state.delayed,
        "msgInReplay": state.replaying,
        "unackedMessages": sum(each.unacked for each in consumers),
        "msgRateExpired": subscription.expired.per_second,
        "totalMsgExpired": subscription.expired.total,
        "lastExpireTimestamp": subscription.expired_ms,
        "type": kind.title if kind is not None else "None",
        **({"activeConsumerName": active.name} if active is not None else {}),
        "lastConsumedFlowTimestamp": subscription.flow_ms,
        "lastConsumedTimestamp": last_consumed_ms(subscription),
        "lastAckedTimestamp": subscription.acked_ms,
        "lastMarkDeleteAdvancedTimestamp": subscription.advanced_ms,
        "consumers": []
        if flags.exclude_consumers
        else [_consumer(each, keys.get(each)) for each in consumers],
        "isDurable": subscription.durable,
        "nonContiguousDeletedMessagesRanges": cursor.acknowledged_range_count if cursor else 0,
        "subscriptionProperties": cursor.cursor_properties if cursor else {},
        "durable": subscription.durable,
        **_SAME_FOR_ALL,
        **key_shared.of_subscription(subscription.keys),
        **key_shared.draining(keys.values()),
        # Ours, for the console: where it stands, and what dispatch waits for.
        "markDeletePosition": str(subscription.cursor.mark_delete),
        "readPosition": str(subscription.cursor.read_position),
        "pausedFor": state.paused_for,
        "blockedBy": subscription.cursor.blocked,
    }


def _unread(why: str, entries: int) -> JsonObject:
    """A subscription that cannot be used now: what it acknowledged is not known, so its backlog is at most so many."""
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
        f"dispatchThrottled{what}EventsBy{whose}Limit": 0
        for whose in ("Subscription", "Topic", "Broker")
        for what in ("Msg", "Bytes")
    },
    "replicated": False,
}


def _consumer(consumer: Consumer, keys: KeyStats | None) -> JsonObject:
    sent, entries = consumer.out.messages.total, consumer.entries_out
    out: dict[str, Any] = {
        "msgRateOut": consumer.out.messages.per_second,
        "msgThroughputOut": consumer.out.bytes.per_second,
        "bytesOutCounter": consumer.out.bytes.total,
        "msgOutCounter": sent,
        "msgRateRedeliver": consumer.redelivered.per_second,
        "messageAckRate": consumer.acked.per_second,
        "chunkedMessageRate": 0.0,
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "avgMessagesPerEntry": round(sent / entries) if entries else 1000,
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
    }
    return out


def internal_stats(topic: Topic) -> JsonObject:
    """Pulsar's PersistentTopicInternalStats; the open ledger shows 0 entries and bytes, as there."""
    stats = topic.log.stats()
    out: JsonObject = {
        "entriesAddedCounter": stats.entries_added,
        "numberOfEntries": stats.entries,
        "totalSize": stats.size,
        "currentLedgerEntries": stats.current_ledger_entries,
        "currentLedgerSize": stats.current_ledger_size,
        "waitingCursorsCount": sum(
            1 for each in topic.subscriptions.values() if each.state.paused_for == "append"
        ),
        "pendingAddEntriesCount": stats.pending_entries,
        "cursors": {cursor.name: _cursor(topic, cursor) for cursor in stats.cursors},
    }
    if not topic.name.persistent:
        return out | {"waitingCursorsCount": 0}
    return out | {
        "lastLedgerCreatedTimestamp": iso(stats.last_ledger_created_ms),
        "lastConfirmedEntry": str(stats.last_confirmed),
        "state": stats.state,
        "ledgers": [
            {
                "ledgerId": ledger.ledger_id,
                "entries": ledger.entries if ledger.closed else 0,
                "size": ledger.size if ledger.closed else 0,
                "offloaded": False,
                "underReplicated": False,
            }
            for ledger in stats.ledgers
        ],
        "schemaLedgers": [],
        "compactedLedger": {
            "ledgerId": -1,
            "entries": -1,
            "size": -1,
            "offloaded": False,
            "underReplicated": False,
        },
        **({"properties": topic.log.properties} if topic.log.properties else {}),
    }


def _cursor(topic: Topic, cursor: CursorStats) -> JsonObject:
    ranges = ",".join(
        f"({first.ledger_id}:{first.entry_id - 1}..{last}]"
        for first, last in cursor.acknowledged_ranges
    )
    subscription = topic.subscriptions.get(cursor.name)
    waiting = subscription is not None and subscription.state.paused_for == "append"
    return {
        "markDeletePosition": str(cursor.mark_delete),
        "readPosition": str(cursor.read_position),
        "waitingReadOp": waiting,
        "pendingReadOps": 0,
        "messagesConsumedCounter": cursor.acknowledged_entries,
        "cursorLedger": cursor.cursor_ledger_id,
        "cursorLedgerLastEntry": cursor.cursor_ledger_last_entry,
        "individuallyDeletedMessages": f"[{ranges}]",
        "lastLedgerSwitchTimestamp": iso(cursor.last_ledger_switch_ms),
        "state": cursor.state,
        "active": subscription is not None and bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": topic.log.entries_between(
            cursor.mark_delete, cursor.read_position
        ),
        "totalNonContiguousDeletedMessagesRange": cursor.acknowledged_range_count,
        "subscriptionHavePendingRead": waiting,
        "subscriptionHavePendingReplayRead": False,
        "properties": cursor.properties,
    }


def topic_row(topic: Topic) -> list[object]:
    """The topic's row: its name, then ``ROW_COLUMNS``."""
    subscriptions = topic.subscriptions.values()
    unread = topic.unread
    out = [rate_out(subscription) for subscription in subscriptions]
    return [
        topic.name.full,
        len(topic.producers),
        sum(len(subscription.consumers) for subscription in subscriptions),
        len(subscriptions) + sum(1 for name in unread if name not in topic.subscriptions),
        _thousandths(topic.published.messages.per_second),
        _thousandths(sum(messages for messages, _ in out)),
        _thousandths(topic.published.bytes.per_second),
        _thousandths(sum(size for _, size in out)),
        None if unread else sum(each.cursor.backlog_entries() for each in subscriptions),
        topic.log.bytes_behind(EARLIEST),
    ]


def at_rest(log: LogAtRest) -> tuple[int | None, int | None, int | None]:
    """Subscriptions, backlog and bytes of a topic that nobody has loaded; None: not known."""
    if log.backlogs is None:
        return None, None, log.storage_bytes
    subscribed = [
        entries for name, entries in log.backlogs.items() if not name.startswith(RESERVED_CURSORS)
    ]
    known = [entries for entries in subscribed if entries is not None]
    backlog = sum(known) if len(known) == len(subscribed) else None
    return len(subscribed), backlog, log.storage_bytes


def _thousandths(rate: float) -> int:
    return round(rate * 1000)
