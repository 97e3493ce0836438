"""Settings of a broker process as a member of its cluster: where it listens, how it is named, where metadata lives."""

from dataclasses import dataclass, field
from pathlib import Path

from engine.base.addresses import is_loopback


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Names after Pulsar's in snake_case; ranges and meanings in each field's metadata."""

    bind_address: str = field(
        default="127.0.0.1",
        metadata={
            "help": "address to listen on (bindAddress); only loopback without authentication"
        },
    )
    advertised_address: str = field(
        default="",
        metadata={"help": "name told to clients (advertisedAddress); empty: bind_address"},
    )
    broker_port: int = field(
        default=6650, metadata={"low": 0, "high": 65535, "port": True, "help": "brokerServicePort"}
    )
    broker_http_port: int = field(
        default=8081,
        metadata={"low": 0, "high": 65535, "port": True, "help": "metrics, readiness, admin RPC"},
    )
    zookeeper_port: int = field(
        default=2181,
        metadata={"low": 1, "high": 65535, "port": True, "help": "used when metadata_url is empty"},
    )
    metadata_url: str = field(
        default="", metadata={"help": "zk:host:port[,host:port][/chroot] (metadataStoreUrl)"}
    )
    metadata_store_session_timeout_millis: int = field(
        default=10_000,
        metadata={"low": 1_000, "high": 60_000, "help": "metadataStoreSessionTimeoutMillis"},
    )
    cluster_name: str = field(default="standalone", metadata={"help": "clusterName"})
    data_dir: Path = field(default=Path("data"), metadata={"help": "holds the internal token"})
    internal_token: str = field(default="", metadata={"help": "empty: from the data directory"})
    authentication_enabled: bool = field(
        default=False, metadata={"help": "authenticationEnabled; true is not supported yet"}
    )
    log_level: str = field(
        default="INFO", metadata={"choices": ("DEBUG", "INFO", "WARNING", "ERROR")}
    )
    default_number_of_namespace_bundles: int = field(
        default=4, metadata={"low": 1, "high": 1 << 20, "help": "defaultNumberOfNamespaceBundles"}
    )
    allow_auto_topic_creation: bool = field(
        default=True, metadata={"help": "allowAutoTopicCreation"}
    )
    allow_auto_topic_creation_type: str = field(
        default="non-partitioned", metadata={"choices": ("non-partitioned", "partitioned")}
    )
    default_num_partitions: int = field(
        default=1, metadata={"low": 1, "high": 10_000, "help": "defaultNumPartitions"}
    )
    allow_auto_subscription_creation: bool = field(
        default=True, metadata={"help": "allowAutoSubscriptionCreation"}
    )
    broker_shutdown_timeout_ms: int = field(
        default=15_000, metadata={"low": 0, "high": 600_000, "help": "brokerShutdownTimeoutMs"}
    )

    def __post_init__(self) -> None:
        """Raises ValueError, in one line that names the setting and what it may be."""
        self._metadata()
        if self.authentication_enabled:
            raise ValueError("authentication_enabled must be false: not supported yet")
        if not is_loopback(self.bind_address):
            raise ValueError(
                f"bind_address {self.bind_address!r} is not loopback: without authentication only loopback "
                "(127.0.0.0/8, ::1, localhost) is served"
            )

    @property
    def host(self) -> str:
        """Name of this node in addresses given to others."""
        return self.advertised_address or self.bind_address

    @property
    def metadata_hosts(self) -> str:
        """``host:port[,…]`` of the metadata store, without chroot. Raises ValueError on a foreign scheme."""
        return self._metadata()[0]

    @property
    def metadata_chroot(self) -> str:
        """Path below which everything lies; empty for the root."""
        return self._metadata()[1]

    def _metadata(self) -> tuple[str, str]:
        url = self.metadata_url or f"zk:127.0.0.1:{self.zookeeper_port}"
        if not url.startswith("zk:"):
            raise ValueError(f"metadata_url {url!r} must be zk:host:port[,host:port][/chroot]")
        hosts, _, chroot = url.removeprefix("zk:").removeprefix("//").partition("/")
        return hosts, f"/{chroot}" if chroot else ""
