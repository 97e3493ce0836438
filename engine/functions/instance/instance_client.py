"""The instance's connection to its cluster, as the function's own role."""

import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from engine.base.addresses import ENCRYPTED, each_url
from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.base.errors import MagnetarError
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.functions.instance.instance_plan import InstancePlan
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles

log = logging.getLogger(__name__)

RENEW_S = 300.0
READ_BYTES_MAX = 64 * 1024
"""Bytes read at once. The allocator of an instance's process maps each larger buffer and unmaps it again, which costs
three system calls for each message that comes alone."""


class PresentBrokers:
    """The brokers' URLs, asked for at each lookup: those from the start may all have been replaced since."""

    def __init__(self, service_url: str, ask: Callable[[], Awaitable[str]] | None) -> None:
        self._urls = each_url(service_url)
        self._ask = ask

    async def __call__(self) -> Sequence[str]:
        """Return the URLs; the last known ones while the present ones are not known, or there are none. Cancel-safe."""
        if self._ask is not None:
            try:
                self._urls = each_url(await self._ask()) or self._urls
            except MagnetarError as error:
                log.info("the brokers from before are tried: %s", error)
        return self._urls


def client_of(
    plan: InstancePlan, brokers: Callable[[], Awaitable[str]] | None = None
) -> PulsarClient:
    """Return a client for use on the running loop. The token's file is read for each connection. ``brokers``: as of
    InstanceSpec."""

    def credentials(challenge: bytes) -> tuple[str, bytes]:
        return "token", Path(plan.token_file).read_bytes().strip()

    tls = None
    if plan.service_url.startswith(ENCRYPTED):
        files = ClientFiles(plan.trust_certs_file, verify_hostname=plan.verify_hostname)
        tls = files.reloaded(RENEW_S)
    return PulsarClient(
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        brokers=PresentBrokers(plan.service_url, brokers),
        settings=LinkSettings(
            "Magnetar-functions",
            credentials=credentials if plan.token_file else None,
            tls=tls,
            read_bytes_max=READ_BYTES_MAX,
        ),
    )
