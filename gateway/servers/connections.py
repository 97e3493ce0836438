"""What both servers decide about a connection before a request of it is read: how many an address may have (W5)."""

import json
from collections import Counter

from gateway.http import refusal


class Addresses:
    """Counts connections by address, WebSockets included; at most ``most`` (0: no bound) of each may be open."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open: Counter[str] = Counter()

    def enter(self, address: str) -> bool:
        """Count a connection; False, and it is not counted, when ``address`` has as many as it may have."""
        if self.most and self._open[address] >= self.most:
            return False
        self._open[address] += 1
        return True

    def leave(self, address: str) -> None:
        """A connection that was counted has ended."""
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]

    @property
    def refusal(self) -> bytes:
        """The answer to a connection that is one too many."""
        reason = f"Too many connections from this address: at most {self.most}"
        return answer(429, f"{reason} (max_connections_per_address)")


def answer(status: int, reason: str) -> bytes:
    """A whole HTTP answer that says why, and that the connection ends."""
    body = json.dumps({"reason": reason}).encode()
    head = f"HTTP/1.1 {status} {refusal.phrase_of(status)}\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
