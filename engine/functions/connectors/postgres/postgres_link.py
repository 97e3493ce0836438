"""The connection to a PostgreSQL server: its settings, and how it is opened."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from engine.functions.connectors.connector_settings import Schema, text, url
from engine.functions.connectors.spi import ConnectorError
from engine.functions.connectors.tls_settings import (
    CERT,
    KEY,
    TRUST,
    PemFiles,
    client_tls_fields,
)

CONNECT_S = 10
SECOND_LINE = 300
"""Characters of a server's text at most that a reason has."""
DEAD_PEER: Mapping[str, Any] = {
    **{"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3},
    "tcp_user_timeout": 60_000,
}
"""Parameters of libpq by which a server that is gone without a word is found within a minute."""


MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
VERIFY = "verify-full"


def refusal(setting: str, error: Exception) -> ConnectorError:
    """Return the error of a setting with a server's text, cut to what a reason has."""
    return ConnectorError(f"configs.{setting}: {str(error).strip()[:SECOND_LINE]}")


def link_fields() -> dict[str, Schema]:
    """Return the settings of a connection."""
    return {
        "url": url(
            "URL",
            "postgresql://USER@HOST:PORT/DATABASE, with options such as ?target_session_attrs=primary",
            "^postgres(ql)?://",
        ),
        "password": text("Password", "Password of the user", secret=True),
        "sslMode": text(
            "TLS",
            "Whether the connection is encrypted and the server verified, as libpq's sslmode; empty: the URL's, else "
            "verify-full with trusted certificates and prefer without",
            choices=MODES,
        ),
        **client_tls_fields(),
    }


async def connect(settings: Mapping[str, Any], **options: str) -> Any:
    """Return an open psycopg connection in autocommit. ``options``: further parameters of libpq. Raises
    ConnectorError."""
    try:
        import psycopg
    except ImportError as error:
        raise ConnectorError(
            "the package psycopg is not installed: pip install 'magnetar[connectors]'"
        ) from error
    password = settings.get("password")
    # The library reads the files while it connects, and never again.
    with PemFiles(settings) as files:
        try:
            return await psycopg.AsyncConnection.connect(
                settings["url"],
                autocommit=True,
                connect_timeout=CONNECT_S,
                application_name="magnetar",
                **{**DEAD_PEER, **options, **_tls(settings, files)},
                **({"password": password} if password else {}),
            )
        except (psycopg.Error, UnicodeError) as error:
            raise refusal("url", error) from error


def _tls(settings: Mapping[str, Any], files: PemFiles) -> dict[str, str]:
    """Return libpq's options of TLS. Raises ConnectorError for certificates that cannot be used."""
    if not files.paths:
        return {"sslmode": settings["sslMode"]} if settings.get("sslMode") else {}
    files.client_context()  # names the setting that is wrong, which libpq does not
    in_url = parse_qs(urlsplit(settings["url"]).query).get("sslmode")
    mode = settings.get("sslMode") or (in_url[-1] if in_url else VERIFY)
    names = {TRUST: "sslrootcert", CERT: "sslcert", KEY: "sslkey"}
    return {"sslmode": mode} | {names[name]: path for name, path in files.paths.items()}


def table_name(name: str) -> tuple[str, str]:
    """Return schema and table of ``schema.table`` or ``table``."""
    schema, _, table = name.rpartition(".")
    return schema or "public", table
