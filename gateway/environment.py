"""What the gateway takes from ``MAGNETAR_*`` variables, checked once: nonsense stops the process at start."""

import os
from dataclasses import dataclass
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True)
class Environment:
    """Ports are 1..65535; ``metadata_url`` is Pulsar's metadataStoreUrl, ``zk:host:port[,…][/chroot]``."""

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
    def load(cls, root: Path) -> "Environment":
        """Read the process environment. Raises ImproperlyConfigured naming the variable and the rule it breaks."""
        offset = _number("MAGNETAR_PORT_OFFSET", 0, 0, 50000)
        zookeeper_port = _number("MAGNETAR_ZOOKEEPER_PORT", 2181 + offset, 1, 65535)
        extra_hosts = [h for h in os.environ.get("MAGNETAR_ALLOWED_HOSTS", "").split(",") if h]
        return cls(
            data_dir=Path(os.environ.get("MAGNETAR_DATA_DIR") or root / "data").absolute(),
            http_port=_number("MAGNETAR_HTTP_PORT", 8080 + offset, 1, 65535),
            broker_port=_number("MAGNETAR_BROKER_PORT", 6650 + offset, 1, 65535),
            metadata_url=os.environ.get("MAGNETAR_METADATA_URL")
            or f"zk:127.0.0.1:{zookeeper_port}",
            redis_url=os.environ.get("MAGNETAR_REDIS_URL") or None,
            cluster_name=os.environ.get("MAGNETAR_CLUSTER_NAME") or "standalone",
            internal_token=os.environ.get("MAGNETAR_INTERNAL_TOKEN", ""),
            secret_key=os.environ.get("MAGNETAR_SECRET_KEY") or None,
            allowed_hosts=(*LOOPBACK_HOSTS, *extra_hosts),
            authentication_enabled=_flag("MAGNETAR_AUTHENTICATION_ENABLED"),
        )


def _number(name: str, default: int, low: int, high: int) -> int:
    text = os.environ.get(name)
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise ImproperlyConfigured(f"{name} is {text!r}: a whole number is needed") from None
    if not low <= value <= high:
        raise ImproperlyConfigured(f"{name} is {value}: must be {low} to {high}")
    return value


def _flag(name: str) -> bool:
    text = os.environ.get(name, "").lower()
    if text not in ("", "0", "1", "false", "true"):
        raise ImproperlyConfigured(f"{name} is {text!r}: must be true or false")
    return text in ("1", "true")
