"""Settings of a functions worker, with the names of Pulsar's functions_worker.yml."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from engine.auth.internal import INTERNAL_ROLE
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
from engine.base.errors import InvalidNameError
from engine.base.log import LogSettings
from engine.base.names import NamespaceName
from engine.base.settings import (
    PRIVATE,
    Program,
    SettingsError,
    check_ranges,
    count,
    data_folder,
    flag,
    maybe_port,
    port,
    secret,
    size,
    text,
)
from engine.client.settings import BrokerClientSettings
from engine.functions.worker.placing.followed_topics import SystemTopics
from engine.metadata.settings import MetadataSettings
from engine.net.tls import TlsSettings


@dataclass(frozen=True, slots=True)
class WorkerInstanceSettings:
    """The cluster and the instance that a functions worker is a part of."""

    cluster_name: str = text(
        "standalone", "the cluster this worker belongs to (pulsarFunctionsCluster)"
    )
    data_dir: Path = data_folder("folder of the instance, which has the internal token")
    internal_token: str = secret(
        "token by which the instance's processes recognize each other, or file:///path of one; empty: the file in "
        "data_dir"
    )
    token_signing_key: str = secret(
        "signs the tokens by which functions log in at brokers: the secret key of token_secret_key, or the private key "
        "of token_public_key, as file:///path; empty: functions log in without a token"
    )


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of a functions worker (`magnetar functions-worker`)."""

    worker_id: str = text(
        "",
        "name among the workers, kept over restarts; empty: c-CLUSTER-fw-HOST-PORT (workerId)",
    )
    worker_hostname: str = text(
        "", "name at which others reach this worker; empty: bind_address (workerHostname)"
    )
    bind_address: str = text(
        "127.0.0.1",
        "address to listen on; other than loopback only with authentication or insecure_anywhere",
    )
    worker_port: int = port(
        6750, "metrics, readiness, calls of gateways and workers; private (workerPort)", low=0
    )
    worker_port_tls: int | None = maybe_port(
        "the same by TLS 1.2 or later; none: no TLS (workerPortTls)", low=0
    )
    function_web_service_url: str = text(
        "",
        "URL of the gateway, at which Apache's workers of the same cluster call this one; empty: they cannot "
        "(functionWebServiceUrl)",
    )
    metadata_store_session_timeout_millis: int = count(
        10_000,
        "milliseconds after which instances of a lost worker start elsewhere "
        "(metadataStoreSessionTimeoutMillis)",
        low=1_000,
        high=60_000,
    )
    pulsar_functions_namespace: str = text(
        "public/functions", "namespace of the workers' topics (pulsarFunctionsNamespace)"
    )
    cluster_coordination_topic_name: str = text(
        "coordinate", "topic that elects the leader (clusterCoordinationTopicName)"
    )
    function_metadata_topic_name: str = text(
        "metadata", "topic of the functions (functionMetadataTopicName)"
    )
    function_assignment_topic_name: str = text(
        "assignments", "topic of their places (functionAssignmentTopicName)"
    )
    failure_check_freq_ms: int = count(
        5_000,
        "milliseconds between checks of all workers; Pulsar 30000 (failureCheckFreqMs)",
        low=100,
    )
    reschedule_timeout_ms: int = count(
        5_000,
        "milliseconds that a missing worker keeps its instances, in which it may return; Pulsar 60000 "
        "(rescheduleTimeoutMs)",
    )
    topic_compaction_frequency_sec: int = count(
        1800,
        "seconds between compactions of the assignments (topicCompactionFrequencySec)",
        low=1,
    )
    function_runtime: str = text(
        "process",
        "process, or thread for code that is trusted like the worker (functionRuntimeFactoryClassName)",
    )
    run_as_user: str = text(
        "",
        "user of the operating system that instances run as: a name or number, or a range FIRST-LAST of numbers, of "
        "which each instance has its own; needs root, or capabilities; empty: the worker's own",
    )
    download_directory: str = text(
        "",
        "folder of the code and files of instances, which their users can reach; empty: functions in data_dir "
        "(downloadDirectory)",
    )
    package_bytes_max: int = size(100 << 20, "largest package that is fetched", low=1)
    function_stop_timeout_ms: int = count(
        10_000, "milliseconds in which an instance ends in order, then by force"
    )
    function_restart_first_ms: int = count(
        1_000, "milliseconds before an instance that ended is started again", low=1
    )
    function_restart_longest_ms: int = count(
        300_000, "longest pause before that; each pause is twice the last", low=1
    )
    function_trigger_timeout_ms: int = count(
        30_000, "milliseconds in which a triggered function must answer", low=1, high=300_000
    )
    authenticate_metrics_endpoint: bool = flag(
        False,
        "whether /metrics needs credentials where authentication is on (authenticateMetricsEndpoint)",
    )

    def __post_init__(self) -> None:
        """Check the values. Raises SettingsError."""
        check_ranges(self)
        _ = self.web_address
        try:
            _ = self.topics
        except InvalidNameError as error:
            raise SettingsError(
                f"pulsar_functions_namespace and names of topics: {error}"
            ) from error
        if is_wildcard(self.host):
            raise SettingsError(
                f"worker_hostname must name a host that others can connect to, not {self.host!r}, which stands for "
                "every address"
            )

    @property
    def host(self) -> str:
        return self.worker_hostname or self.bind_address

    @property
    def web_address(self) -> tuple[str, int]:
        """Host and port of ``function_web_service_url``; an empty host without it. Raises SettingsError."""
        url = self.function_web_service_url
        if not url:
            return "", 0
        try:
            parts = urlsplit(url)
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        except (ValueError, KeyError) as error:
            raise SettingsError(
                f"function_web_service_url must be http://HOST:PORT or https://HOST:PORT, not {url!r}"
            ) from error
        if not parts.hostname or parts.path.strip("/"):
            raise SettingsError(
                f"function_web_service_url must be a URL without a path, not {url!r}"
            )
        return parts.hostname, port

    @property
    def namespace(self) -> NamespaceName:
        """The namespace of the topics. Raises InvalidNameError."""
        return NamespaceName.parse(self.pulsar_functions_namespace)

    @property
    def topics(self) -> SystemTopics:
        """The topics. Raises InvalidNameError."""
        return SystemTopics.of(
            self.namespace,
            self.cluster_coordination_topic_name,
            self.function_metadata_topic_name,
            self.function_assignment_topic_name,
        )


