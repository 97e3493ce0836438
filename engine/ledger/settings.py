"""Settings of the ledger client."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Times in seconds, sizes in bytes."""

    add_entry_timeout_s: float = 5.0
    """A bookie that acknowledges nothing for so long while adds wait is replaced."""

    read_entry_timeout_s: float = 5.0
    """A replica that does not answer a read within it counts as failed for that read."""

    speculative_read_timeout_s: float = 2.0
    """After so long without an answer the next replica is asked as well; 0 never."""

    recovery_timeout_s: float = 30.0
    """Bound of one recovery; then LedgerRecoveryError, and a later attempt starts over."""

    metadata_timeout_s: float = 10.0
    """Bound of an ensemble change or a close while the metadata store does not answer."""

    unsent_bytes_max: int = 64 * 1024 * 1024
    """Bytes kept for one bookie that does not read; beyond it its connection is cut, as if it had failed."""

    connect_timeout_s: float = 3.0
    suspect_s: float = 10.0
    """A bookie that failed is avoided for so long, unless it registers again."""

    read_entries_max: int = 1000
    """Entries asked for at once in a range read."""

    recovery_window: int = 32
    """Entries read and written back at once in a recovery."""
