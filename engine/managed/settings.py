"""Settings of managed ledgers: one set per broker, and a configuration per topic."""

from dataclasses import dataclass

from engine.base.errors import MisuseError

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ManagedSettings:
    """Per broker. Times in seconds, sizes in bytes."""

    cache_bytes_max: int = 64 * MIB
    """Tail cache of all topics together, counted in whole received buffers (managedLedgerCacheSizeMB)."""

    read_ahead_bytes: int = MIB
    """What one backlog read asks the bookies for, at least; cursors of a topic share it."""

    read_ahead_total_bytes_max: int = 64 * MIB
    """What was read of backlogs and is held for all cursors; beyond it the least recently used goes and nothing is
    read ahead."""

    append_queue_entries_max: int = 100_000
    """Entries per topic that may wait while a new ledger is being opened; more are refused."""

    append_queue_bytes_max: int = 32 * MIB
    """Same, in bytes of the entries."""

    cursor_persist_interval_s: float = 1.0
    """Least time between two lazy writes of a cursor's state (managedLedgerDefaultMarkDeleteRateLimit)."""

    cursor_ledger_entries_max: int = 50_000
    """A cursor ledger with so many entries is replaced (managedLedgerCursorMaxEntriesPerLedger)."""

    cursor_ledger_age_max_s: float = 14_400.0
    """A cursor ledger so old is replaced (managedLedgerCursorRolloverTimeInSeconds)."""

    cursor_inline_ranges_max: int = 1_000
    """A closing cursor with more acknowledged ranges stays in its ledger instead of moving into the metadata store
    (managedLedgerMaxUnackedRangesToPersistInMetadataStore)."""

    cursor_state_bytes_max: int = 4 * MIB
    """Largest state a cursor can persist; when near, ``Cursor.blocked`` says so and dispatch is to pause."""

    open_timeout_s: float = 10.0
    """A managed ledger that is not open by then fails with the name of the step that did not end."""

    cursor_load_timeout_s: float = 5.0
    """A cursor whose state cannot be read by then is left out for the time being; the topic opens."""

    cursor_loads_max: int = 16
    """Cursors of a topic loaded at the same time."""

    retry_initial_s: float = 0.1
    retry_max_s: float = 10.0
    """Back-off of a failed ledger change or cursor write."""

    metadata_attempts_max: int = 8
    """Attempts to settle a metadata write of unknown outcome before giving up."""

    readers_max: int = 8
    """Handles of closed ledgers kept open per topic."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise MisuseError(f"{name} must be > 0, not {getattr(self, name)}")


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

    def __post_init__(self) -> None:
        if not self.ensemble >= self.write_quorum >= self.ack_quorum >= 1:
            raise MisuseError(
                "quorums must be ensemble >= write_quorum >= ack_quorum >= 1, "
                f"not {self.ensemble}/{self.write_quorum}/{self.ack_quorum}"
            )
        if self.ledger_entries_max < 1 or self.ledger_bytes_max < 1 or self.ledger_age_max_s <= 0:
            raise MisuseError("ledger_entries_max, ledger_bytes_max, ledger_age_max_s must be > 0")
