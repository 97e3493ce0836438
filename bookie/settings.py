"""Settings of one bookie: BookKeeper's own names in snake_case, units last."""

from dataclasses import dataclass

from engine.base.addresses import is_loopback
from engine.base.settings_file import SettingsError

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class BookieSettings:
    """``data_dir`` holds ``journal`` and ``ledgers`` unless they are given. Sizes in bytes, times in seconds."""

    data_dir: str
    bookie_port: int = 3181
    """bookiePort; 0 lets the system choose (tests)."""
    listening_host: str = "127.0.0.1"
    """Where to bind. Binding elsewhere than loopback needs ``allow_open_listener``: there is no authentication yet."""
    allow_open_listener: bool = False
    advertised_address: str = ""
    """advertisedAddress: host that clients are told; default the listening host."""
    bookie_id: str = ""
    """bookieId; default ``advertised address:port``. Bound to the disks by the cookie."""
    journal_directories: str = ""
    """journalDirectories: one, best on a device of its own."""
    ledger_directories: str = ""
    """ledgerDirectories, with commas between; the first one also holds the index."""
    allow_storage_expansion: bool = False
    """allowStorageExpansion: start with more ledger directories than the cookie names; the new ones must be empty."""
    movable_data: bool = False
    """The cookie names directories relative to ``data_dir``, so that all may be moved; BookKeeper's are absolute."""
    http_server_port: int | None = None
    """httpServerPort: /metrics and /ready; None for no such server."""
    zk_timeout_s: float = 10.0
    """zkTimeout: how long to wait for our own earlier registration to expire."""
    initialize_cluster: bool = True
    """Create the cluster's root nodes when they are missing and our disks are new (BookKeeper: a shell command)."""
    journal_file_bytes: int = 64 * MIB
    """journalMaxSizeMB: size of one zero-filled journal file."""
    journal_max_backups: int = 4
    """journalMaxBackups: journal files kept beyond the mark; they are used again, which spares zeroing new ones."""
    journal_buffered_writes_threshold: int = 16 * MIB
    """journalBufferedWritesThreshold: bytes of records in one group. (No wait makes a group: it is what arrived during
    the last sync, so there is no journalMaxGroupWaitMSec.)"""
    journal_buffered_entries_threshold: int = 0
    """journalBufferedEntriesThreshold: entries in one group; 0 for no bound. A received slice is never divided."""
    journal_direct: bool = True
    """Write the journal past the page cache, where the file system can."""
    write_cache_bytes: int = 64 * MIB
    """dbStorage_writeCacheMaxSizeMb: both generations together."""
    read_cache_bytes: int = 16 * MIB
    """dbStorage_readAheadCacheMaxSizeMb: verified blocks kept in memory."""
    read_ahead_cache_batch_bytes_size: int = 1 * MIB
    """dbStorage_readAheadCacheBatchBytesSize: most that is read in one operation for a ledger read in order."""
    entry_log_bytes_max: int = 1024 * MIB
    """logSizeLimit"""
    entry_log_direct: bool = True
    """Write entry logs past the page cache, where the file system can."""
    entry_log_block_bytes_max: int = 128 << 10
    """Data in one block of an entry log: what one read has to verify."""
    flush_interval_s: float = 10.0
    """flushInterval: longest time between checkpoints while there is something to flush."""
    netty_max_frame_size_bytes: int = 5 * MIB + 10 * 1024
    """nettyMaxFrameSizeBytes: a longer frame closes its connection."""
    max_connections: int = 4096
    """Further connections are closed at once."""
    max_batch_read_bytes: int = 5 * MIB
    """maxBatchReadSize"""
    max_pending_add_bytes: int = 32 * MIB
    """Adds not yet durable; beyond it, connections that send adds are not read from."""
    max_pending_read_requests: int = 10_000
    """maxPendingReadRequestsPerThread: beyond it reads are answered ETOOMANYREQUESTS."""
    disk_usage_threshold: float = 0.95
    """diskUsageThreshold: fuller disks make the bookie read-only."""
    disk_usage_lwm_threshold: float = 0.95
    """diskUsageLwmThreshold: below it the bookie is writable again."""
    disk_check_interval_s: float = 10.0
    """diskCheckInterval"""
    read_only_mode_on_any_disk_full_enabled: bool = False
    """readOnlyModeOnAnyDiskFullEnabled: read-only as soon as one of several ledger directories is full."""
    min_usable_size_for_entry_log_creation: int = 0
    """minUsableSizeForEntryLogCreation: free bytes below which a ledger directory takes no normal adds, the reserve for
    compaction and replay. 0: 1.2 times entry_log_bytes_max, but at most a tenth of the disk."""
    min_usable_size_for_index_file_creation: int = 100 * MIB
    """minUsableSizeForIndexFileCreation: free bytes that the first ledger directory's disk, where the index and the
    manifest grow, must have for normal adds; at most a twentieth of that disk."""
    min_usable_size_for_high_priority_writes: int = 64 * MIB
    """minUsableSizeForHighPriorityWrites: free bytes that recovery adds on a read-only bookie need."""
    gc_wait_time_s: float = 900.0
    """gcWaitTime: time between looks for ledgers deleted in metadata."""
    minor_compaction_threshold: float = 0.2
    """minorCompactionThreshold: logs of which less lives are compacted; 0 switches it off."""
    minor_compaction_interval_s: float = 3600.0
    """minorCompactionInterval; 0 switches it off."""
    minor_compaction_max_time_s: float = 0.0
    """minorCompactionMaxTimeMillis: no further log is begun after this time; 0 for no bound."""
    major_compaction_threshold: float = 0.8
    """majorCompactionThreshold"""
    major_compaction_interval_s: float = 86_400.0
    """majorCompactionInterval"""
    major_compaction_max_time_s: float = 0.0
    """majorCompactionMaxTimeMillis"""
    is_throttle_by_bytes: bool = True
    """isThrottleByBytes: else by entries. BookKeeper's default is by entries; ours copies blocks, not entries."""
    compaction_rate_by_bytes: int = 16 * MIB
    """compactionRateByBytes, a second"""
    compaction_rate_by_entries: int = 10_000
    """compactionRateByEntries, a second"""
    is_force_gc_allow_when_no_space: bool = False
    """isForceGCAllowWhenNoSpace: compact although all ledger directories are full, out of the reserve."""
    accept_journal_loss: bool = False
    """Start in spite of a damaged journal: every ledger is fenced and in limbo until repaired from other bookies."""

    def __post_init__(self) -> None:
        if not self.data_dir and not (self.journal_directories and self.ledger_directories):
            raise SettingsError("data_dir: must name a directory")
        self._check_directories()
        if not 0 <= self.bookie_port <= 65535:
            raise SettingsError(f"bookie_port: {self.bookie_port} is not in 0..65535")
        if not self.bookie_port and not self.bookie_id:
            raise SettingsError("bookie_port: 0 needs a bookie_id, the port is in the id otherwise")
        if not is_loopback(self.listening_host) and not self.allow_open_listener:
            raise SettingsError(
                f"listening_host: {self.listening_host} is not loopback and bookies have no authentication yet; "
                "set allow_open_listener only inside a trusted network"
            )
        for name, least in (
            ("journal_file_bytes", 16 << 10),
            ("write_cache_bytes", 64 << 10),
            ("entry_log_bytes_max", 64 << 10),
            ("entry_log_block_bytes_max", 4096),
            ("netty_max_frame_size_bytes", 4096),
            ("max_batch_read_bytes", 4096),
            ("max_pending_add_bytes", 4096),
            ("max_pending_read_requests", 1),
            ("max_connections", 1),
            ("journal_max_backups", 0),
            ("journal_buffered_writes_threshold", 4096),
            ("journal_buffered_entries_threshold", 0),
            ("read_ahead_cache_batch_bytes_size", 4096),
            ("min_usable_size_for_entry_log_creation", 0),
            ("min_usable_size_for_index_file_creation", 0),
            ("compaction_rate_by_bytes", 1),
            ("compaction_rate_by_entries", 1),
        ):
            if getattr(self, name) < least:
                raise SettingsError(f"{name}: {getattr(self, name)} is below {least}")
        if self.entry_log_bytes_max >= 1 << 32:
            raise SettingsError("entry_log_bytes_max: must be below 4 GiB")
        if not 0 < self.disk_usage_lwm_threshold <= self.disk_usage_threshold <= 1:
            raise SettingsError(
                "disk_usage_threshold: 0 < disk_usage_lwm_threshold <= disk_usage_threshold <= 1 must hold"
            )
        for name in ("flush_interval_s", "disk_check_interval_s", "gc_wait_time_s", "zk_timeout_s"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"{name}: must be above 0")
        self._check_compaction()

    def _check_directories(self) -> None:
        if "," in self.journal_directories:
            raise SettingsError(
                f"journal_directories: {self.journal_directories!r} names several, a bookie has one journal"
            )
        for directory in (roots := self.ledger_roots):
            if not directory or roots.count(directory) > 1 or directory == self.journal_root:
                raise SettingsError(
                    f"ledger_directories: {self.ledger_directories!r} must name different directories, none of them "
                    "the journal's"
                )

    def _check_compaction(self) -> None:
        for name in ("minor", "major"):
            threshold = getattr(self, f"{name}_compaction_threshold")
            if not 0 <= threshold <= 1:
                raise SettingsError(f"{name}_compaction_threshold: {threshold} is not in 0..1")
            for limit in ("interval", "max_time"):
                if getattr(self, f"{name}_compaction_{limit}_s") < 0:
                    raise SettingsError(f"{name}_compaction_{limit}_s: must not be below 0")
        if not (self.compacts_minor and self.compacts_major):
            return
        if self.minor_compaction_threshold > self.major_compaction_threshold:
            raise SettingsError("minor_compaction_threshold: is above major_compaction_threshold")
        if self.minor_compaction_interval_s > self.major_compaction_interval_s:
            raise SettingsError("minor_compaction_interval_s: is above major_compaction_interval_s")

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
