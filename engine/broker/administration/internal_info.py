"""Pulsar's ManagedLedgerInfo: what is stored of a topic, in the JSON of its ``internal-info`` route. Pure."""

from engine.admin.api import JsonObject
from engine.base.ids import Position
from engine.broker.administration.reports import iso
from engine.managed.positions import LedgerSpan
from engine.managed.stored.records import CursorRecord, offload_of
from engine.managed.stored.survey import StoredLog
from engine.metadata.store import Stat


def internal_info(stored: StoredLog, now_ms: int) -> JsonObject:
    """Pulsar's ManagedLedgerInfo. The open ledger shows no entries and ``now_ms`` for the time of its end, as there."""
    record = stored.record
    return {
        **_node(stored.stat),
        "ledgers": [_stored_ledger(each, now_ms) for each in record.ledgers],
        **({"terminatedPosition": _position(record.terminated)} if record.terminated else {}),
        "cursors": {
            name: _stored_cursor(cursor, stat) for name, (cursor, stat) in stored.cursors.items()
        },
        **({"properties": record.properties} if record.properties else {}),
    }


def _node(stat: Stat) -> JsonObject:
    return {
        "version": stat.version,
        "creationDate": iso(stat.ctime_ms),
        "modificationDate": iso(stat.mtime_ms),
    }


def _position(position: Position) -> JsonObject:
    return {"ledgerId": position.ledger_id, "entryId": position.entry_id}


def _stored_ledger(ledger: LedgerSpan, now_ms: int) -> JsonObject:
    closed = ledger.timestamp_ms > 0
    offloaded, attempt = offload_of(ledger)
    return {
        "ledgerId": ledger.ledger_id,
        **({"entries": ledger.entries, "size": ledger.size} if closed else {}),
        "timestamp": ledger.timestamp_ms if closed else now_ms,
        "isOffloaded": offloaded,
        **({"offloadedContextUuid": str(attempt)} if attempt is not None else {}),
    }


def _stored_cursor(cursor: CursorRecord, stat: Stat) -> JsonObject:
    """``from`` of a range is the entry before it. What is in a cursor's ledger is not shown."""
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
