"""A connection of frames that start with a 32-bit length: splits received bytes, collects sent ones, bounds both.

Received bytes are passed to ``received`` as the event loop read them, so that slices can refer to them. Only a frame
that spans several reads is joined from its parts once it is complete. Sent bytes leave in one write per wake-up of the
loop.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence

from engine.auth.credentials import PeerCertificate
from engine.base.errors import MisuseError, PeerError
from engine.base.loop import last_call
from engine.net.network import Network, read_at_most, write_parts

LENGTH_BYTES = 4
LARGE_PART_BYTES = 16 * 1024
"""Mean size of parts above which they are passed to the transport one by one instead of joined first."""
HIGH_WATER_BYTES = 1024 * 1024
LOW_WATER_BYTES = 256 * 1024
"""Unsent bytes above which a connection is ``paused``, and below which it is writable again."""
SMALL_TAIL_BYTES = 4096
"""Bytes up to which the start of an incomplete frame is copied; a longer one keeps its buffer until the frame is
complete."""
BUFFERED_BYTES_MAX = 64 * 1024 * 1024
"""Unsent bytes at which the connection is aborted: its peer does not read and its owner ignores ``paused``."""
LITTLE_BYTES = 32 * 1024
"""Bytes read at once from a connection that is often stopped."""
CLOSE_TIMEOUT_S = 10.0
"""Time in which a closed connection must send the queued bytes before it is aborted."""


class FrameLimitError(PeerError):
    """The peer announced a frame above the limit."""


def _name_of(address: object) -> str:
    """Return ``host:port`` of a socket's address."""
    if isinstance(address, tuple) and len(address) >= 2:
        return f"{address[0]}:{address[1]}"
    return str(address or "")


class ClearTextError(PeerError):
    """The peer sent bytes in clear where TLS has to begin; they may be someone else's."""


class SlowPeerError(PeerError):
    """The peer does not read, and the bytes queued for it reached their bound."""


