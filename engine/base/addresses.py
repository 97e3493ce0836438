"""Properties of network addresses. Pure."""

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

IpNetwork = IPv4Network | IPv6Network

CLEAR, ENCRYPTED = "pulsar://", "pulsar+ssl://"
"""Schemes of the URLs at which brokers serve Pulsar's protocol."""


class ServiceUrl(NamedTuple):
    """The address of a broker for Pulsar's protocol."""

    host: str
    port: int
    encrypted: bool
    """True when it is served in TLS."""

    @classmethod
    def parse(cls, url: str) -> "ServiceUrl":
        """Parse ``pulsar://host:port`` or ``pulsar+ssl://host:port``. Raises ValueError."""
        for scheme in (CLEAR, ENCRYPTED):
            host, _, port = url.removeprefix(scheme).rpartition(":")
            if url.startswith(scheme) and host and port.isdigit() and int(port) < 1 << 16:
                return cls(host.strip("[]"), int(port), scheme == ENCRYPTED)
        raise ValueError(f"{url!r} is not a URL such as {CLEAR}host:6650 or {ENCRYPTED}host:6651")

    @property
    def authority(self) -> str:
        """``host:port``."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``: ``localhost``, ``127.0.0.0/8``, ``::1``."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Return whether ``host`` stands for every address of a machine, and so cannot be connected to from another:
    ``0.0.0.0``, ``::``, ``*`` or empty."""
    if host in ("", "*"):
        return True
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False


def may_listen(host: str, *, authenticated: bool, insecure: bool = False) -> bool:
    """Return whether a server may listen on ``host``: on loopback always, elsewhere only with authentication or
    where the operator permits it without (``insecure``)."""
    return authenticated or insecure or is_loopback(host)


def ip_networks(listed: str) -> tuple[IpNetwork, ...]:
    """Return the addresses and networks in a list with commas. Raises ValueError for something else."""
    return tuple(ip_network(item.strip()) for item in listed.split(",") if item.strip())
