"""The Pulsar client of a cluster, which all endpoints of this process share."""

import asyncio
from collections.abc import Sequence

from django.conf import settings

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.client.broker_link import LinkSettings
from engine.client.client import Brokers, PulsarClient
from engine.client.errors import NoBrokerError
from engine.metadata.apart.routed import unavailable
from engine.net.network import LoopNetwork
from gateway.services.admin import brokers
from gateway.services.engine_link import EngineLink

OPERATION_TIMEOUT_S = 10.0
KNOWN_FOR_S = 1.0
CLIENT_VERSION = "Magnetar-Gateway"


class RegisteredBrokers:
    """Service URLs of the registered brokers, in TLS if ``encrypted``, read at most once a second.

    While the metadata store is unavailable, the URLs read last are returned.
    """

    def __init__(self, link: EngineLink, *, encrypted: bool = False) -> None:
        self._link = link
        self._urls = brokers.service_urls_tls if encrypted else brokers.service_urls
        self._known: list[str] = []
        self._until = 0.0

    async def __call__(self) -> Sequence[str]:
        """Return the URLs. Raises NoBrokerError when the store is unavailable and never answered. Cancel-safe."""
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            try:
                urls = await self._link.arun(self._urls)
            except (MagnetarError, TimeoutError) as error:
                if not self._known:
                    raise NoBrokerError(unavailable(error)) from error
            else:
                self._known = urls
            # An empty list is read again at once: the first broker may be about to register.
            if self._known:
                self._until = now + KNOWN_FOR_S
        return self._known


def client_with(brokers: Brokers, link: LinkSettings) -> PulsarClient:
    """Return a client of the cluster of ``brokers``, for use on the running loop."""
    return PulsarClient(
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        brokers=brokers,
        settings=link,
        operation_timeout_s=OPERATION_TIMEOUT_S,
    )


def client_of(link: EngineLink, principal: str = "") -> PulsarClient:
    """Return a client of the cluster behind ``link``, for use on the running loop. Its connections name the role
    ``principal`` as the one that they act for; empty: none."""
    tls = settings.BROKER_CLIENT.tls()
    return client_with(
        RegisteredBrokers(link, encrypted=tls is not None),
        LinkSettings(
            CLIENT_VERSION,
            credentials=settings.BROKER_CLIENT.credentials(),
            request_timeout_s=OPERATION_TIMEOUT_S,
            tls=tls,
            original_principal=principal or None,
        ),
    )
