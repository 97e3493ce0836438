"""Counters of tiered storage, by topic."""

from engine.base.measures.durations import Durations


class Meters:
    """Counters of what a process moved to tiered storage and read from it, of one topic, since its start."""

    __slots__ = (
        "bookie_reads",
        "data_reads",
        "deleted",
        "index_reads",
        "move_errors",
        "moved_bytes",
        "not_deleted",
        "read_bytes",
        "read_error",
        "read_errors",
        "write_errors",
    )

    def __init__(self) -> None:
        self.moved_bytes = 0
        self.move_errors = 0
        """Ledgers that could not be moved, for any reason."""
        self.write_errors = 0
        """Ledgers among them that the object store did not take."""
        self.read_bytes = 0
        self.read_errors = 0
        self.read_error = ""
        """Reason why the last read failed; empty when it did not."""
        self.deleted = 0
        """Ledgers of which the objects were deleted."""
        self.not_deleted = 0
        self.bookie_reads = Durations()
        """Durations of reads of ledgers that are moved."""
        self.index_reads = Durations()
        self.data_reads = Durations()
