"""Invalid settings stop the process at start with a message that names them."""

import re
from pathlib import Path

import pytest

from bookie.__main__ import load_settings, parse_arguments, room
from bookie.settings import PROGRAM, BookieSettings
from engine.base.settings import SettingsError
from engine.net.tls import TLS_FACTORY


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"data_dir": ""}, "data_dir"),
        ({"bookie_port": 70000}, "bookie_port"),
        ({"bookie_port": 0}, "bookie_port"),
        ({"tls_provider_factory_class": "org.example.X"}, "tls_provider_factory_class"),
        (
            {"tls_provider_factory_class": TLS_FACTORY, "tls_key_store": "key.pem"},
            "tls_certificate_path",
        ),
        (
            {
                "tls_provider_factory_class": TLS_FACTORY,
                "tls_certificate_path": "cert.pem",
                "tls_key_store": "key.pem",
                "tls_client_authentication": True,
            },
            "tls_trust_store",
        ),
        ({"listening_host": "0.0.0.0"}, "advertised_address"),
        ({"journal_file_bytes": 10}, "journal_file_bytes"),
        ({"disk_usage_threshold": 1.5}, "disk_usage_threshold"),
        ({"disk_usage_lwm_threshold": 0.99}, "disk_usage_lwm_threshold"),
        ({"flush_interval_s": 0}, "flush_interval_s"),
        ({"entry_log_bytes_max": 1 << 33}, "entry_log_bytes_max"),
        ({"journal_directories": "/a,/b"}, "journal_directories"),
        ({"ledger_directories": "/a,/a"}, "ledger_directories"),
        ({"ledger_directories": "/a,,/b"}, "ledger_directories"),
        ({"ledger_directories": "/d/journal"}, "ledger_directories"),
        ({"minor_compaction_threshold": 1.5}, "minor_compaction_threshold"),
        ({"major_compaction_threshold": -0.1}, "major_compaction_threshold"),
        ({"minor_compaction_threshold": 0.9}, "minor_compaction_threshold"),
        ({"minor_compaction_interval_s": 1e9}, "minor_compaction_interval_s"),
        ({"major_compaction_interval_s": -1}, "major_compaction_interval_s"),
        ({"compaction_rate_by_bytes": 0}, "compaction_rate_by_bytes"),
        ({"journal_buffered_writes_threshold": 1}, "journal_buffered_writes_threshold"),
    ],
)
def test_nonsense_is_named(change: dict[str, object], name: str) -> None:
    values: dict[str, object] = {"data_dir": "/d"} | change
    with pytest.raises(SettingsError, match=name):
        BookieSettings(**values)  # type: ignore[arg-type]


def test_command_line_wins_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(
        "broker_port = 1\n[bookie]\nflush_interval_s = 7\nread_cache_bytes = 4096\njournal_direct = true\n"
    )
    arguments = parse_arguments(["--data-dir", "/d", "--port", "21150", "--status-port", "21151"])
    environment = {
        "MAGNETAR_BOOKIE_BOOKIE_PORT": "1",
        "MAGNETAR_BOOKIE_WRITE_CACHE_BYTES": "1048576",
        "MAGNETAR_BOOKIE_FLUSH_INTERVAL_S": "2.5",
        "MAGNETAR_BOOKIE_JOURNAL_DIRECT": "false",
        "MAGNETAR_BOOKIE_BOOKIE_ID": "me:1",
    }
    settings = load_settings(arguments, environment, tmp_path).bookie
    assert settings.read_cache_bytes == 4096
    assert (settings.bookie_port, settings.http_server_port) == (21150, 21151)
    assert (settings.write_cache_bytes, settings.flush_interval_s) == (1048576, 2.5)
    assert settings.journal_direct is False
    assert settings.bookie_id == "me:1"
    assert settings.journal_root == "/d/journal"


