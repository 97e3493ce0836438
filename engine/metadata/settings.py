"""Settings of the metadata store, for every program."""

from dataclasses import dataclass

from engine.base.settings import port, text
from engine.metadata.connect import FORM, MetadataUrl


@dataclass(frozen=True, slots=True)
class MetadataSettings:
    """The cluster's metadata store; without a URL, it is a ZooKeeper on this machine."""

    metadata_url: str = text(
        "", f"{FORM}; empty: zookeeper_port of this machine (metadataStoreUrl)"
    )
    zookeeper_port: int = port(2181, "used when metadata_url is empty")

    def __post_init__(self) -> None:
        """Raise SettingsError for an invalid URL."""
        MetadataUrl.parse(self.store_url)

    @property
    def store_url(self) -> str:
        return self.metadata_url or f"zk:127.0.0.1:{self.zookeeper_port}"
