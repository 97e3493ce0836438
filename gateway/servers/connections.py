"""Parts of a connection that both servers share: the limit of its address, checked before a request is read (W5), and
the extensions of its scopes."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

from gateway.http import refusal
from gateway.http.connection import TLS_EXTENSION


class Addresses:
    """Counts of open connections by address, WebSockets included, each at most ``limit`` (0: no limit)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.handshakes: Callable[[str], int] = lambda address: 0
        """Returns the number of peers of an address in the TLS handshake, which count as well (T6)."""
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a connection. Returns False without counting it when ``address`` has reached the limit."""
        if not self.admits(address):
            return False
        self._open[address] += 1
        return True

    def admits(self, address: str, spare: int = 0) -> bool:
        """Return whether ``address`` has fewer connections than the limit and ``spare``."""
        count = self._open[address] + self.handshakes(address)
        return not self.limit or count < self.limit + spare

    def leave(self, address: str) -> None:
        """Remove a counted connection that has ended."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    @property
    def refusal(self) -> bytes:
        """The answer to a connection above the limit."""
        reason = f"Too many connections from this address: at most {self.limit}"
        return answer(429, f"{reason} (max_connections_per_address)")


def extensions_of(transport: asyncio.BaseTransport) -> dict[str, Any]:
    """Return the extensions of the scopes of a connection's requests: for one in TLS, the client's certificate."""
    if transport.get_extra_info("sslcontext") is None:
        return {}
    # An empty dictionary where the client presented none, or none was asked for.
    return {TLS_EXTENSION: {"certificate": transport.get_extra_info("peercert") or None}}


def answer(status: int, reason: str) -> bytes:
    """Return a complete HTTP answer with the reason, after which the connection is closed."""
    body = json.dumps({"reason": reason}).encode()
    head = f"HTTP/1.1 {status} {refusal.phrase_of(status)}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
