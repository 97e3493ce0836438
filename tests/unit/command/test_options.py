"""The connection of a command: command line, environment, profile, defaults, in this order."""

from pathlib import Path
from typing import Any

import pytest

from magnetar.command.connecting.options import ClusterAddress, config_path, resolve
from magnetar.command.exits import CommandFailed, Exit

NOWHERE = Path("/nonexistent/config.toml")


def resolved(
    config: Path = NOWHERE, environ: dict[str, str] | None = None, **given: Any
) -> ClusterAddress:
    return resolve(given, environ or {}, config)


def written(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def refused(*arguments: Any, **values: Any) -> CommandFailed:
    with pytest.raises(CommandFailed) as caught:
        resolved(*arguments, **values)
    assert caught.value.exit_code == Exit.USAGE
    return caught.value


def test_the_defaults_are_the_instance_that_dev_starts() -> None:
    connection = resolved()
    assert connection.urls == ["pulsar://127.0.0.1:6650"]
    assert connection.admin_url == "http://127.0.0.1:8080"
    assert connection.is_local


def test_an_offset_moves_both_ports() -> None:
    connection = resolved(environ={"MAGNETAR_PORT_OFFSET": "20000"})
    assert (connection.url, connection.admin_url) == (
        "pulsar://127.0.0.1:26650",
        "http://127.0.0.1:28080",
    )


def test_rest_is_looked_for_beside_the_brokers() -> None:
    assert resolved(url="pulsar://b.example:6650").admin_url == "http://b.example:8080"
    assert resolved(url="pulsar+ssl://b.example").admin_url == "https://b.example:8443"
    assert resolved(url="pulsar://[::1]:6650").admin_url == "http://[::1]:8080"


def test_several_hosts_are_several_urls() -> None:
    connection = resolved(url="pulsar+ssl://a:7000,b,[2001:db8::1]:7000/")
    assert connection.urls == [
        "pulsar+ssl://a:7000",
        "pulsar+ssl://b:6651",
        "pulsar+ssl://[2001:db8::1]:7000",
    ]
    assert not connection.is_local


def test_a_closer_origin_wins_over_a_farther_one(tmp_path: Path) -> None:
    config = written(tmp_path, 'default = "p"\n[profiles.p]\nurl = "pulsar://p:1"\ntoken = "t"\n')
    assert resolved(config).url == "pulsar://p:1"
    environ = {"MAGNETAR_URL": "pulsar://e:1", "MAGNETAR_TOKEN_FILE": "/f"}
    connection = resolved(config, environ)
    assert (connection.url, connection.token, connection.token_file) == ("pulsar://e:1", "", "/f")
    assert resolved(config, environ, url="pulsar://c:1", token="x").token == "x"


def test_a_profile_is_chosen_by_name(tmp_path: Path) -> None:
    config = written(
        tmp_path, '[profiles.a]\nadmin-url = "https://a"\n[profiles.b]\nport_offset = 5\n'
    )
    assert resolved(config, profile="a").admin_url == "https://a"
    assert resolved(config, {"MAGNETAR_PROFILE": "b"}).url == "pulsar://127.0.0.1:6655"
    assert "It has: a, b" in refused(config, profile="c").hint
    assert resolved(config).url == "pulsar://127.0.0.1:6650"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622])
def test_a_file_of_profiles_that_is_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    error = refused(written(tmp_path, 'default = "p"\n[profiles.p]\ntoken = "t"', mode))
    assert f"chmod 600 {tmp_path}" in error.hint


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("not toml", "cannot read"),
        ("[profiles.p]\nurk = 'x'", "urk in profile 'p' is not known"),
        ("[profiles.p]\nurl = 5", "--url must be a text"),
        ("[profiles.p]\nport_offset = true", "--port-offset must be"),
        ("profiles = 5", "no profile 'p'"),
        ("[profiles.p]\nprofile = 'q'", "profile in profile 'p' is not known"),
    ],
)
def test_a_wrong_profile_is_named(tmp_path: Path, text: str, part: str) -> None:
    assert part in refused(written(tmp_path, text), profile="p").message


@pytest.mark.parametrize(
    "given",
    [
        {"url": "http://x:1"},
        {"url": "pulsar://"},
        {"url": "pulsar://a b"},
        {"url": "pulsar://a/path"},
        {"url": "pulsar://a,,b"},
        {"url": "pulsar://a\x1b"},
        {"admin_url": "pulsar://x"},
        {"admin_url": "http://"},
        {"token": "a", "token_file": "b"},
        {"token": "a\nb"},
        {"tls_cert": "c"},
        {"port_offset": "x"},
    ],
)
def test_wrong_values_are_refused(given: dict[str, str]) -> None:
    refused(**given)


def test_a_token_is_not_in_the_text_of_a_connection() -> None:
    assert "secret" not in repr(resolved(token="secret"))


def test_the_file_of_profiles_is_in_the_folder_of_configurations() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/x"}) == Path("/x/magnetar/config.toml")
