"""The brokers behind the proxy: those registered in the metadata store, or a list. Clients reach no other host
(A33)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

from engine.base.addresses import CLEAR, ServiceUrl
from engine.base.errors import MagnetarError
from engine.base.tasks import TaskScope, UnderWay
from engine.client.errors import NoBrokerError
from engine.metadata.store import MetadataStore
from engine.ownership.registration import live_brokers
from engine.wire.errors import CodedError, ServerError

log = logging.getLogger(__name__)

KNOWN_FOR_S = 1.0
"""Time for which the registered brokers are not read again."""
MISSED_FOR_S = 0.1
"""The same when a client names an address that is not among them: its broker may have registered just now."""
INVALID = "Target broker cannot be validated."
ABSENT = "Target broker isn't available."
"""Apache's texts for a target that is no address or cannot be checked, and for one that is no broker's."""


class TargetRefused(CodedError):
    """A client's target is no broker; clients look the topic up again."""

    code = ServerError.ServiceNotReady
    retriable = True


class BrokerUrls(NamedTuple):
    """Service URLs of one broker; empty where it has no such port."""

    clear: str
    encrypted: str


ReadBrokers = Callable[[], Awaitable[Iterable[BrokerUrls]]]
"""Returns the registered brokers. Raises the store's errors."""


def registered_in(store: MetadataStore) -> ReadBrokers:
    """Return the function that reads the brokers registered in ``store``."""

    async def read() -> list[BrokerUrls]:
        brokers = await live_brokers(store)
        return [
            BrokerUrls(record.service_url, record.service_url_tls) for record in brokers.values()
        ]

    return read


def listed(urls: list[str], *, encrypted: bool) -> ReadBrokers:
    """Return the function that returns the brokers of a list of URLs of one scheme."""
    brokers = [BrokerUrls("", url) if encrypted else BrokerUrls(url, "") for url in urls]

    async def read() -> list[BrokerUrls]:
        return brokers

    return read


def authority_of(target: str) -> str:
    """Return a target, ``host:port``, in the form in which targets are compared. Raises ValueError."""
    return ServiceUrl.parse(target if "://" in target else CLEAR + target).authority.lower()


def _named(address: str) -> str | None:
    """Return how targets name an address of a broker; None for an empty one, and for text that is no address."""
    with suppress(ValueError):
        return ServiceUrl.parse(address).authority.lower()
    return None


class KnownBrokers:
    """The brokers, read at most once in KNOWN_FOR_S. While the store is unavailable, those read last are known.

    Of a broker both advertised addresses name it; the proxy connects to the one that it uses, in TLS if ``encrypted``.
    """

    def __init__(self, read: ReadBrokers, *, encrypted: bool) -> None:
        self._read = read
        self._encrypted = encrypted
        self._tasks = TaskScope("brokers")
        self._reading = UnderWay[None, None](self._tasks)
        self._read_at = float("-inf")
        self._succeeded = False
        self._failure = ""
        """Text of the last failure; empty after a success. Repetitions are not logged."""
        self._by_authority: dict[str, str] = {}
        self.urls: list[str] = []
        """URLs of the brokers that were read last."""

    async def __call__(self) -> list[str]:
        """Return the URLs at which brokers are asked. Raises NoBrokerError when they were never read. Cancel-safe."""
        await self._refresh(KNOWN_FOR_S)
        if not self._succeeded:
            raise NoBrokerError("The brokers are not known, because the metadata store is away")
        return self.urls

    async def url_of(self, target: str) -> str:
        """Return the URL of the broker that advertises ``target``, ``host:port``. Raises TargetRefused. Cancel-safe."""
        try:
            authority = authority_of(target)
        except ValueError:
            raise TargetRefused(INVALID) from None
        await self._refresh(KNOWN_FOR_S)
        if authority not in self._by_authority:
            await self._refresh(MISSED_FOR_S)
        if not self._succeeded:
            raise TargetRefused(INVALID)
        url = self._by_authority.get(authority)
        if url is None:
            raise TargetRefused(ABSENT)
        return url

    async def _refresh(self, age_s: float) -> None:
        """Read the brokers unless that was begun less than ``age_s`` ago."""
        reading = self._reading.of(None)
        if reading is None:
            now = asyncio.get_running_loop().time()
            if now - self._read_at < age_s or self._tasks.closed:
                return
            self._read_at = now
            reading = self._reading.begin(None, "read", self._read_now())
        await asyncio.shield(reading)

    async def _read_now(self) -> None:
        try:
            brokers = list(await self._read())
        except (MagnetarError, TimeoutError) as error:
            if str(error) != self._failure:
                self._failure = str(error)
                log.warning("the registered brokers cannot be read: %s", error)
            return
        self._failure = ""
        self.urls, self._by_authority = [], {}
        for broker in brokers:
            url = broker.encrypted if self._encrypted else broker.clear
            names = [name for address in broker if (name := _named(address)) is not None]
            if _named(url) is None:
                continue
            self.urls.append(url)
            self._by_authority |= dict.fromkeys(names, url)
        self._succeeded = True

    async def refresh(self) -> None:
        """Read the brokers, unless they were read in the last KNOWN_FOR_S."""
        await self._refresh(KNOWN_FOR_S)

    async def close(self) -> None:
        """End a read that is under way."""
        await self._tasks.close()
