"""Settings of the ledger client. BookKeeper's and Pulsar's names for the same things stand in the comments."""

from dataclasses import dataclass, field

from engine.base.errors import MisuseError

POLICY_NAMES = ("rack-aware", "spread")
"""Placement policies that come with it."""

_UNBUILT = "must be empty: this client speaks to bookies in clear and without authentication; keep their ports private"


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Times in seconds, sizes in bytes."""

    add_entry_timeout_s: float = field(default=5.0, metadata={"low": 0.05, "high": 3600})
    """A bookie that acknowledges nothing for so long while adds wait is replaced (addEntryTimeoutSec)."""

    add_entry_age_max_s: float = field(default=30.0, metadata={"low": 0.05, "high": 3600})
    """A bookie that left one add unanswered for so long is replaced, though it acknowledges others."""

    read_entry_timeout_s: float = field(default=5.0, metadata={"low": 0.05, "high": 3600})
    """A replica that does not answer a read within it counts as failed for that read (readEntryTimeoutSec)."""

    speculative_read_timeout_s: float = field(default=2.0, metadata={"low": 0, "high": 3600})
    """After so long without an answer the next replica is asked as well; 0 never (speculativeReadTimeout)."""

    recovery_timeout_s: float = field(default=30.0, metadata={"low": 0.1, "high": 3600})
    """Bound of one recovery; then LedgerRecoveryError, and a later attempt starts over."""

    metadata_timeout_s: float = field(default=10.0, metadata={"low": 0.1, "high": 3600})
    """Bound of an ensemble change or a close while the metadata store does not answer."""

    unsent_bytes_max: int = field(default=64 * 1024 * 1024, metadata={"low": 1024})
    """Bytes kept for one bookie that does not read; beyond it its connection is cut, as if it had failed."""

    connect_timeout_s: float = field(default=3.0, metadata={"low": 0.05, "high": 60})

    reconnect_backoff_max_s: float = field(default=1.0, metadata={"low": 0, "high": 60})
    """After failed connects the next one waits, from 1/32 of this up to this; requests fail at once meanwhile."""

    suspect_s: float = field(default=10.0, metadata={"low": 0, "high": 3600})
    """A bookie that failed is avoided for so long, unless it registers again."""

    health_check_interval_s: float = field(default=60.0, metadata={"low": 1})
    """Failures of a bookie are counted over so long (bookieHealthCheckIntervalSeconds) ..."""

    bookie_errors_per_interval: int = field(default=5, metadata={"low": 1})
    """... and with so many of them it is quarantined (bookieErrorThresholdPerInterval) ..."""

    quarantine_s: float = field(default=1800.0, metadata={"low": 0})
    """... for so long: chosen only when nobody else is left (bookieQuarantineTime); 0 never."""

    ensemble_placement_policy: str = "rack-aware"
    """``rack-aware``, ``spread``, or ``module:Class`` (ensemblePlacementPolicy)."""

    min_racks_per_write_quorum: int = field(default=2, metadata={"low": 1})
    """Racks every write set should touch (minNumRacksPerWriteQuorum)."""

    enforce_min_racks_per_write_quorum: bool = False
    """Refuse ensembles with fewer racks instead of taking the best there is (enforceMinNumRacksPerWriteQuorum)."""

    local_rack: str = ""
    """Rack of this process: reads prefer bookies there."""

    delay_ensemble_change: bool = False
    """Go on without a failed bookie while every write set has an ack quorum (delayEnsembleChange)."""

    explicit_lac_interval_s: float = field(default=0.0, metadata={"low": 0, "high": 3600})
    """An idle writer tells the bookies its last confirmed entry after so long; 0 never (explicitLacInterval)."""

    read_entries_max: int = field(default=1000, metadata={"low": 1, "high": 2500})
    """Entries asked for at once one by one."""

    batch_read: bool = True
    """Ask for runs of entries in one request, of bookies that know it (batchReadEnabled)."""

    batch_entries_max: int = field(default=5000, metadata={"low": 1})
    """Entries asked for at once in one request; checking so many takes the event loop 4 ms."""

    recovery_window: int = field(default=32, metadata={"low": 1, "high": 1000})
    """Entries read and written back at once in a recovery (recoveryReadBatchSize)."""

    bookie_tls_provider: str = field(
        default="", metadata={"setting": "bookkeeper_tls_provider_factory_class"}
    )
    """Not built (bookkeeperTLSProviderFactoryClass)."""

    bookie_auth_plugin: str = field(
        default="", metadata={"setting": "bookkeeper_client_authentication_plugin"}
    )
    """Not built (bookkeeperClientAuthenticationPlugin)."""

    def __post_init__(self) -> None:
        policy = self.ensemble_placement_policy
        if policy not in POLICY_NAMES and ":" not in policy:
            raise MisuseError(
                f"ensemble_placement_policy must be one of {', '.join(POLICY_NAMES)} or module:Class, not {policy!r}"
            )
        if self.bookie_tls_provider:
            raise MisuseError(f"bookkeeper_tls_provider_factory_class {_UNBUILT}")
        if self.bookie_auth_plugin:
            raise MisuseError(f"bookkeeper_client_authentication_plugin {_UNBUILT}")
