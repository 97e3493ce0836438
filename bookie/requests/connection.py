"""One client connection: cuts what arrives into runs of adds and other frames for the handler."""

from typing import Protocol

from engine.base.errors import PeerError
from engine.base.slices import AddRun
from engine.net.transport import BUFFERED_BYTES_MAX, Connection, FrameLimitError
from engine.wire.kernels import NEED, TOO_LARGE, take_adds

STORED_READS_MAX = 32
"""Reads of one connection in the read lane; further frames wait, so that their answers cannot fill the memory."""


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
    """Requests are taken only while the client reads its answers: once more than the high water mark is unsent, or
    STORED_READS_MAX reads are under way, whole frames already received (one read of the socket) are put off and the
    socket is left alone. What one connection can keep in memory is therefore bounded by the unsent bytes allowed and
    the answers of STORED_READS_MAX reads, whatever it asks for. Reading also stops while the handler holds it.
    """

    def __init__(self, handler: Handler, frame_max: int) -> None:
        super().__init__(frame_max, BUFFERED_BYTES_MAX + STORED_READS_MAX * frame_max)
        self._handler = handler
        self._held = False
        self._stored_reads = 0
        self._stalled = False
        self._put_off: list[tuple[bytes, int, int]] = []

    def received(self, buf: bytes, pos: int, end: int) -> int:
        while pos < end and not self.closing:
            if self.paused or self._stalled:
                return self._later(buf, pos, end)
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

    def _later(self, buf: bytes, pos: int, end: int) -> int:
        """Keep the whole frames at ``pos`` for when the client has taken its answers; position behind them."""
        stop = pos
        while stop + 4 <= end:
            size = int.from_bytes(buf[stop : stop + 4], "big")
            if size > self.frame_max:
                raise FrameLimitError(f"frame of {size} bytes, the limit is {self.frame_max}")
            if stop + 4 + size > end:
                break
            stop += 4 + size
        if stop > pos:
            self._put_off.append((buf, pos, stop))
        self._stalled = True
        self.pause_reading()
        return stop

    def _go_on(self) -> None:
        """Take what was put off, then read on, as far as nothing speaks against it."""
        if self.closing or self.paused or self._held or self._stored_reads >= STORED_READS_MAX:
            return
        self._stalled = False
        frames, self._put_off = self._put_off, []
        try:
            for buf, pos, stop in frames:
                self.received(buf, pos, stop)
        except PeerError as error:
            self.close(error)
        if not self._stalled and not self._held and not self.paused:
            self.resume_reading()

    def read_begun(self) -> None:
        """A read of this connection is answered later."""
        self._stored_reads += 1
        if self._stored_reads >= STORED_READS_MAX:
            self._stalled = True
            self.pause_reading()

    def read_done(self) -> None:
        """That read has been answered."""
        self._stored_reads -= 1
        if self._stalled and self._stored_reads <= STORED_READS_MAX // 2:
            self._go_on()

    def closed(self, error: Exception | None) -> None:
        self._put_off = []
        self._handler.closed(self, error)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.pause_reading()

    def writable(self) -> None:
        self._go_on()

    def stop_taking(self) -> None:
        """No more requests until ``take_again``."""
        self._held = True
        self.pause_reading()

    def take_again(self) -> None:
        self._held = False
        self._go_on()
