"""Rules for which ledgers are moved to tiered storage, and which are then deleted from the bookies (U1). Pure."""

from collections.abc import Sequence
from typing import TypeVar

from engine.base.ids import Position
from engine.managed.positions import LedgerSpan
from engine.managed.stats import LedgerInfo
from engine.managed.stored.offloads import offload_of
from engine.offload.offload_policy import OffloadPolicy

Ledger = TypeVar("Ledger", LedgerSpan, LedgerInfo)


def is_movable(ledger: LedgerSpan | LedgerInfo) -> bool:
    """Return whether a ledger is closed, not empty, on the bookies, and has no complete copy."""
    offload = offload_of(ledger)
    gone = offload.complete or offload.deleted_from_bookies
    return ledger.timestamp_ms > 0 and ledger.entries > 0 and not gone


def due_ledgers(ledgers: Sequence[Ledger], now_ms: int, policy: OffloadPolicy) -> list[Ledger]:
    """Return the ledgers to be moved now, the oldest first: those behind the newest ``threshold_bytes``, counted with
    copied ones and without the open one, and those closed ``threshold_s`` ago."""
    due = []
    newer_bytes = 0
    for ledger in reversed(ledgers):
        if not ledger.timestamp_ms:
            continue
        newer_bytes += ledger.size
        age_s = (now_ms - ledger.timestamp_ms) / 1000
        if is_movable(ledger) and (
            0 <= policy.threshold_bytes < newer_bytes or 0 <= policy.threshold_s <= age_s
        ):
            due.append(ledger)
    return due[::-1]


def ledgers_before(ledgers: Sequence[Ledger], position: Position) -> list[Ledger]:
    """Return the ledgers that a request moves, which are those before the one of ``position``."""
    return [
        ledger
        for ledger in ledgers[:-1]
        if ledger.ledger_id < position.ledger_id and is_movable(ledger)
    ]


def releasable(ledgers: Sequence[LedgerSpan], now_ms: int, lag_s: float) -> list[LedgerSpan]:
    """Return the ledgers on bookies whose copy was complete ``lag_s`` ago; none with a negative lag.

    A copy that is complete in the future was noted by a clock that ran ahead, which may hold it for as long as the lag.
    """
    if lag_s < 0:
        return []
    released = []
    for ledger in ledgers:
        offload = offload_of(ledger)
        if (
            offload.complete
            and not offload.deleted_from_bookies
            and abs(now_ms - offload.completed_ms) >= 1000 * lag_s
        ):
            released.append(ledger)
    return released