@dataclass(frozen=True, slots=True)
class WorkerProgramSettings:
    """All settings of the process."""

    worker: WorkerSettings = field(default_factory=WorkerSettings, metadata=PRIVATE)
    instance: WorkerInstanceSettings = field(default_factory=WorkerInstanceSettings)
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
        if self.worker.worker_port_tls is not None:
            self.tls.check("worker_port_tls")
        authenticated = self.authentication.authentication_enabled
        self.reach.check("bind_address", self.worker.bind_address, authenticated=authenticated)
        try:
            _ = self.identity
        except ValueError as error:
            raise SettingsError(str(error)) from error

    def id_at(self, bound_port: int) -> str:
        """Return the worker's id, when it listens on ``bound_port``."""
        worker = self.worker
        given = f"c-{self.instance.cluster_name}-fw-{worker.host}-{bound_port}"
        return worker.worker_id or given

    @property
    def roles_withheld(self) -> frozenset[str] | None:
        """Roles that no function may have: superusers, and the processes of the instance; None without
        authentication."""
        if not self.authentication.authentication_enabled:
            return None
        rules = self.identity.access_rules(self.instance.cluster_name)
        return rules.superusers | rules.proxies | {INTERNAL_ROLE}

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


PROGRAM = Program("functions_worker", WorkerProgramSettings)
