"""Settings of the gateway and its worker, checked once: an invalid one ends the process at its start."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from engine.auth.settings import (
    AuthenticationSettings,
    AuthorizationSettings,
    BasicSettings,
    IdentitySettings,
    OpenIdSettings,
    SecondTokenSettings,
    TokenSettings,
)
from engine.base.addresses import IpNetwork, ReachSettings, ip_networks
from engine.base.errors import InvalidNameError
from engine.base.log import LogSettings
from engine.base.names import check_entity
from engine.base.settings import (
    Program,
    SettingsError,
    count,
    data_folder,
    flag,
    maybe_port,
    port,
    secret,
    text,
)
from engine.client.settings import BrokerClientSettings
from engine.metadata.apart.stores import StoreUrls
from engine.metadata.connect import NO_ACCESS, Access, MetadataUrl
from engine.metadata.settings import MetadataSettings
from engine.net.tls import TlsSettings
from engine.tenancy.settings import TenantLimits
from gateway.alert_settings import AlertSettings
from gateway.apache_settings import ApacheCluster, apache_clusters
from gateway.database.settings import DatabaseSettings
from gateway.redis_link import RedisSettings
from gateway.sign_in import SignInSettings

DAYS_MAX = 36_500
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")
OUTPUT_SCHEMES = ("file", "s3", "gs", "abfs", "abfss")


@dataclass(frozen=True, slots=True)
class Environment:
    """Settings of the gateway itself and its worker, which share ``data_dir``."""

    data_dir: Path = data_folder("holds the console's database, keys and results of analyses")
    http_port: int = port(8080, "console, REST, WebSocket endpoints (webServicePort)")
    https_port: int | None = maybe_port(
        "the same by TLS 1.2 or later, which uvicorn alone serves (webServicePortTls)", low=0
    )
    asgi_server: str = text(
        "auto",
        "the ASGI server; auto: uvicorn where https_port is set or Daphne is not installed, else Daphne",
        choices=("auto", "daphne", "uvicorn"),
    )
    broker_port: int = port(6650, "Pulsar's protocol, as reported in a broker's configuration")
    cluster_name: str = text(
        "standalone", "the cluster that it serves where a path names none (clusterName)"
    )
    clusters: str = text(
        "",
        "further clusters that it serves, NAME=METADATA_URL with spaces between, or where stores are apart "
        "NAME=METADATA_URL|CONFIGURATION_URL|BOOKKEEPER_URI; the history of each, and its internal-token where that "
        "differs, are in the folder clusters/NAME of data_dir; empty: none",
    )
    apache_clusters: str = text(
        "",
        "clusters of Apache Pulsar that it serves by their REST interface, NAME=URL with spaces between; options "
        "follow the URL as |token_file=/path, |tls_trust_certs=/path, |tls_certificate=/path, |tls_key=/path, "
        "|remote=the name that the cluster has itself, where that is another, and |service_url=the address for "
        "clients, where those that the cluster states cannot be reached; empty: none",
    )
    serves_own_cluster: bool = flag(
        True,
        "serve cluster_name and clusters; false: those of apache_clusters alone, without a metadata store",
    )
    internal_token: str = secret(
        "authenticates the instance's processes to each other, or file:///path; empty: the file in data_dir"
    )
    websocket_key_folder: str = text(
        "",
        "folder of <name>.public.pem and <name>.private.pem, with which messages of WebSocket producers are encrypted "
        "and those of consumers decrypted; empty: none (cryptoKeyReaderFactoryClassName)",
    )
    status_file_path: str = text(
        "",
        "/status.html answers OK while this file exists, else 404; empty: always 404 (statusFilePath)",
    )
    secret_key: str = secret("signs sessions, or file:///path; empty: the file in data_dir")
    token_signing_key: str = secret(
        "signs the tokens that the console issues: the secret key of token_secret_key, or the private key of "
        "token_public_key, as file:///path; empty: it issues none"
    )
    allowed_hosts: str = text("", "further Host headers that are accepted, with commas between")
    allowed_origins: str = text(
        "",
        "origins (scheme://host[:port], or null) of pages served elsewhere that may open WebSockets and call REST; "
        "commas between; empty: only the gateway's own",
    )
    mcp_enabled: bool = flag(
        False,
        "serve /mcp, by which assistants (Model Context Protocol) read what the role of their token may read",
    )
    trusted_proxies: str = text(
        "",
        "addresses and networks (10.0.0.0/8) of reverse proxies, with commas between, whose X-Forwarded-For and "
        "X-Forwarded-Proto count; empty: none",
    )
    max_connections_per_address: int = count(
        10_000,
        "HTTP connections and WebSockets of one client address that a gateway keeps open; 0: no limit",
    )
    control_socket: str = text(
        "", "the supervisor's socket, by which parts on demand are started; empty: none"
    )
    workers_on_demand: bool = flag(
        False, "the supervisor starts Redis and the worker with the first analysis"
    )
    audit_days: int = count(
        365, "days for which the audit log keeps an entry; 0: no limit", high=DAYS_MAX
    )
    audit_entries_max: int = count(
        200_000, "entries that the audit log keeps, the newest; 0: no limit"
    )
    run_days: int = count(
        90,
        "days for which a finished run of an analysis is kept with its files; 0: no limit",
        high=DAYS_MAX,
    )
    spark_at_start: bool = flag(
        False,
        "the gateway starts Spark and a worker when it starts, so that the first analysis waits for neither; 0.6 GB",
    )
    spark_pages_url: str = text(
        "", "Spark's own pages, to which superusers are led from the log of a run; empty: none"
    )
    output_url: str = text(
        "",
        "where the files of analyses that succeeded are also written: a folder as file:///, s3://, gs:// or abfss://; "
        "empty: nowhere",
    )
    runs_max: int = count(
        1_000, "finished runs that are kept with their files, the newest; 0: no limit"
    )

    package_bytes_max: int = count(
        100 << 20,
        "bytes of a package of functions, sources or sinks that is uploaded or fetched",
        low=1 << 10,
        high=2 << 30,
    )
    package_url_patterns: str = text(
        "",
        "regular expressions of whole http:// and https:// URLs, with spaces between, from which packages may be "
        "fetched, at public addresses alone; empty: none (additionalEnabledFunctionsUrlPatterns)",
    )

    def __post_init__(self) -> None:
        """Check the values. Raises SettingsError."""
        try:
            _ = self.package_urls
        except re.error as error:
            rule = "must be regular expressions with spaces between"
            raise SettingsError(f"package_url_patterns {rule}: {error}") from error
        if self.https_port is not None and self.asgi_server == "daphne":
            raise SettingsError(
                "asgi_server must be auto or uvicorn where https_port is set, not 'daphne': "
                "the gateway serves TLS by uvicorn alone"
            )
        if self.asgi_server == "daphne" and find_spec("daphne") is None:
            raise SettingsError(
                "asgi_server must be auto or uvicorn, not 'daphne', which is not installed. "
                "Install it with: pip install 'magnetar[daphne]'"
            )
        try:
            _ = self.proxies
        except ValueError as error:
            rule = "must be addresses or networks with commas between"
            raise SettingsError(f"trusted_proxies {rule}: {error}") from error
        scheme = self.output_url.partition("://")[0]
        if self.output_url and scheme not in OUTPUT_SCHEMES:
            rule = f"must be a URL of {', '.join(OUTPUT_SCHEMES)}"
            raise SettingsError(f"output_url {rule}, not {self.output_url!r}")
        own = (self.cluster_name, *self.further_clusters()) if self.serves_own_cluster else ()
        foreign = apache_clusters(self.apache_clusters)
        for cluster in foreign:
            if cluster.name in own:
                raise SettingsError(
                    f"apache_clusters must not name the gateway's own cluster {cluster.name}"
                )
        if not (own or foreign):
            raise SettingsError("apache_clusters must be set where serves_own_cluster is false")
        for origin in self.origins:
            if origin != "null" and not _ORIGIN.fullmatch(origin):
                rule = "must be origins such as http://localhost:3000, or null, with commas between"
                raise SettingsError(f"allowed_origins {rule}, not {origin!r}")

    @property
    def package_urls(self) -> list[re.Pattern[str]]:
        """The patterns of URLs from which packages may be fetched. Raises re.error."""
        return [re.compile(pattern) for pattern in self.package_url_patterns.split()]

    def further_clusters(self) -> dict[str, StoreUrls]:
        """Return the URLs of the stores of the clusters besides ``cluster_name``, by name. Raises SettingsError."""
        urls: dict[str, StoreUrls] = {}
        for entry in self.clusters.split():
            name, _, text = entry.partition("=")
            try:
                check_entity("cluster", name)
            except InvalidNameError as error:
                raise SettingsError(
                    f"clusters must be NAME=METADATA_URL with spaces between, not {entry!r}: {error}"
                ) from error
            if name in urls or name == self.cluster_name:
                raise SettingsError(f"clusters must name each cluster once, not {name!r} again")
            parts = text.split("|")
            if len(parts) > 3:
                rule = "must be METADATA_URL|CONFIGURATION_URL|BOOKKEEPER_URI"
                raise SettingsError(f"clusters: the URLs of {name} {rule}, not {text!r}")
            kinds = ("the URL", "the configuration store's URL", "BookKeeper's service URI")
            first, second, third = (f"clusters: {kind} of {name}" for kind in kinds)
            urls[name] = StoreUrls.parse(*parts, settings=(first, second, third))
        return urls

    def served(
        self, stores: StoreUrls, access: Access = NO_ACCESS
    ) -> "tuple[ClusterSettings, ...]":
        """Return the clusters that a gateway serves; first ``cluster_name``, whose metadata is in ``stores``, last
        those of ``apache_clusters``. All others have the same ``access``."""
        foreign = tuple(
            ClusterSettings(
                *(cluster.name, StoreUrls(cluster.url)),
                *(self.data_dir / "clusters" / cluster.name, self.data_dir),
                apache=cluster,
            )
            for cluster in apache_clusters(self.apache_clusters)
        )
        if not self.serves_own_cluster:
            return foreign
        own = ClusterSettings(
            self.cluster_name,
            stores,
            self.data_dir,
            self.data_dir,
            self.internal_token,
            self.control_socket,
            access,
        )
        folder, server = self.data_dir / "clusters", MetadataUrl.parse(stores.metadata).hosts
        further = [
            ClusterSettings(
                name,
                urls,
                folder / name,
                self.data_dir,
                self.internal_token,
                # An instance has the metadata of its clusters on one server, and one supervisor.
                self.control_socket if MetadataUrl.parse(urls.metadata).hosts == server else "",
                access,
            )
            for name, urls in self.further_clusters().items()
        ]
        clusters = (own, *further)
        if not any(cluster.control_socket for cluster in further):
            return clusters + foreign
        prefixed = (
            replace(cluster, part_prefix=f"{cluster.name}." if cluster.control_socket else "")
            for cluster in clusters
        )
        return (*prefixed, *foreign)

    @property
    def hosts(self) -> list[str]:
        return [*LOOPBACK_HOSTS, *(host for host in self.allowed_hosts.split(",") if host)]

    @property
    def is_served_by_uvicorn(self) -> bool:
        """True if uvicorn is the ASGI server, False if Daphne is."""
        if self.asgi_server != "auto":
            return self.asgi_server == "uvicorn"
        return self.https_port is not None or find_spec("daphne") is None

    @property
    def proxies(self) -> tuple[IpNetwork, ...]:
        """The networks of ``trusted_proxies``. Raises ValueError."""
        return ip_networks(self.trusted_proxies)

    @property
    def origins(self) -> list[str]:
        origins = (origin.strip().lower() for origin in self.allowed_origins.split(","))
        return [origin for origin in origins if origin]


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A cluster as its settings describe it to a gateway that serves it."""

    name: str
    stores: StoreUrls
    folder: Path
    """Holds the cluster's history, and its internal token where that differs from the gateway's."""
    data_dir: Path
    """The gateway's own."""
    internal_token: str = ""
    """The gateway's own; empty: the one in ``data_dir``."""
    control_socket: str = ""
    """The socket of the supervisor that starts the cluster's parts; empty: none."""
    metadata_access: Access = NO_ACCESS
    part_prefix: str = ""
    """Begin of the supervisor's names of the cluster's brokers and bookies."""
    apache: ApacheCluster | None = None
    """Set for a cluster of Apache Pulsar; ``stores`` has its REST interface then, for messages alone."""

    @property
    def metadata_url(self) -> str:
        return self.stores.metadata


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """All settings of the gateway besides Django's."""

    environment: Environment
    tenants: TenantLimits
    broker_client: BrokerClientSettings
    metadata: MetadataSettings
    log: LogSettings
    authentication: AuthenticationSettings = field(default_factory=AuthenticationSettings)
    token: TokenSettings = field(default_factory=TokenSettings)
    second_token: SecondTokenSettings = field(default_factory=SecondTokenSettings)
    basic: BasicSettings = field(default_factory=BasicSettings)
    open_id: OpenIdSettings = field(default_factory=OpenIdSettings)
    authorization: AuthorizationSettings = field(default_factory=AuthorizationSettings)
    tls: TlsSettings = field(default_factory=TlsSettings)
    reach: ReachSettings = field(default_factory=ReachSettings)
    redis: RedisSettings = field(default_factory=RedisSettings)
    sign_in: SignInSettings = field(default_factory=SignInSettings)
    database: DatabaseSettings = field(default_factory=DatabaseSettings)
    alerts: AlertSettings = field(default_factory=AlertSettings)

    def __post_init__(self) -> None:
        """Check combinations. Raises SettingsError."""
        if self.environment.https_port is not None:
            self.tls.check("https_port")
        general = self.authentication
        plugin = self.broker_client.broker_client_authentication_plugin
        if general.authentication_enabled and not (plugin or general.anonymous_user_role):
            raise SettingsError(
                "broker_client_authentication_plugin must be set where authentication_enabled is true: the gateway "
                "logs in at brokers for its WebSocket clients"
            )
        try:
            _ = self.identity
        except ValueError as error:
            raise SettingsError(str(error)) from error

    @property
    def identity(self) -> IdentitySettings:
        """The groups by which callers are identified."""
        return IdentitySettings(
            self.authentication,
            self.token,
            self.second_token,
            self.basic,
            self.open_id,
            self.authorization,
        )


PROGRAM = Program("gateway", GatewaySettings)


def load(
    environ: Mapping[str, str] | None = None, directory: Path | None = None
) -> GatewaySettings:
    """Load the settings from ``MAGNETAR_*`` variables and ``magnetar.toml`` in ``directory``.

    The default is the current directory. Raises ImproperlyConfigured with the setting and the rule that it violates.
    """
    try:
        values = os.environ if environ is None else environ
        folder = directory or Path.cwd()
        loaded = PROGRAM.load(values, folder)
        providers = loaded.sign_in.load_providers(values, folder)
        return replace(loaded, sign_in=replace(loaded.sign_in, providers=providers))
    except SettingsError as error:
        raise ImproperlyConfigured(str(error)) from error
