"""Internals of a topic: Pulsar's ManagedLedgerInfo of the stored records (the ``internal-info`` route), and its
PersistentTopicInternalStats of the loaded topic (``internalStats``). Nothing is awaited.
"""

from collections.abc import Sequence

from engine.admin.api.arguments import JsonObject
from engine.admin.api.statistics import HELD_MAX, HELD_NAMES_MAX
from engine.base.ids import Position
from engine.broker.administration.reports import iso
from engine.broker.policies import TopicPolicies
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.managed.positions import LedgerSpan
from engine.managed.stats import CursorStats
from engine.managed.stored.offloads import offload_of
from engine.managed.stored.records import CursorRecord
from engine.managed.stored.survey import StoredLog
from engine.managed.writing.ledger_holders import EXPLANATIONS, NEXT_STEPS, HeldSpan, Holder
from engine.metadata.store import Stat


def internal_info(stored: StoredLog, now_ms: int) -> JsonObject:
    """Return Pulsar's ManagedLedgerInfo. As in Pulsar, the open ledger has no entries, and ``now_ms`` for its end."""
    record = stored.record
    return {
        **_node(stored.stat),
        "ledgers": [_stored_ledger(ledger, now_ms) for ledger in record.ledgers],
        **({"terminatedPosition": _position(record.terminated)} if record.terminated else {}),
        "cursors": {
            name: _stored_cursor(cursor, stat) for name, (cursor, stat) in stored.cursors.items()
        },
        **({"properties": record.properties} if record.properties else {}),
    }


def _node(stat: Stat) -> JsonObject:
    return {
        "version": stat.version,
        **({"creationDate": iso(stat.ctime_ms)} if stat.ctime_ms else {}),
        **({"modificationDate": iso(stat.mtime_ms)} if stat.mtime_ms else {}),
    }


def _position(position: Position) -> JsonObject:
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}


def _stored_ledger(ledger: LedgerSpan, now_ms: int) -> JsonObject:
    closed = ledger.timestamp_ms > 0
    offload = offload_of(ledger)
    return {
        "ledgerId": ledger.ledger_id,
        **({"entries": ledger.entries, "size": ledger.size} if closed else {}),
        "timestamp": ledger.timestamp_ms if closed else now_ms,
        "isOffloaded": offload.complete,
        **({"offloadedContextUuid": str(offload.attempt)} if offload.attempt is not None else {}),
    }


def _stored_cursor(cursor: CursorRecord, stat: Stat) -> JsonObject:
    """Return the ManagedCursorInfo of a stored cursor, without the contents of its cursor ledger. ``from`` of a range
    is the entry before it."""
    ranges = [
        {"from": _position(Position(first.ledger_id, first.entry_id - 1)), "to": _position(last)}
        for first, last in cursor.state.ranges
    ]
    return {
        **_node(stat),
        "cursorsLedgerId": cursor.ledger_id,
        "markDelete": _position(cursor.state.mark_delete),
        **({"individualDeletedMessages": ranges} if ranges else {}),
        **({"properties": cursor.state.properties} if cursor.state.properties else {}),
    }


def internal_stats(topic: Topic, schemas: Sequence[tuple[int, int, int]] = ()) -> JsonObject:
    """Return Pulsar's PersistentTopicInternalStats; as in Pulsar, the open ledger has 0 entries and bytes. ``schemas``:
    id, entries and bytes of the ledgers of the topic's schema."""
    stats = topic.log.stats()
    out: JsonObject = {
        "entriesAddedCounter": stats.entries_added,
        "numberOfEntries": stats.entries,
        "totalSize": stats.size,
        "currentLedgerEntries": stats.current_ledger_entries,
        "currentLedgerSize": stats.current_ledger_size,
        "waitingCursorsCount": sum(map(_waits, topic.subscriptions.values())),
        "pendingAddEntriesCount": stats.pending_entries,
        "cursors": {
            cursor.name: _cursor(topic, cursor, stats.entries_added) for cursor in stats.cursors
        },
    }
    if not topic.name.persistent:
        return out | {"waitingCursorsCount": 0, "cursors": _without_log(topic)}
    return out | {
        # Ledgers are created when they are written to: since the topic was loaded there may have been none.
        "lastLedgerCreatedTimestamp": iso(stats.last_ledger_created_ms)
        if stats.last_ledger_created_ms
        else None,
        "lastConfirmedEntry": str(stats.last_confirmed),
        "state": stats.state,
        "ledgers": [
            {
                "ledgerId": ledger.ledger_id,
                "entries": ledger.entries if ledger.closed else 0,
                "size": ledger.size if ledger.closed else 0,
                "offloaded": offload_of(ledger).complete,
                "underReplicated": False,
            }
            for ledger in stats.ledgers
        ],
        "schemaLedgers": [
            {
                "ledgerId": ledger_id,
                "entries": entries,
                "size": size,
                "offloaded": False,
                "underReplicated": False,
            }
            for ledger_id, entries, size in schemas
        ],
        "compactedLedger": _compacted(topic),
    }


