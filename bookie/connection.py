"""One client connection: cuts what arrives into runs of adds and other frames for the handler."""

from typing import Protocol

from engine.net.transport import Connection, FrameLimitError
from engine.wire.bookie_kernels import AddRun
from engine.wire.kernels import NEED, TOO_LARGE, take_adds


class Handler(Protocol):
    """What is done with requests. Raises a PeerError to close the connection."""

    def adds(
        self, connection: "BookieConnection", buf: bytes, start: int, stop: int, runs: list[AddRun]
    ) -> None:
        """Runs of add frames that fill ``buf[start:stop]``."""
        ...

    def request(self, connection: "BookieConnection", buf: bytes, start: int, stop: int) -> None:
        """Any other whole frame, ``buf[start:stop]``."""
        ...

    def closed(self, connection: "BookieConnection", error: Exception | None) -> None:
        """No more requests come, replies go nowhere."""
        ...


class BookieConnection(Connection):
    """Reading stops while the client leaves replies unread, or while the handler holds it."""

    def __init__(self, handler: Handler, frame_max: int) -> None:
        super().__init__(frame_max)
        self._handler = handler
        self._held = False

    def received(self, buf: bytes, pos: int, end: int) -> int:
        while pos < end and not self.closing:
            start = pos
            pos, why, runs = take_adds(buf, pos, end, self.frame_max)
            if runs:
                self._handler.adds(self, buf, start, pos, runs)
            if why == NEED:
                break
            size = int.from_bytes(buf[pos : pos + 4], "big")
            if why == TOO_LARGE:
                raise FrameLimitError(f"frame of {size} bytes, the limit is {self.frame_max}")
            self._handler.request(self, buf, pos, pos + 4 + size)
            pos += 4 + size
        return pos

    def closed(self, error: Exception | None) -> None:
        self._handler.closed(self, error)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.pause_reading()

    def writable(self) -> None:
        if not self._held:
            self.resume_reading()

    def hold(self) -> None:
        """Stop reading until ``release``."""
        self._held = True
        self.pause_reading()

    def release(self) -> None:
        self._held = False
        if not self.paused:
            self.resume_reading()
