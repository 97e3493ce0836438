"""Settings of the ledger client; BookKeeper's and Pulsar's names for the same things stand in brackets."""

from dataclasses import dataclass

from engine.base.errors import MisuseError
from engine.base.settings import count, flag, number, size, text

POLICY_NAMES = ("rack-aware", "spread")
"""Placement policies that come with it."""

_UNBUILT = "must be empty: this client speaks to bookies in clear and without authentication; keep their ports private"


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Of the ledger client. Times in seconds, sizes in bytes."""

    add_entry_timeout_s: float = number(
        5.0,
        "seconds; a bookie that acknowledges nothing for so long while adds wait is replaced "
        "(addEntryTimeoutSec)",
        low=0.05,
        high=3600,
    )
    add_entry_age_max_s: float = number(
        30.0,
        "seconds; a bookie that left one add unanswered for so long is replaced, though it "
        "acknowledges others",
        low=0.05,
        high=3600,
    )
    read_entry_timeout_s: float = number(
        5.0,
        "seconds; a replica that does not answer a read by then has failed for that read "
        "(readEntryTimeoutSec)",
        low=0.05,
        high=3600,
    )
    speculative_read_timeout_s: float = number(
        2.0,
        "seconds without an answer, then the next replica is asked as well; 0: never "
        "(speculativeReadTimeout)",
        high=3600,
    )
    recovery_timeout_s: float = number(
        30.0, "seconds of one recovery; a later attempt starts over", low=0.1, high=3600
    )
    metadata_timeout_s: float = number(
        10.0,
        "seconds of an ensemble change or a close while the metadata store does not answer",
        low=0.1,
        high=3600,
    )
    unsent_bytes_max: int = size(
        64 * 1024 * 1024,
        "bytes kept for one bookie that does not read; beyond it its connection is cut, as if "
        "it had failed",
        low=1024,
    )
    connect_timeout_s: float = number(3.0, "seconds to connect to a bookie in", low=0.05, high=60)
    reconnect_backoff_max_s: float = number(
        1.0,
        "seconds; after failed connects the next one waits from 1/32 of this up to this, and "
        "requests fail at once",
        high=60,
    )
    suspect_s: float = number(
        10.0,
        "seconds for which a bookie that failed is avoided, unless it registers again",
        high=3600,
    )
    health_check_interval_s: float = number(
        60.0,
        "seconds over which a bookie's failures are counted (bookieHealthCheckIntervalSeconds)",
        low=1,
    )
    bookie_errors_per_interval: int = count(
        5, "so many of them and it is quarantined (bookieErrorThresholdPerInterval)", low=1
    )
    quarantine_s: float = number(
        1800.0,
        "seconds for which it is chosen only when nobody else is left; 0: never "
        "(bookieQuarantineTime)",
    )
    ensemble_placement_policy: str = text(
        "rack-aware", "rack-aware, spread, or module:Class (ensemblePlacementPolicy)"
    )
    min_racks_per_write_quorum: int = count(
        2, "racks that every write set should touch (minNumRacksPerWriteQuorum)", low=1
    )
    enforce_min_racks_per_write_quorum: bool = flag(
        False,
        "refuse ensembles with fewer racks instead of taking the best there is "
        "(enforceMinNumRacksPerWriteQuorum)",
    )
    local_rack: str = text("", "rack of this process: reads prefer bookies there")
    delay_ensemble_change: bool = flag(
        False,
        "go on without a failed bookie while every write set has an ack quorum "
        "(delayEnsembleChange)",
    )
    explicit_lac_interval_s: float = number(
        0.0,
        "seconds after which an idle writer tells the bookies its last confirmed entry; 0: "
        "never (explicitLacInterval)",
        high=3600,
    )
    read_entries_max: int = count(1000, "entries asked for at once one by one", low=1, high=2500)
    batch_read: bool = flag(
        True, "ask for runs of entries in one request, of bookies that know it (batchReadEnabled)"
    )
    batch_entries_max: int = count(
        5000, "entries asked for in one such request; checking so many takes 4 ms", low=1
    )
    recovery_window: int = count(
        32,
        "entries read and written back at once in a recovery (recoveryReadBatchSize)",
        low=1,
        high=1000,
    )
    bookie_tls_provider: str = text(
        "",
        "must be empty: not built (bookkeeperTLSProviderFactoryClass)",
        name="bookkeeper_tls_provider_factory_class",
    )
    bookie_auth_plugin: str = text(
        "",
        "must be empty: not built (bookkeeperClientAuthenticationPlugin)",
        name="bookkeeper_client_authentication_plugin",
    )

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
