"""Settings of tiered storage, with Pulsar's names in snake_case."""

from dataclasses import dataclass

from engine.base.settings import count, number, size, text
from engine.offload.bucket import DRIVERS, FILES, Bucket, driver_of
from engine.offload.offload_policy import OffloadPolicy
from engine.offload.tiered_storage import TierLimits

MIB = 1 << 20
BOOKIES_FIRST = "bookkeeper-first"
STORAGE_FIRST = "tiered-storage-first"


@dataclass(frozen=True, slots=True)
class OffloadSettings:
    """Tiered storage of topics for which no policy of a namespace or topic says otherwise. Credentials are
    those of the environment (``AWS_ACCESS_KEY_ID``, …) or of the machine."""

    managed_ledger_offload_driver: str = text(
        "",
        "aws-s3, google-cloud-storage, azureblob, aliyun-oss or filesystem; empty: only where a policy names one "
        "(managedLedgerOffloadDriver)",
    )
    managed_ledger_offload_bucket: str = text(
        "", "bucket or container of the driver (managedLedgerOffloadBucket)"
    )
    managed_ledger_offload_region: str = text(
        "", "region of the bucket (managedLedgerOffloadRegion)"
    )
    managed_ledger_offload_service_endpoint: str = text(
        "", "URL of the store; empty: the provider's own (managedLedgerOffloadServiceEndpoint)"
    )
    file_system_uri: str = text(
        "", "folder of the driver filesystem, which all brokers share: file:///path (fileSystemURI)"
    )
    managed_ledger_offload_auto_trigger_size_threshold_bytes: int = count(
        -1,
        "bytes of a topic that stay on bookies when older ledgers are moved; -1: without limit "
        "(managedLedgerOffloadAutoTriggerSizeThresholdBytes)",
        low=-1,
    )
    managed_ledger_offload_threshold_in_seconds: int = count(
        -1,
        "seconds after which a closed ledger is moved; -1: never (managedLedgerOffloadThresholdInSeconds)",
        low=-1,
    )
    managed_ledger_offload_deletion_lag_ms: int = count(
        14_400_000,
        "milliseconds after which a moved ledger is deleted from the bookies; -1: never "
        "(managedLedgerOffloadDeletionLagMs)",
        low=-1,
    )
    managed_ledger_data_read_priority: str = text(
        STORAGE_FIRST,
        f"{STORAGE_FIRST} or {BOOKIES_FIRST}: where a ledger is read that both have "
        "(managedLedgerDataReadPriority)",
    )
    managed_ledger_offload_max_threads: int = count(
        2, "ledgers moved at the same time (managedLedgerOffloadMaxThreads)", low=1, high=64
    )
    managed_ledger_offload_moved_bytes_per_second: int = size(
        0, "bytes per second that a broker moves at most, of all topics; 0: without limit", low=0
    )
    managed_ledger_offload_read_bytes_per_second: int = size(
        0,
        "bytes per second that a broker reads at most from tiered storage, of all topics; 0: without limit",
        low=0,
    )
    managed_ledger_offload_cache_bytes: int = size(
        64 * MIB,
        "bytes of tiered storage that a broker holds in memory for its readers, of all topics; at most half of them "
        "are being read ahead",
        low=2 * MIB,
    )
    managed_ledger_offload_read_ahead_bytes: int = size(
        16 * MIB,
        "bytes that are read ahead of a reader of tiered storage at most; it begins with 1 MiB and doubles",
        low=0,
    )
    managed_ledger_offload_price_per_gb_month: float = number(
        0.0, "price of 10^9 bytes of tiered storage for a month, in any currency; 0: not shown"
    )
    bookie_storage_price_per_gb_month: float = number(
        0.0, "price of 10^9 bytes on a bookie for a month, in the same currency; 0: not shown"
    )
    managed_ledger_offload_orphan_scan_interval_s: int = count(
        0,
        "seconds between two removals of objects that no topic names, by the broker that leads; 0: never",
        low=0,
    )
    managed_ledger_offload_orphan_age_s: int = count(
        86_400,
        "age in seconds from which an object that no topic names is removed; above any difference of clocks and any "
        "lag of the metadata store",
        low=3600,
    )

    def __post_init__(self) -> None:
        """Check the values. Raises ValueError, in one line that names the setting and its permitted values."""
        driver = self.managed_ledger_offload_driver
        if driver and driver_of(driver) not in DRIVERS:
            raise ValueError(
                f"managed_ledger_offload_driver must be one of {', '.join(DRIVERS)}, not {driver}"
            )
        if driver and not self.bucket_of(driver).name:
            missing = "file_system_uri" if driver == FILES else "managed_ledger_offload_bucket"
            raise ValueError(f"{missing} must be set for managed_ledger_offload_driver {driver}")
        if self.managed_ledger_data_read_priority not in (STORAGE_FIRST, BOOKIES_FIRST):
            raise ValueError(
                f"managed_ledger_data_read_priority must be {STORAGE_FIRST} or {BOOKIES_FIRST}, "
                f"not {self.managed_ledger_data_read_priority}"
            )

    def bucket_of(self, driver: str) -> Bucket:
        """Return the bucket of these settings for ``driver``; its name may be empty."""
        if driver == FILES:
            return Bucket(FILES, folder_of(self.file_system_uri))
        return Bucket(
            driver_of(driver),
            self.managed_ledger_offload_bucket,
            self.managed_ledger_offload_region,
            self.managed_ledger_offload_service_endpoint,
        )

    @property
    def limits(self) -> TierLimits:
        """The bounds of a process."""
        return TierLimits(
            self.managed_ledger_offload_max_threads,
            self.managed_ledger_offload_moved_bytes_per_second,
            self.managed_ledger_offload_read_bytes_per_second,
            self.managed_ledger_offload_cache_bytes,
            self.managed_ledger_offload_read_ahead_bytes,
        )

    @property
    def policy(self) -> OffloadPolicy | None:
        """The policy of topics for which nothing else is set; None without a driver."""
        driver = self.managed_ledger_offload_driver
        if not driver:
            return None
        lag_ms = self.managed_ledger_offload_deletion_lag_ms
        return OffloadPolicy(
            self.bucket_of(driver),
            self.managed_ledger_offload_auto_trigger_size_threshold_bytes,
            float(self.managed_ledger_offload_threshold_in_seconds),
            lag_ms / 1000 if lag_ms >= 0 else -1.0,
            self.managed_ledger_data_read_priority == BOOKIES_FIRST,
        )


def folder_of(uri: str) -> str:
    """Return the path of a URI ``file:///path``; other texts are paths themselves."""
    return uri.removeprefix("file://")
