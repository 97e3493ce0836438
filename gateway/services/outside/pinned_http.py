"""HTTP to addresses that were checked: the one that is connected to is the one that was resolved and judged."""

from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

from requests import Session
from requests.adapters import HTTPAdapter

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


class ToAddress(HTTPAdapter):
    """Connections to the address that was checked, with the certificate of the host that the URL names."""

    def __init__(self, host: str) -> None:
        self._host = host
        super().__init__(max_retries=0)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(
            *args, **kwargs, server_hostname=self._host, assert_hostname=self._host
        )


@contextmanager
def session_to(host: str) -> Iterator[Session]:
    """Yield a session for URLs at an address of ``host`` that was checked."""
    with Session() as session:
        # No proxies and no passwords from the environment of the process.
        session.trust_env = False
        session.mount("https://", ToAddress(host))
        yield session


def is_public(address: Address) -> bool:
    """Return whether an address is of the public internet, also one that is inside another."""
    inner = getattr(address, "ipv4_mapped", None) or getattr(address, "sixtofour", None)
    return address.is_global and not address.is_multicast and (inner is None or inner.is_global)
