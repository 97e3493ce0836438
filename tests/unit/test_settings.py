"""Settings: where they come from, and that nonsense stops the process with one line naming the setting and range."""

from pathlib import Path

import pytest

from engine.base.settings import SettingsError
from engine.settings import load


def test_defaults_hold_without_file_and_environment(tmp_path: Path) -> None:
    settings = load({}, tmp_path)
    node = settings.node
    assert (node.broker_port, node.broker_http_port, node.bind_address) == (6650, 8081, "127.0.0.1")
    assert settings.metadata.store_url == "zk:127.0.0.1:2181"


def test_environment_goes_before_file_and_file_before_default(tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(
        'broker_port = 7000\ncluster_name = "a"\nhttp_port = 1\n[broker]\nlog_level = "DEBUG"\n'
        "[gateway]\nanything = 1\n"
    )
    found = load({"MAGNETAR_BROKER_PORT": "7001", "HOME": "/"}, tmp_path)
    assert (found.node.broker_port, found.node.cluster_name) == (7001, "a")
    assert found.log.log_level == "DEBUG"


def test_port_offset_moves_only_ports_that_are_not_given(tmp_path: Path) -> None:
    found = load({"MAGNETAR_PORT_OFFSET": "100", "MAGNETAR_BROKER_PORT": "7001"}, tmp_path)
    assert (found.node.broker_port, found.node.broker_http_port) == (7001, 8181)
    assert found.metadata.store_url == "zk:127.0.0.1:2281"


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        (
            {"MAGNETAR_BROKER_PORT": "x"},
            ["broker_port", "0 to 65535", "'x' (from MAGNETAR_BROKER_PORT)"],
        ),
        ({"MAGNETAR_BROKER_PORT": "65536"}, ["broker_port", "0 to 65535"]),
        ({"MAGNETAR_PORT_OFFSET": "60000"}, ["broker_port", "0 to 65535", "port_offset 60000"]),
        ({"MAGNETAR_LOG_LEVEL": "loud"}, ["log_level", "DEBUG, INFO, WARNING, ERROR"]),
        (
            {"MAGNETAR_ALLOW_AUTO_TOPIC_CREATION": "maybe"},
            ["allow_auto_topic_creation", "true or false"],
        ),
        ({"MAGNETAR_BIND_ADDRESS": "0.0.0.0"}, ["bind_address", "loopback"]),
        ({"MAGNETAR_BIND_ADDRESS": "example.org"}, ["bind_address", "loopback"]),
        (
            {"MAGNETAR_AUTHENTICATION_ENABLED": "true"},
            ["authentication_enabled", "not supported yet"],
        ),
        (
            {"MAGNETAR_BROKER_PROT": "1"},
            ["MAGNETAR_BROKER_PROT", "did you mean MAGNETAR_BROKER_PORT?"],
        ),
        ({"MAGNETAR_CONFIG": "nowhere.toml"}, ["MAGNETAR_CONFIG", "missing"]),
        ({"MAGNETAR_METADATA_URL": "etcd:x"}, ["metadata_url", "zk:host:port"]),
    ],
)
def test_nonsense_is_refused_in_one_line(
    environ: dict[str, str], words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as refused:
        load(environ, tmp_path)
    text = str(refused.value)
    assert "\n" not in text
    for word in words:
        assert word in text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("broker_prot = 1", ["unknown setting broker_prot", "did you mean broker_port?"]),
        ("[broker]\nwhatever = 1", ["unknown setting whatever"]),
        ("whatever = 1", ["unknown setting whatever"]),
        ("broker = 1", ["[broker] must be a table"]),
        ("broker_port = true", ["broker_port", "whole number"]),
        ("cluster_name = 5", ["cluster_name", "text"]),
        ("broker_port = ", ["cannot read"]),
    ],
)
def test_a_bad_file_is_refused(text: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        load({}, tmp_path)
    for word in words:
        assert word in str(refused.value)
