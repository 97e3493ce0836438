"""Internal statistics of managed ledgers in which transactions are stored, in the form of Apache's answers. Pure."""

from typing import Any

from engine.base.ids import Position
from engine.managed.ledger import ManagedLedger
from engine.managed.stats import CursorStats
from engine.wire.texts import iso_time


def log_stats(ledger: ManagedLedger) -> dict[str, Any]:
    """Return the name of a managed ledger and its ManagedLedgerInternalStats; its open ledger has 0 entries."""
    stats = ledger.stats()
    return {
        "managedLedgerName": stats.name,
        "managedLedgerInternalStats": {
            "entriesAddedCounter": stats.entries_added,
            "numberOfEntries": stats.entries,
            "totalSize": stats.size,
            "currentLedgerEntries": stats.current_ledger_entries,
            "currentLedgerSize": stats.current_ledger_size,
            "lastLedgerCreatedTimestamp": iso_time(stats.last_ledger_created_ms),
            "waitingCursorsCount": 0,
            "pendingAddEntriesCount": stats.pending_entries,
            "lastConfirmedEntry": str(stats.last_confirmed),
            "state": stats.state,
            "ledgers": [
                {
                    "ledgerId": of.ledger_id,
                    "entries": of.entries if of.closed else 0,
                    "size": of.size if of.closed else 0,
                    "offloaded": False,
                    "underReplicated": False,
                }
                for of in stats.ledgers
            ],
            "cursors": {
                cursor.name: _cursor(ledger, cursor, stats.entries_added)
                for cursor in stats.cursors
            },
        },
    }


def _cursor(ledger: ManagedLedger, cursor: CursorStats, entries_added: int) -> dict[str, Any]:
    ranges = ",".join(
        f"({first.ledger_id}:{first.entry_id - 1}..{last}]"
        for first, last in cursor.acknowledged_ranges
    )
    switched = cursor.last_ledger_switch_ms
    behind = Position(cursor.mark_delete.ledger_id, cursor.mark_delete.entry_id + 1)
    unread = ledger.entries_between(behind, cursor.read_position)
    return {
        "markDeletePosition": str(cursor.mark_delete),
        "readPosition": str(cursor.read_position),
        "waitingReadOp": False,
        "pendingReadOps": 0,
        "messagesConsumedCounter": entries_added - cursor.backlog_entries,
        "cursorLedger": cursor.cursor_ledger_id,
        "cursorLedgerLastEntry": cursor.cursor_ledger_last_entry,
        "individuallyDeletedMessages": f"[{ranges}]",
        "lastLedgerSwitchTimestamp": None if switched is None else iso_time(switched),
        "state": cursor.state,
        "active": True,
        "numberOfEntriesSinceFirstNotAckedMessage": unread + 1,
        "totalNonContiguousDeletedMessagesRange": cursor.acknowledged_range_count,
        "subscriptionHavePendingRead": False,
        "subscriptionHavePendingReplayRead": False,
        "properties": cursor.properties,
    }
