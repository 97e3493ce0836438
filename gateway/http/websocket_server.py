"""Daphne's side of a WebSocket as Pulsar's clients expect it: refusals, size limit, close codes, bounded reading.

Importing this installs Twisted's reactor, so only ``gateway.serve`` does.
"""

from html import escape
from http import HTTPStatus
from typing import Any

from autobahn.websocket.types import ConnectionDeny
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol

FRAME_MAX = 1 << 20  # webSocketMaxTextFrameSize; bytes of one message, all its frames
TOO_BIG = 1009
REFUSALS = range(4400, 4600)
REASON_BYTES_MAX = 123


class DataSocket(WebSocketProtocol):  # type: ignore[misc]
    """One WebSocket connection."""

    frames_waiting_max: int | None = None
    _reading = True

    def onConnect(self, request: Any) -> Any:
        # Close with a code and a reason instead of dropping the connection
        self.failByDrop = False
        self.closeHandshakeTimeout = 5
        return super().onConnect(request)

    def onMessageFrameBegin(self, length: int) -> None:
        """Refuse what would grow too large when a frame's header says so; autobahn's own limit is for sending, too."""
        super().onMessageFrameBegin(length)
        size = self.message_data_total_length
        if size > FRAME_MAX and not self.failedByMe:
            said = f"[{size}] is too large for configured max of [{FRAME_MAX}]"
            self._fail_connection(TOO_BIG, f"Resulting message size {said}")

    def onMessage(self, payload: bytes, isBinary: bool) -> None:
        super().onMessage(payload, isBinary)
        limit = self.frames_waiting_max
        if limit is not None and self._reading and self.application_queue.qsize() > limit:
            self._reading = False
            self.transport.pauseProducing()

    def resume_reading(self) -> None:
        """The application took a frame: read on once half of what may wait is gone."""
        limit = self.frames_waiting_max or 0
        if not self._reading and self.application_queue.qsize() <= limit // 2:
            self._reading = True
            self.transport.resumeProducing()

    def handle_reply(self, message: dict[str, Any]) -> None:
        """Close with the code and the reason that the application gives; before the handshake that is a refusal.

        ASGI lets an application only close a socket that it does not accept, which Daphne makes 403 whatever the
        cause. Pulsar answers 400, 404, 409 and so on, so a close code of 4400..4599 becomes the HTTP status 400..599.
        """
        if message.get("type") != "websocket.close":
            super().handle_reply(message)
        elif self.state == self.STATE_CONNECTING:
            code = message.get("code")
            status = code - 4000 if isinstance(code, int) and code in REFUSALS else 403
            denial: Any = ConnectionDeny
            reason = str(message.get("reason") or "")
            self.handshake_deferred.errback(denial(code=status, reason=reason))
            del self.handshake_deferred
            self.server.protocol_disconnected(self)
        else:
            cut = str(message.get("reason") or "").encode()[:REASON_BYTES_MAX]
            whole = cut.decode(errors="ignore").encode()
            self.sendCloseFrame(code=message.get("code") or 1000, reasonUtf8=whole)

    def sendHttpErrorResponse(
        self,
        code: int,
        reason: str,
        responseHeaders: Any = None,
    ) -> None:
        """The refusal as an HTML page whose title holds the text, as Pulsar's container sends it."""
        try:
            phrase = HTTPStatus(code).phrase
        except ValueError:
            phrase = "Refused"
        text = escape(" ".join(reason.split())[:1000] or phrase)
        page = f"<html><head><title>Error {code} {text}</title></head>"
        body = f"{page}<body><h2>HTTP ERROR {code} {text}</h2></body></html>\n".encode()
        lines = [f"HTTP/1.1 {code} {phrase}", f"Server: {self.factory.server}"]
        lines += [f"{name}: {value}" for name, value in responseHeaders or []]
        lines += ["Content-Type: text/html;charset=utf-8", f"Content-Length: {len(body)}"]
        lines += ["Connection: close", "", ""]
        self.sendData("\r\n".join(lines).encode() + body)


def install() -> None:
    """Let Daphne make our sockets."""
    WebSocketFactory.protocol = DataSocket
