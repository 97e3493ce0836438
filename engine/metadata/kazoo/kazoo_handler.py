"""Handler for kazoo's connection thread, which reads and writes many answers and requests per system call.

While it is connected, its connection is lent to the event loop (``connection_loan``); the rest holds before and after.
kazoo obtains sockets, ``select`` and results from its handler. Its default handler needs three waits and two reads for
an answer, a byte in a pipe for a request, and a second thread for callbacks. In this handler the socket reads ahead and
buffers writes, and a request wakes the thread only when it sleeps. Callbacks run at once on the thread that receives
the answer, so they must not block.
"""

import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import KazooTimeoutError
from kazoo.handlers.utils import create_tcp_connection

from engine.metadata.kazoo.connection_loan import ConnectionLoan
from engine.net.tls import ContextSource, TlsFileError

READ_BYTES = 1 << 16
READ_BYTES_MAX = 1 << 20
"""Bytes read at once of an answer that is longer than READ_BYTES."""
WRITE_BYTES = 1 << 16
LENGTH_BYTES = 4
TURNS_MAX = 64
"""Turns with pending requests or buffered answers after which the socket itself is polled again."""


class LoopHandler:
    """A kazoo IHandler for one client. ``event_object`` and others carry kazoo's names.

    With ``tls`` connections are in TLS with its context, which kazoo's thread requests for each. kazoo's own TLS is not
    used: it trusts the authorities of the operating system besides the stated ones, and no host name by default.
    """

    name = "magnetar"
    timeout_exception = KazooTimeoutError
    sleep_func = staticmethod(time.sleep)

    def __init__(self, tls: ContextSource | None = None) -> None:
        self.running = False
        self.failure = ""
        """Reason for which the last attempt to connect failed; empty after one that succeeded."""
        self.accepted = False
        """True once a server has accepted a connection, which need not begin a session."""
        self.loan: ConnectionLoan | None = None
        """Lends connections to the event loop; None leaves them to kazoo's thread."""
        self._tls = tls
        self._turns = 0
        self._lock = threading.Lock()

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    def spawn(self, func: Callable[..., Any], *args: Any, **kwargs: Any) -> threading.Thread:
        thread = threading.Thread(target=func, args=args, kwargs=kwargs, daemon=True)
        thread.start()
        return thread

    def event_object(self) -> threading.Event:
        return threading.Event()

    def lock_object(self) -> Any:
        return threading.Lock()

    def rlock_object(self) -> Any:
        return threading.RLock()

    def async_result(self) -> "KazooAnswer":
        return KazooAnswer(self._lock)

    def dispatch_callback(self, callback: Any) -> None:
        """Call a watch that fired."""
        callback.func(*callback.args)

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_: Any
    ) -> "AheadSocket":
        """Connect to ``address``, whose name is ``hostname``. Raises OSError: kazoo tries again after one."""
        try:
            opened = create_tcp_connection(socket, address, timeout=timeout)
            if self._tls is None:
                connection = AheadSocket(opened)
            else:
                connection = AheadTlsSocket(_in_tls(opened, self._tls, hostname))
        except OSError as error:
            self.failure = str(error)
            raise
        self.failure = ""
        self.accepted = True
        return connection

    def create_socket_pair(self) -> "tuple[Wake, Wake]":
        wake = Wake()
        return wake, wake

    def select(
        self, readers: list[Any], writers: list[Any], _: list[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the readable ones of ``readers``, after waiting ``timeout`` s at most; all ``writers`` are writable.

        ``timeout`` None waits without limit.
        """
        if writers:
            return [], writers, []
        if self.loan is not None and isinstance(readers[-1], Wake):
            self.loan.lend(*readers)
        while True:
            readable, again = self._poll(readers, timeout)
            if readable or not again:
                return readable, [], []

    def _poll(self, readers: list[Any], timeout: float | None) -> tuple[list[Any], bool]:
        """Return the readable ones, and whether bytes arrived of which nothing can be read yet."""
        ready = [reader for reader in readers if reader.pending()]
        if ready and self._turns < TURNS_MAX:
            self._turns += 1
            return ready, False
        self._turns = 0
        poll = select.poll()
        for reader in readers:
            if isinstance(reader, AheadSocket):
                reader.flush(timeout)
            poll.register(reader.fileno(), select.POLLIN)
        asleep = [reader for reader in readers if isinstance(reader, Wake) and reader.sleep()]
        limit_ms = None if timeout is None else max(timeout, 0.0) * 1000
        # A Wake that did not fall asleep has a pending request, so this turn must not wait.
        waits = not ready and (len(asleep) > 0 or not any(isinstance(r, Wake) for r in readers))
        polled = dict(poll.poll(limit_ms if waits else 0))
        for wake in asleep:
            wake.awake()
        readable = [
            reader
            for reader in readers
            if reader.pending() or (reader.fileno() in polled and reader.arrived())
        ]
        return readable, bool(polled)


class KazooAnswer:
    """A kazoo IAsyncResult. ``rawlink`` calls back on the thread that sets it, or at once when it is set."""

    __slots__ = ("_callbacks", "_done", "_lock", "exception", "value")

    def __init__(self, lock: threading.Lock) -> None:
        self.value: Any = None
        self.exception: BaseException | None = None
        self._done = False
        self._lock = lock
        self._callbacks: list[Callable[[Any], object]] = []

    def ready(self) -> bool:
        return self._done

    def successful(self) -> bool:
        return self._done and self.exception is None

    def set(self, value: Any = None) -> None:
        self.value = value
        self._end()

    def set_exception(self, exception: BaseException) -> None:
        self.exception = exception
        self._end()

    def _end(self) -> None:
        with self._lock:
            self._done = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    def rawlink(self, callback: Callable[[Any], object]) -> None:
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def unlink(self, callback: Callable[[Any], object]) -> None:
        with self._lock:
            if callback in self._callbacks:
                self._callbacks.remove(callback)

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether the result is set within ``timeout`` s. Deadlocks on the thread that sets it."""
        event = threading.Event()
        self.rawlink(lambda _: event.set())
        return event.wait(timeout)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not (self._done or (block and self.wait(timeout))):
            raise KazooTimeoutError
        if self.exception is not None:
            raise self.exception
        return self.value

    def get_nowait(self) -> Any:
        return self.get(block=False)


class AheadSocket:
    """A socket that reads all available bytes at once, and buffers writes until the next wait (a LentSocket)."""

    lent = False

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.setblocking(False)
        self._data = b""
        self._at = 0
        self._out = bytearray()
        self.fileno = sock.fileno
        self.getpeername = sock.getpeername

    def setblocking(self, flag: bool) -> None:
        """Ignore kazoo's call: the socket never blocks."""

    def pending(self) -> int:
        """Return the number of buffered bytes that were read ahead."""
        return len(self._data) - self._at

    def arrived(self) -> bool:
        """Return whether ``recv`` returns bytes or the end, once the socket was polled as readable."""
        return True

    def recv(self, size: int) -> bytes:
        if not self.pending():
            self._data, self._at = self._sock.recv(READ_BYTES), 0
        data = self._data[self._at : self._at + size]
        self._at += len(data)
        return data

    def send(self, data: bytes) -> int:
        self._out += data
        if len(self._out) > WRITE_BYTES and not self.lent:  # the loop must not wait
            self.flush(None)
        return len(data)

    def flush(self, timeout: float | None) -> None:
        """Write all buffered bytes. Raises KazooTimeoutError when none can be written for ``timeout`` s, OSError."""
        while self._out:
            try:
                del self._out[: self._sock.send(self._out)]
            except (BlockingIOError, ssl.SSLWantWriteError):
                if not select.select([], [self._sock], [], timeout)[1]:
                    raise KazooTimeoutError("socket time-out during write") from None

    def fill(self) -> bool:
        try:
            data = self._sock.recv(min(max(READ_BYTES, self._missing()), READ_BYTES_MAX))
        except BlockingIOError:
            return True
        self._data, self._at = self._data[self._at :] + data, 0
        return bool(data)

    def take_frame(self) -> bytes | None:
        start = self._at + LENGTH_BYTES
        end = start + int.from_bytes(self._data[self._at : start], "big")
        if end > len(self._data) or start > len(self._data):
            return None
        self._at = end
        return self._data[start:end]

    def _missing(self) -> int:
        """Return the number of bytes that the first frame lacks; 0 or less when none."""
        size = int.from_bytes(self._data[self._at : self._at + LENGTH_BYTES], "big")
        return LENGTH_BYTES + size - self.pending()

    def write_out(self) -> bool:
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except (BlockingIOError, ssl.SSLWantWriteError):
            return False
        return True

    def close(self) -> None:
        self._sock.close()


def _in_tls(opened: socket.socket, tls: ContextSource, hostname: str) -> ssl.SSLSocket:
    """Return the socket after the handshake, within the socket's time-out. Closes it and raises OSError on a failure,
    also for files that cannot be used, as between the replacement of a certificate and of its key."""
    try:
        return tls().wrap_socket(opened, server_hostname=hostname)
    except BaseException as error:
        opened.close()
        if isinstance(error, TlsFileError):
            raise OSError(str(error)) from error
        raise


class AheadTlsSocket(AheadSocket):
    """The same in TLS, where bytes may arrive that are a part of a record, or no data of the application."""

    _sock: ssl.SSLSocket

    def __init__(self, sock: ssl.SSLSocket) -> None:
        super().__init__(sock)
        self._ended = False

    def pending(self) -> int:
        return super().pending() or self._sock.pending()

    def arrived(self) -> bool:
        try:
            self._data, self._at = self._sock.recv(READ_BYTES), 0
        except ssl.SSLWantReadError:
            return False
        self._ended = not self._data
        return True

    def recv(self, size: int) -> bytes:
        return b"" if self._ended else super().recv(size)

    def fill(self) -> bool:
        try:
            # Not only once: what is left in the records that were read makes the socket not readable.
            while super().fill():
                pass
        except ssl.SSLWantReadError:
            return True
        return False


class Wake:
    """A pipe, with both its ends, that kazoo writes a byte to for each pending request.

    Requests are counted in ``_tokens``; a byte is written to the socket only when the reading thread sleeps. It is the
    RequestQueue of a loan.
    """

    def __init__(self) -> None:
        self._inner, self._outer = socket.socketpair()
        self._inner.setblocking(False)
        self._outer.setblocking(False)
        self._tokens: deque[None] = deque()
        self._asleep = False
        self.on_request: Callable[[], None] | None = None
        self.fileno = self._inner.fileno

    def pending(self) -> int:
        return len(self._tokens)

    def arrived(self) -> bool:
        """Return True: polled as readable, it was woken."""
        return True

    def send(self, data: bytes) -> int:
        """Count a request, and wake the reading thread if it sleeps. Called from any thread."""
        self._tokens.append(None)
        on_request = self.on_request
        if on_request is not None:
            on_request()
        elif self._asleep:
            self._asleep = False
            self._outer.send(data)
        return len(data)

    def recv(self, size: int) -> bytes:
        if self._tokens:
            self._tokens.popleft()
        return b"\0"

    def sleep(self) -> bool:
        """Let the next request wake the thread that polls this; return False when a request is pending."""
        # Set before the check: a request that arrives in between writes its byte (no lost wake-up).
        self._asleep = True
        if self._tokens:
            self.awake()
            return False
        return True

    def awake(self) -> None:
        self._asleep = False
        try:
            self._inner.recv(4096)
        except BlockingIOError:
            return  # no request woke the thread

    def close(self) -> None:
        """Close both sockets; kazoo calls this once for each end."""
        self._inner.close()
        self._outer.close()
