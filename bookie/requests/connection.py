"""One client connection: cuts received bytes into runs of adds and other frames for the handler."""

from collections.abc import Callable
from typing import Protocol

from engine.base.errors import PeerError
from engine.base.slices import AddRun
from engine.net.transport import BUFFERED_BYTES_MAX, Connection, FrameLimitError
from engine.wire.kernels import NEED, TOO_LARGE, take_adds

STORED_READS_MAX = 32
"""Reads of one connection in the read lane. Further frames wait, so that answers cannot fill the memory."""


class Handler(Protocol):
    """The receiver of requests. Its methods raise a PeerError to close the connection."""

    def adds(
        self, connection: "BookieConnection", buf: bytes, start: int, stop: int, runs: list[AddRun]
    ) -> None:
        """Handle runs of add frames that fill ``buf[start:stop]``."""
        ...

    def request(self, connection: "BookieConnection", buf: bytes, start: int, stop: int) -> None:
        """Handle any other complete frame, ``buf[start:stop]``."""
        ...

    def closed(self, connection: "BookieConnection", error: Exception | None) -> None:
        """Handle the end of the connection: no request follows, replies are dropped."""
        ...


class BookieConnection(Connection):
    """A connection that accepts requests only while the client reads its answers.

    Once more than the high water mark is unsent, or STORED_READS_MAX reads are in progress, complete frames already
    received (one read of the socket) are put off and the socket is not read. The memory of one connection is therefore
    bounded by the allowed unsent bytes and the answers of STORED_READS_MAX reads. Reading also stops while the handler
    holds the connection.

    A connection begins in clear. Where the bookie has a certificate a client may continue in TLS (START_TLS).
    """

    def __init__(
        self,
        handler: Handler,
        frame_max: int,
        tls_starter: Callable[["BookieConnection"], None] | None = None,
        handler_in_tls: Callable[["BookieConnection"], Handler] | None = None,
    ) -> None:
        """Create for a client that connects. ``tls_starter(connection)`` runs ``start_tls``; None: without TLS.
        ``handler_in_tls(connection)`` returns the handler from there on; None: the same."""
        super().__init__(frame_max, BUFFERED_BYTES_MAX + STORED_READS_MAX * frame_max)
        self._handler = handler
        self._tls_starter = tls_starter
        self._handler_in_tls = handler_in_tls
        self._held = False
        self._stored_reads = 0
        self._stalled = False
        self._pending_frames: list[tuple[bytes, int, int]] = []

    @property
    def offers_tls(self) -> bool:
        """True while the client may ask for TLS."""
        return self._tls_starter is not None and not self.encrypted

    def begin_tls(self, granted: bytes) -> None:
        """Send ``granted`` as the last bytes in clear and continue in TLS (T1). Answers to earlier requests follow in
        it."""
        assert self._tls_starter is not None, "offers_tls was not asked"
        self.send(granted)
        self.stop_clear()
        self._tls_starter(self)

    def opened(self) -> None:
        if self._handler_in_tls is not None and self.encrypted:
            self._handler = self._handler_in_tls(self)
        if self._held or self._stalled:  # in clear, before TLS
            self.pause_reading()

    def received(self, buf: bytes, pos: int, end: int) -> int:
        while pos < end and not self.closing:
            self.check_clear()
            if self.paused or self._stalled:
                return self._put_off_frames(buf, pos, end)
            start = pos
            pos, reason, runs = take_adds(buf, pos, end, self.frame_max)
            if runs:
                self._handler.adds(self, buf, start, pos, runs)
            if reason == NEED:
                break
            size = int.from_bytes(buf[pos : pos + 4], "big")
            if reason == TOO_LARGE:
                raise FrameLimitError(f"frame of {size} bytes, the limit is {self.frame_max}")
            self._handler.request(self, buf, pos, pos + 4 + size)
            pos += 4 + size
        return pos

    def _put_off_frames(self, buf: bytes, pos: int, end: int) -> int:
        """Put off the complete frames at ``pos`` until the client has read its answers; return the position behind
        them."""
        stop = pos
        while stop + 4 <= end:
            size = int.from_bytes(buf[stop : stop + 4], "big")
            if size > self.frame_max:
                raise FrameLimitError(f"frame of {size} bytes, the limit is {self.frame_max}")
            if stop + 4 + size > end:
                break
            stop += 4 + size
        if stop > pos:
            self._pending_frames.append((buf, pos, stop))
        self._stalled = True
        self.pause_reading()
        return stop

    def _resume(self) -> None:
        """Handle the frames that were put off, then read the socket again, unless the connection is still held or
        stalled."""
        if self.closing or self.paused or self._held or self._stored_reads >= STORED_READS_MAX:
            return
        self._stalled = False
        frames, self._pending_frames = self._pending_frames, []
        try:
            for buf, pos, stop in frames:
                self.received(buf, pos, stop)
        except PeerError as error:
            self.close(error)
        if not self._stalled and not self._held and not self.paused:
            self.resume_reading()

    def read_begun(self) -> None:
        """Count a read that is answered later."""
        self._stored_reads += 1
        if self._stored_reads >= STORED_READS_MAX:
            self._stalled = True
            self.pause_reading()

    def read_done(self) -> None:
        """Count that read as answered."""
        self._stored_reads -= 1
        # Half of them, so that the socket is not paused and resumed for every single read.
        if self._stalled and self._stored_reads <= STORED_READS_MAX // 2:
            self._resume()

    def closed(self, error: Exception | None) -> None:
        self._pending_frames = []
        self._handler.closed(self, error)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.pause_reading()

    def writable(self) -> None:
        self._resume()

    def hold_requests(self) -> None:
        """Accept no further requests until ``release_requests``."""
        self._held = True
        self.pause_reading()

    def release_requests(self) -> None:
        self._held = False
        self._resume()
