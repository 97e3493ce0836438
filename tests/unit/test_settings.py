"""Settings: their sources, and refusal of invalid values with one line that names the setting and its range."""

from pathlib import Path
from typing import Any

import pytest

import manage
from engine.base.settings import (
    OFFSET,
    RESEMBLING,
    Program,
    Setting,
    SettingsError,
    _nearest,
)
from engine.programs import cluster_backups
from engine.programs.commands.cluster_metadata import PROGRAM as COMMANDS
from engine.settings import ELSEWHERE, PROGRAM, load
from magnetar.operate.place import OperatedPlace


def test_defaults_hold_without_file_and_environment(tmp_path: Path) -> None:
    settings = load({}, tmp_path)
    node = settings.node
    assert (node.broker_port, node.broker_http_port, node.bind_address) == (6650, 8081, "127.0.0.1")
    assert settings.metadata.store_url == "zk:127.0.0.1:2181"


def test_the_environment_overrides_the_file_and_the_file_the_default(tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(
        'broker_port = 7000\ncluster_name = "a"\nhttp_port = 1\n[broker]\nlog_level = "DEBUG"\n'
        "[gateway]\nanything = 1\n"
    )
    loaded = load({"MAGNETAR_BROKER_PORT": "7001", "HOME": "/"}, tmp_path)
    assert (loaded.node.broker_port, loaded.node.cluster_name) == (7001, "a")
    assert loaded.log.log_level == "DEBUG"


def test_port_offset_moves_only_ports_that_are_not_given(tmp_path: Path) -> None:
    loaded = load({"MAGNETAR_PORT_OFFSET": "100", "MAGNETAR_BROKER_PORT": "7001"}, tmp_path)
    assert (loaded.node.broker_port, loaded.node.broker_http_port) == (7001, 8181)
    assert loaded.metadata.store_url == "zk:127.0.0.1:2281"


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
        ({"MAGNETAR_ADVERTISED_ADDRESS": "0.0.0.0"}, ["advertised_address", "every address"]),
        ({"MAGNETAR_ADVERTISED_ADDRESS": "::"}, ["advertised_address", "every address"]),
        (
            {
                "MAGNETAR_ADVERTISED_LISTENERS": "a:pulsar://h:1",
                "MAGNETAR_ADVERTISED_ADDRESS": "h",
            },
            ["advertised_address and advertised_listeners exclude each other"],
        ),
        (
            {
                "MAGNETAR_ADVERTISED_LISTENERS": "a:pulsar://h:1",
                "MAGNETAR_INTERNAL_LISTENER_NAME": "b",
            },
            ["internal_listener_name", "no listener 'b'"],
        ),
        (
            {"MAGNETAR_ADVERTISED_LISTENERS": "a:pulsar+ssl://h:1"},
            ["internal listener", "address for pulsar:"],
        ),
        (
            {"MAGNETAR_BIND_ADDRESSES": "b:pulsar://127.0.0.1:1"},
            ["bind_addresses", "no listener 'b'"],
        ),
        (
            {
                "MAGNETAR_ADVERTISED_LISTENERS": "a:pulsar://h:1",
                "MAGNETAR_BIND_ADDRESSES": "a:http://127.0.0.1:1",
            },
            ["bind_addresses", "pulsar or pulsar+ssl"],
        ),
        (
            {
                "MAGNETAR_ADVERTISED_LISTENERS": "a:pulsar://h:1",
                "MAGNETAR_BIND_ADDRESSES": "a:pulsar://10.0.0.1:1",
            },
            ["bind_addresses '10.0.0.1'", "loopback"],
        ),
        (
            {
                "MAGNETAR_ADVERTISED_LISTENERS": "a:pulsar://h:1",
                "MAGNETAR_BIND_ADDRESSES": "a:pulsar+ssl://127.0.0.1:1",
            },
            ["tls_certificate_file_path", "bind_addresses"],
        ),
        (
            {"MAGNETAR_AUTHENTICATION_ENABLED": "true"},
            ["authentication_providers", "authentication_enabled"],
        ),
        (
            {
                "MAGNETAR_AUTHENTICATION_ENABLED": "true",
                "MAGNETAR_AUTHENTICATION_PROVIDERS": "token",
            },
            ["broker_client_authentication_plugin", "logs in at itself"],
        ),
        (
            {"MAGNETAR_AUTHENTICATION_PROVIDERS": "token,sasl"},
            ["authentication_providers", "'sasl'"],
        ),
        (
            {
                "MAGNETAR_AUTHENTICATION_PROVIDERS": "org.apache.pulsar.broker.authentication."
                "AuthenticationProviderAthenz"
            },
            ["authentication_providers", "AuthenticationProviderAthenz"],
        ),
        ({"MAGNETAR_AUTHENTICATION_PROVIDERS": "tls,tls"}, ["lists tls twice"]),
        (
            {"MAGNETAR_PROXY_ROLES": "a, b", "MAGNETAR_ANONYMOUS_USER_ROLE": "b"},
            ["anonymous_user_role", "proxy_roles"],
        ),
        (
            {"MAGNETAR_BROKER_CLIENT_AUTHENTICATION_PLUGIN": "kerberos"},
            ["broker_client_authentication_plugin", "token, tls or basic"],
        ),
        (
            {"MAGNETAR_BROKER_CLIENT_AUTHENTICATION_PLUGIN": "tls"},
            ["broker_client_certificate_file_path"],
        ),
        (
            {"MAGNETAR_BROKER_SERVICE_PORT_TLS": "6651"},
            ["tls_certificate_file_path", "broker_service_port_tls"],
        ),
        (
            {
                "MAGNETAR_BROKER_SERVICE_PORT_TLS": "6651",
                "MAGNETAR_TLS_CERTIFICATE_FILE_PATH": "cert.pem",
                "MAGNETAR_TLS_KEY_FILE_PATH": "key.pem",
                "MAGNETAR_TLS_REQUIRE_TRUSTED_CLIENT_CERT_ON_CONNECT": "true",
            },
            ["tls_trust_certs_file_path", "broker_service_port_tls"],
        ),
        (
            {"MAGNETAR_BROKER_HTTP_PORT_TLS": "8443"},
            ["tls_certificate_file_path", "broker_http_port_tls"],
        ),
        (
            {"MAGNETAR_BROKER_CLIENT_TLS_ENABLED": "true"},
            ["broker_service_port_tls", "broker_client_tls_enabled"],
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


def test_the_page_of_all_settings_is_fresh() -> None:
    assert manage.settings_reference(["--check"]) == 0


def test_a_stale_page_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(manage, "PAGE", tmp_path / "settings.md")
    with pytest.raises(SystemExit, match="out of date: run manage"):
        manage.settings_reference(["--check"])
    assert manage.settings_reference([]) == 0
    assert manage.settings_reference(["--check"]) == 0


def test_every_setting_has_a_help_text() -> None:
    everything = [setting for program in manage.programs() for setting in program.settings()]
    assert [setting.name for setting in everything if len(setting.item.metadata["help"]) < 4] == []


def test_the_broker_knows_the_top_level_keys_of_other_programs() -> None:
    shared = {
        setting.name
        for program in manage.programs()
        for setting in program.settings()
        if not setting.private
    }
    own = {setting.name for setting in PROGRAM.settings()}
    assert shared - own - {OFFSET} == ELSEWHERE


def as_given(setting: Setting) -> str:
    default = setting.item.default
    return str(default).lower() if isinstance(default, bool) else str(default)


@pytest.mark.parametrize("program", manage.programs(), ids=lambda program: program.name)
def test_explicit_defaults_load_the_same_settings_as_no_variables(
    program: Program[Any], tmp_path: Path
) -> None:
    """Accept every default as a given value, and the variables of other programs as no misspelling."""
    environ = {
        setting.variable: as_given(setting)
        for other in manage.programs()
        for setting in other.settings()
        if setting.item.default is not None
    }
    given = {"data_dir": "/d"} if program.name == "bookie" else {}
    explicit, implicit = program.load(environ, tmp_path, given), program.load({}, tmp_path, given)
    if program.name == "standalone":  # its node settings also record which ports were given
        explicit, implicit = explicit.log, implicit.log
    assert explicit == implicit


def test_no_program_refuses_the_settings_of_another_as_misspelt() -> None:
    programs = (*manage.programs(), COMMANDS)
    for program in programs:
        own = {setting.name for setting in program.settings() if not setting.private}
        known = own | RESEMBLING | (program.elsewhere or frozenset())
        refused = [
            setting.name
            for other in programs
            for setting in other.settings()
            if not setting.private and setting.name not in known and _nearest(setting.name, own)
        ]
        assert refused == [], program.name


def test_a_command_reads_the_file_of_a_cluster_with_tables_of_all_programs(tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(
        'metadata_url = "zk:meta:2181"\n[broker]\nbind_address = "127.0.0.1"\n'
        '[gateway]\nallowed_hosts = "console"\n[bookie]\nbookie_id = "a"\n'
    )
    assert cluster_backups.load({}, tmp_path).metadata.metadata_url == "zk:meta:2181"
    assert OperatedPlace.load({}, tmp_path, None).cluster
