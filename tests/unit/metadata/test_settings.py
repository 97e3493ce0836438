"""The default metadata URL, and the refusal of a URL of another form."""

import pytest

from engine.base.settings import SettingsError
from engine.metadata.settings import MetadataSettings


def test_the_default_url_is_the_zookeeper_of_this_machine() -> None:
    assert MetadataSettings(zookeeper_port=2182).store_url == "zk:127.0.0.1:2182"
    assert MetadataSettings("zk:a:1/x", zookeeper_port=2182).store_url == "zk:a:1/x"


def test_a_malformed_url_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"metadata_url must be zk:host:port.*'etcd:a:1'"):
        MetadataSettings("etcd:a:1")
