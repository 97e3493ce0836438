"""HAProxy's PROXY protocol, versions 1 and 2: the header by which a load balancer states a client's address (T8).

A header is read to its last byte and no further, because a TLS handshake may follow it.
"""

import asyncio
import logging
from collections.abc import Callable
from ipaddress import ip_address

from engine.base.errors import PeerError
from engine.net.network import READ_BYTES_MAX, name_peer, read_at_most
from engine.net.tls_handshakes import Arrived, Next, address_of

log = logging.getLogger(__name__)

TEXT = b"PROXY "
BINARY = b"\r\n\r\n\x00\r\nQUIT\n"
"""First bytes of a header of version 1 and of version 2."""
TEXT_BYTES_MIN = 15
TEXT_BYTES_MAX = 107
"""Length of the shortest and of the longest header of version 1."""
HEAD_BYTES = 16
"""Bytes of version 2 before the addresses."""
REST_BYTES_MAX = 2048
"""Bytes of addresses and further fields that a header of version 2 may have."""
HEADER_TIMEOUT_S = 5.0
"""Time in which a header must be complete."""
_LOCAL, _PROXY = 0, 1
_ADDRESS_BYTES = {0x11: 4, 0x21: 16}
"""Bytes of an address by family, for TCP over IPv4 and IPv6."""


class HeaderError(PeerError):
    """The first bytes of a connection are no header of the PROXY protocol."""


def missing(header: bytes) -> int:
    """Return how many bytes may be read without reading beyond a header that begins with ``header``; 0 when it is
    complete. Raises HeaderError."""
    for first in (TEXT, BINARY):
        size = min(len(header), len(first))
        if header[:size] == first[:size]:
            break
    else:
        raise HeaderError("the connection begins with no PROXY header")
    if len(header) < len(BINARY):
        return len(BINARY) - len(header)
    if first is BINARY:
        if len(header) < HEAD_BYTES:
            return HEAD_BYTES - len(header)
        rest = int.from_bytes(header[14:16], "big")
        if rest > REST_BYTES_MAX:
            raise HeaderError(f"PROXY header of {HEAD_BYTES + rest} bytes")
        return HEAD_BYTES + rest - len(header)
    if header.endswith(b"\r\n"):
        return 0
    if len(header) >= TEXT_BYTES_MAX:
        raise HeaderError(f"PROXY header of more than {TEXT_BYTES_MAX} bytes")
    return max(1, TEXT_BYTES_MIN - len(header))


def source(header: bytes) -> tuple[str, int] | None:
    """Return the client's address and port by a complete header; None when it states none, as for a connection of the
    load balancer itself. Raises HeaderError."""
    return _binary_source(header) if header.startswith(BINARY) else _text_source(header)


def _text_source(header: bytes) -> tuple[str, int] | None:
    try:
        _, family, *addresses = header[:-2].decode("ascii").split(" ")
        if family == "UNKNOWN":
            return None
        version = {"TCP4": 4, "TCP6": 6}[family]
        host, _, port, _ = addresses
        # Python accepts any text as the zone of an address; the header has none.
        if (
            "%" in host
            or ip_address(host).version != version
            or not port.isdigit()
            or int(port) > 65535
        ):
            raise ValueError
    except (ValueError, KeyError):
        raise HeaderError(f"invalid PROXY header {header[:TEXT_BYTES_MAX]!r}") from None
    return host, int(port)


def _binary_source(header: bytes) -> tuple[str, int] | None:
    version, command = header[12] >> 4, header[12] & 15
    if version != 2 or command not in (_LOCAL, _PROXY):
        raise HeaderError(f"PROXY header of version and command {header[12]:#04x}")
    size = _ADDRESS_BYTES.get(header[13])
    if command == _LOCAL or size is None:
        return None
    if len(header) < HEAD_BYTES + 2 * size + 4:
        raise HeaderError("PROXY header without its addresses")
    ports = HEAD_BYTES + 2 * size
    host = str(ip_address(header[HEAD_BYTES : HEAD_BYTES + size]))
    return host, int.from_bytes(header[ports : ports + 2], "big")


class ProxyHeaders:
    """Accepted connections whose header is being read. ``admits()``: whether another may begin, else the connection
    ends at once."""

    def __init__(self, admits: Callable[[], bool]) -> None:
        self._admits = admits
        self._readers: dict[_HeaderReader, None] = {}
        self._stopped = False

    def __len__(self) -> int:
        return len(self._readers)

    def begin(self, arrived: Arrived, transport: asyncio.Transport) -> "_HeaderReader | None":
        """Read the header of an accepted connection. ``arrived`` is called with the connection behind it, whose peer
        then has the address in the header."""
        if self._stopped or not self._admits():
            transport.abort()
            return None
        reader = _HeaderReader(transport, arrived, self._done)
        self._readers[reader] = None
        transport.set_protocol(reader)
        return reader

    def _done(self, reader: "_HeaderReader") -> None:
        self._readers.pop(reader, None)

    def stop(self) -> None:
        """End the connections whose header is incomplete, and those that arrive from now on. Safe to repeat."""
        self._stopped = True
        for reader in list(self._readers):
            reader.abort()


class _HeaderReader(asyncio.Protocol):
    """Protocol of a connection until its header is complete."""

    def __init__(
        self,
        transport: asyncio.Transport,
        arrived: Arrived,
        done: Callable[["_HeaderReader"], None],
    ) -> None:
        self._transport = transport
        self._arrived = arrived
        self._done = done
        self._header = b""
        self._next: Next | None = None
        self._timer = asyncio.get_running_loop().call_later(HEADER_TIMEOUT_S, self.abort)
        read_at_most(transport, missing(b""))

    def data_received(self, data: bytes) -> None:
        if self._next is not None:  # an Arrival, which still names this protocol, passes it on
            self._next.data_received(data)
            return
        self._header += data
        try:
            left = missing(self._header)
            if left > 0:
                read_at_most(self._transport, left)
                return
            address = source(self._header)
        except HeaderError as error:
            log.info("connection refused peer=%s: %s", address_of(self._transport), error)
            self.abort()
            return
        if left < 0:  # a network without limits of its reads
            self.abort()
            return
        self._end()
        if address is not None:
            name_peer(self._transport, *address)
        read_at_most(self._transport, READ_BYTES_MAX)
        self._next = self._arrived(self._transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end()

    def abort(self) -> None:
        """End the connection."""
        self._end()
        self._transport.abort()

    def _end(self) -> None:
        self._timer.cancel()
        self._done(self)
