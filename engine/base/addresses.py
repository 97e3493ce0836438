"""Properties of network addresses, and where a program may listen (T4). Pure."""

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from engine.base.settings import SettingsError, flag

IpNetwork = IPv4Network | IPv6Network

CLEAR, ENCRYPTED = "pulsar://", "pulsar+ssl://"
"""Schemes of the URLs at which brokers serve Pulsar's protocol."""


def each_url(text: str) -> list[str]:
    """Return the URL of each address in ``scheme://host:port,host:port``; empty without a host."""
    scheme, separator, hosts = text.partition("://")
    return [f"{scheme}{separator}{host.strip()}" for host in hosts.split(",") if host.strip()]


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


@dataclass(frozen=True, slots=True)
class ReachSettings:
    """Permission to serve other machines."""

    insecure_anywhere: bool = flag(
        False,
        "listen on addresses that other machines can reach although clients are not authenticated: everyone who "
        "reaches the port may do everything",
    )

    def check(self, setting: str, host: str, *, authenticated: bool) -> None:
        """Raise SettingsError when a program must not listen on ``host``, the value of ``setting``."""
        if not may_listen(host, authenticated=authenticated, insecure=self.insecure_anywhere):
            raise SettingsError(
                f"{setting} {host!r} is not loopback: without authentication only loopback is served (127.0.0.0/8, "
                "::1, localhost), unless insecure_anywhere is true, by which everyone who reaches the port may do "
                "everything"
            )

    def warning(self, setting: str, host: str, *, authenticated: bool) -> str:
        """Return what the operator gives up, for the log, where other machines are served without authentication;
        else an empty text."""
        if may_listen(host, authenticated=authenticated):
            return ""
        return f"insecure_anywhere: everyone who reaches {setting}={host} may do everything, without authentication"


def ip_networks(listed: str) -> tuple[IpNetwork, ...]:
    """Return the addresses and networks in a list with commas. Raises ValueError for something else."""
    return tuple(ip_network(item.strip()) for item in listed.split(",") if item.strip())
