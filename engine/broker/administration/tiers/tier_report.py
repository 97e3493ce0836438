"""A report of the places of a topic's ledgers, and of those which a policy would move. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from engine.admin.api.arguments import JsonObject
from engine.base.ids import LATEST
from engine.managed.reading.entry_reader import unreadable_text
from engine.managed.stats import LedgerInfo, MoveProgress, OffloadPhase, OffloadStatus
from engine.managed.stored.offloads import offload_of
from engine.managed.writing.offload_rules import due_ledgers, ledgers_before
from engine.offload.bucket import Bucket
from engine.offload.errors import StoreTrouble
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.settings import OffloadSettings

BOOKIES = "bookies"
BOTH = "both"
STORE = "store"
UNREADABLE = "unreadable"


def tier_of(span: LedgerInfo) -> str:
    """Return where a ledger is: on bookies, in the store, in both, or only in objects that are not read here."""
    offload = offload_of(span)
    if offload.is_unreadable:
        return UNREADABLE
    if offload.deleted_from_bookies:
        return STORE
    return BOTH if offload.complete else BOOKIES


def tiers(
    ledgers: Sequence[LedgerInfo],
    policy: OffloadPolicy | None,
    threshold_bytes: int | None,
    threshold_s: int | None,
    now_ms: int,
) -> JsonObject:
    """Return where ``ledgers`` are and which would be moved, as TIERS does: by the thresholds that are given, else by
    those of ``policy``; every closed ledger where neither has any."""
    base = policy if policy is not None else OffloadPolicy(Bucket(""))
    if threshold_bytes is not None or threshold_s is not None:
        base = replace(
            base,
            threshold_bytes=-1 if threshold_bytes is None else threshold_bytes,
            threshold_s=-1.0 if threshold_s is None else float(threshold_s),
        )
    due = due_ledgers(ledgers, now_ms, base) if base.automatic else ledgers_before(ledgers, LATEST)
    moving = {span.ledger_id for span in due}
    return {
        "ledgers": [
            {
                "ledger_id": span.ledger_id,
                "entries": span.entries,
                "bytes": span.size,
                "closed_ms": span.timestamp_ms,
                "tier": tier_of(span),
                "due": span.ledger_id in moving,
                "moved_ms": offload_of(span).completed_ms,
            }
            for span in ledgers
        ],
        "due_ledgers": len(due),
        "due_bytes": sum(span.size for span in due),
    }


def read_error_of(ledgers: Sequence[LedgerInfo], last: str) -> str:
    """Return why ledgers are not read, which needs no attempt where no object is read; else the ``last`` error."""
    unreadable = [span.ledger_id for span in ledgers if tier_of(span) == UNREADABLE]
    if not unreadable:
        return last
    return f"{StoreTrouble.UNREADABLE}: {unreadable_text(unreadable)}"


def policy_document(policy: OffloadPolicy | None) -> JsonObject | None:
    """Return a policy as TIERS describes it; None for none."""
    if policy is None:
        return None
    return {
        "store": str(policy.bucket),
        "threshold_bytes": policy.threshold_bytes,
        "threshold_s": int(policy.threshold_s),
        "deletion_lag_s": int(policy.deletion_lag_s),
        "bookies_first": policy.bookies_first,
    }


def state_document(status: OffloadStatus, progress: MoveProgress, read_error: str) -> JsonObject:
    """Return the state of moving and of reading, as TIERS describes it."""
    running = status.phase is OffloadPhase.RUNNING
    return {
        "status": status.phase.value,
        "error": status.error,
        "trouble": status.trouble,
        "retry_ms": None if status.retry_ms < 0 else status.retry_ms,
        "read_error": read_error,
        "ledgers": progress.ledgers,
        "done_ledgers": progress.done_ledgers,
        "bytes": progress.bytes,
        "done_bytes": progress.done_bytes + (progress.written_bytes if running else 0),
    }


def prices(settings: OffloadSettings) -> JsonObject:
    """Return the prices of a GB (10^9 bytes) for a month; null where none is set."""
    return {
        "bookies_price": settings.bookie_storage_price_per_gb_month or None,
        "store_price": settings.managed_ledger_offload_price_per_gb_month or None,
    }
