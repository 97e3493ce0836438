"""Settings of the metadata server. ZooKeeper's names are in brackets."""

from dataclasses import dataclass, field

from engine.base.addresses import ReachSettings
from engine.base.log import LogSettings
from engine.base.settings import (
    PRIVATE,
    Program,
    SettingsError,
    check_ranges,
    count,
    flag,
    maybe_port,
    port,
    size,
    text,
)

SESSION_TICKS_MIN, SESSION_TICKS_MAX = 2, 20
"""Default bounds of a session's timeout in ticks, as ZooKeeper's."""


@dataclass(frozen=True, slots=True)
class MetadataServerSettings:
    """Settings of the metadata server (`magnetar metadata`). Sizes in bytes."""

    data_dir: str = text("", "folder of the log and the snapshots (dataDir)")
    port: int = port(
        2181, "port of ZooKeeper's protocol; 0: the system chooses (clientPort)", low=0
    )
    host: str = text(
        "127.0.0.1",
        "address to listen on; beyond loopback only with tls_client_names, or insecure_anywhere (clientPortAddress)",
    )
    tls_port: int | None = maybe_port("port for TLS; none: no TLS (secureClientPort)", low=0)
    tls_certificate_path: str = text("", "PEM file of the certificate, leaf first")
    tls_key_path: str = text("", "PEM file of its key, unencrypted")
    tls_trust_path: str = text(
        "",
        "PEM file of the CAs that sign clients' certificates: clients may present one, and it must be trusted",
    )
    tls_client_certificate_required: bool = flag(
        False, "whether clients in TLS need a trusted certificate (ssl.clientAuth)"
    )
    tls_client_names: str = text(
        "",
        "common names of the certificates that are served in TLS, with commas between; empty: all that are trusted",
    )
    tls_only: bool = flag(
        False, "serve no port in clear, without which tls_client_certificate_required is no limit"
    )
    tls_refresh_seconds: int = count(
        300, "seconds after which a new connection checks whether the certificates have changed"
    )
    http_port: int | None = maybe_port(
        "port of /metrics, /ready and /live, in clear and without credentials; none: no such server "
        "(metricsProvider.httpPort)",
        low=0,
    )
    tick_time_ms: int = count(2000, "unit of the bounds of session timeouts (tickTime)", low=10)
    session_timeout_ms_min: int = count(
        0, "shortest timeout of a session; 0: 2 ticks (minSessionTimeout)"
    )
    session_timeout_ms_max: int = count(
        0, "longest timeout of a session; 0: 20 ticks (maxSessionTimeout)"
    )
    request_bytes_max: int = size(
        (1 << 20) - 1, "longest request (jute.maxbuffer)", low=1024, high=1 << 28
    )
    waiting_bytes_max: int = size(
        4 << 20,
        "bytes of a connection's answers that wait for the disk, above which it is not read",
        low=1024,
        high=1 << 30,
    )
    connections_max: int = count(10_000, "open connections (maxCnxns)", low=1)
    connections_per_address_max: int = count(
        0, "open connections of one address; 0: no limit (maxClientCnxns)"
    )
    watches_max: int = count(1_000_000, "watches of all connections", low=1)
    unused_check_seconds: int = count(
        60,
        "time between two searches for empty containers and expired nodes (znode.container.checkIntervalMs)",
        low=1,
    )
    snapshot_log_bytes: int = size(
        64 << 20,
        "length of the log above which a snapshot is taken, unless the last was larger than half of it",
        low=4096,
    )
    disk_free_bytes_min: int = size(
        16 << 20, "free space of the disk below which writes are refused (read-only)"
    )

    def __post_init__(self) -> None:
        """Check values and combinations. Raises SettingsError."""
        check_ranges(self)
        if self.tls_port is not None and not (self.tls_certificate_path and self.tls_key_path):
            raise SettingsError("tls_port needs tls_certificate_path and tls_key_path")
        if self.tls_client_names and not (self.tls_client_certificate_required and self.tls_only):
            raise SettingsError(
                "tls_client_names needs tls_client_certificate_required and tls_only"
            )
        if self.tls_only and self.tls_port is None:
            raise SettingsError("tls_only needs tls_port: no port would be served without it")
        low, high = self.session_timeouts_ms
        if low > high:
            raise SettingsError(
                f"session_timeout_ms_min must be at most session_timeout_ms_max ({high}), not {low}"
            )

    @property
    def client_names(self) -> frozenset[str]:
        """The common names of ``tls_client_names``; empty for all."""
        return frozenset(name.strip() for name in self.tls_client_names.split(",") if name.strip())

    @property
    def authenticates(self) -> bool:
        """True where every client shows a certificate of one of ``tls_client_names``, which needs ``tls_only``."""
        return bool(self.client_names)

    @property
    def session_timeouts_ms(self) -> tuple[int, int]:
        """Bounds of the timeout that a client may have."""
        low = self.session_timeout_ms_min or SESSION_TICKS_MIN * self.tick_time_ms
        return low, self.session_timeout_ms_max or SESSION_TICKS_MAX * self.tick_time_ms


@dataclass(frozen=True, slots=True)
class MetadataProgramSettings:
    """All settings of the process."""

    server: MetadataServerSettings = field(default_factory=MetadataServerSettings, metadata=PRIVATE)
    log: LogSettings = field(default_factory=LogSettings)
    reach: ReachSettings = field(default_factory=ReachSettings)

    def __post_init__(self) -> None:
        """Check combinations. Raises SettingsError."""
        self.reach.check("host", self.server.host, authenticated=self.server.authenticates)


PROGRAM = Program("metadata_server", MetadataProgramSettings)
