"""HTTP to addresses that were checked: the one that is connected to is the one that was resolved and judged."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv6Address
from socket import SHUT_RDWR, socket
from threading import Lock, Timer
from typing import Any, NamedTuple

from requests import Session
from requests.adapters import HTTPAdapter
from requests.exceptions import Timeout
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

Address = IPv4Address | IPv6Address


class Destination(NamedTuple):
    """The parts of a checked URL. ``target``: path and query, which may be secret."""

    scheme: str
    host: str
    port: int
    target: str

    def url_at(self, address: str) -> str:
        """Return the URL with an address in place of the host's name."""
        host = f"[{address}]" if ":" in address else address
        return f"{self.scheme}://{host}:{self.port}{self.target}"

    @property
    def authority(self) -> str:
        """The header Host."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        usual = 443 if self.scheme == "https" else 80
        return shown if self.port == usual else f"{shown}:{self.port}"


class Deadline:
    """The time in which a request must be answered. A timeout of a socket is of each read alone: a server that sends a
    byte now and then would hold its caller for days."""

    def __init__(self, within_s: float) -> None:
        self.is_over = False
        self._sockets: list[socket] = []
        self._lock = Lock()
        self._timer = Timer(within_s, self._end)
        self._timer.daemon = True

    def __enter__(self) -> "Deadline":
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def watch(self, connected: socket) -> None:
        """Shut a socket down when the time is over."""
        with self._lock:
            self._sockets.append(connected)
            if self.is_over:
                _shut(connected)

    def _end(self) -> None:
        with self._lock:
            self.is_over = True
            for connected in self._sockets:
                _shut(connected)


def _shut(connected: socket) -> None:
    with suppress(OSError):  # it was closed
        # Below TLS, whose own shutdown must not be called while another thread reads.
        socket.shutdown(connected, SHUT_RDWR)


class ToAddress(HTTPAdapter):
    """Connections to the address that was checked; those of TLS with the certificate of ``tls_host``, which the URL
    names."""

    def __init__(self, deadline: Deadline, tls_host: str = "") -> None:
        self._tls_host = tls_host
        self._deadline = deadline
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        if self._tls_host:
            kwargs |= {"server_hostname": self._tls_host, "assert_hostname": self._tls_host}
        super().init_poolmanager(*args, **kwargs)
        deadline = self._deadline

        class Plain(HTTPConnection):
            def connect(self) -> None:
                super().connect()
                deadline.watch(self.sock)

        class Secure(HTTPSConnection):
            def connect(self) -> None:
                super().connect()
                deadline.watch(self.sock)

        class PlainPool(HTTPConnectionPool):
            ConnectionCls = Plain

        class SecurePool(HTTPSConnectionPool):
            ConnectionCls = Secure

        self.poolmanager.pool_classes_by_scheme = {"http": PlainPool, "https": SecurePool}


@contextmanager
def session_to(host: str, within_s: float) -> Iterator[Session]:
    """Yield a session for URLs at an address of ``host`` that was checked. Raises Timeout when ``within_s`` have passed
    before the answer was read."""
    with Deadline(within_s) as deadline, Session() as session:
        # No proxies and no passwords from the environment of the process.
        session.trust_env = False
        session.mount("https://", ToAddress(deadline, host))
        session.mount("http://", ToAddress(deadline))
        failure: OSError | None = None
        try:
            yield session
        except OSError as error:
            failure = error
        if deadline.is_over:
            # Also of an answer that seems complete: the end of a connection is taken for the end of its headers.
            raise Timeout(f"no complete answer within {within_s:g} s") from failure
        if failure is not None:
            raise failure


def is_public(address: Address) -> bool:
    """Return whether an address is of the public internet, also one that is inside another."""
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    return address.is_global and not address.is_multicast and (inner is None or inner.is_global)
