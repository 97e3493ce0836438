"""Settings of a broker process, collected from the packages that read them and loaded once at its start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.auth.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    BasicSettings,
    IdentitySettings,
    OpenIdSettings,
    SecondTokenSettings,
    TokenSettings,
)
from engine.base.addresses import ReachSettings, is_wildcard
from engine.base.log import LogSettings
from engine.base.settings import Program, SettingsError
from engine.broker.settings import (
    DataPathSettings,
    LedgerDefaults,
    NodeSettings,
    TransactionSettings,
)
from engine.client.settings import BrokerClientSettings
from engine.ledger.settings import LedgerSettings
from engine.managed.settings import ManagedSettings
from engine.metadata.settings import MetadataSettings
from engine.net.tls import TlsSettings
from engine.offload.settings import OffloadSettings
from engine.ownership.load.settings import LoadBalanceSettings
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
    transactions: TransactionSettings = field(default_factory=TransactionSettings)
    offload: OffloadSettings = field(default_factory=OffloadSettings)
    load_balance: LoadBalanceSettings = field(default_factory=LoadBalanceSettings)
    tenants: TenantLimits = field(default_factory=TenantLimits)
    broker_client: BrokerClientSettings = field(default_factory=BrokerClientSettings)
    metadata: MetadataSettings = field(default_factory=MetadataSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    authentication: AuthenticationSettings = field(default_factory=AuthenticationSettings)
    token: TokenSettings = field(default_factory=TokenSettings)
    second_token: SecondTokenSettings = field(default_factory=SecondTokenSettings)
    basic: BasicSettings = field(default_factory=BasicSettings)
    open_id: OpenIdSettings = field(default_factory=OpenIdSettings)
    authorization: AuthorizationSettings = field(default_factory=AuthorizationSettings)
    reach: ReachSettings = field(default_factory=ReachSettings)
    log: LogSettings = field(default_factory=LogSettings)

    def __post_init__(self) -> None:
        """Check combinations. Raises SettingsError."""
        try:
            bindings = self.node.bindings
        except ValueError as error:
            raise SettingsError(str(error)) from error
        for secured in ("broker_service_port_tls", "broker_http_port_tls"):
            if getattr(self.node, secured) is not None:
                self.tls.check(secured)
        if any(address.scheme == "pulsar+ssl" for address in bindings):
            self.tls.check("bind_addresses")
        tls = self.broker_client.broker_client_tls_enabled
        internal = next(iter(self.node.listeners.values()), None)
        if internal is not None:
            if not (internal.service_url_tls if tls else internal.service_url):
                raise SettingsError(
                    f"the internal listener of advertised_listeners must have an address for "
                    f"{'pulsar+ssl' if tls else 'pulsar'}: a broker also connects to itself"
                )
        elif tls and self.node.broker_service_port_tls is None:
            raise SettingsError(
                "broker_service_port_tls must be set where broker_client_tls_enabled is true: a broker also connects "
                "to itself"
            )
        authenticated = self.authentication.authentication_enabled
        self.reach.check("bind_address", self.node.bind_address, authenticated=authenticated)
        for address in bindings:
            self.reach.check("bind_addresses", address.host, authenticated=authenticated)
        if is_wildcard(self.node.host):
            raise SettingsError(
                f"advertised_address must name a host that clients can connect to, not {self.node.host!r}, which "
                "stands for every address"
            )
        if (
            authenticated
            and not self.authentication.anonymous_user_role
            and not self.broker_client.broker_client_authentication_plugin
        ):
            raise SettingsError(
                "broker_client_authentication_plugin must be set where authentication_enabled is true: a broker also "
                "logs in at itself"
            )
        try:
            _ = self.identity
        except ValueError as error:
            raise SettingsError(str(error)) from error

    @property
    def identity(self) -> IdentitySettings:
        """The groups by which clients are identified."""
        return IdentitySettings(
            self.authentication,
            self.token,
            self.second_token,
            self.basic,
            self.open_id,
            self.authorization,
        )


ELSEWHERE = frozenset(
    {
        *(
            "alert_console_url",
            "alert_days",
            "alert_destinations",
            "alert_unknown_minutes",
            "mail_from",
        ),
        *("smtp_host", "smtp_password", "smtp_port", "smtp_security", "smtp_user"),
        *("allowed_hosts", "allowed_origins", "apache_clusters", "asgi_server", "clusters"),
        *("mcp_enabled", "package_bytes_max", "package_url_patterns"),
        *("control_socket", "serves_own_cluster"),
        *("database_url", "database_password", "database_connections_max", "database_tls_enabled"),
        *("database_tls_trust_certs_file_path", "database_tls_certificate_file_path"),
        "database_tls_key_file_path",
        *("password_sign_in", "session_hours", "sign_in_providers"),
        *("sign_in_failures_max", "sign_in_pause_minutes"),
        *("redis_url", "redis_user", "redis_password"),
        *("redis_tls_trust_certs_file_path", "redis_tls_certificate_file_path"),
        "redis_tls_key_file_path",
        *("max_connections_per_address", "secret_key", "token_signing_key", "trusted_proxies"),
        "status_file_path",
        "websocket_key_folder",
        "workers_on_demand",
        *("audit_days", "audit_entries_max", "run_days", "runs_max"),
        *("analyses_at_once", "output_url", "spark_memory_mb", "spark_pages_url"),
        "spark_at_start",
        *("bookie_http_port", "bookie_port", "gateway_http_port", "gateways", "http_port"),
        *("broker_http_tls_port", "broker_tls_port", "https_port"),
        *("proxy_port", "proxy_tls_port", "proxy_http_port"),
        *("functions_port", "functions_tls_port", "functions_worker_enabled"),
        *("redis_port", "spark_port"),
        *("auto_recovery_daemon_enabled", "http_server_changes_enabled"),
        "http_server_ledgers_enabled",
        *("lost_bookie_recovery_delay", "auditor_ledgers_per_second"),
        *("auditor_periodic_bookie_check_interval", "auditor_periodic_check_interval"),
        "auditor_periodic_placement_policy_check_interval",
        "repaired_placement_policy_not_adhering_bookie_enabled",
        *("auditor_replicas_check_interval", "open_ledger_rereplication_grace_period_s"),
        *("lock_release_of_failed_ledger_grace_period_s", "rw_rereplicate_backoff_s"),
        *("rereplication_batch_bytes", "replication_rate_by_bytes"),
    }
)
"""Settings at the top of the file that only the gateway, the supervisor and auto-recovery read."""

PROGRAM = Program("broker", Settings, ELSEWHERE)


def load(environ: Mapping[str, str], directory: Path) -> Settings:
    """Load settings from the environment and the file ``MAGNETAR_CONFIG`` or ``magnetar.toml`` in ``directory``.

    Raises SettingsError.
    """
    return PROGRAM.load(environ, directory)
