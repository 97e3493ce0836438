"""The default metadata URL, and the refusal of a URL of another form."""

import pytest

from engine.base.settings import SettingsError
from engine.metadata.connect import Access
from engine.metadata.settings import MetadataSettings
from engine.net.tls import ClientFiles


def test_the_default_url_is_the_zookeeper_of_this_machine() -> None:
    assert MetadataSettings(zookeeper_port=2182).store_url == "zk:127.0.0.1:2182"
    assert MetadataSettings("zk:a:1/x", zookeeper_port=2182).store_url == "zk:a:1/x"


def test_a_malformed_url_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"metadata_url must be zk:host:port.*'etcd:a:1'"):
        MetadataSettings("etcd:a:1")


def test_access_is_complete_and_used() -> None:
    etcd = "etcd:https://a:2379"
    settings = MetadataSettings(
        etcd,
        metadata_tls_trust_certs_file_path="/ca",
        metadata_user="m",
        metadata_password="kept to itself",
    )
    assert settings.access == Access(ClientFiles("/ca"), "m", "kept to itself")
    assert "kept to itself" not in f"{settings} {settings.access}"
    zookeeper = MetadataSettings(
        "zk:a:1",
        metadata_tls_enabled=True,
        metadata_user="m",
        metadata_password="kept to itself",
        metadata_acl_enabled=True,
    )
    assert zookeeper.access == Access(ClientFiles(), "m", "kept to itself", True, True)
    with pytest.raises(SettingsError, match="metadata_tls_enabled must be true"):
        MetadataSettings("zk:a:1", metadata_tls_trust_certs_file_path="/ca")
    with pytest.raises(SettingsError, match="metadata_tls_enabled is for ZooKeeper"):
        MetadataSettings(etcd, metadata_tls_enabled=True)
    with pytest.raises(SettingsError, match="metadata_acl_enabled needs metadata_user"):
        MetadataSettings("zk:a:1", metadata_acl_enabled=True)
    with pytest.raises(SettingsError, match="must not contain ':'"):
        MetadataSettings("zk:a:1", metadata_user="m:n")
    with pytest.raises(SettingsError, match="metadata_user must be set"):
        MetadataSettings(etcd, metadata_password="p")
    with pytest.raises(SettingsError, match="must be set together"):
        MetadataSettings(etcd, metadata_tls_key_file_path="/key")
