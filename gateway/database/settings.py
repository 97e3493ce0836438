"""Settings of the console's database."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from engine.base.disk.secret_files import check_secret
from engine.base.settings import SettingsError, count, flag, secret, text
from engine.net.tls import ClientFiles

FILE_SCHEME = "file://"
CONNECT_S = 3
WAIT_S = 5.0
"""Time for which a call waits for a connection of the pool; then the database counts as away."""
RECONNECT_S = 2.0
_URL = re.compile(
    r"postgresql://(?P<user>[^:@/?#]+)@(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]|(?:%2F|%2f)[^:@/?#]*)"
    r"(?::(?P<port>[0-9]{1,5}))?/(?P<name>[^/?#]+)"
)


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """The console's database: people, sessions, audit log, saved views, runs of analyses."""

    database_url: str = text(
        "",
        "postgresql://user@host:port/name; a host that begins with %2F is the folder of a Unix socket; empty: SQLite, "
        "the file console.sqlite3 in data_dir",
    )
    database_password: str = secret(
        "password of the user of database_url, or file:///path; empty: none is presented"
    )
    database_connections_max: int = count(
        10, "connections to PostgreSQL that a process keeps open", low=3, high=1_000
    )
    database_tls_enabled: bool = flag(
        False, "connect to PostgreSQL by TLS; its certificate must be trusted and for the host"
    )
    database_tls_trust_certs_file_path: str = text(
        "", "PEM file of the CAs that sign its certificate; empty: those of the operating system"
    )
    database_tls_certificate_file_path: str = text(
        "", "PEM file of the certificate to present to PostgreSQL, leaf first; empty: none"
    )
    database_tls_key_file_path: str = text("", "PEM file of its key, unencrypted")

    def __post_init__(self) -> None:
        """Check the values. Raises SettingsError, which never contains the URL: it may hold a password."""
        if self.database_url and not _URL.fullmatch(self.database_url):
            raise SettingsError(
                "database_url must be postgresql://user@host:port/name, without a password or options: "
                "database_password and database_tls_… are for them"
            )
        files = self.files
        if bool(files.cert) != bool(files.key):
            raise SettingsError(
                "database_tls_certificate_file_path and database_tls_key_file_path must be set together"
            )
        if files != ClientFiles() and not self.database_tls_enabled:
            raise SettingsError("database_tls_enabled must be true where database_tls_… are set")
        if (self.database_password or self.database_tls_enabled) and not self.database_url:
            raise SettingsError("database_url must be set where database_… are")

    @property
    def files(self) -> ClientFiles:
        return ClientFiles(
            self.database_tls_trust_certs_file_path,
            self.database_tls_certificate_file_path,
            self.database_tls_key_file_path,
        )

    def password(self) -> str:
        """Return the password. Raises OSError when its file cannot be read."""
        if not self.database_password.startswith(FILE_SCHEME):
            return self.database_password
        path = Path(self.database_password.removeprefix(FILE_SCHEME))
        check_secret(path)
        return path.read_text().strip()

    def parameters(self) -> dict[str, Any]:
        """Return libpq's parameters of a connection, the password among them."""
        match = _URL.fullmatch(self.database_url)
        assert match is not None
        return {
            "user": unquote(match["user"]),
            "host": unquote(match["host"]).strip("[]"),
            "port": int(match["port"] or 5432),
            "dbname": unquote(match["name"]),
            "password": self.password() or None,
            **self._options(),
        }

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "connect_timeout": CONNECT_S,
            "application_name": "magnetar",
            # A server that vanished without a word is noticed in half a minute.
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 4,
        }
        if not self.database_tls_enabled:
            return {**options, "sslmode": "disable"}
        files = self.files
        if files.key:
            check_secret(files.key)
        return {
            **options,
            "sslmode": "verify-full",
            "sslrootcert": files.ca or "system",
            "sslcert": files.cert or "",
            "sslkey": files.key or "",
        }

    def django(self, data_dir: Path) -> dict[str, Any]:
        """Return the entry of Django's setting DATABASES."""
        if not self.database_url:
            return {
                "ENGINE": "django.db.backends.sqlite3",
                "NAME": data_dir / "console.sqlite3",
                "OPTIONS": {
                    # Writers wait for each other instead of failing, and an audit entry is durable when it is
                    # committed.
                    "timeout": 10,
                    "transaction_mode": "IMMEDIATE",
                    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
                },
            }
        known = self.parameters()
        # Without PostgreSQL its client need not be installed.
        from gateway.database.postgresql.bounded import BoundedConnection

        pool = {
            "min_size": 1,
            "max_size": self.database_connections_max,
            "timeout": WAIT_S,
            # The pool doubles the time between its attempts; after this time the next caller begins anew.
            "reconnect_timeout": RECONNECT_S,
            "connection_class": BoundedConnection,
        }
        return {
            "ENGINE": "gateway.database.postgresql",
            "NAME": known.pop("dbname"),
            "USER": known.pop("user"),
            "PASSWORD": known.pop("password") or "",
            "HOST": known.pop("host"),
            "PORT": known.pop("port"),
            "CONN_MAX_AGE": 0,
            "CONN_HEALTH_CHECKS": True,
            "OPTIONS": {**known, "pool": pool},
        }
