"""The Pulsar client of a cluster of Apache Pulsar, at the addresses that the cluster states for clients.

The console follows and publishes messages with it. All other figures and changes are those of the REST interface.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from engine.base.addresses import ServiceUrl, each_url
from engine.base.errors import MagnetarError
from engine.client.broker_link import Credentials, LinkSettings
from engine.client.client import PulsarClient
from engine.client.errors import NoBrokerError
from engine.metadata import paths
from engine.metadata.records import decode_json
from engine.metadata.store import NoNodeError
from gateway.apache_settings import ApacheCluster
from gateway.services.clients import OPERATION_TIMEOUT_S, client_with
from gateway.services.engine_link import Engine, EngineLink

CLIENT_VERSION = "Magnetar-Console"
CONNECT_TIMEOUT_S = 3.0
"""Time for a connection, below that for an answer: the address that does not answer is named."""
KNOWN_FOR_S = 10.0


class StatedBrokers:
    """Service URLs of a cluster: the one that is configured, else those that its REST interface states, read every
    KNOWN_FOR_S."""

    def __init__(self, cluster: ApacheCluster, link: EngineLink) -> None:
        self._cluster = cluster
        self._link = link
        self._known: list[str] = []
        self._until = 0.0

    async def __call__(self) -> Sequence[str]:
        """Return the URLs. Raises NoBrokerError, with the reason, where the cluster states none. Cancel-safe."""
        if self._cluster.service_url:
            return [self._cluster.service_url]
        now = asyncio.get_running_loop().time()
        if now >= self._until or not self._known:
            try:
                urls = await self._link.arun(partial(_stated, self._cluster))
            except (MagnetarError, TimeoutError) as error:
                if not self._known:
                    raise NoBrokerError(
                        f"The addresses of {self._cluster.name} for clients are not known: {error}"
                    ) from error
            else:
                self._known, self._until = usable(self._cluster, urls), now + KNOWN_FOR_S
        return self._known


async def _stated(cluster: ApacheCluster, engine: Engine) -> list[str]:
    """Return the addresses in the record of the cluster, then those of its brokers, which only a superuser may read."""
    try:
        value, _ = await engine.store.get(paths.cluster(cluster.own_name))
    except NoNodeError:
        record: Mapping[str, str | None] = {}
    else:
        record = decode_json(value, cluster.own_name)
    urls = [record.get(field) or "" for field in ("brokerServiceUrl", "brokerServiceUrlTls")]
    urls += [broker.service_url or "" for broker in await engine.admin.brokers()]
    return urls


def usable(cluster: ApacheCluster, stated: Iterable[str]) -> list[str]:
    """Return the addresses to use, each once. Raises NoBrokerError without one.

    Where the REST interface is reached in TLS, clear addresses are not used: the token would be readable.
    """
    urls = list(
        dict.fromkeys(
            filter(_is_address, (url for text in stated for url in each_url(text.rstrip("/"))))
        )
    )
    clear = [url for url in urls if not ServiceUrl.parse(url).encrypted]
    encrypted = [url for url in urls if ServiceUrl.parse(url).encrypted]
    if cluster.url.startswith("https:"):
        if clear and not encrypted:
            raise NoBrokerError(
                f"{cluster.name} states addresses for clients without TLS only ({', '.join(clear)}), and its REST "
                "interface is reached in TLS: set service_url to use one"
            )
        clear = []
    if not (clear or encrypted):
        raise NoBrokerError(
            f"{cluster.name} states no address for clients (brokerServiceUrl of its cluster data): set service_url"
        )
    return clear or encrypted


def _is_address(url: str) -> bool:
    try:
        ServiceUrl.parse(url)
    except ValueError:
        return False
    return True


def client_of_apache(cluster: ApacheCluster, link: EngineLink) -> PulsarClient:
    """Return a client of the cluster, for use on the running loop. It has the credentials of the REST interface."""
    return client_with(
        StatedBrokers(cluster, link),
        LinkSettings(
            CLIENT_VERSION,
            credentials=_credentials(cluster),
            connect_timeout_s=CONNECT_TIMEOUT_S,
            request_timeout_s=OPERATION_TIMEOUT_S,
            tls=cluster.files.reloaded(300.0),
        ),
    )


def _credentials(cluster: ApacheCluster) -> Credentials | None:
    """Return the answers to brokers' challenges, None where there are no credentials. A token is read each time."""
    if cluster.token_file:
        return lambda challenge: ("token", cluster.token())
    if cluster.tls_certificate:
        return lambda challenge: ("tls", b"")
    return None
