"""Clients of the brokers. Credentials and TLS are those of the environment, as in ``pulsar_source.access``."""

from collections.abc import Callable
from typing import NamedTuple

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.client.broker_link import LinkSettings
from engine.client.client import PulsarClient
from engine.net.network import LoopNetwork
from spark_jobs.pulsar_source.access import access_settings


class BrokerAccess(NamedTuple):
    """The way to the brokers. ``alone``: no bookie is asked; otherwise brokers are asked where bookies are silent."""

    client: Callable[[], PulsarClient]
    alone: bool


def client_of(service_url: str) -> PulsarClient:
    """Return a client of the brokers at ``service_url``, whose addresses may be separated by commas. Raises
    SettingsError, TlsFileError."""
    settings = access_settings().clients
    urls = [url for url in service_url.split(",") if url]

    async def brokers() -> list[str]:
        return urls

    return PulsarClient(
        network=LoopNetwork(),
        clock=SystemClock(),
        entropy=RandomEntropy(),
        brokers=brokers,
        settings=LinkSettings(
            "Magnetar-spark",
            credentials=settings.credentials(),
            tls=settings.tls(),
            features={"supports_broker_entry_metadata": True},  # entries as they are stored
        ),
        operation_timeout_s=10.0,
    )
