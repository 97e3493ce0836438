"""The connection to a Redis server: its settings, and how it is opened."""

from collections.abc import Mapping
from typing import Any

from engine.functions.connectors.connector_settings import Schema, text, url
from engine.functions.connectors.spi import ConnectorError
from engine.functions.connectors.tls_settings import (
    CERT,
    KEY,
    TRUST,
    VERIFY_HOST,
    PemFiles,
    client_tls_fields,
    verify_host_field,
)

CONNECT_S, ANSWER_S = 5.0, 30.0


def server_fields() -> dict[str, Schema]:
    """Return the settings of a connection."""
    return {
        "url": url(
            "URL",
            "redis://HOST:PORT/DATABASE, rediss:// with TLS, or unix:///PATH",
            "^(rediss?|unix)://",
        ),
        "user": text("User", "User of the server's access control"),
        "password": text("Password", "Password of the server or user", secret=True),
        **client_tls_fields(),
        **verify_host_field(),
    }


class RedisLink:
    """A client that has reached its server, with the files that its connections need. Use ``open``."""

    def __init__(self, client: Any, files: PemFiles) -> None:
        self.client = client
        self._files = files

    @classmethod
    async def open(cls, settings: Mapping[str, Any]) -> "RedisLink":
        """Connect. Raises ConnectorError that names the setting."""
        from redis.asyncio import Redis
        from redis.exceptions import RedisError

        files = PemFiles(settings)
        try:
            client = Redis.from_url(
                settings["url"],
                socket_connect_timeout=CONNECT_S,
                socket_timeout=ANSWER_S,
                **_login(settings),
                **_tls(settings, files),
            )
        except ValueError as error:
            files.close()
            raise ConnectorError(f"configs.url: {error}") from error
        except BaseException:
            files.close()
            raise
        link = cls(client, files)
        try:
            await client.ping()
        except (RedisError, OSError) as error:
            await link.close()
            raise ConnectorError(f"configs.url: {error}") from error
        return link

    async def close(self) -> None:
        """End the connections."""
        try:
            await self.client.aclose()
        finally:
            self._files.close()


def _login(settings: Mapping[str, Any]) -> dict[str, Any]:
    login = {"username": settings.get("user"), "password": settings.get("password")}
    return {name: value for name, value in login.items() if value}


def _tls(settings: Mapping[str, Any], files: PemFiles) -> dict[str, Any]:
    """Return the library's options of TLS. Raises ConnectorError that names the setting."""
    if not settings["url"].startswith("rediss://"):
        for name in files.paths:
            raise ConnectorError(f"configs.{name}: needs a URL that begins with rediss://")
        return {}
    files.client_context()  # names the setting that is wrong, which the library does not
    names = {TRUST: "ssl_ca_certs", CERT: "ssl_certfile", KEY: "ssl_keyfile"}
    options: dict[str, Any] = {names[name]: path for name, path in files.paths.items()}
    return options | {"ssl_check_hostname": settings[VERIFY_HOST]}
