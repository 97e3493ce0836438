"""How topics' ledgers are laid out: the broker's defaults, overridden by a namespace's policies."""

from dataclasses import dataclass, field

from engine.broker.ports import TopicPolicies
from engine.managed.settings import LedgerConfig

_COUNT_MAX = 1 << 31


@dataclass(frozen=True, slots=True)
class LedgerDefaults:
    """Pulsar's names in snake_case; quorums are 1 as in its standalone, set by the supervisor where there are more."""

    managed_ledger_default_ensemble_size: int = field(default=1, metadata={"low": 1, "high": 64})
    managed_ledger_default_write_quorum: int = field(default=1, metadata={"low": 1, "high": 64})
    managed_ledger_default_ack_quorum: int = field(default=1, metadata={"low": 1, "high": 64})
    managed_ledger_max_entries_per_ledger: int = field(
        default=50_000, metadata={"low": 1, "high": _COUNT_MAX}
    )
    managed_ledger_max_size_per_ledger_mbytes: int = field(
        default=2048, metadata={"low": 1, "high": 1 << 20}
    )
    managed_ledger_min_ledger_rollover_time_minutes: int = field(
        default=10, metadata={"low": 0, "high": _COUNT_MAX}
    )
    managed_ledger_max_ledger_rollover_time_minutes: int = field(
        default=240, metadata={"low": 1, "high": _COUNT_MAX}
    )
    managed_ledger_cache_size_mb: int = field(
        default=64, metadata={"low": 1, "high": 1 << 20, "help": "managedLedgerCacheSizeMB"}
    )

    def __post_init__(self) -> None:
        """Raises ValueError naming the setting."""
        ensemble = self.managed_ledger_default_ensemble_size
        write = self.managed_ledger_default_write_quorum
        if write > ensemble:
            raise ValueError(
                f"managed_ledger_default_write_quorum must be at most the ensemble size {ensemble}, not {write}"
            )
        if self.managed_ledger_default_ack_quorum > write:
            raise ValueError(
                f"managed_ledger_default_ack_quorum must be at most the write quorum {write}, "
                f"not {self.managed_ledger_default_ack_quorum}"
            )

    def config(self, policies: TopicPolicies) -> LedgerConfig:
        """Configuration of a topic's managed ledger."""
        retention_s = (
            policies.retention_minutes * 60.0
            if policies.retention_minutes > 0
            else (float(policies.retention_minutes))
        )
        retention_mb = policies.retention_mb
        return LedgerConfig(
            ensemble=policies.ensemble or self.managed_ledger_default_ensemble_size,
            write_quorum=policies.write_quorum or self.managed_ledger_default_write_quorum,
            ack_quorum=policies.ack_quorum or self.managed_ledger_default_ack_quorum,
            ledger_entries_max=self.managed_ledger_max_entries_per_ledger,
            ledger_bytes_max=self.managed_ledger_max_size_per_ledger_mbytes << 20,
            ledger_age_max_s=self.managed_ledger_max_ledger_rollover_time_minutes * 60.0,
            ledger_age_min_s=self.managed_ledger_min_ledger_rollover_time_minutes * 60.0,
            retention_s=retention_s,
            retention_bytes=retention_mb << 20 if retention_mb > 0 else retention_mb,
        )
