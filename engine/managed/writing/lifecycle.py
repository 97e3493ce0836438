"""Rules for when a ledger is full and which consumed ledgers may be deleted. Pure."""

from collections.abc import Sequence

from engine.managed.positions import LedgerSpan
from engine.managed.settings import LedgerConfig


def is_full(entries: int, size: int, age_s: float, config: LedgerConfig) -> bool:
    """Return whether the open ledger has to be closed and followed by another."""
    if age_s < config.ledger_age_min_s:
        return False
    return (
        entries >= config.ledger_entries_max
        or size >= config.ledger_bytes_max
        or age_s >= config.ledger_age_max_s
    )


def next_check_s(age_s: float, config: LedgerConfig) -> float:
    """Return the seconds until age alone may fill a ledger: the least age first, then the greatest. At least 0.001."""
    for bound in (config.ledger_age_min_s, config.ledger_age_max_s):
        if age_s < bound:
            return max(bound - age_s, 0.001)
    return 0.001


def trimmable(
    ledgers: Sequence[LedgerSpan],
    base: int,
    consumed: int,
    now_ms: int,
    config: LedgerConfig,
) -> int:
    """Return how many ledgers at the front may be deleted (M8, I37). The last one, which accepts entries, never is.

    ``base``: ordinal of the first ledger's first entry. ``consumed``: the lowest *persisted* mark of the durable
    cursors (everything below that ordinal is acknowledged for good), at most the ordinal behind the last entry that
    readers may be given (I40). Exceeding either limit of retention is enough to delete a ledger, as in Pulsar: 0
    deletes at once, -1 never. Retention keeps consumed ledgers while they are young enough and the kept bytes stay
    within its size.
    """
    candidates = 0
    stop = base
    for ledger in ledgers[:-1]:
        stop += ledger.entries
        if stop > consumed:
            break
        candidates += 1
    kept_bytes = sum(ledger.size for ledger in ledgers)
    count = 0
    for ledger in ledgers[:candidates]:
        if ledger.entries and not _is_released(ledger, kept_bytes, now_ms, config):
            break
        kept_bytes -= ledger.size
        count += 1
    return count


def _is_released(ledger: LedgerSpan, kept_bytes: int, now_ms: int, config: LedgerConfig) -> bool:
    age_s = (now_ms - ledger.timestamp_ms) / 1000
    expired = config.retention_s == 0 or 0 < config.retention_s < age_s
    over_quota = 0 <= config.retention_bytes <= kept_bytes - ledger.size
    return expired or over_quota
