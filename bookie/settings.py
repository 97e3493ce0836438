"""Settings of one bookie: BookKeeper's names in snake_case with the unit at the end; BookKeeper's own names are in
brackets."""

from dataclasses import dataclass, field

from engine.base.addresses import ReachSettings, is_wildcard
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
from engine.ledger.settings import LedgerSettings
from engine.metadata.settings import MetadataSettings
from engine.net.tls import ROLES_FACTORY, TLS_FACTORY
from engine.repair.settings import RepairSettings

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class BookieSettings:
    """Settings of one bookie. Sizes in bytes, times in seconds."""

    data_dir: str = text("", "directory of journal and ledgers, unless those are set")
    bookie_port: int = count(
        3181, "port of BookKeeper's protocol; 0: the system chooses (bookiePort)", high=PORT_MAX
    )
    listening_host: str = text(
        "127.0.0.1",
        "address to listen on; other than loopback only with authorized_roles, or insecure_anywhere",
    )
    advertised_address: str = text(
        "", "host that clients connect to; empty: listening_host (advertisedAddress)"
    )
    tls_provider_factory_class: str = text(
        "",
        f"{TLS_FACTORY}: clients may continue in TLS 1.2 or later (START_TLS); empty: no TLS "
        "(tlsProviderFactoryClass)",
    )
    tls_certificate_path: str = text(
        "", "PEM file of the certificate, leaf first (tlsCertificatePath)"
    )
    tls_key_store: str = text("", "PEM file of its key, unencrypted (tlsKeyStore)")
    tls_trust_store: str = text(
        "",
        "PEM file of the CAs that sign clients' certificates: clients may present one, and it must be trusted "
        "(tlsTrustStore)",
    )
    tls_client_authentication: bool = flag(
        False, "whether clients in TLS need a trusted certificate (tlsClientAuthentication)"
    )
    tls_cert_files_refresh_duration_seconds: int = count(
        300,
        "seconds after which a new connection checks whether the certificates' files have changed; 0: each "
        "connection (tlsCertFilesRefreshDurationSeconds)",
    )
    bookie_auth_provider_factory_class: str = text(
        "",
        f"{ROLES_FACTORY}: only clients in TLS with a certificate of one of authorized_roles are served; empty: all "
        "clients (bookieAuthProviderFactoryClass)",
    )
    authorized_roles: str = text(
        "",
        "roles in the organizational unit (OU=0:role) of clients' certificates, with commas between (authorizedRoles)",
    )
    bookie_id: str = text(
        "", "id, bound to the disks by the cookie; empty: advertised address:port (bookieId)"
    )
    journal_directories: str = text(
        "", "one directory, best on its own device; empty: data_dir/journal (journalDirectories)"
    )
    ledger_directories: str = text(
        "",
        "separated by commas; the first also holds the index; empty: data_dir/ledgers "
        "(ledgerDirectories)",
    )
    allow_storage_expansion: bool = flag(
        False,
        "start with empty ledger directories that the cookie does not name (allowStorageExpansion)",
    )
    allow_lost_directories: bool = flag(
        False,
        "start without ledger directories that the cookie names, because their disks failed; never without the first. "
        "What they held is copied from other bookies",
    )
    movable_data: bool = flag(
        False,
        "name directories in the cookie relative to data_dir, so that all can be moved; "
        "BookKeeper's are absolute",
    )
    http_server_port: int | None = maybe_port(
        "port of /metrics and /ready; none: no such server (httpServerPort)", low=0
    )
    zk_timeout_s: float = number(
        10.0,
        "seconds of the session, and half the time to wait for an earlier registration to expire "
        "(zkTimeout)",
        low=0.001,
    )
    initialize_cluster: bool = flag(
        True,
        "create the cluster's root nodes when they are missing and the disks are new; "
        "BookKeeper: a shell command",
    )
    journal_file_bytes: int = size(
        64 * MIB,
        "bytes of one zero-filled journal file (journalMaxSizeMB)",
        low=16 << 10,
    )
    journal_max_backups: int = count(
        4,
        "journal files kept for reuse after the mark has passed them, which saves zero-filling "
        "(journalMaxBackups)",
    )
    journal_buffered_writes_threshold: int = size(
        16 * MIB,
        "bytes of records in one group, which holds what arrived during the previous sync "
        "(journalBufferedWritesThreshold)",
        low=4096,
    )
    journal_buffered_entries_threshold: int = count(
        0,
        "entries in one group; a received slice is never divided; 0: no bound "
        "(journalBufferedEntriesThreshold)",
    )
    journal_direct: bool = flag(
        True, "bypass the page cache when writing the journal, if the file system can"
    )
    write_cache_bytes: int = size(
        64 * MIB,
        "bytes of both write cache generations together (dbStorage_writeCacheMaxSizeMb)",
        low=64 << 10,
    )
    read_cache_bytes: int = size(
        16 * MIB,
        "bytes of verified blocks kept in memory (dbStorage_readAheadCacheMaxSizeMb)",
    )
    read_ahead_cache_batch_bytes_size: int = size(
        1 * MIB,
        "most bytes read in one operation of a ledger that is read in order "
        "(dbStorage_readAheadCacheBatchBytesSize)",
        low=4096,
    )
    entry_log_bytes_max: int = size(
        1024 * MIB, "bytes of one entry log (logSizeLimit)", low=64 << 10, high=(1 << 32) - 1
    )
    entry_log_direct: bool = flag(
        True, "bypass the page cache when writing entry logs, if the file system can"
    )
    entry_log_block_bytes_max: int = size(
        128 << 10, "bytes of one block of an entry log, which one read verifies", low=4096
    )
    flush_interval_s: float = number(
        10.0,
        "seconds between checkpoints while there is something to flush (flushInterval)",
        low=0.001,
    )
    netty_max_frame_size_bytes: int = size(
        5 * MIB + 10 * 1024,
        "bytes of a frame; a longer one closes its connection (nettyMaxFrameSizeBytes)",
        low=4096,
    )
    max_connections: int = count(4096, "connections; further ones are closed at once", low=1)
    max_batch_read_bytes: int = size(
        5 * MIB, "bytes of the answer to a batch read (maxBatchReadSize)", low=4096
    )
    max_pending_add_bytes: int = size(
        32 * MIB,
        "bytes not yet durable; above it connections that send adds are not read",
        low=4096,
    )
    max_pending_read_requests: int = count(
        10_000,
        "pending reads; further ones are answered ETOOMANYREQUESTS (maxPendingReadRequestsPerThread)",
        low=1,
    )
    disk_usage_threshold: float = number(
        0.95,
        "share in use of a disk from which the bookie is read-only (diskUsageThreshold)",
        high=1,
    )
    disk_usage_lwm_threshold: float = number(
        0.95, "share below which the bookie is writable again (diskUsageLwmThreshold)", high=1
    )
    disk_check_interval_s: float = number(
        10.0, "seconds between checks of the disks (diskCheckInterval)", low=0.001
    )
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
        900.0, "seconds between garbage collections (gcWaitTime)", low=0.001
    )
    minor_compaction_threshold: float = number(
        0.2, "live share below which a log is compacted; 0: off (minorCompactionThreshold)", high=1
    )
    minor_compaction_interval_s: float = number(
        3600.0, "seconds between compactions; 0: off (minorCompactionInterval)"
    )
    minor_compaction_max_time_s: float = number(
        0.0,
        "seconds after which no further log is compacted; 0: no bound (minorCompactionMaxTimeMillis)",
    )
    major_compaction_threshold: float = number(
        0.8, "as minor_compaction_threshold (majorCompactionThreshold)", high=1
    )
    major_compaction_interval_s: float = number(
        86_400.0, "as minor_compaction_interval_s (majorCompactionInterval)"
    )
    major_compaction_max_time_s: float = number(
        0.0, "as minor_compaction_max_time_s (majorCompactionMaxTimeMillis)"
    )
    is_throttle_by_bytes: bool = flag(
        True,
        "throttle compaction by bytes, because blocks are copied; false: by entries, as BookKeeper (isThrottleByBytes)",
    )
    compaction_rate_by_bytes: int = size(16 * MIB, "bytes a second (compactionRateByBytes)", low=1)
    compaction_rate_by_entries: int = count(
        10_000, "entries a second (compactionRateByEntries)", low=1
    )
    scrub_interval_s: float = number(
        604_800.0,
        "seconds within which everything kept is read back and verified; 0: never, but entries that reads find damaged "
        "are still restored from other copies",
    )
    scrub_rate_by_bytes: int = size(16 * MIB, "bytes a second that are read back at most", low=4096)
    is_force_gc_allow_when_no_space: bool = flag(
        False,
        "compact when all ledger directories are full, within the reserve "
        "(isForceGCAllowWhenNoSpace)",
    )
    accept_journal_loss: bool = flag(
        False,
        "start with a damaged journal; every ledger is fenced and in limbo until "
        "repaired from other bookies",
    )

    def __post_init__(self) -> None:
        """Check ranges and combinations. Raises SettingsError."""
        check_ranges(self)
        if not self.data_dir and not (self.journal_directories and self.ledger_directories):
            raise SettingsError("data_dir must name a directory")
        self._check_directories()
        if not self.bookie_port and not self.bookie_id:
            raise SettingsError(
                "bookie_port must not be 0 without a bookie_id, which would hold the port"
            )
        if is_wildcard(self.host):
            raise SettingsError(
                f"advertised_address must name a host that clients can connect to, not {self.host!r}, which stands for "
                "every address"
            )
        self._check_tls()
        self._check_roles()
        if not 0 < self.disk_usage_lwm_threshold <= self.disk_usage_threshold:
            raise SettingsError(
                f"disk_usage_lwm_threshold must be above 0 and at most disk_usage_threshold "
                f"{self.disk_usage_threshold}, not {self.disk_usage_lwm_threshold}"
            )
        self._check_compaction()

    def _check_tls(self) -> None:
        if self.tls_provider_factory_class not in ("", TLS_FACTORY):
            raise SettingsError(
                f"tls_provider_factory_class must be {TLS_FACTORY} or empty, "
                f"not {self.tls_provider_factory_class!r}"
            )
        needed = ["tls_certificate_path", "tls_key_store"]
        if self.tls_client_authentication:
            needed.append("tls_trust_store")
        for name in needed if self.has_tls else ():
            if not getattr(self, name):
                raise SettingsError(
                    f"{name} must name a file where tls_provider_factory_class is set"
                )

    def _check_roles(self) -> None:
        if self.bookie_auth_provider_factory_class not in ("", ROLES_FACTORY):
            raise SettingsError(
                f"bookie_auth_provider_factory_class must be {ROLES_FACTORY} or empty, "
                f"not {self.bookie_auth_provider_factory_class!r}"
            )
        if bool(self.bookie_auth_provider_factory_class) != bool(self.roles):
            raise SettingsError(
                "bookie_auth_provider_factory_class and authorized_roles must be set together"
            )
        if self.roles and not (self.has_tls and self.tls_trust_store):
            raise SettingsError(
                "tls_provider_factory_class and tls_trust_store must be set where authorized_roles are: clients show "
                "their role by a certificate"
            )

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
        for suffix in ("threshold", "interval_s"):
            minor = getattr(self, f"minor_compaction_{suffix}")
            if minor > (major := getattr(self, f"major_compaction_{suffix}")):
                raise SettingsError(
                    f"minor_compaction_{suffix} must be at most major_compaction_{suffix} {major}, not {minor}"
                )

    @property
    def has_tls(self) -> bool:
        return bool(self.tls_provider_factory_class)

    @property
    def roles(self) -> frozenset[str]:
        """Roles of the clients that are served; empty: all clients."""
        return frozenset(role.strip() for role in self.authorized_roles.split(",") if role.strip())

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
        """Ledger directories as configured, the one with the index first."""
        names = self.ledger_directories or f"{self.data_dir}/ledgers"
        return [name.strip().rstrip("/") for name in names.split(",")]

    def named(self, directory: str) -> str:
        """Return the name of a directory in the cookie."""
        below = f"{self.data_dir}/"
        return directory.removeprefix(below) if self.movable_data else directory

    @property
    def host(self) -> str:
        """The host that clients connect to."""
        return self.advertised_address or self.listening_host


@dataclass(frozen=True, slots=True)
class ProcessSettings:
    """All settings of a bookie process."""

    bookie: BookieSettings = field(metadata=PRIVATE)
    metadata: MetadataSettings
    log: LogSettings
    ledger: LedgerSettings
    repair: RepairSettings
    reach: ReachSettings = field(default_factory=ReachSettings)

    def __post_init__(self) -> None:
        """Check combinations. Raises SettingsError."""
        self.reach.check(
            "listening_host", self.bookie.listening_host, authenticated=bool(self.bookie.roles)
        )


PROGRAM = Program("bookie", ProcessSettings)
