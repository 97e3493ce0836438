"""The limit on connections per address, which both servers check before a request is read (W5)."""

import json
from collections import Counter

from gateway.http import refusal


class Addresses:
    """Counts of open connections by address, WebSockets included, each at most ``limit`` (0: no limit)."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a connection. Returns False without counting it when ``address`` has reached the limit."""
        if self.limit and self._open[address] >= self.limit:
            return False
        self._open[address] += 1
        return True

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


def answer(status: int, reason: str) -> bytes:
    """Return a complete HTTP answer with the reason, after which the connection is closed."""
    body = json.dumps({"reason": reason}).encode()
    head = f"HTTP/1.1 {status} {refusal.phrase_of(status)}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
