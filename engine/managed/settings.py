"""Settings of managed ledgers: one set per broker, and a configuration per topic."""

from dataclasses import dataclass

from engine.base.errors import MisuseError
from engine.base.settings import SettingsError, check_ranges, count, internal, number, size
from engine.offload.offload_policy import OffloadPolicy

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ManagedSettings:
    """A broker's settings of managed ledgers. Times in seconds, sizes in bytes."""

    cache_bytes_max: int = internal(64 * MIB)
    """Tail cache of all topics together, counted in complete received buffers; a broker's
    managed_ledger_cache_size_mb."""

    read_ahead_bytes: int = size(
        MIB,
        "bytes that one read of a backlog requests from the bookies, at least; the cursors of a "
        "topic share them",
        low=1,
    )
    read_ahead_ranges: int = count(
        3,
        "reads of read_ahead_bytes in progress or buffered ahead of a cursor that reads a backlog",
        low=1,
        high=64,
    )
    read_ahead_total_bytes_max: int = size(
        64 * MIB,
        "bytes of backlogs held in memory for all cursors; beyond it the least recently used are "
        "released and nothing is read ahead",
        low=1,
    )
    append_queue_entries_max: int = count(
        100_000,
        "entries per topic that may wait while a new ledger is opened; more are refused",
        low=1,
    )
    append_queue_bytes_max: int = size(
        32 * MIB,
        "bytes per topic that may wait while a new ledger is opened; more are refused",
        low=1,
    )
    cursor_persist_interval_s: float = number(
        1.0,
        "seconds between two lazy writes of a cursor's state, at least "
        "(managedLedgerDefaultMarkDeleteRateLimit)",
        low=0.001,
    )
    cursor_ledger_entries_max: int = count(
        50_000,
        "entries of a cursor ledger before the next one is created "
        "(managedLedgerCursorMaxEntriesPerLedger)",
        low=1,
    )
    cursor_ledger_age_max_s: float = number(
        14_400.0,
        "seconds after which a cursor ledger is followed by the next one "
        "(managedLedgerCursorRolloverTimeInSeconds)",
        low=0.001,
    )
    cursor_inline_ranges_max: int = count(
        1_000,
        "a closing cursor with more acknowledged ranges stays in its ledger instead of moving "
        "into the metadata store (managedLedgerMaxUnackedRangesToPersistInMetadataStore)",
        low=1,
    )
    cursor_state_bytes_max: int = size(
        4 * MIB,
        "bytes of the largest state that a cursor can persist; dispatch pauses near it",
        low=1,
    )
    open_timeout_s: float = number(
        10.0,
        "seconds until an unfinished opening of a managed ledger fails with the name of the step "
        "that did not end",
        low=0.001,
    )
    cursor_load_timeout_s: float = number(
        5.0,
        "seconds until a topic is opened without a cursor whose state has not been read; it is "
        "read again later",
        low=0.001,
    )
    cursor_loads_max: int = count(16, "cursors of a topic loaded at the same time", low=1)
    retry_initial_s: float = number(
        0.1,
        "seconds before the first retry of a failed ledger change or cursor write",
        low=0.001,
    )
    retry_max_s: float = number(
        10.0,
        "seconds between two retries of a failed ledger change or cursor write, at most",
        low=0.001,
    )
    metadata_attempts_max: int = count(
        8, "attempts to find out the outcome of a metadata write without an answer", low=1
    )
    readers_max: int = count(8, "handles of closed ledgers kept open per topic", low=1)

    def __post_init__(self) -> None:
        """Check the ranges. Raises SettingsError."""
        if self.cache_bytes_max <= 0:
            raise SettingsError(f"cache_bytes_max must be above 0, not {self.cache_bytes_max}")
        check_ranges(self)


@dataclass(frozen=True, slots=True)
class LedgerConfig:
    """The configuration of one topic: quorums, when ledgers roll over, how long consumed ones are kept. Times in
    seconds; -1 = without limit."""

    ensemble: int = 2
    write_quorum: int = 2
    ack_quorum: int = 2
    ledger_entries_max: int = 50_000
    """managedLedgerMaxEntriesPerLedger. A slice is never split, so a ledger may exceed it by one slice."""
    ledger_bytes_max: int = 2048 * MIB
    """managedLedgerMaxSizePerLedgerMbytes"""
    ledger_age_max_s: float = 14_400.0
    """managedLedgerMaxLedgerRolloverTimeMinutes"""
    ledger_age_min_s: float = 600.0
    """managedLedgerMinLedgerRolloverTimeMinutes. No roll-over by entries, bytes or age before it."""
    retention_s: float = 0.0
    """Time for which a consumed ledger is kept after its last entry; -1 for ever."""
    retention_bytes: int = 0
    """Size of all ledgers up to which consumed ones are kept; -1 without limit. When both are 0, they are deleted at
    once."""
    entry_indexes: bool = False
    """True to store each entry with the index of its last message among all messages that were appended."""
    offload: OffloadPolicy | None = None
    """Tiered storage; with None nothing is moved there or deleted from bookies, and moved ledgers are still read."""
    entry_times: bool = False
    """True to store each entry with the time at which it was appended."""

    def __post_init__(self) -> None:
        if not self.ensemble >= self.write_quorum >= self.ack_quorum >= 1:
            raise MisuseError(
                "quorums must be ensemble >= write_quorum >= ack_quorum >= 1, "
                f"not {self.ensemble}/{self.write_quorum}/{self.ack_quorum}"
            )
        if self.ledger_entries_max < 1 or self.ledger_bytes_max < 1 or self.ledger_age_max_s <= 0:
            raise MisuseError("ledger_entries_max, ledger_bytes_max, ledger_age_max_s must be > 0")
