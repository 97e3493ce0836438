"""The Pulsar client of a cluster, which all endpoints of this process share."""

import asyncio
from collections.abc import Sequence

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.client.errors import NoBrokerError
from engine.net.network import LoopNetwork
from gateway.services.admin import brokers
from gateway.services.engine_link import EngineLink

OPERATION_TIMEOUT_S = 10.0
KNOWN_FOR_S = 1.0
CLIENT_VERSION = "Magnetar-Gateway"


class RegisteredBrokers:
    """Service URLs of the registered brokers, read at most once a second.

    While the metadata store is unavailable, the URLs read last are returned.
    """

    def __init__(self, link: EngineLink) -> None:
        self._link = link
        self._known: list[str] = []
        self._until = 0.0

    async def __call__(self) -> Sequence[str]:
        """Return the URLs. Raises NoBrokerError when the store is unavailable and never answered. Cancel-safe."""
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            try:
                addresses = await self._link.arun(brokers.advertised)
            except (MagnetarError, TimeoutError) as error:
                if not self._known:
                    raise NoBrokerError(f"The metadata store does not answer: {error}") from error
            else:
                self._known = [brokers.SCHEME + address for address in addresses]
            # An empty list is read again at once: the first broker may be about to register.
            if self._known:
                self._until = now + KNOWN_FOR_S
        return self._known


def client_of(link: EngineLink) -> PulsarClient:
    """Return a client of the cluster behind ``link``, for use on the running loop."""
    return PulsarClient(
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        brokers=RegisteredBrokers(link),
        settings=LinkSettings(CLIENT_VERSION, request_timeout_s=OPERATION_TIMEOUT_S),
        operation_timeout_s=OPERATION_TIMEOUT_S,
    )
