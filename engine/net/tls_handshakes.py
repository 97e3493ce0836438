"""Accepted connections that begin with a TLS handshake, counted while it lasts (T6)."""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Protocol

from engine.base.tasks import TaskScope
from engine.net.network import Network

log = logging.getLogger(__name__)


class Next(Protocol):
    """The protocol of a connection after its handshake; more of it is known to the function that returns it."""

    def data_received(self, data: bytes) -> None: ...


Arrived = Callable[[asyncio.Transport], Next | None]
"""Begins to serve a connection and returns its protocol; None when the connection is closed."""


class TlsHandshakes:
    """The TLS handshakes of a server. ``admits(address)``: whether another may begin, else the connection ends at
    once."""

    def __init__(self, network: Network, admits: Callable[[str], bool]) -> None:
        self._network = network
        self._admits = admits
        self._addresses: dict[asyncio.Transport, str] = {}
        self._tasks = TaskScope("handshakes")

    def __len__(self) -> int:
        return len(self._addresses)

    def of(self, address: str) -> int:
        """Return the number of handshakes of an address."""
        return sum(peer == address for peer in self._addresses.values())

    def begin(self, tls: ssl.SSLContext, arrived: Arrived, transport: asyncio.Transport) -> None:
        """Begin the handshake of an accepted connection. ``arrived`` is called after it, when it no longer counts."""
        address = address_of(transport)
        if self._tasks.closed or not self._admits(address):
            transport.abort()
            return
        transport.pause_reading()  # until the handshake reads
        self._addresses[transport] = address
        self._tasks.spawn("handshake", self._shake_hands(tls, arrived, transport))

    async def _shake_hands(
        self, tls: ssl.SSLContext, arrived: Arrived, transport: asyncio.Transport
    ) -> None:
        def ended(encrypted: asyncio.Transport) -> Next | None:
            self._addresses.pop(transport, None)
            return arrived(encrypted)

        try:
            await self._network.start_tls(transport, Arrival(ended), tls)
        except OSError as error:
            log.debug("TLS handshake failed: %s", error)
        finally:
            self._addresses.pop(transport, None)

    def stop(self) -> None:
        """End all handshakes, and connections that arrive from now on. Safe to repeat."""
        self._tasks.cancel()
        for transport in list(self._addresses):
            transport.abort()  # also where the task has not started

    async def close(self) -> None:
        """End all handshakes and wait for their end."""
        self.stop()
        await self._tasks.close()


class Arrival(asyncio.Protocol):
    """Protocol of a connection until its peer's address is known, which an event loop first passes to
    ``connection_made``. ``arrived`` sets the next protocol and returns it."""

    def __init__(self, arrived: Callable[[asyncio.Transport], Next | None]) -> None:
        self._arrived = arrived
        self._next: Next | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._next = self._arrived(transport)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """Pass on what arrived together with the end of the TLS handshake."""
        if self._next is not None:
            self._next.data_received(data)


def address_of(transport: asyncio.BaseTransport) -> str:
    """Return the host of the peer's address; empty where it has none."""
    peer = transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""
