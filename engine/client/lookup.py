"""Connections to brokers, one for each address, and the lookup of a topic's broker."""

import asyncio
from typing import Generic, TypeVar

from engine.base.addresses import ServiceUrl
from engine.base.tasks import TaskScope, UnderWay
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.errors import LostError, RedirectedError, SentAwayError
from engine.net.network import Network
from engine.wire import client_commands as say

REDIRECTS_MAX = 20
L = TypeVar("L", bound=BrokerLink)


class Links(Generic[L]):
    """Connections opened on first use, shared, and replaced after their end. ``close`` or ``abort`` ends all of
    them."""

    def __init__(self, network: Network, settings: LinkSettings, link_class: type[L]) -> None:
        """Create without connections. ``link_class``: BrokerLink or a subclass."""
        self._network = network
        self._link_class = link_class
        self._settings = settings
        self._tasks = TaskScope("links", lambda name, error: None)  # the caller receives the error
        self._opening = UnderWay[tuple[str, str | None], L](self._tasks)
        self._open: dict[tuple[str, str | None], L] = {}

    async def get(self, url: str, proxy_to: str | None = None) -> L:
        """Return a connection to ``pulsar://host:port`` or, in TLS, ``pulsar+ssl://host:port``; ``proxy_to``: the
        broker behind that proxy.

        Raises UnreachableError, RefusedError, LostError when closed, ValueError for another URL. Cancel-safe: other
        callers may wait for the same connection.
        """
        key = (url, proxy_to)
        link = self._open.get(key)
        if link is not None and not link.closing:
            return link
        if self._tasks.closed:
            raise LostError("the client is closed")
        opening = self._opening.of(key) or self._opening.begin(
            key, f"open {url}", self._connect(key)
        )
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():
                raise LostError("the client is closed") from None
            raise

    async def _connect(self, key: tuple[str, str | None]) -> L:
        url, proxy_to = key
        host, port, encrypted = ServiceUrl.parse(url)
        link = await self._link_class.open(
            self._network, host, port, self._settings, encrypted=encrypted, proxy_to=proxy_to
        )
        self._open[key] = link
        return link

    async def close(self) -> None:
        await self._tasks.close()
        for link in self._open.values():
            link.close()

    def abort(self) -> None:
        """End all connections at once; queued data is dropped."""
        self._tasks.cancel()
        for link in self._open.values():
            link.abort()

    async def owner(self, topic: str, service_url: str) -> L:
        """Return a connection to the broker that serves ``topic``, looked up at any broker or proxy: in TLS when
        ``service_url`` is. Raises as ``place``. Cancel-safe."""
        return await self.get(*await self.place(topic, service_url))

    async def place(self, topic: str, service_url: str) -> tuple[str, str | None]:
        """Return the arguments of ``get`` for the broker that serves ``topic``.

        Raises RedirectedError, and as ``get`` and ``BrokerLink.request``. Cancel-safe.
        """
        url, proxy_to, authoritative = service_url, None, False
        encrypted = ServiceUrl.parse(service_url).encrypted
        for _ in range(REDIRECTS_MAX):
            link = await self.get(url, proxy_to)
            request_id = link.new_id()
            frame = say.lookup(
                topic,
                request_id,
                authoritative=authoritative,
                listener_name=self._settings.listener_name,
            )
            answer = await link.request(request_id, frame)
            authoritative = answer.authoritative
            target = answer.brokerServiceUrlTls if encrypted else answer.brokerServiceUrl
            if encrypted and answer.brokerServiceUrl and not target:
                raise RedirectedError(f"{answer.brokerServiceUrl} serves {topic} without TLS only")
            target = target or url
            if answer.proxy_through_service_url:
                proxy_to = ServiceUrl.parse(target).authority
            else:
                url, proxy_to = target, None
            if answer.response == answer.Connect:
                return url, proxy_to
        raise RedirectedError(f"no owner of {topic} after {REDIRECTS_MAX} redirects")

    async def assigned(self, link: BrokerLink, sent_away: SentAwayError) -> L:
        """Return a connection to the broker that the broker of ``link`` named, made as ``link`` was: in TLS, behind a
        proxy.

        Raises RedirectedError when there is no such address, and as ``get``.
        """
        made = next((key for key, other in self._open.items() if other is link), None)
        if made is None:
            raise RedirectedError("the connection on which the address arrived is closed")
        url, proxy_to = made
        target = sent_away.url_tls if ServiceUrl.parse(url).encrypted else sent_away.url
        if not target:
            raise RedirectedError("the broker named no address that is reached as it is")
        # A broker that is alone answers that it is reached through the address that was asked, as a proxy does.
        if proxy_to is None or proxy_to == ServiceUrl.parse(url).authority:
            return await self.get(target)
        return await self.get(url, ServiceUrl.parse(target).authority)

    async def partitions(self, topic: str, service_url: str) -> int:
        """Return the number of a topic's partitions; 0 when it is not partitioned. Raises as ``get`` and
        ``BrokerLink.request``."""
        link = await self.get(service_url)
        request_id = link.new_id()
        frame = say.partitioned_metadata(topic, request_id)
        return int((await link.request(request_id, frame)).partitions)
