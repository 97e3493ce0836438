"""Settings of clusters of Apache Pulsar: one line for each, with its credentials in files."""

from dataclasses import dataclass, fields
from pathlib import Path
from urllib.parse import urlsplit

from engine.base.addresses import ServiceUrl
from engine.base.errors import InvalidNameError
from engine.base.names import check_entity
from engine.base.settings import SettingsError
from engine.net.tls import ClientFiles

POLL_S = 10.0
TOKEN_BYTES_MAX = 16_384


@dataclass(frozen=True, slots=True)
class ApacheCluster:
    """A cluster by its setting ``NAME=URL|option=value|…``; ``url`` has no final slash."""

    name: str
    url: str
    remote: str = ""
    """The name that the cluster itself has, as in ``clusterName`` of its brokers; empty: ``name``."""
    token_file: str = ""
    """Holds the token that is presented to the cluster; read again for every request."""
    service_url: str = ""
    """The address for clients, where those that the cluster states cannot be used; empty: those."""
    tls_trust_certs: str = ""
    tls_certificate: str = ""
    tls_key: str = ""

    @property
    def own_name(self) -> str:
        return self.remote or self.name

    def token(self) -> bytes:
        """Return the token in the file, of which the begin is read. Raises OSError."""
        with Path(self.token_file).open("rb") as file:
            return file.read(TOKEN_BYTES_MAX).strip()

    @property
    def files(self) -> ClientFiles:
        """The files of connections in TLS."""
        return ClientFiles(self.tls_trust_certs, self.tls_certificate, self.tls_key)


_OPTIONS = tuple(item.name for item in fields(ApacheCluster)[2:])


def apache_clusters(text: str) -> list[ApacheCluster]:
    """Parse the setting ``apache_clusters``. Raises SettingsError."""
    clusters: dict[str, ApacheCluster] = {}
    for entry in text.split():
        cluster = _parse(entry)
        if cluster.name in clusters:
            raise SettingsError(
                f"apache_clusters must name each cluster once, not {cluster.name!r} again"
            )
        clusters[cluster.name] = cluster
    return list(clusters.values())


def _parse(entry: str) -> ApacheCluster:
    name, _, rest = entry.partition("=")
    try:
        check_entity("cluster", name)
    except InvalidNameError as error:
        # The entry is not repeated: it may have a secret in the wrong place.
        raise SettingsError(
            f"apache_clusters must be NAME=URL with spaces between: {error}"
        ) from error
    url, *options = rest.split("|")
    parts = urlsplit(url)
    if parts.username or parts.password or "@" in parts.netloc:
        raise SettingsError(
            f"apache_clusters: the URL of {name} must not contain credentials: token_file is for them"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise SettingsError(
            f"apache_clusters: the URL of {name} must be http://host:port or https://host:port"
        )
    given: dict[str, str] = {}
    for option in options:
        key, _, value = option.partition("=")
        if key not in _OPTIONS or not value:
            raise SettingsError(
                f"apache_clusters: an option of {name} must be one of {', '.join(_OPTIONS)} and have a value"
            )
        given[key] = value
    cluster = ApacheCluster(name, url.rstrip("/"), **given)
    if cluster.service_url:
        try:
            ServiceUrl.parse(cluster.service_url)
        except ValueError as error:
            raise SettingsError(f"apache_clusters: service_url of {name}: {error}") from error
    if bool(cluster.tls_certificate) != bool(cluster.tls_key):
        raise SettingsError(
            f"apache_clusters: tls_certificate and tls_key of {name} must be set together"
        )
    for path in (
        cluster.token_file,
        cluster.tls_trust_certs,
        cluster.tls_certificate,
        cluster.tls_key,
    ):
        if path and not Path(path).is_file():
            raise SettingsError(f"apache_clusters: {name} names the file {path}, which is missing")
    return cluster