@pytest.mark.parametrize("text", ["many", "1.5", ""])
def test_an_unreadable_environment_value_is_named(text: str, tmp_path: Path) -> None:
    arguments = parse_arguments(["--data-dir", "/d"])
    with pytest.raises(SettingsError, match="write_cache_bytes"):
        load_settings(arguments, {"MAGNETAR_BOOKIE_WRITE_CACHE_BYTES": text}, tmp_path)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("journal_directories = 1", "journal_directories must be text, not 1"),
        ("journal_direct = 1", "journal_direct must be true or false, not 1"),
        (
            "write_cache_bytes = 1.5",
            "write_cache_bytes must be a whole number from 65536 to .*, not 1.5",
        ),
        ("flush_interval_s = true", "flush_interval_s must be a number from 0.001 to .*, not True"),
        ("flush_intervall_s = 1", "unknown setting flush_intervall_s"),
        ("flush_interval_s = ", "cannot read"),
    ],
)
def test_nonsense_in_the_file_is_named(table: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(f"[bookie]\n{table}\n")
    with pytest.raises(SettingsError, match=words):
        load_settings(parse_arguments(["--data-dir", "/d"]), {}, tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "data_dir must name a directory"),
        (["--data-dir", "/d", "--metadata", "etcd:a:1"], "metadata_url must be zk:host:port"),
        (
            ["--data-dir", "/d", "--port", "x"],
            "bookie_port must be .* from 0 to 65535, not 'x' .from the command line",
        ),
        (["--data-dir", "/d", "--log-level", "loud"], "log_level must be one of DEBUG, INFO"),
    ],
)
def test_nonsense_on_the_command_line_is_named(
    options: list[str], words: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings(parse_arguments(options), {}, tmp_path)


def test_settings_of_all_programs_are_read_from_the_top_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "magnetar.toml").write_text(
        'metadata_url = "zk:zk1/prod"\nlog_format = "json"\nadvertised_address = "a-broker"\n'
    )
    environment = {"MAGNETAR_LOG_LEVEL": "DEBUG", "MAGNETAR_DATA_DIR": "/of/the/instance"}
    settings = load_settings(parse_arguments(["--data-dir", "/d"]), environment, tmp_path)
    assert settings.metadata.store_url == "zk:zk1/prod"
    assert (settings.log.log_level, settings.log.log_format) == ("DEBUG", "json")
    assert (settings.bookie.data_dir, settings.bookie.advertised_address) == ("/d", "")


def test_ledger_directories_are_a_list_with_commas() -> None:
    assert BookieSettings(data_dir="/d").ledger_roots == ["/d/ledgers"]
    settings = BookieSettings(data_dir="", journal_directories="/j", ledger_directories="/a, /b/")
    assert (settings.journal_root, settings.ledger_roots) == ("/j", ["/a", "/b"])


def test_a_full_disk_is_reported_with_its_folder_and_free_space(tmp_path: Path) -> None:
    text = room([f"{tmp_path}/not/there", f"{tmp_path}", f"{tmp_path}"])
    assert re.fullmatch(
        rf"{tmp_path}/not/there has \d+ MiB free, {tmp_path} has \d+ MiB free", text
    )


def test_a_bookie_has_its_metadata_in_the_store_of_ledgers(tmp_path: Path) -> None:
    uri = "zk+hierarchical://b:1/ledgers"
    (tmp_path / "magnetar.toml").write_text(
        f'metadata_url = "zk:a:1"\nbookkeeper_metadata_service_uri = "{uri}"\n'
    )

    def store(*options: str) -> str:
        arguments = parse_arguments(["--data-dir", "/d", *options])
        return load_settings(arguments, {}, tmp_path).metadata.stores.of_bookies

    assert store() == "zk:b:1"
    assert store("--metadata", "zk:c:1") == "zk:c:1"  # not the one of the file
    assert store("--metadata-service-uri", "zk+hierarchical://d:1/ledgers") == "zk:d:1"


def test_other_machines_are_served_only_where_the_operator_permits_it(tmp_path: Path) -> None:
    environ = {"MAGNETAR_BOOKIE_LISTENING_HOST": "10.0.0.5", "MAGNETAR_BOOKIE_DATA_DIR": "/d"}
    with pytest.raises(SettingsError, match=r"listening_host '10\.0\.0\.5' is not loopback"):
        PROGRAM.load(environ, tmp_path)
    allowed = PROGRAM.load({**environ, "MAGNETAR_INSECURE_ANYWHERE": "true"}, tmp_path)
    assert allowed.bookie.listening_host == "10.0.0.5"
