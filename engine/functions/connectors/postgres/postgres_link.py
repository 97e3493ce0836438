"""The connection to a PostgreSQL server: its settings, and how it is opened."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from engine.functions.connectors.connector_settings import Schema, text
from engine.functions.connectors.spi import ConnectorError

CONNECT_S = 10
SECOND_LINE = 300
"""Characters of a server's text at most that a reason has."""
DEAD_PEER: Mapping[str, Any] = {
    **{"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3},
    "tcp_user_timeout": 60_000,
}
"""Parameters of libpq by which a server that is gone without a word is found within a minute."""


def refusal(setting: str, error: Exception) -> ConnectorError:
    """Return the error of a setting with a server's text, cut to what a reason has."""
    return ConnectorError(f"configs.{setting}: {str(error).strip()[:SECOND_LINE]}")


def link_fields() -> dict[str, Schema]:
    """Return the settings of a connection."""
    return {
        "url": text(
            "URL",
            "postgresql://USER@HOST:PORT/DATABASE, with options such as ?sslmode=verify-full",
            pattern="^postgres(ql)?://",
        ),
        "password": text("Password", "Password of the user", secret=True),
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
    if urlsplit(settings["url"]).password:
        raise ConnectorError("configs.url: give the password in configs.password")
    password = settings.get("password")
    try:
        return await psycopg.AsyncConnection.connect(
            settings["url"],
            autocommit=True,
            connect_timeout=CONNECT_S,
            application_name="magnetar",
            **{**DEAD_PEER, **options},
            **({"password": password} if password else {}),
        )
    except (psycopg.Error, UnicodeError) as error:
        raise refusal("url", error) from error


def table_name(name: str) -> tuple[str, str]:
    """Return schema and table of ``schema.table`` or ``table``."""
    schema, _, table = name.rpartition(".")
    return schema or "public", table
