"""Settings of the metadata store, for every program."""

from dataclasses import dataclass

from engine.base.settings import SettingsError, port, secret, text
from engine.metadata.apart.stores import SERVICE_FORM, StoreUrls
from engine.metadata.connect import ETCD, FORM, Access
from engine.net.tls import ClientFiles


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """The cluster's metadata stores; without a URL, all are a ZooKeeper on this machine. The settings of TLS and the
    user are for etcd, and have the names of Apache Pulsar's file metadataStoreConfigPath where it has them."""

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
    metadata_tls_trust_certs_file_path: str = text(
        "",
        "PEM file of the CAs that sign the certificates of members with https; empty: those of the operating system; "
        "there tlsTrustCertsFilePath",
    )
    metadata_tls_certificate_file_path: str = text(
        "",
        "PEM file of the certificate to present to them, leaf first, without a common name (etcd's gateway refuses "
        "one that has it); empty: none; there tlsCertificateFilePath",
    )
    metadata_tls_key_file_path: str = text(
        "", "PEM file of its key, unencrypted; there tlsKeyFilePath"
    )
    metadata_user: str = text("", "user of etcd; empty: none")
    metadata_password: str = secret("password of metadata_user")

    def __post_init__(self) -> None:
        """Raise SettingsError for an invalid URL, and for access to etcd without etcd."""
        stores = self.stores
        if bool(self.metadata_tls_certificate_file_path) != bool(self.metadata_tls_key_file_path):
            raise SettingsError(
                "metadata_tls_certificate_file_path and metadata_tls_key_file_path must be set together"
            )
        if self.metadata_password and not self.metadata_user:
            raise SettingsError("metadata_user must be set where metadata_password is")
        if not any(url.startswith(f"{ETCD}:") for url in stores) and self.access != Access():
            raise SettingsError(
                "metadata_user and metadata_tls_… are for etcd: metadata_url must begin with etcd: where they are set"
                ", or the URL of a store that is apart"
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
        """Means of access to etcd."""
        files = ClientFiles(
            self.metadata_tls_trust_certs_file_path,
            self.metadata_tls_certificate_file_path,
            self.metadata_tls_key_file_path,
        )
        return Access(files, self.metadata_user, self.metadata_password)
