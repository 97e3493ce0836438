"""Settings of the ledger client, with BookKeeper's or Pulsar's name for the same setting in brackets."""

from dataclasses import dataclass

from engine.base.errors import MisuseError
from engine.base.settings import count, flag, number, size, text
from engine.net.tls import TLS_FACTORY

POLICY_NAMES = ("rack-aware", "spread")
"""Built-in placement policies."""


@dataclass(frozen=True, slots=True)
class LedgerSettings:
    """Settings of the ledger client. Times are in seconds, sizes in bytes."""

    add_entry_timeout_s: float = number(
        5.0,
        "seconds after which a bookie that acknowledges nothing while adds are pending is replaced "
        "(addEntryTimeoutSec)",
        low=0.05,
        high=3600,
    )
    add_entry_age_max_s: float = number(
        30.0,
        "seconds after which a bookie that has not answered one add is replaced, even if it "
        "acknowledges others",
        low=0.05,
        high=3600,
    )
    read_entry_timeout_s: float = number(
        5.0,
        "seconds after which a replica that has not answered a read has failed for that read "
        "(readEntryTimeoutSec)",
        low=0.05,
        high=3600,
    )
    speculative_read_timeout_s: float = number(
        2.0,
        "seconds without an answer after which the next replica is read as well; 0: never "
        "(speculativeReadTimeout)",
        high=3600,
    )
    recovery_timeout_s: float = number(
        30.0, "seconds that one recovery may take; a later attempt starts again", low=0.1, high=3600
    )
    metadata_timeout_s: float = number(
        10.0,
        "seconds that an ensemble change or a close waits for a metadata store that does not answer",
        low=0.1,
        high=3600,
    )
    unsent_bytes_max: int = size(
        64 * 1024 * 1024,
        "unsent bytes for one bookie that does not read; above it the connection is closed as "
        "failed",
        low=1024,
    )
    connect_timeout_s: float = number(
        3.0, "seconds that connecting to a bookie may take", low=0.05, high=60
    )
    reconnect_backoff_max_s: float = number(
        1.0,
        "longest pause in seconds between attempts to connect, which starts at 1/32 of it; requests "
        "fail at once meanwhile",
        high=60,
    )
    suspect_s: float = number(
        10.0,
        "seconds for which a failed bookie is avoided, unless it registers again",
        high=3600,
    )
    health_check_interval_s: float = number(
        60.0,
        "seconds over which a bookie's failures are counted (bookieHealthCheckIntervalSeconds)",
        low=1,
    )
    bookie_errors_per_interval: int = count(
        5,
        "failures per interval after which a bookie is quarantined (bookieErrorThresholdPerInterval)",
        low=1,
    )
    quarantine_s: float = number(
        1800.0,
        "seconds for which a quarantined bookie is chosen only if there is no other, or by regions no other in its "
        "region; 0: never (bookieQuarantineTime)",
    )
    ensemble_placement_policy: str = text(
        "rack-aware", "rack-aware, spread, or module:Class (ensemblePlacementPolicy)"
    )
    min_racks_per_write_quorum: int = count(
        2, "racks that every write set should touch (minNumRacksPerWriteQuorum)", low=1
    )
    enforce_min_racks_per_write_quorum: bool = flag(
        False,
        "refuse ensembles with fewer racks instead of using the best available "
        "(enforceMinNumRacksPerWriteQuorum)",
    )
    region_aware: bool = flag(
        False,
        "place copies over regions, the first parts of racks /region/rack, instead of by ensemblePlacementPolicy, and "
        "confirm an entry once it is in enough regions (bookkeeperClientRegionawarePolicyEnabled)",
        name="bookkeeper_client_regionaware_policy_enabled",
    )
    regions_to_write: str = text(
        "",
        "the regions that ledgers are written to, separated by ;, empty: all (reppRegionsToWrite)",
        name="repp_regions_to_write",
    )
    regions_min: int = count(
        2,
        "regions that must have an entry before it is confirmed; no ledger is created or changed to have fewer "
        "(reppMinimumRegionsForDurability)",
        low=1,
        name="repp_minimum_regions_for_durability",
    )
    local_rack: str = text(
        "", "rack of this process; reads prefer bookies in it, or where region-aware in its region"
    )
    delay_ensemble_change: bool = flag(
        False,
        "continue without a failed bookie while every write set has an ack quorum "
        "(delayEnsembleChange)",
    )
    explicit_lac_interval_s: float = number(
        0.0,
        "seconds after which an idle writer sends its last confirmed entry to the bookies; 0: "
        "never (explicitLacInterval)",
        high=3600,
    )
    read_entries_max: int = count(
        1000, "entries read at once with one request for each", low=1, high=2500
    )
    batch_read: bool = flag(
        True, "read runs of entries in one request, from bookies that support it (batchReadEnabled)"
    )
    batch_entries_max: int = count(
        5000, "entries read in one such request; checking 5000 takes 4 ms", low=1
    )
    recovery_window: int = count(
        32,
        "entries read and written back at once in a recovery (recoveryReadBatchSize)",
        low=1,
        high=1000,
    )
    bookie_tls_provider: str = text(
        "",
        f"{TLS_FACTORY}: connect to bookies in TLS 1.2 or later (START_TLS); empty: in clear "
        "(bookkeeperTLSProviderFactoryClass)",
        name="bookkeeper_tls_provider_factory_class",
    )
    bookkeeper_tls_trust_certs_file_path: str = text(
        "",
        "PEM file of the CAs that sign bookies' certificates; empty: those of the operating system "
        "(bookkeeperTLSTrustCertsFilePath)",
    )
    bookkeeper_tls_hostname_verification_enabled: bool = flag(
        True,
        "whether a bookie's certificate must be for its registered host; Pulsar false "
        "(bookkeeper_tlsHostnameVerificationEnabled)",
    )
    bookkeeper_tls_client_authentication: bool = flag(
        False, "whether to present a certificate to bookies (bookkeeperTLSClientAuthentication)"
    )
    bookkeeper_tls_certificate_file_path: str = text(
        "", "PEM file of that certificate, leaf first (bookkeeperTLSCertificateFilePath)"
    )
    bookkeeper_tls_key_file_path: str = text(
        "", "PEM file of its key, unencrypted (bookkeeperTLSKeyFilePath)"
    )
    bookkeeper_tls_cert_files_refresh_duration_seconds: int = count(
        300,
        "seconds after which a new connection checks whether the certificates' files have changed; 0: each "
        "connection (bookkeeperTlsCertFilesRefreshDurationSeconds)",
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
        if self.bookie_tls_provider not in ("", TLS_FACTORY):
            raise MisuseError(
                f"bookkeeper_tls_provider_factory_class must be {TLS_FACTORY} or empty, "
                f"not {self.bookie_tls_provider!r}"
            )
        if self.bookkeeper_tls_client_authentication and not (
            self.bookkeeper_tls_certificate_file_path and self.bookkeeper_tls_key_file_path
        ):
            raise MisuseError(
                "bookkeeper_tls_certificate_file_path and bookkeeper_tls_key_file_path must name files where "
                "bookkeeper_tls_client_authentication is true"
            )
        if self.bookie_auth_plugin:
            raise MisuseError(
                "bookkeeper_client_authentication_plugin must be empty: authentication towards bookies is not built"
            )
