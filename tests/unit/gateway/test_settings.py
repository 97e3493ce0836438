"""Settings of the gateway: where they come from, and that nonsense stops the process with one line."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from engine.auth.private_files import write_private
from engine.base.settings import PACKAGES, SettingsError
from engine.metadata.apart.stores import StoreUrls
from gateway.environment import load
from gateway.redis_link import RedisSettings
from gateway.serve import prepare


def test_environment_precedes_table_precedes_top_level_precedes_default(tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(
        'cluster_name = "a"\nbroker_port = 7000\nhttp_port = 7001\n[gateway]\nhttp_port = 7002\n'
        'redis_url = "redis://r"\n[broker]\nanything = 1\n'
    )
    loaded = load({"MAGNETAR_PORT_OFFSET": "100", "MAGNETAR_REDIS_URL": "redis://s"}, tmp_path)
    environment = loaded.environment
    assert (environment.cluster_name, environment.broker_port, environment.http_port) == (
        "a",
        7000,
        7002,
    )
    assert loaded.redis.redis_url == "redis://s"
    assert loaded.metadata.store_url == "zk:127.0.0.1:2281"
    assert environment.data_dir == PACKAGES / "data"


def test_the_served_clusters_are_the_own_one_and_those_of_the_list(tmp_path: Path) -> None:
    clusters = "west=zk:w1:2181,w2:2181/p  east=zk:e:2181"
    environ = {"MAGNETAR_CLUSTERS": clusters, "MAGNETAR_CLUSTER_NAME": "home"}
    loaded = load(environ | {"MAGNETAR_DATA_DIR": str(tmp_path)}, tmp_path)
    home, west, east = loaded.environment.served(loaded.metadata.stores)
    assert [home.name, west.name, east.name] == ["home", "west", "east"]
    assert home.metadata_url == "zk:127.0.0.1:2181"
    assert (west.metadata_url, east.metadata_url) == ("zk:w1:2181,w2:2181/p", "zk:e:2181")
    assert (home.folder, west.folder) == (tmp_path, tmp_path / "clusters" / "west")


def test_stores_that_are_apart_are_named_for_each_cluster(tmp_path: Path) -> None:
    further = "west=zk:w:1|zk:c:1|zk+hierarchical://b:1/ledgers east=zk:e:1||metadata-store:zk:b:1"
    environ = {
        "MAGNETAR_CLUSTERS": further,
        "MAGNETAR_CONFIGURATION_METADATA_STORE_URL": "zk:c:1",
        "MAGNETAR_BOOKKEEPER_METADATA_SERVICE_URI": "zk+hierarchical://b:1;b:2/eu/ledgers",
    }
    loaded = load(environ, tmp_path)
    home, west, east = loaded.environment.served(loaded.metadata.stores)
    assert home.stores == ("zk:127.0.0.1:2181", "zk:c:1", "zk:b:1,b:2/eu")
    assert west.stores == ("zk:w:1", "zk:c:1", "zk:b:1")
    assert east.stores == ("zk:e:1", "", "zk:b:1")


@pytest.mark.parametrize(
    ("environ", "file", "words"),
    [
        (
            {"MAGNETAR_HTTP_PORT": "x"},
            "",
            "http_port must be a whole number from 1 to 65535, not 'x'",
        ),
        (
            {"MAGNETAR_HTTP_PORT": "0"},
            "",
            "http_port must be a whole number from 1 to 65535, not '0'",
        ),
        ({"MAGNETAR_AUTHENTICATION_ENABLED": "1"}, "", "authentication_providers must name"),
        (
            {"MAGNETAR_AUTHENTICATION_ENABLED": "1", "MAGNETAR_AUTHENTICATION_PROVIDERS": "token"},
            "",
            "broker_client_authentication_plugin must be set",
        ),
        ({"MAGNETAR_AUTHENTICATION_ENABLED": "maybe"}, "", "must be true or false"),
        ({"MAGNETAR_CONFIG": "nowhere.toml"}, "", "MAGNETAR_CONFIG names"),
        (
            {"MAGNETAR_ALLOWED_ORIGINS": "http://a.example, http://b/path"},
            "",
            "allowed_origins must be origins such as .*, not 'http://b/path'",
        ),
        ({}, "[gateway]\nhttp_prot = 1", "unknown setting http_prot"),
        ({}, "gateway = 1", "must be a table"),
        ({"MAGNETAR_METADATA_URL": "etcd:x"}, "", "metadata_url must be zk:host:port"),
        ({"MAGNETAR_CLUSTERS": "west=etcd:x"}, "", "clusters: the URL of west must be zk:host"),
        ({"MAGNETAR_CLUSTERS": "west"}, "", "clusters: the URL of west must be zk:host"),
        (
            {"MAGNETAR_CLUSTERS": "west=zk:w:1|x"},
            "",
            "clusters: the configuration store's URL of west must be zk:host",
        ),
        (
            {"MAGNETAR_CLUSTERS": "west=zk:w:1||zk:b:1"},
            "",
            "clusters: BookKeeper's service URI of west must be zk",
        ),
        (
            {"MAGNETAR_CLUSTERS": "west=zk:w:1|||"},
            "",
            "clusters: the URLs of west must be METADATA_URL",
        ),
        (
            {"MAGNETAR_CONFIGURATION_METADATA_STORE_URL": "x"},
            "",
            "configuration_metadata_store_url must be zk:host",
        ),
        (
            {"MAGNETAR_BOOKKEEPER_METADATA_SERVICE_URI": "zk:b:1"},
            "",
            "bookkeeper_metadata_service_uri must be zk",
        ),
        ({"MAGNETAR_CLUSTERS": "../x=zk:w:1"}, "", "clusters must be NAME=METADATA_URL with"),
        (
            {"MAGNETAR_CLUSTERS": "standalone=zk:w:1"},
            "",
            "name each cluster once, not 'standalone'",
        ),
        ({"MAGNETAR_CLUSTERS": "a=zk:w:1 a=zk:w:2"}, "", "name each cluster once, not 'a'"),
    ],
)
def test_an_invalid_setting_is_named(
    environ: dict[str, str], file: str, words: str, tmp_path: Path
) -> None:
    (tmp_path / "magnetar.toml").write_text(file)
    with pytest.raises(ImproperlyConfigured, match=words):
        load(environ, tmp_path)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_an_address_that_others_reach_is_refused(host: str) -> None:
    with pytest.raises(ImproperlyConfigured, match="only loopback is served"):
        prepare(host)


def test_a_folder_of_a_cluster_that_cannot_be_made_is_named(tmp_path: Path, settings: Any) -> None:
    environment = load({"MAGNETAR_CLUSTERS": "west=zk:w:2181"}, tmp_path).environment
    settings.ENVIRONMENT = replace(environment, data_dir=tmp_path)
    settings.CLUSTERS = settings.ENVIRONMENT.served(StoreUrls("zk:h:2181"))
    prepare("127.0.0.1")
    assert (tmp_path / "clusters" / "west").is_dir()
    (tmp_path / "clusters" / "west").rmdir()
    (tmp_path / "clusters" / "west").touch()
    with pytest.raises(ImproperlyConfigured, match=r"cannot write to .*/clusters/west"):
        prepare("127.0.0.1")


@pytest.mark.parametrize("name", ["BOOKIE_PORT", "BROKER_HTTP_PORT"])
def test_variables_of_other_programs_are_ignored(tmp_path: Path, name: str) -> None:
    assert load({f"MAGNETAR_{name}": "1"}, tmp_path).environment.http_port == 8080


@pytest.mark.parametrize("module", [["gateway.serve"], ["gateway.worker"]])
def test_an_invalid_setting_ends_the_process_with_one_line(module: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *module],
        cwd=Path(__file__).resolve().parents[3],
        env={**os.environ, "MAGNETAR_LOG_LEVEL": "loud"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == os.EX_CONFIG
    [line] = done.stderr.splitlines()
    assert "cannot start: setting log_level must be one of DEBUG, INFO" in line


def test_a_password_is_in_the_url_for_celery_alone() -> None:
    link = RedisSettings("rediss://[::1]:6379/2", "app", "p@ss/word:%", "/ca")
    assert link.celery_url() == "rediss://app:p%40ss%2Fword%3A%25@[::1]:6379/2"
    assert "p@ss" not in repr(link)
    assert link.options()["ssl_ca_certs"] == "/ca"
    assert RedisSettings("redis://r:1").options() == {"username": None, "password": None}
    assert RedisSettings("redis://r:1", redis_password="p").celery_url() == "redis://:p@r:1"


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"redis_url": "redis://app:hidden@r:1"}, "must not contain a user or a password"),
        ({"redis_url": "rediss://r:1/0?ssl_cert_reqs=none"}, "must be redis://host:port"),
        ({"redis_url": "unix:///tmp/r"}, "must be redis://host:port"),
        ({"redis_url": "redis://r", "redis_tls_trust_certs_file_path": "/ca"}, "rediss://"),
        ({"redis_url": "rediss://r", "redis_tls_key_file_path": "/k"}, "set together"),
        ({"redis_url": "redis://r", "redis_user": "u"}, "redis_password must be set"),
    ],
)
def test_settings_that_would_be_ignored_or_weaken_the_link_are_refused(
    given: dict[str, Any], reason: str
) -> None:
    with pytest.raises(SettingsError, match=reason) as refused:
        RedisSettings(**given)
    assert "hidden" not in str(refused.value)


def test_the_password_of_redis_may_be_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "redis.password"
    with pytest.raises(SettingsError, match="redis_password: cannot read"):
        RedisSettings("redis://r:1", redis_password=path.as_uri())
    write_private(path, b"p@ss\n")
    link = RedisSettings("redis://r:1", redis_password=path.as_uri())
    assert link.options() == {"username": None, "password": "p@ss"}
    assert link.celery_url() == "redis://:p%40ss@r:1"


def test_clusters_on_the_server_of_the_first_are_parts_of_its_instance(tmp_path: Path) -> None:
    environ = {
        "MAGNETAR_CLUSTER_NAME": "us",
        "MAGNETAR_METADATA_URL": "zk:127.0.0.1:1/clusters/us",
        "MAGNETAR_CLUSTERS": "eu=zk:127.0.0.1:1/clusters/eu far=zk:elsewhere:1/clusters/far",
        "MAGNETAR_CONTROL_SOCKET": "/control",
    }
    loaded = load(environ, tmp_path)
    clusters = loaded.environment.served(loaded.metadata.stores)
    assert [(cluster.control_socket, cluster.part_prefix) for cluster in clusters] == [
        ("/control", "us."),
        ("/control", "eu."),
        ("", ""),
    ]
    alone = load({**environ, "MAGNETAR_CLUSTERS": ""}, tmp_path)
    [only] = alone.environment.served(alone.metadata.stores)
    assert (only.control_socket, only.part_prefix) == ("/control", "")
