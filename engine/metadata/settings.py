"""Settings of the metadata store, for every program."""

from dataclasses import dataclass

from engine.base.disk.secret_files import read_secret
from engine.base.settings import SettingsError, flag, port, secret, text
from engine.metadata.apart.stores import SERVICE_FORM, StoreUrls
from engine.metadata.connect import ETCD, FORM, ZOOKEEPER, Access
from engine.net.tls import ClientFiles


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """The cluster's metadata stores; without a URL, all are a ZooKeeper on this machine. The settings of TLS have the
    names of Apache Pulsar's file metadataStoreConfigPath where it has them."""

    metadata_url: str = text(
        "", f"{FORM}; empty: zookeeper_port of this machine (metadataStoreUrl)"
    )
    configuration_metadata_store_url: str = text(
        "",
        f"store of tenants, policies, clusters and partitioned topics, {FORM}; empty: the metadata store "
        "(configurationMetadataStoreUrl)",
    )
    bookkeeper_metadata_service_uri: str = text(
        "",
        f"store of ledgers and bookies, {SERVICE_FORM}; empty: the metadata store (bookkeeperMetadataServiceUri)",
    )
    zookeeper_port: int = port(2181, "used when metadata_url is empty")
    metadata_tls_enabled: bool = flag(
        False,
        "connect to ZooKeeper in TLS (zookeeper.client.secure); for etcd the URL says https",
    )
    metadata_tls_trust_certs_file_path: str = text(
        "",
        "PEM file of the CAs that sign the stores' certificates, which must be for the host of the URL; empty: those "
        "of the operating system; there tlsTrustCertsFilePath",
    )
    metadata_tls_certificate_file_path: str = text(
        "",
        "PEM file of the certificate to present to them, leaf first, for etcd without a common name (its gateway "
        "refuses one that has it); empty: none; there tlsCertificateFilePath",
    )
    metadata_tls_key_file_path: str = text(
        "", "PEM file of its key, unencrypted; there tlsKeyFilePath"
    )
    metadata_user: str = text("", "user of etcd, or of ZooKeeper's scheme digest; empty: none")
    metadata_password: str = secret("password of metadata_user, or file:///path of one")
    metadata_acl_enabled: bool = flag(
        False,
        "whether nodes that are created in ZooKeeper are for metadata_user alone (BookKeeper's zkEnableSecurity)",
    )

    def __post_init__(self) -> None:
        """Raise SettingsError for an invalid URL, and for means of access that no store would use."""
        kinds = {url.partition(":")[0] for url in self.stores if url}
        if bool(self.metadata_tls_certificate_file_path) != bool(self.metadata_tls_key_file_path):
            raise SettingsError(
                "metadata_tls_certificate_file_path and metadata_tls_key_file_path must be set together"
            )
        if self.metadata_password and not self.metadata_user:
            raise SettingsError("metadata_user must be set where metadata_password is")
        if ":" in self.metadata_user and ZOOKEEPER in kinds:
            raise SettingsError(
                "metadata_user must not contain ':', which ends a user of ZooKeeper"
            )
        if self.metadata_tls_enabled and ZOOKEEPER not in kinds:
            raise SettingsError(
                "metadata_tls_enabled is for ZooKeeper: members of etcd have TLS by https in metadata_url"
            )
        if self.metadata_acl_enabled and not (self.metadata_user and ZOOKEEPER in kinds):
            raise SettingsError(
                "metadata_acl_enabled needs metadata_user, and a store that is ZooKeeper"
            )
        if self.access.tls != ClientFiles() and not (self.metadata_tls_enabled or ETCD in kinds):
            raise SettingsError(
                "metadata_tls_enabled must be true where metadata_tls_…_path are set and the store is ZooKeeper"
            )

    @property
    def store_url(self) -> str:
        return self.metadata_url or f"zk:127.0.0.1:{self.zookeeper_port}"

    @property
    def stores(self) -> StoreUrls:
        """The URLs of all stores. Raises SettingsError."""
        return StoreUrls.parse(
            self.store_url,
            self.configuration_metadata_store_url,
            self.bookkeeper_metadata_service_uri,
        )

    @property
    def access(self) -> Access:
        """Means of access to the stores."""
        files = ClientFiles(
            self.metadata_tls_trust_certs_file_path,
            self.metadata_tls_certificate_file_path,
            self.metadata_tls_key_file_path,
        )
        return Access(
            files,
            self.metadata_user,
            read_secret(self.metadata_password, "metadata_password"),
            self.metadata_tls_enabled,
            self.metadata_acl_enabled,
        )
