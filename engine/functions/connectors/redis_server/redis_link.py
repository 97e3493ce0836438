"""The connection to a Redis server: its settings, and how it is opened."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from engine.functions.connectors.connector_settings import Schema, text
from engine.functions.connectors.spi import ConnectorError

CONNECT_S, ANSWER_S = 5.0, 30.0


def server_fields() -> dict[str, Schema]:
    """Return the settings of a connection."""
    return {
        "url": text(
            "URL",
            "redis://HOST:PORT/DATABASE, rediss:// with TLS, or unix:///PATH",
            pattern="^(rediss?|unix)://",
        ),
        "user": text("User", "User of the server's access control"),
        "password": text("Password", "Password of the server or user", secret=True),
    }


async def open_redis(settings: Mapping[str, Any]) -> Any:
    """Return a client that has reached the server. Raises ConnectorError."""
    from redis.asyncio import Redis
    from redis.exceptions import RedisError

    if urlsplit(settings["url"]).password:
        raise ConnectorError("configs.url: give the password in configs.password")
    login = {"username": settings.get("user"), "password": settings.get("password")}
    options: dict[str, Any] = {name: value for name, value in login.items() if value}
    try:
        client = Redis.from_url(
            settings["url"], socket_connect_timeout=CONNECT_S, socket_timeout=ANSWER_S, **options
        )
    except ValueError as error:
        raise ConnectorError(f"configs.url: {error}") from error
    try:
        await client.ping()
    except (RedisError, OSError) as error:
        await client.aclose()
        raise ConnectorError(f"configs.url: {error}") from error
    return client