class Connection(asyncio.Protocol):
    """One connection. A subclass implements ``received`` and, as needed, the other hooks.

    Everything runs on the event loop; no method waits. ``frame_max`` bounds a frame's length field (bytes behind it)
    and may be changed at any time. ``paused`` is True while the peer reads less than was sent: owners then stop sending
    and continue in ``writable``. Above ``buffered_bytes_max`` unsent bytes the connection is aborted.
    """

    def __init__(self, frame_max: int, buffered_bytes_max: int = BUFFERED_BYTES_MAX) -> None:
        self.frame_max = frame_max
        self.buffered_bytes_max = buffered_bytes_max
        self.transport: asyncio.Transport | None = None
        self.peer_name = ""
        """``host:port`` of the peer, empty before the connection is established. It is kept, because a transport in TLS
        has no address any more when the connection is lost."""
        self.paused = False
        self.closing = False
        self.error: Exception | None = None
        self.on_gone: Callable[[], None] | None = None  # for the listener that owns it
        self.released_at = float("-inf")
        """Loop time at which ``release`` last resumed reading."""
        self._holds: set[str] = set()
        self._loop = asyncio.get_running_loop()
        self._call_last = last_call(self._loop)
        self._parts: list[bytes | memoryview] = []
        self._parts_bytes = 0
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._flush_due = False
        self._in_batch = False
        self._close_timer: asyncio.TimerHandle | None = None
        self._starting_tls = False

    # Hooks

    def opened(self) -> None:
        """Handle that the connection is established, or continues with TLS; ``transport`` is set."""

    def received(self, buf: bytes, pos: int, end: int) -> int:
        """Process the complete frames in ``buf[pos:end]``; return the position of the first incomplete frame.

        ``buf`` is immutable and may be retained. A PeerError raised here closes the connection.
        """
        raise NotImplementedError

    def batch_done(self) -> None:
        """Handle the end of one read, after its bytes were passed to ``received``. Data sent until here leaves in one
        write."""

    def writable(self) -> None:
        """Handle that ``paused`` has become False."""

    def closed(self, error: Exception | None) -> None:
        """Handle the end of the connection, called once; ``error`` is None when either side closed it in order."""

    # Sending

    @property
    def buffered_bytes(self) -> int:
        """Sent bytes that the kernel has not accepted yet."""
        if self.transport is None:
            return self._out_bytes
        return self._out_bytes + self.transport.get_write_buffer_size()

    def send(self, data: bytes) -> None:
        """Queue bytes for the next flush; ignored on a closed connection."""
        if not self.closing:
            self._out.append(data)
            self._queued(len(data))

    def send_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Queue bytes in parts, in order, without joining large ones. Views must be of immutable bytes."""
        if not self.closing:
            self._out += parts
            self._queued(sum(map(len, parts)))

    def _queued(self, size: int) -> None:
        self._out_bytes += size
        if self._out_bytes > HIGH_WATER_BYTES:
            self.flush()
        elif not self._flush_due and not self._in_batch:
            self._flush_due = True
            self._call_last(self.flush)

    def flush(self) -> None:
        """Write all queued bytes to the transport now."""
        self._flush_due = False
        out, transport = self._out, self.transport
        if not out or transport is None or self._starting_tls:
            return
        size = self._out_bytes
        self._out, self._out_bytes = [], 0
        if self.closing or transport.is_closing():
            return
        if len(out) == 1:
            transport.write(out[0])
        elif size > LARGE_PART_BYTES * len(out):
            write_parts(transport, out)
        else:
            transport.write(b"".join(out))
        if transport.get_write_buffer_size() > self.buffered_bytes_max:
            self.abort(
                SlowPeerError(f"peer leaves {transport.get_write_buffer_size()} bytes unread")
            )

    def close(self, error: Exception | None = None) -> None:
        """Send the queued bytes, then end the connection; received bytes are ignored from now on."""
        if self.closing:
            return
        self.flush()
        self.closing = True
        self.error = error
        if self.transport is not None:
            self.transport.close()
            self._close_timer = self._loop.call_later(CLOSE_TIMEOUT_S, self.transport.abort)

    def abort(self, error: Exception | None = None) -> None:
        """End the connection at once and drop the queued bytes."""
        if self.error is None:
            self.error = error
        self.closing = True
        self._out, self._out_bytes = [], 0
        if self.transport is not None:
            self.transport.abort()

    def pause_reading(self) -> None:
        """Leave the peer's bytes in the kernel, so that the peer must wait. Safe to repeat."""
        if (
            self.transport is not None
            and not self.transport.is_closing()
            and self.transport.is_reading()
        ):
            self.transport.pause_reading()

    def resume_reading(self) -> None:
        """Undo ``pause_reading``. Safe to repeat."""
        if (
            self.transport is not None
            and not self._starting_tls
            and not self.transport.is_closing()
            and not self.transport.is_reading()
        ):
            self.transport.resume_reading()

    def limit_reads(self) -> None:
        """Read at most LITTLE_BYTES at once from now on, so that little more arrives after a ``hold``."""
        if self.transport is not None:
            read_at_most(self.transport, LITTLE_BYTES)

    @property
    def held(self) -> bool:
        """True while the connection is held and therefore not read."""
        return bool(self._holds)

    def hold(self, reason: str) -> None:
        """Stop reading until ``release`` of the same reason. Safe to repeat."""
        self._holds.add(reason)
        self.pause_reading()

    def release(self, reason: str) -> None:
        """Undo ``hold`` of that reason; reading resumes when no other reason is left. Safe to repeat."""
        if reason in self._holds:
            self._holds.discard(reason)
            if not self._holds:
                self.released_at = self._loop.time()
                self.resume_reading()

    # TLS

    @property
    def encrypted(self) -> bool:
        """True while the bytes of the connection are encrypted."""
        transport = self.transport
        return transport is not None and transport.get_extra_info("sslcontext") is not None

    @property
    def certificate(self) -> PeerCertificate | None:
        """The certificate that the peer presented and that was found trusted; None when there is none."""
        transport = self.transport
        return (transport.get_extra_info("peercert") or None) if transport is not None else None

    def stop_clear(self) -> None:
        """Send what is queued, the last bytes in clear; ``start_tls`` must follow.

        Until then nothing is read, and what is sent waits. Bytes that were read behind the request for TLS end the
        connection with ClearTextError (T1).
        """
        self.flush()
        self.pause_reading()
        self._starting_tls = True

    async def start_tls(self, network: Network, tls: ssl.SSLContext) -> None:
        """Continue with TLS as the server, after ``stop_clear``. A failure or a cancellation ends the connection."""
        if self.transport is None or self.closing:
            return
        error: Exception | None = None
        try:
            await network.start_tls(self.transport, self, tls)
        except OSError as failure:
            error = None if self.closing else failure
        finally:
            if self._starting_tls:  # the transport's end is not reported to this protocol any more
                self.connection_lost(error)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._starting_tls = False
        self.transport = transport  # type: ignore[assignment]
        assert self.transport is not None
        self.peer_name = _name_of(transport.get_extra_info("peername"))
        if self.closing:  # closed before the connection was established
            self.transport.abort()
            return
        self.transport.set_write_buffer_limits(HIGH_WATER_BYTES, LOW_WATER_BYTES)
        if self._holds:
            self.pause_reading()
        self.opened()
        self.flush()
        if self.paused:  # before TLS; a new transport has sent everything
            self.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self.closing:
            return
        self._in_batch = True
        try:
            self._process(data)
            if not self.closing:
                self.batch_done()
        except PeerError as error:
            self.close(error)
        finally:
            self._in_batch = False
        if self._out:
            self.flush()

    def _process(self, data: bytes) -> None:
        pos = 0
        if self._parts:
            pos = self._complete_frame(data)
            if pos < 0 or self.closing:
                return
        end = len(data)
        if pos < end and not self._starting_tls:
            pos = self.received(data, pos, end)
        if pos < end and not self.closing:
            self.check_clear()
            self._check_length(data, pos, end)
            large = end - pos > SMALL_TAIL_BYTES
            self._parts.append(memoryview(data)[pos:] if large else data[pos:])
            self._parts_bytes = end - pos

    def check_clear(self) -> None:
        """Raise ClearTextError when no more bytes may be read in clear. For a subclass that processes frames in a loop
        or puts them off."""
        if self._starting_tls:
            raise ClearTextError("bytes in clear where TLS has to begin")

    def _check_length(self, buf: bytes, pos: int, end: int) -> None:
        if end - pos >= LENGTH_BYTES:
            size = int.from_bytes(buf[pos : pos + LENGTH_BYTES], "big")
            if size > self.frame_max:
                raise FrameLimitError(
                    f"frame of {size} bytes is above the limit of {self.frame_max}"
                )

    def _complete_frame(self, data: bytes) -> int:
        """Complete the frame begun in ``_parts`` with the start of ``data``. Return the position behind the frame, -1
        when it is still incomplete."""
        taken = 0
        first = bytes(self._parts[0][:LENGTH_BYTES])
        if self._parts_bytes < LENGTH_BYTES:
            taken = min(LENGTH_BYTES - self._parts_bytes, len(data))
            first = first + data[:taken]
            self._parts = [first]
            self._parts_bytes += taken
            if self._parts_bytes < LENGTH_BYTES:
                return -1
            self._check_length(first, 0, LENGTH_BYTES)
        missing = LENGTH_BYTES + int.from_bytes(first, "big") - self._parts_bytes
        if len(data) - taken < missing:
            if taken < len(data):
                self._parts.append(data[taken:] if taken else data)
                self._parts_bytes += len(data) - taken
            return -1
        stop = taken + missing
        self._parts.append(memoryview(data)[taken:stop])
        frame = b"".join(self._parts)
        self._parts = []
        self._parts_bytes = 0
        if self.received(frame, 0, len(frame)) != len(frame) and not self.closing:
            raise MisuseError(f"a complete frame of {len(frame)} bytes was left over")
        return stop

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if not self.closing:
            self.writable()

    def eof_received(self) -> bool | None:
        return None

    def connection_lost(self, error: Exception | None) -> None:
        self.closing = True
        self._out, self._out_bytes = [], 0
        self._parts = []
        if self._close_timer is not None:
            self._close_timer.cancel()
        try:
            self.closed(self.error if self.error is not None else error)
        finally:
            on_gone, self.on_gone = self.on_gone, None
            if on_gone is not None:
                on_gone()
