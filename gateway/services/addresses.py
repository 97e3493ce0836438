"""The addresses that brokers advertise to clients, and whether something answers there."""

import asyncio
import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from engine.admin.client import BrokerAddress
from engine.base.addresses import ServiceUrl
from engine.net.listener_urls import ListenerUrls
from engine.net.network import LoopNetwork, Network
from gateway.services.catalog import each
from gateway.services.engine_link import Engine

TIMEOUT_S = 2.0
"""Longest wait for the connection to one address."""
FRESH_S = 10.0
"""Age up to which a result is returned again, to all callers."""
AT_ONCE = 16
BEGIN_S = 8.0
"""Time within which connections are begun. Brokers register any number of addresses, and callers wait for all."""
NOT_CHECKED = "not checked: too many other addresses do not answer"


class Advertised(NamedTuple):
    """One address of a broker. ``listener`` is empty where the broker has none; ``problem`` says why no connection to
    ``url`` can be made from this gateway, and is empty where one was made."""

    broker: str
    listener: str
    url: str
    problem: str


class AddressChecks:
    """Connections to all advertised addresses of a cluster, made on request; one of the cluster's parts. Not
    for several event loops."""

    def __init__(self, network: Network | None = None) -> None:
        self._network: Network = network or LoopNetwork()
        self._lock = asyncio.Lock()
        self._result: list[Advertised] = []
        self._due_s = 0.0

    async def advertised(self, engine: Engine) -> list[Advertised]:
        """Return every address, checked within the last ``FRESH_S``. Raises the store's errors."""
        async with self._lock:
            if time.monotonic() >= self._due_s:
                listed = [row for broker in await engine.admin.brokers() for row in _rows(broker)]
                until_s = asyncio.get_running_loop().time() + BEGIN_S
                self._result = await each(listed, lambda row: self._checked(row, until_s), AT_ONCE)
                self._due_s = time.monotonic() + FRESH_S
            return self._result

    async def _checked(self, row: Advertised, until_s: float) -> Advertised:
        if asyncio.get_running_loop().time() >= until_s:
            return row._replace(problem=NOT_CHECKED)
        try:
            url = ServiceUrl.parse(row.url)
            async with asyncio.timeout(TIMEOUT_S):
                transport, _ = await self._network.connect(url.host, url.port, asyncio.Protocol)
        except TimeoutError:
            return row._replace(problem=f"no answer within {TIMEOUT_S:g} s")
        except (OSError, ValueError) as error:
            return row._replace(problem=_words(error))
        transport.abort()
        return row


def _rows(broker: BrokerAddress) -> Iterator[Advertised]:
    own = ListenerUrls(broker.service_url, broker.service_url_tls)
    for name, urls in broker.listeners or (("", own),):
        for url in (urls.service_url, urls.service_url_tls):
            if url:
                yield Advertised(broker.id, name, url, "")


def _words(error: Exception) -> str:
    """Return the reason of a failed connection without its address, which the row has."""
    code = getattr(error, "errno", None) or 0
    # The resolver's codes are negative, and their texts are the error's own.
    return os.strerror(code) if code > 0 else getattr(error, "strerror", None) or str(error)
