"""The instance's connection to its cluster, as the function's own role."""

from collections.abc import Sequence
from pathlib import Path

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.functions.instance.instance_plan import InstancePlan
from engine.net.network import LoopNetwork
from engine.net.tls import ClientFiles

RENEW_S = 300.0


def client_of(plan: InstancePlan) -> PulsarClient:
    """Return a client for use on the running loop. The token's file is read for each connection."""
    urls = _urls(plan.service_url)

    async def brokers() -> Sequence[str]:
        return urls

    def credentials(challenge: bytes) -> tuple[str, bytes]:
        return "token", Path(plan.token_file).read_bytes().strip()

    tls = None
    if urls[0].startswith("pulsar+ssl://"):
        files = ClientFiles(plan.trust_certs_file, verify_hostname=plan.verify_hostname)
        tls = files.reloaded(RENEW_S)
    return PulsarClient(
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        brokers=brokers,
        settings=LinkSettings(
            "Magnetar-functions", credentials=credentials if plan.token_file else None, tls=tls
        ),
    )


def _urls(service_url: str) -> list[str]:
    """Return the URLs of ``scheme://host:port,host:port``."""
    *scheme, hosts = service_url.split("://")
    return [f"{scheme[0] if scheme else 'pulsar'}://{host.strip()}" for host in hosts.split(",")]
