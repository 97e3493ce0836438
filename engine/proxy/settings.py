"""Settings of the proxy, with Pulsar's names."""

from dataclasses import dataclass, field, replace

from engine.auth.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    BasicSettings,
    IdentitySettings,
    OpenIdSettings,
    SecondTokenSettings,
    TokenSettings,
)
from engine.base.addresses import CLEAR, ENCRYPTED, ReachSettings, ServiceUrl
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
    text,
)
from engine.client.settings import BrokerClientSettings
from engine.metadata.settings import MetadataSettings
from engine.net.tls import TlsSettings


@dataclass(frozen=True, slots=True)
class ProxySettings:
    """Settings of the proxy (`magnetar proxy`)."""

    cluster_name: str = text(
        "standalone", "name of the cluster, a label of the metrics (clusterName)"
    )
    bind_address: str = text(
        "127.0.0.1",
        "address to listen on; other than loopback only with authentication or insecure_anywhere "
        "(bindAddress)",
    )
    service_port: int = port(
        6650, "port of Pulsar's protocol; 0: the system chooses (servicePort)", low=0
    )
    service_port_tls: int | None = maybe_port(
        "port of Pulsar's protocol in TLS; none: no TLS (servicePortTls)", low=0
    )
    web_service_port: int = port(
        8083,
        "port of statistics and metrics, Pulsar 8080; 0: the system chooses (webServicePort)",
        low=0,
    )
    web_service_port_tls: int | None = maybe_port(
        "port of statistics and metrics in TLS; none: no TLS (webServicePortTls)", low=0
    )
    broker_service_url: str = text(
        "",
        "addresses of all brokers, pulsar://host:port with commas between, as the brokers advertise them, for a "
        "proxy without the metadata store; empty: the registered brokers (brokerServiceURL)",
    )
    broker_service_url_tls: str = text(
        "",
        "the same for connections in TLS, pulsar+ssl://host:port (brokerServiceURLTLS)",
    )
    forward_authorization_credentials: bool = flag(
        False,
        "whether clients' credentials are sent to brokers, for authenticate_original_auth_data there "
        "(forwardAuthorizationCredentials)",
    )
    max_concurrent_inbound_connections: int = count(
        10_000, "connections of clients; 0: no limit (maxConcurrentInboundConnections)"
    )
    max_concurrent_inbound_connections_per_ip: int = count(
        0,
        "connections of clients of one address; 0: no limit (maxConcurrentInboundConnectionsPerIp)",
    )
    max_concurrent_lookup_requests: int = count(
        50_000, "requests of all clients that wait for brokers (maxConcurrentLookupRequests)", low=1
    )
    broker_proxy_connect_timeout_ms: int = count(
        10_000,
        "milliseconds in which a connection to a broker must be ready (brokerProxyConnectTimeoutMs)",
        low=1,
    )
    broker_proxy_read_timeout_ms: int = count(
        75_000,
        "milliseconds of a broker's silence after which a client's connection is ended; 0: never "
        "(brokerProxyReadTimeoutMs)",
    )
    ha_proxy_protocol_enabled: bool = flag(
        False,
        "whether connections begin with a header of the PROXY protocol, whose address is the client's; then every "
        "connection needs it, and clients must not reach the port themselves (haProxyProtocolEnabled)",
    )
    enable_proxy_stats_endpoints: bool = flag(
        True, "whether /proxy-stats is served (enableProxyStatsEndpoints)"
    )
    authenticate_metrics_endpoint: bool = flag(
        True,
        "whether /metrics needs credentials where authentication is on (authenticateMetricsEndpoint)",
    )

    def __post_init__(self) -> None:
        """Check the values. Raises SettingsError."""
        check_ranges(self)
        self.broker_urls(encrypted=False)
        self.broker_urls(encrypted=True)

    def broker_urls(self, *, encrypted: bool) -> list[str]:
        """Return the listed brokers' URLs of one scheme. Raises SettingsError."""
        scheme = ENCRYPTED if encrypted else CLEAR
        name = "broker_service_url_tls" if encrypted else "broker_service_url"
        urls = []
        for item in filter(None, map(str.strip, getattr(self, name).split(","))):
            url = item if "://" in item else f"{scheme}{item}"
            try:
                if ServiceUrl.parse(url).encrypted != encrypted:
                    raise ValueError(f"{url!r} is not a URL such as {scheme}host:port")
            except ValueError as error:
                raise SettingsError(f"{name}: {error}") from error
            urls.append(url)
        return urls


@dataclass(frozen=True, slots=True)
class ProxyProgramSettings:
    """All settings of the process."""

    proxy: ProxySettings = field(default_factory=ProxySettings, metadata=PRIVATE)
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
        proxy = self.proxy
        for secured in ("service_port_tls", "web_service_port_tls"):
            if getattr(proxy, secured) is not None:
                self.tls.check(secured)
        authenticated = self.authentication.authentication_enabled
        self.reach.check("bind_address", proxy.bind_address, authenticated=authenticated)
        named = "broker_service_url_tls" if self.encrypted else "broker_service_url"
        if (proxy.broker_service_url or proxy.broker_service_url_tls) and not getattr(proxy, named):
            raise SettingsError(
                f"{named} must be set where broker_client_tls_enabled is {str(self.encrypted).lower()} and the other "
                "list of brokers is set"
            )
        if proxy.forward_authorization_credentials and not authenticated:
            raise SettingsError(
                "authentication_enabled must be true where forward_authorization_credentials is"
            )
        try:
            _ = self.identity
        except ValueError as error:
            raise SettingsError(str(error)) from error

    @property
    def encrypted(self) -> bool:
        """True when brokers are connected to in TLS (tlsEnabledWithBroker)."""
        return self.broker_client.broker_client_tls_enabled

    @property
    def listed_brokers(self) -> list[str]:
        """URLs of the brokers that are listed; empty where the metadata store knows them."""
        return self.proxy.broker_urls(encrypted=self.encrypted)

    @property
    def identity(self) -> IdentitySettings:
        """The groups by which clients are identified. No client acts for another here."""
        return IdentitySettings(
            replace(self.authentication, authenticate_original_auth_data=False),
            self.token,
            self.second_token,
            self.basic,
            self.open_id,
            self.authorization,
        )


PROGRAM = Program("proxy", ProxyProgramSettings)
