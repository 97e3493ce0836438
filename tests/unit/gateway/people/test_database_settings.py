"""The setting of the console's database: what it connects to, and that no password is shown."""

import io
from pathlib import Path
from typing import Any

import pytest
from django.db.utils import load_backend

from engine.base.settings import SettingsError
from gateway.database.settings import DatabaseSettings
from gateway.environment import load
from gateway.standalone.cli import _set_up_lines

URL = "postgresql://app%40x@db.example:5433/console"
OTHERS: dict[str, Any] = {"AUTOCOMMIT": True, "ATOMIC_REQUESTS": False, "TIME_ZONE": None}


def test_without_a_url_it_is_a_file(tmp_path: Path) -> None:
    options = load({"MAGNETAR_DATA_DIR": "x"}, tmp_path).database.django(Path("x"))
    assert (options["ENGINE"], options["NAME"]) == (
        "django.db.backends.sqlite3",
        Path("x/console.sqlite3"),
    )


def test_a_server_is_connected_to_by_a_pool(tmp_path: Path) -> None:
    environ = {"MAGNETAR_DATABASE_URL": URL, "MAGNETAR_DATABASE_CONNECTIONS_MAX": "7"}
    options = load(environ, tmp_path).database.django(tmp_path)
    place = [options[name] for name in ("USER", "HOST", "PORT", "NAME", "PASSWORD")]
    assert place == ["app@x", "db.example", 5433, "console", ""]
    assert options["OPTIONS"]["pool"]["max_size"] == 7
    assert options["OPTIONS"]["sslmode"] == "disable"


def test_a_socket_is_named_by_its_folder() -> None:
    settings = DatabaseSettings("postgresql://u@%2Fvar%2Frun%2Fpostgresql/db")
    assert settings.parameters()["host"] == "/var/run/postgresql"
    assert DatabaseSettings("postgresql://u@[::1]:1/db").parameters()["host"] == "::1"


def test_in_tls_the_certificate_must_be_trusted_and_for_the_host() -> None:
    own = DatabaseSettings(
        URL,
        database_tls_enabled=True,
        database_tls_trust_certs_file_path="/ca",
        database_tls_certificate_file_path="/cert",
        database_tls_key_file_path="/key",
    ).parameters()
    assert [own[name] for name in ("sslmode", "sslrootcert", "sslcert", "sslkey")] == [
        "verify-full",
        "/ca",
        "/cert",
        "/key",
    ]
    system = DatabaseSettings(URL, database_tls_enabled=True).parameters()
    assert (system["sslmode"], system["sslrootcert"]) == ("verify-full", "system")


def test_the_password_is_a_secret_or_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("hidden\n")
    path.chmod(0o600)
    given = DatabaseSettings(URL, database_password="hidden")
    from_file = DatabaseSettings(URL, database_password=path.as_uri())
    assert given.parameters()["password"] == from_file.parameters()["password"] == "hidden"
    assert "hidden" not in repr(given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"database_url": "postgresql://u:hidden@h/db"}, "without a password"),
        ({"database_url": "postgresql://u@h/db?password=hidden"}, "without a password"),
        ({"database_url": "postgresql://h/db"}, "user@host"),
        ({"database_url": "mysql://u@h/db"}, "must be postgresql://"),
        ({"database_url": "postgresql://u@h"}, "must be postgresql://"),
        ({"database_password": "hidden"}, "database_url must be set"),
        ({"database_url": URL, "database_tls_trust_certs_file_path": "/ca"}, "tls_enabled"),
        (
            {
                "database_url": URL,
                "database_tls_enabled": True,
                "database_tls_key_file_path": "/k",
            },
            "set together",
        ),
    ],
)
def test_a_wrong_setting_is_named_without_its_value(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words) as refused:
        DatabaseSettings(**given)
    assert "hidden" not in str(refused.value)


class Broken:
    """A connection that the server has ended."""

    closed = 0

    def __init__(self, *, serves: bool) -> None:
        self.serves = serves


@pytest.mark.parametrize("serves", [True, False])
def test_after_an_error_a_connection_that_serves_no_more_is_replaced(
    serves: bool, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any
) -> None:
    """Replace it at the next use: the thread of asynchronous calls keeps its connection for ever."""
    options = DatabaseSettings(URL).django(Path())
    wrapper = load_backend(options["ENGINE"]).DatabaseWrapper({**OTHERS, **options}, "other")
    old, new = Broken(serves=serves), Broken(serves=True)

    def connect() -> None:
        wrapper.connection = new

    def close() -> None:
        wrapper.connection = None

    monkeypatch.setattr(wrapper, "connect", connect)
    monkeypatch.setattr(wrapper, "close", close)
    monkeypatch.setattr(wrapper, "is_usable", lambda: wrapper.connection.serves)
    monkeypatch.setattr(wrapper, "_reach", lambda: None)
    with django_db_blocker.unblock():
        wrapper.connection = old
        wrapper.ensure_connection()
        assert wrapper.connection is old
        wrapper.errors_occurred = True
        wrapper.in_atomic_block = True
        wrapper.ensure_connection()
        assert wrapper.connection is old
        wrapper.in_atomic_block = False
        wrapper.ensure_connection()
        assert wrapper.connection is (old if serves else new)
        assert not wrapper.errors_occurred


def test_a_started_instance_shows_the_code_of_the_first_person_on_a_terminal_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, stream = "http://127.0.0.1:8080/set-up", io.StringIO()
    assert _set_up_lines(tmp_path, page, stream) == []
    (tmp_path / "set-up-code").write_text("AAAA-BBBB\n")
    [line] = _set_up_lines(tmp_path, page, stream)
    assert line.split(maxsplit=2)[2] == f"{page} with the code in {tmp_path / 'set-up-code'}"
    monkeypatch.setattr(stream, "isatty", lambda: True)
    [line] = _set_up_lines(tmp_path, page, stream)
    assert line.split()[-5:] == [page, "with", "the", "code", "AAAA-BBBB"]
