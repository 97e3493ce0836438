"""What a WebSocket endpoint has beside ASGI's ``receive`` and ``send``: the socket, for the work per message.

An endpoint refuses or accepts by ASGI's events, then takes ``port_of(scope)``, sends by ``send_text`` and is called
with what arrived. ``await receive()`` then returns the socket's end, a ``websocket.disconnect`` with the close code.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

EXTENSION = "magnetar.socket"


class SocketPort(Protocol):
    """One accepted WebSocket, on the event loop that serves it."""

    closed: bool
    """Nothing goes out any more: closed by either side, or lost."""
    writable: bool
    """False while more than 1 MiB waits for a slow reader; true again once less than 256 KiB does. The peer is not read
    meanwhile: answers to what it sends have a bound, too."""

    def send_text(self, text: str) -> None:
        """Send a text frame. Never waits: whoever sends much looks at ``writable``. The frames of one turn of the loop
        leave in one write. Once the socket is closed nothing happens."""

    def buffered_bytes(self) -> int:
        """How much was sent and still waits in this process for the reader."""

    async def drained(self) -> None:
        """Wait until ``writable``, or closed. Cancel-safe, and several may wait."""

    def listen(self, on_texts: Callable[[list[str]], None]) -> None:
        """From now on call ``on_texts`` with the whole text messages of each read, in order; first with those that came
        since the handshake. Binary messages are dropped. An exception from it closes the socket with 1011."""

    def pause_reading(self) -> None:
        """Read no more from the peer. What was read before is still told, so ``on_texts`` may be called once more."""

    def resume_reading(self) -> None:
        """Read again."""

    def abort(self) -> None:
        """Send what waits and hang up without a close frame: the client sees 1006."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send what waits, then a close frame; a reason longer than 123 bytes is cut. Safe to call twice."""


def port_of(scope: Mapping[str, Any]) -> SocketPort:
    """The socket of an ASGI ``websocket`` scope."""
    return cast(SocketPort, scope["extensions"][EXTENSION])
