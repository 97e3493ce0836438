"""What the gateway takes from ``MAGNETAR_*`` variables and ``magnetar.toml`` (top level and ``[gateway]``), checked
once: nonsense stops the process at start."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

from engine.base.settings_file import SettingsError, read_settings, settings_path
from engine.metadata.connect import MetadataUrl

TABLE = "gateway"

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Environment:
    """Ports are 1..65535; ``metadata_url`` is Pulsar's metadataStoreUrl."""

    data_dir: Path
    http_port: int
    broker_port: int
    metadata_url: str
    redis_url: str | None
    cluster_name: str
    internal_token: str
    secret_key: str | None
    allowed_hosts: tuple[str, ...]
    authentication_enabled: bool

    @classmethod
    def load(
        cls, root: Path, environ: Mapping[str, str] | None = None, directory: Path | None = None
    ) -> "Environment":
        """Read ``MAGNETAR_*`` variables and, below them, ``magnetar.toml`` in ``directory`` (default: where we were
        started). Raises ImproperlyConfigured naming the setting and the rule it breaks."""
        given = _Given.of(
            os.environ if environ is None else environ, directory or Path.cwd(), SETTINGS
        )
        offset = given.number("port_offset", 0, 0, 50000)
        zookeeper_port = given.number("zookeeper_port", 2181 + offset, 1, 65535)
        if given.flag("authentication_enabled"):
            # Nobody could sign in, and the WebSocket endpoints would not ask.
            raise ImproperlyConfigured("authentication_enabled is not supported yet")
        extra_hosts = [host for host in given.text("allowed_hosts").split(",") if host]
        return cls(
            data_dir=Path(given.text("data_dir") or root / "data").absolute(),
            http_port=given.number("http_port", 8080 + offset, 1, 65535),
            broker_port=given.number("broker_port", 6650 + offset, 1, 65535),
            metadata_url=given.metadata_url(f"zk:127.0.0.1:{zookeeper_port}"),
            redis_url=given.text("redis_url") or None,
            cluster_name=given.text("cluster_name") or "standalone",
            internal_token=given.text("internal_token"),
            secret_key=given.text("secret_key") or None,
            allowed_hosts=(*LOOPBACK_HOSTS, *extra_hosts),
            authentication_enabled=False,
        )


SETTINGS = frozenset(field.name for field in fields(Environment)) | {
    "port_offset",
    "zookeeper_port",
}


@dataclass(frozen=True, slots=True)
class _Given:
    """What was set, by setting name, as text; an empty text counts as not set."""

    values: Mapping[str, str]

    @classmethod
    def of(cls, environ: Mapping[str, str], directory: Path, known: frozenset[str]) -> "_Given":
        try:
            shared, own = read_settings(environ, directory, TABLE)
        except SettingsError as error:
            raise ImproperlyConfigured(str(error)) from error
        for name in sorted(own.keys() - known):
            path = settings_path(environ, directory)
            raise ImproperlyConfigured(f"unknown setting {name} in [{TABLE}] of {path}")
        found = {name: str(value) for name, value in {**shared, **own}.items()}
        for name in known:
            text = environ.get(f"MAGNETAR_{name.upper()}")
            if text:
                found[name] = text
        return cls(found)

    def text(self, name: str) -> str:
        return self.values.get(name, "")

    def number(self, name: str, default: int, low: int, high: int) -> int:
        text = self.text(name)
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            raise ImproperlyConfigured(f"{name} is {text!r}: a whole number is needed") from None
        if not low <= value <= high:
            raise ImproperlyConfigured(f"{name} is {value}: must be {low} to {high}")
        return value

    def metadata_url(self, default: str) -> str:
        url = self.text("metadata_url") or default
        try:
            MetadataUrl.parse(url, "metadata_url")
        except SettingsError as error:
            raise ImproperlyConfigured(str(error)) from error
        return url

    def flag(self, name: str) -> bool:
        text = self.text(name).lower()
        if text not in ("", "0", "1", "false", "true"):
            raise ImproperlyConfigured(f"{name} is {text!r}: must be true or false")
        return text in ("1", "true")
