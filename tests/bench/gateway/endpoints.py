"""A producer and a consumer of Pulsar's WebSocket interface, that count what they do."""

import asyncio
import base64
import time
from collections import deque

from tests.bench.gateway.websocket_client import Socket, build_frame

OK = b'"result":"ok"'
ID = b'"messageId":"'


def message(size: int) -> bytes:
    """Return the frame of a message with ``size`` bytes."""
    payload = base64.b64encode((b"0123456789abcdef" * (size // 16 + 1))[:size])
    return build_frame(b'{"payload":"%s","context":"1"}' % payload)


def acknowledgement(text: bytes) -> bytes:
    """Return the frame that acknowledges a delivered message. Raises ValueError when the text is none."""
    begin = text.find(ID)
    end = text.find(b'"', begin + len(ID))
    if begin < 0 or end < 0:
        raise ValueError(f"no message: {text[:300]!r}")
    return build_frame(b'{%s"}' % text[begin:end])


class Producer(Socket):
    """A producer that keeps ``window`` messages unanswered from ``begin`` on, or sends when ``publish`` is called."""

    def __init__(self, url: str, broken: asyncio.Future[None], frame: bytes, window: int) -> None:
        super().__init__(url, broken)
        self._frame, self._window = frame, window
        self._ending = False
        self._unanswered: deque[float] = deque()
        self.published = 0
        self.took: list[float] = []
        """Seconds from a message to its receipt, of each."""
        self.sent: list[float] | None = None
        """Times at which messages were sent; None: they are not kept."""
        self.on_texts = self._receipts

    def begin(self) -> None:
        self.publish(self._window)

    def stop(self) -> None:
        """Send no more."""
        self._ending = True

    def publish(self, count: int) -> None:
        """Send as many now."""
        times = (time.perf_counter(),) * count
        self._unanswered.extend(times)
        if self.sent is not None:
            self.sent.extend(times)
        self.send(self._frame * count)

    @property
    def unanswered(self) -> int:
        return len(self._unanswered)

    def _receipts(self, texts: list[bytes]) -> None:
        now = time.perf_counter()
        for text in texts:
            if OK not in text:
                self.fail(RuntimeError(f"not published: {text[:300]!r}"))
                return
            self.took.append(now - self._unanswered.popleft())
        self.published += len(texts)
        if not self._ending and self._window:
            self.publish(len(texts))


class Consumer(Socket):
    """Acknowledges each message as it comes."""

    def __init__(self, url: str, broken: asyncio.Future[None]) -> None:
        super().__init__(url, broken)
        self.consumed = 0
        self.arrived: list[float] | None = None
        """Times at which messages arrived; None: they are not kept."""
        self.on_texts = self._messages

    def _messages(self, texts: list[bytes]) -> None:
        if self.arrived is not None:
            self.arrived.extend((time.perf_counter(),) * len(texts))
        self.consumed += len(texts)
        try:
            self.send(b"".join(map(acknowledgement, texts)))
        except ValueError as error:
            self.fail(error)
