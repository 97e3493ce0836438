"""Incoming connections: accepted up to a bound, counted, and drained at the end."""

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Protocol

from engine.net.network import Network, Server
from engine.net.proxy_header import ProxyHeaders
from engine.net.tls_handshakes import Arrival, Arrived, TlsHandshakes, address_of

REASON = "Reached the maximum number of connections"


class Served(Protocol):
    """The server's side of a connection: an asyncio.Protocol that calls ``on_gone`` at the end of
    ``connection_lost``."""

    on_gone: Callable[[], None] | None

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def close(self) -> None:
        """Send what is queued, then end the connection."""
        ...

    def abort(self) -> None: ...


class Listener:
    """Listener on one or more addresses. Each connection is served by the protocol that ``make`` returns, or closed
    when that is None.

    A connection above ``connections_max``, or above ``per_address_max`` of one remote address (0: no limit), is sent
    ``refusal(reason)`` and closed; ``refused`` counts those. Peers in the TLS handshake count as well (T6): one above
    the limits may complete it, to be sent the reason, and others are closed at once.
    """

    def __init__(
        self,
        network: Network,
        make: Callable[[], Served | None],
        *,
        connections_max: int,
        per_address_max: int = 0,
        refusal: Callable[[str], bytes] | None = None,
        behind_balancer: bool = False,
    ) -> None:
        """``behind_balancer``: each connection begins with a header of the PROXY protocol, whose address counts; one
        without it is closed."""
        self._network = network
        self._make = make
        self._refusal = refusal
        self._servers: list[Server] = []
        self._stopped = False
        self._emptied: asyncio.Event = asyncio.Event()
        self._connections: dict[Served, None] = {}
        self._from: Counter[str] = Counter()
        self._handshakes = TlsHandshakes(network, self._admits)
        self._headers = ProxyHeaders(self._has_room)
        self._behind_balancer = behind_balancer
        self.connections_max = connections_max
        self.per_address_max = per_address_max
        self.refused = 0

    @property
    def port(self) -> int:
        """The first bound port; 0 before ``start``."""
        return self._servers[0].port if self._servers else 0

    @property
    def connections(self) -> list[Served]:
        """The open connections, oldest first."""
        return list(self._connections)

    async def start(
        self,
        host: str,
        port: int,
        *,
        tls: ssl.SSLContext | None = None,
        make: Callable[[], Served | None] | None = None,
    ) -> int:
        """Bind another address, accept connections and return the port. ``make`` replaces the protocol factory for
        this address. Raises OSError when the address is in use."""
        arrived: Arrived = partial(self._accept, make or self._make)
        if tls is not None:
            arrived = partial(self._handshakes.begin, tls, arrived)
        if self._behind_balancer:
            arrived = partial(self._headers.begin, arrived)
        server = await self._network.listen(host, port, lambda: Arrival(arrived))
        self._servers.append(server)
        return server.port

    def _has_room(self) -> bool:
        """Return whether another header may be read; count a refusal."""
        full = 0 < self.connections_max <= self._open
        self.refused += full
        return not full

    @property
    def _open(self) -> int:
        """Number of connections, also of those that are not served yet."""
        return len(self._connections) + len(self._handshakes) + len(self._headers)

    def _admits(self, address: str) -> bool:
        """Return whether another TLS handshake may begin; count a refusal."""
        too_many = self._too_many(address, spare=1) is not None
        self.refused += too_many
        return not too_many

    def _accept(
        self, make: Callable[[], Served | None], transport: asyncio.Transport
    ) -> Served | None:
        """Return the protocol that serves a connection from now on; None when it is closed."""
        address = address_of(transport)
        if reason := self._too_many(address):
            self.refused += 1
            if self._refusal is not None:
                transport.write(self._refusal(reason))
            transport.close()
            return None
        connection = None if self._stopped else make()
        if connection is None:
            transport.close()
            return None
        self._connections[connection] = None
        self._from[address] += 1
        connection.on_gone = lambda: self._lost(connection, address)
        transport.set_protocol(connection)  # type: ignore[arg-type]
        connection.connection_made(transport)
        return connection

    def _too_many(self, address: str, spare: int = 0) -> str | None:
        """Return why another connection from ``address`` is refused; None when it is accepted, as long as the limits
        are exceeded by less than ``spare``."""
        if 0 < self.connections_max <= self._open - spare:
            return REASON
        of_address = self._from[address] + self._handshakes.of(address)
        if 0 < self.per_address_max <= of_address - spare:
            return f"{REASON} on address {address}"
        return None

    def _lost(self, connection: Served, address: str) -> None:
        del self._connections[connection]
        self._from[address] -= 1
        if not self._from[address]:
            del self._from[address]
        if not self._connections:
            self._emptied.set()

    def stop_accepting(self) -> None:
        """Close the listening sockets; connections stay open. Safe to repeat."""
        self._stopped = True
        self._handshakes.stop()
        self._headers.stop()
        for server in self._servers:
            server.close()

    async def drain(self, deadline_s: float) -> None:
        """Stop accepting, close all connections and wait for their end; abort those left after ``deadline_s``.

        Cancel-safe: a second call continues.
        """
        self.stop_accepting()
        for connection in self.connections:
            connection.close()
        try:
            async with asyncio.timeout(deadline_s):
                while self._connections:
                    self._emptied.clear()
                    await self._emptied.wait()
        except TimeoutError:
            for connection in self.connections:
                connection.abort()
        await self._handshakes.close()
        for server in self._servers:
            await server.wait_closed()
