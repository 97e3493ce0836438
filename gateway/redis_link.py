"""The link to Redis, which the live feed, the queue of analyses and the health checks share: address, TLS, user."""

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from engine.base.disk.secret_files import check_secret, read_secret
from engine.base.settings import SettingsError, secret, text
from engine.net.tls import ClientFiles

_URL = re.compile(r"(rediss?://)([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?(/[0-9]*)?")
TLS_SCHEME = "rediss://"


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """The server by which gateways and workers exchange events and analyses."""

    redis_url: str = text(
        "",
        "queue of the worker and fan-out between gateways, redis://host:port/database, or rediss://… for TLS; empty: "
        "none",
    )
    redis_user: str = text("", "user of Redis; empty: its default user")
    redis_password: str = secret(
        "password of redis_user, or file:///path of one, which is read at the start; empty: none is presented"
    )
    redis_tls_trust_certs_file_path: str = text(
        "",
        "PEM file of the CAs that sign the certificate of Redis, which must be for the host of redis_url; empty: those "
        "of the operating system",
    )
    redis_tls_certificate_file_path: str = text(
        "", "PEM file of the certificate to present to Redis, leaf first; empty: none"
    )
    redis_tls_key_file_path: str = text("", "PEM file of its key, unencrypted")

    def __post_init__(self) -> None:
        """Check the values. Raises SettingsError, which never contains the URL: it may hold a password."""
        url = self.redis_url
        if "@" in url:
            raise SettingsError(
                "redis_url must not contain a user or a password: redis_user and redis_password are for them"
            )
        if url and not _URL.fullmatch(url):
            raise SettingsError(
                "redis_url must be redis://host:port/database, or rediss://… for TLS"
            )
        if bool(self.redis_tls_certificate_file_path) != bool(self.redis_tls_key_file_path):
            raise SettingsError(
                "redis_tls_certificate_file_path and redis_tls_key_file_path must be set together"
            )
        self.password()
        if self.redis_user and not self.redis_password:
            raise SettingsError("redis_password must be set where redis_user is")
        if self.files != ClientFiles() and not self.in_tls:
            raise SettingsError("redis_url must begin with rediss:// where redis_tls_… are set")

    @property
    def in_tls(self) -> bool:
        return self.redis_url.startswith(TLS_SCHEME)

    @property
    def files(self) -> ClientFiles:
        return ClientFiles(
            self.redis_tls_trust_certs_file_path,
            self.redis_tls_certificate_file_path,
            self.redis_tls_key_file_path,
        )

    def password(self) -> str:
        """Return the password, empty without one. Raises SettingsError for a file that cannot be read."""
        return read_secret(self.redis_password, "redis_password")

    def tls(self) -> dict[str, Any]:
        """Return the arguments of redis-py's connections in TLS, and of Celery's; empty for connections in clear."""
        if not self.in_tls:
            return {}
        files = self.files
        if files.key:
            check_secret(files.key)
        return {
            "ssl_cert_reqs": "required",
            "ssl_check_hostname": files.verify_hostname,
            "ssl_ca_certs": files.ca or None,
            "ssl_certfile": files.cert or None,
            "ssl_keyfile": files.key or None,
        }

    def options(self) -> dict[str, Any]:
        """Return the arguments of redis-py's ``from_url`` besides ``redis_url``."""
        return {
            "username": self.redis_user or None,
            "password": self.password() or None,
            **self.tls(),
        }

    def channel_layers(self) -> dict[str, Any]:
        """Return Django's setting CHANNEL_LAYERS."""
        if not self.redis_url:
            return {"default": {"BACKEND": "channels.layers.InMemoryChannelLayer"}}
        # redis-py 8 closes a socket after 5 s without data by default, which would end idle subscriptions.
        host = {"address": self.redis_url, "socket_timeout": None, **self.options()}
        backend = "channels_redis.pubsub.RedisPubSubChannelLayer"
        return {"default": {"BACKEND": backend, "CONFIG": {"hosts": [host]}}}

    def celery_url(self) -> str:
        """Return the URL for Celery, which contains the password and must not be shown."""
        plain = self.password()
        if not plain:
            return self.redis_url
        scheme, _, rest = self.redis_url.partition("://")
        user, password = (quote(part, safe="") for part in (self.redis_user, plain))
        return f"{scheme}://{user}:{password}@{rest}"
