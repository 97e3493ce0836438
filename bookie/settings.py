"""Settings of one bookie: BookKeeper's names in snake_case, units last; its own stand in brackets."""

from dataclasses import dataclass, field

from engine.base.addresses import is_loopback
from engine.base.log import LogSettings
from engine.base.settings import (
    PORT_MAX,
    PRIVATE,
    Program,
    SettingsError,
    check_ranges,
    count,
    flag,
    maybe_port,
    number,
    size,
    text,
)
from engine.metadata.settings import MetadataSettings

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class BookieSettings:
    """Of one bookie. Sizes in bytes, times in seconds."""

    data_dir: str = text("", "holds journal and ledgers, unless those are given")
    bookie_port: int = count(
        3181, "BookKeeper's protocol; 0: the system chooses (bookiePort)", high=PORT_MAX
    )
    listening_host: str = text(
        "127.0.0.1", "address to listen on; elsewhere than loopback only with allow_open_listener"
    )
    allow_open_listener: bool = flag(
        False, "listen where others can reach it: there is no authentication yet"
    )
    advertised_address: str = text(
        "", "host that clients are told; empty: listening_host (advertisedAddress)"
    )
    bookie_id: str = text(
        "", "bound to the disks by the cookie; empty: advertised address:port (bookieId)"
    )
    journal_directories: str = text(
        "", "one, best on a device of its own; empty: data_dir/journal (journalDirectories)"
    )
    ledger_directories: str = text(
        "",
        "with commas between, the first also holds the index; empty: data_dir/ledgers "
        "(ledgerDirectories)",
    )
    allow_storage_expansion: bool = flag(
        False,
        "start with more, empty ledger directories than the cookie names (allowStorageExpansion)",
    )
    movable_data: bool = flag(
        False,
        "the cookie names directories relative to data_dir, so that all may be moved; "
        "BookKeeper's are absolute",
    )
    http_server_port: int | None = maybe_port(
        "/metrics and /ready; none: no such server (httpServerPort)", low=0
    )
    zk_timeout_s: float = number(
        10.0,
        "seconds of the session, and to wait for our own earlier registration to expire "
        "(zkTimeout)",
        low=0.001,
    )
    initialize_cluster: bool = flag(
        True,
        "make the cluster's root nodes when they are missing and our disks are new; "
        "BookKeeper: a shell command",
    )
    journal_file_bytes: int = size(
        64 * MIB,
        "bytes of one zero-filled journal file (journalMaxSizeMB)",
        low=16 << 10,
    )
    journal_max_backups: int = count(
        4,
        "journal files kept beyond the mark to be used again, which spares zeroing "
        "(journalMaxBackups)",
    )
    journal_buffered_writes_threshold: int = size(
        16 * MIB,
        "bytes of records in one group; nothing waits for a group, it is what came during the "
        "last sync (journalBufferedWritesThreshold)",
        low=4096,
    )
    journal_buffered_entries_threshold: int = count(
        0,
        "entries in one group, a received slice is never divided; 0: no bound "
        "(journalBufferedEntriesThreshold)",
    )
    journal_direct: bool = flag(
        True, "write the journal past the page cache, where the file system can"
    )
    write_cache_bytes: int = size(
        64 * MIB,
        "bytes of both generations together (dbStorage_writeCacheMaxSizeMb)",
        low=64 << 10,
    )
    read_cache_bytes: int = size(
        16 * MIB,
        "bytes of verified blocks kept in memory (dbStorage_readAheadCacheMaxSizeMb)",
    )
    read_ahead_cache_batch_bytes_size: int = size(
        1 * MIB,
        "bytes read in one operation for a ledger read in order, at most "
        "(dbStorage_readAheadCacheBatchBytesSize)",
        low=4096,
    )
    entry_log_bytes_max: int = size(
        1024 * MIB, "bytes of one entry log (logSizeLimit)", low=64 << 10, high=(1 << 32) - 1
    )
    entry_log_direct: bool = flag(
        True, "write entry logs past the page cache, where the file system can"
    )
    entry_log_block_bytes_max: int = size(
        128 << 10, "bytes of one block of an entry log: what one read verifies", low=4096
    )
    flush_interval_s: float = number(
        10.0,
        "seconds between checkpoints while there is something to flush (flushInterval)",
        low=0.001,
    )
    netty_max_frame_size_bytes: int = size(
        5 * MIB + 10 * 1024,
        "bytes; a longer frame closes its connection (nettyMaxFrameSizeBytes)",
        low=4096,
    )
    max_connections: int = count(4096, "further ones are closed at once", low=1)
    max_batch_read_bytes: int = size(
        5 * MIB, "bytes of the answer to a batch read (maxBatchReadSize)", low=4096
    )
    max_pending_add_bytes: int = size(
        32 * MIB,
        "bytes not yet durable; beyond it connections that send adds are not read from",
        low=4096,
    )
    max_pending_read_requests: int = count(
        10_000,
        "beyond it reads are answered ETOOMANYREQUESTS (maxPendingReadRequestsPerThread)",
        low=1,
    )
    disk_usage_threshold: float = number(
        0.95, "fuller disks make the bookie read-only (diskUsageThreshold)", high=1
    )
    disk_usage_lwm_threshold: float = number(
        0.95, "below it the bookie is writable again (diskUsageLwmThreshold)", high=1
    )
    disk_check_interval_s: float = number(10.0, "seconds (diskCheckInterval)", low=0.001)
    read_only_mode_on_any_disk_full_enabled: bool = flag(
        False,
        "read-only as soon as one of several ledger directories is full "
        "(readOnlyModeOnAnyDiskFullEnabled)",
    )
    min_usable_size_for_entry_log_creation: int = size(
        0,
        "free bytes below which a ledger directory takes no normal adds, the reserve for "
        "compaction and replay; 0: 1.2 times entry_log_bytes_max, but at most a tenth of the "
        "disk (minUsableSizeForEntryLogCreation)",
    )
    min_usable_size_for_index_file_creation: int = size(
        100 * MIB,
        "free bytes that the first ledger directory's disk must have for normal adds, at most "
        "a twentieth of it (minUsableSizeForIndexFileCreation)",
    )
    min_usable_size_for_high_priority_writes: int = size(
        64 * MIB,
        "free bytes that recovery adds on a read-only bookie need "
        "(minUsableSizeForHighPriorityWrites)",
    )
    gc_wait_time_s: float = number(
        900.0, "seconds between looks for ledgers deleted in metadata (gcWaitTime)", low=0.001
    )
    minor_compaction_threshold: float = number(
        0.2, "logs of which less lives are compacted; 0: off (minorCompactionThreshold)", high=1
    )
    minor_compaction_interval_s: float = number(3600.0, "seconds; 0: off (minorCompactionInterval)")
    minor_compaction_max_time_s: float = number(
        0.0,
        "seconds after which no further log is begun; 0: no bound (minorCompactionMaxTimeMillis)",
    )
    major_compaction_threshold: float = number(0.8, "as minor (majorCompactionThreshold)", high=1)
    major_compaction_interval_s: float = number(86_400.0, "as minor (majorCompactionInterval)")
    major_compaction_max_time_s: float = number(0.0, "as minor (majorCompactionMaxTimeMillis)")
    is_throttle_by_bytes: bool = flag(
        True, "else by entries, BookKeeper's default; ours copies blocks (isThrottleByBytes)"
    )
    compaction_rate_by_bytes: int = size(16 * MIB, "bytes a second (compactionRateByBytes)", low=1)
    compaction_rate_by_entries: int = count(
        10_000, "entries a second (compactionRateByEntries)", low=1
    )
    is_force_gc_allow_when_no_space: bool = flag(
        False,
        "compact although all ledger directories are full, out of the reserve "
        "(isForceGCAllowWhenNoSpace)",
    )
    accept_journal_loss: bool = flag(
        False,
        "start in spite of a damaged journal: every ledger is fenced and in limbo until "
        "repaired from other bookies",
    )

    def __post_init__(self) -> None:
        """Raises SettingsError."""
        check_ranges(self)
        if not self.data_dir and not (self.journal_directories and self.ledger_directories):
            raise SettingsError("data_dir must name a directory")
        self._check_directories()
        if not self.bookie_port and not self.bookie_id:
            raise SettingsError(
                "bookie_port must not be 0 without a bookie_id, which would hold the port"
            )
        if not is_loopback(self.listening_host) and not self.allow_open_listener:
            raise SettingsError(
                f"listening_host must be loopback, not {self.listening_host!r}: bookies have no authentication yet; "
                "set allow_open_listener only inside a trusted network"
            )
        if not 0 < self.disk_usage_lwm_threshold <= self.disk_usage_threshold:
            raise SettingsError(
                f"disk_usage_lwm_threshold must be above 0 and at most disk_usage_threshold "
                f"{self.disk_usage_threshold}, not {self.disk_usage_lwm_threshold}"
            )
        self._check_compaction()

    def _check_directories(self) -> None:
        if "," in self.journal_directories:
            raise SettingsError(
                f"journal_directories must name one, a bookie has one journal; not {self.journal_directories!r}"
            )
        for directory in (roots := self.ledger_roots):
            if not directory or roots.count(directory) > 1 or directory == self.journal_root:
                raise SettingsError(
                    "ledger_directories must name different directories, none of them the journal's, "
                    f"not {self.ledger_directories!r}"
                )

    def _check_compaction(self) -> None:
        if not (self.compacts_minor and self.compacts_major):
            return
        for what in ("threshold", "interval_s"):
            minor = getattr(self, f"minor_compaction_{what}")
            if minor > (major := getattr(self, f"major_compaction_{what}")):
                raise SettingsError(
                    f"minor_compaction_{what} must be at most major_compaction_{what} {major}, not {minor}"
                )

    @property
    def compacts_minor(self) -> bool:
        return self.minor_compaction_threshold > 0 and self.minor_compaction_interval_s > 0

    @property
    def compacts_major(self) -> bool:
        return self.major_compaction_threshold > 0 and self.major_compaction_interval_s > 0

    @property
    def journal_root(self) -> str:
        return self.journal_directories.strip() or f"{self.data_dir}/journal"

    @property
    def ledger_roots(self) -> list[str]:
        """All of them, as configured, the one with the index first."""
        names = self.ledger_directories or f"{self.data_dir}/ledgers"
        return [name.strip().rstrip("/") for name in names.split(",")]

    def named(self, directory: str) -> str:
        """How the cookie calls one of our directories."""
        below = f"{self.data_dir}/"
        return directory.removeprefix(below) if self.movable_data else directory

    @property
    def host(self) -> str:
        """What clients are told to connect to."""
        return self.advertised_address or self.listening_host


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """Everything a bookie process is told from outside."""

    bookie: BookieSettings = field(metadata=PRIVATE)
    metadata: MetadataSettings
    log: LogSettings


PROGRAM = Program("bookie", ProcessSettings)
