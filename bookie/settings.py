"""Settings of one bookie: BookKeeper's own names in snake_case, units last."""

from dataclasses import dataclass

from engine.base.addresses import is_loopback

MIB = 1 << 20


class SettingsError(ValueError):
    """A setting makes no sense; the message names it."""


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
    journal_directory: str = ""
    """journalDirectory"""
    ledger_directory: str = ""
    """ledgerDirectories, one"""
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
    journal_direct: bool = True
    """Write the journal past the page cache, where the file system can."""
    write_cache_bytes: int = 64 * MIB
    """dbStorage_writeCacheMaxSizeMb: both generations together."""
    read_cache_bytes: int = 16 * MIB
    """dbStorage_readAheadCacheMaxSizeMb: verified blocks kept in memory."""
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
    min_usable_size_for_high_priority_writes: int = 64 * MIB
    """minUsableSizeForHighPriorityWrites: free bytes that recovery adds on a read-only bookie need."""
    gc_wait_time_s: float = 900.0
    """gcWaitTime: time between looks for ledgers deleted in metadata."""
    accept_journal_loss: bool = False
    """Start in spite of a damaged journal: every ledger is fenced and in limbo until repaired from other bookies."""

    def __post_init__(self) -> None:
        if not self.data_dir and not (self.journal_directory and self.ledger_directory):
            raise SettingsError("data_dir: must name a directory")
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

    @property
    def journal_root(self) -> str:
        return self.journal_directory or f"{self.data_dir}/journal"

    @property
    def ledger_root(self) -> str:
        return self.ledger_directory or f"{self.data_dir}/ledgers"

    def named(self, directory: str) -> str:
        """How the cookie calls one of our directories."""
        below = f"{self.data_dir}/"
        return directory.removeprefix(below) if self.movable_data else directory

    @property
    def host(self) -> str:
        """What clients are told to connect to."""
        return self.advertised_address or self.listening_host
