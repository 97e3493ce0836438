"""Settings of a broker process, collected from the packages that read them and loaded once at its start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.base.log import LogSettings
from engine.base.settings import Program, SettingsError
from engine.broker.settings import DataPathSettings, LedgerDefaults, NodeSettings
from engine.client.settings import BrokerClientSettings
from engine.ledger.settings import LedgerSettings
from engine.managed.settings import ManagedSettings
from engine.metadata.settings import MetadataSettings
from engine.tenancy.settings import PolicySettings, TenantLimits


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of a broker process."""

    node: NodeSettings
    data_path: DataPathSettings
    defaults: LedgerDefaults
    policies: PolicySettings
    managed: ManagedSettings
    ledger: LedgerSettings
    tenants: TenantLimits = field(default_factory=TenantLimits)
    broker_client: BrokerClientSettings = field(default_factory=BrokerClientSettings)
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    log: LogSettings = field(default_factory=LogSettings)

    def __post_init__(self) -> None:
        """Check combinations. Raises SettingsError."""
        tls = self.broker_client.broker_client_tls_enabled
        if tls and self.node.broker_service_port_tls is None:
            raise SettingsError(
                "broker_service_port_tls must be set where broker_client_tls_enabled is true: a broker also connects "
                "to itself"
            )


ELSEWHERE = frozenset(
    {
        *("allowed_hosts", "allowed_origins", "asgi_server", "clusters", "control_socket"),
        "redis_url",
        *("max_connections_per_address", "secret_key"),
        "status_file_path",
        "websocket_key_folder",
        "workers_on_demand",
        *("audit_days", "audit_entries_max", "run_days", "runs_max"),
        *("bookie_http_port", "bookie_port", "gateway_http_port", "gateways", "http_port"),
        *("redis_port", "spark_port"),
    }
)
"""Settings at the top of the file that only the gateway and the supervisor read."""

PROGRAM = Program("broker", Settings, ELSEWHERE)


def load(environ: Mapping[str, str], directory: Path) -> Settings:
    """Load settings from the environment and the file ``MAGNETAR_CONFIG`` or ``magnetar.toml`` in ``directory``.

    Raises SettingsError.
    """
    return PROGRAM.load(environ, directory)