def held_space(spans: Sequence[HeldSpan], policies: TopicPolicies, now_ms: int) -> JsonObject:
    """Return the answer of HELD_LEDGERS."""
    by_holder: dict[Holder, list[int]] = {}
    by_subscription: dict[str, list[int]] = {}
    for held in spans:
        sums = by_holder.setdefault(held.holder, [0, 0])
        sums[0] += 1
        sums[1] += held.span.size
        if held.holder in (Holder.SUBSCRIPTION, Holder.UNKNOWN):
            for name in held.subscriptions:
                of_name = by_subscription.setdefault(name, [0, 0, 0])
                of_name[0] += 1
                of_name[1] += held.span.size
                of_name[2] += held.span.size if len(held.subscriptions) == 1 else 0
    ranked = sorted(by_subscription.items(), key=lambda item: (-item[1][1], item[0]))
    largest = sorted(spans, key=lambda held: (-held.span.size, held.span.ledger_id))
    storage = policies.storage
    return {
        "at": now_ms,
        "copies": storage.write_quorum,
        "retention_s": _limit(storage.retention_minutes, 60),
        "retention_bytes": _limit(storage.retention_mb, 1 << 20),
        "ledgers": len(spans),
        "held": [
            {
                "holder": str(holder),
                "ledgers": sums[0],
                "bytes": sums[1],
                "why": EXPLANATIONS[holder],
                "next": NEXT_STEPS[holder],
            }
            for holder, sums in sorted(by_holder.items(), key=lambda item: -item[1][1])
        ],
        "subscriptions": [
            {"name": name, "ledgers": sums[0], "bytes": sums[1], "alone_bytes": sums[2]}
            for name, sums in ranked[:HELD_MAX]
        ],
        "largest": [
            {
                "ledger_id": held.span.ledger_id,
                "entries": held.span.entries,
                "bytes": held.span.size,
                "closed_ms": held.span.timestamp_ms,
                "holder": str(held.holder),
                "subscriptions": list(held.subscriptions[:HELD_NAMES_MAX]),
                "until_ms": held.until_ms,
            }
            for held in largest[:HELD_MAX]
        ],
    }


def _limit(value: int, unit: int) -> int:
    """Return a limit of retention in a smaller unit; -1, without limit, has none."""
    return value * unit if value > 0 else value


def _compacted(topic: Topic) -> JsonObject:
    ledger = topic.compaction.at_hand
    return {
        "ledgerId": -1 if ledger is None else ledger.ledger_id,
        "entries": -1 if ledger is None else ledger.entries,
        "size": -1 if ledger is None else ledger.reader.length,
        "offloaded": False,
        "underReplicated": False,
    }


def _waits(subscription: Subscription) -> bool:
    """Return whether the next published message is expected to be delivered at once."""
    state = subscription.dispatch.state
    return state.paused_for in ("append", "time", "key")


def _without_log(topic: Topic) -> JsonObject:
    """Return the cursors of a non-persistent topic, whose subscriptions store nothing."""
    nothing = (
        *("messagesConsumedCounter", "cursorLedger", "cursorLedgerLastEntry", "pendingReadOps"),
        *("numberOfEntriesSinceFirstNotAckedMessage", "totalNonContiguousDeletedMessagesRange"),
    )
    never = (
        *("waitingReadOp", "active"),
        *("subscriptionHavePendingRead", "subscriptionHavePendingReplayRead"),
    )
    of_each = {**dict.fromkeys(nothing, 0), **dict.fromkeys(never, False)}
    return {name: dict(of_each) for name in topic.subscriptions}


def _cursor(topic: Topic, cursor: CursorStats, entries_added: int) -> JsonObject:
    ranges = ",".join(
        f"({first.ledger_id}:{first.entry_id - 1}..{last}]"
        for first, last in cursor.acknowledged_ranges
    )
    subscription = topic.subscriptions.get(cursor.name)
    waiting = subscription is not None and _waits(subscription)
    behind = Position(cursor.mark_delete.ledger_id, cursor.mark_delete.entry_id + 1)
    return {
        "markDeletePosition": str(cursor.mark_delete),
        "readPosition": str(cursor.read_position),
        "waitingReadOp": waiting,
        "pendingReadOps": 0,
        "messagesConsumedCounter": entries_added - cursor.backlog_entries,
        "cursorLedger": cursor.cursor_ledger_id,
        "cursorLedgerLastEntry": cursor.cursor_ledger_last_entry,
        "individuallyDeletedMessages": f"[{ranges}]",
        "lastLedgerSwitchTimestamp": iso(
            topic.loaded_ms
            if cursor.last_ledger_switch_ms is None
            else cursor.last_ledger_switch_ms
        ),
        "state": cursor.state,
        "active": subscription is not None and bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": topic.log.entries_between(
            behind, cursor.read_position
        )
        + 1,
        "totalNonContiguousDeletedMessagesRange": cursor.acknowledged_range_count,
        "subscriptionHavePendingRead": waiting,
        "subscriptionHavePendingReplayRead": False,
        "properties": cursor.properties,
    }
