"""The interface of an accepted WebSocket, which its endpoint uses for each message instead of ASGI events.

An endpoint accepts or refuses by ASGI's events. Then it gets the socket by ``port_of(scope)``, sends by ``send_text``
and receives messages by the callback of ``listen``. ``await receive()`` then returns when the socket has ended, with a
``websocket.disconnect`` that holds the close code.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

EXTENSION = "magnetar.socket"


class SocketPort(Protocol):
    """One accepted WebSocket, on the event loop that serves it."""

    closed: bool
    """True once the socket was closed by either side or lost; nothing is sent any more."""
    writable: bool
    """False while more than 1 MiB is buffered for a slow client; true again below 256 KiB. The client is not read
    meanwhile, so that the answers to its messages are bounded, too."""

    def send_text(self, text: str) -> None:
        """Send a text frame; do nothing once the socket is closed.

        Never waits: a caller that sends much checks ``writable``. The frames of one turn of the loop are sent in one
        write.
        """

    def buffered_bytes(self) -> int:
        """Return the number of bytes that were sent and are still buffered in this process."""

    async def drained(self) -> None:
        """Wait until the socket is ``writable`` or closed. Cancel-safe; several callers may wait."""

    def listen(self, on_texts: Callable[[list[str]], None]) -> None:
        """Call ``on_texts`` with the complete text messages of each read, in order.

        The first call has the messages received since the handshake. Binary messages are dropped. An exception of the
        callback closes the socket with 1011.
        """

    def pause_reading(self) -> None:
        """Stop reading from the client. Data read before is still delivered, so ``on_texts`` may be called again."""

    def resume_reading(self) -> None:
        """Continue to read from the client."""

    def abort(self) -> None:
        """Send the buffered frames and close the connection without a close frame: the client sees code 1006."""

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Send the buffered frames, then a close frame. Safe to call twice.

        A reason longer than 123 bytes, which a frame cannot hold, is cut.
        """


def port_of(scope: Mapping[str, Any]) -> SocketPort:
    """Return the socket of an ASGI ``websocket`` scope."""
    return cast(SocketPort, scope["extensions"][EXTENSION])
