"""Settings of managed ledgers: one set per broker, and a configuration per topic."""

from dataclasses import dataclass

from engine.base.errors import MisuseError
from engine.base.settings import SettingsError, check_ranges, count, internal, number, size

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ManagedSettings:
    """Of managed ledgers, a broker's. Times in seconds, sizes in bytes."""

    cache_bytes_max: int = internal(64 * MIB)
    """Tail cache of all topics together, in whole received buffers; a broker's managed_ledger_cache_size_mb."""

    read_ahead_bytes: int = size(
        MIB,
        "bytes that one read of a backlog asks the bookies for, at least; cursors of a topic "
        "share it",
        low=1,
    )
    read_ahead_ranges: int = count(
        3, "such reads under way or waiting ahead of a cursor that reads a backlog", low=1, high=64
    )
    read_ahead_total_bytes_max: int = size(
        64 * MIB,
        "bytes read of backlogs and held for all cursors; beyond it the least recently used "
        "goes and nothing is read ahead",
        low=1,
    )
    append_queue_entries_max: int = count(
        100_000,
        "entries per topic that may wait while a new ledger is opened; more are refused",
        low=1,
    )
    append_queue_bytes_max: int = size(32 * MIB, "the same in bytes", low=1)
    cursor_persist_interval_s: float = number(
        1.0,
        "seconds between two lazy writes of a cursor's state, at least "
        "(managedLedgerDefaultMarkDeleteRateLimit)",
        low=0.001,
    )
    cursor_ledger_entries_max: int = count(
        50_000, "then a new cursor ledger (managedLedgerCursorMaxEntriesPerLedger)", low=1
    )
    cursor_ledger_age_max_s: float = number(
        14_400.0,
        "seconds; then a new cursor ledger (managedLedgerCursorRolloverTimeInSeconds)",
        low=0.001,
    )
    cursor_inline_ranges_max: int = count(
        1_000,
        "a closing cursor with more acknowledged ranges stays in its ledger instead of moving "
        "into the metadata store (managedLedgerMaxUnackedRangesToPersistInMetadataStore)",
        low=1,
    )
    cursor_state_bytes_max: int = size(
        4 * MIB, "bytes of the largest state a cursor can persist; near it dispatch pauses", low=1
    )
    open_timeout_s: float = number(
        10.0,
        "seconds; a managed ledger not open by then fails with the name of the step that did "
        "not end",
        low=0.001,
    )
    cursor_load_timeout_s: float = number(
        5.0,
        "seconds; a cursor whose state cannot be read by then is left out for the time being",
        low=0.001,
    )
    cursor_loads_max: int = count(16, "cursors of a topic loaded at the same time", low=1)
    retry_initial_s: float = number(
        0.1,
        "seconds before a failed ledger change or cursor write is tried again, at first",
        low=0.001,
    )
    retry_max_s: float = number(10.0, "and at most", low=0.001)
    metadata_attempts_max: int = count(
        8, "attempts to settle a metadata write of unknown outcome", low=1
    )
    readers_max: int = count(8, "handles of closed ledgers kept open per topic", low=1)

    def __post_init__(self) -> None:
        """Raises SettingsError."""
        if self.cache_bytes_max <= 0:
            raise SettingsError(f"cache_bytes_max must be above 0, not {self.cache_bytes_max}")
        check_ranges(self)


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """Per topic: quorums, when ledgers roll, how long consumed ones are kept. Times in seconds; -1 = without limit."""

    ensemble: int = 2
    write_quorum: int = 2
    ack_quorum: int = 2
    ledger_entries_max: int = 50_000
    """managedLedgerMaxEntriesPerLedger; a slice is never split, so a ledger may exceed it by one slice."""
    ledger_bytes_max: int = 2048 * MIB
    """managedLedgerMaxSizePerLedgerMbytes"""
    ledger_age_max_s: float = 14_400.0
    """managedLedgerMaxLedgerRolloverTimeMinutes"""
    ledger_age_min_s: float = 600.0
    """managedLedgerMinLedgerRolloverTimeMinutes: no roll by entries, bytes or age before."""
    retention_s: float = 0.0
    """Consumed ledgers are kept so long after their last entry; -1 for ever."""
    retention_bytes: int = 0
    """Consumed ledgers are kept up to so many bytes in all; -1 without limit. Both 0: deleted at once."""
    entry_indexes: bool = False
    """Each entry is stored with the index of its last message among all that were appended."""
    entry_times: bool = False
    """Each entry is stored with the time at which it was appended."""

    def __post_init__(self) -> None:
        if not self.ensemble >= self.write_quorum >= self.ack_quorum >= 1:
            raise MisuseError(
                "quorums must be ensemble >= write_quorum >= ack_quorum >= 1, "
                f"not {self.ensemble}/{self.write_quorum}/{self.ack_quorum}"
            )
        if self.ledger_entries_max < 1 or self.ledger_bytes_max < 1 or self.ledger_age_max_s <= 0:
            raise MisuseError("ledger_entries_max, ledger_bytes_max, ledger_age_max_s must be > 0")
