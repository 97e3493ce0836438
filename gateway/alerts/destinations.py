"""Checks of the URLs that webhooks call, against requests into networks that only the gateway reaches.

A URL is ``https://`` at public addresses, or what the setting ``alert_destinations`` permits. The address that was
checked is the one that is connected to, so that a name cannot be resolved to another one in between.
"""

import socket
from ipaddress import ip_address
from urllib.parse import urlsplit

from django.conf import settings

from engine.base.errors import InvalidField, MagnetarError
from gateway.services.outside.pinned_http import Address, Destination, is_public

URL_CHARS_MAX = 2_000
SETTING = "alert_destinations"


class DestinationError(MagnetarError):
    """A destination that must not be called, or cannot be found. The text has nothing secret."""


def parse_url(url: str) -> Destination:
    """Return the parts of a URL. Raises InvalidField, which does not contain it, for one that is not permitted."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidField("secret_url", "is not a URL") from None
    host = (parts.hostname or "").lower()
    if parts.scheme not in ("https", "http") or not host:
        raise InvalidField("secret_url", "must be https://host/…")
    if len(url) > URL_CHARS_MAX or not url.isascii() or not url.isprintable() or " " in url:
        raise InvalidField("secret_url", f"must be ASCII of at most {URL_CHARS_MAX} characters")
    if parts.username is not None or parts.fragment:
        raise InvalidField("secret_url", "must have no user, password or fragment")
    if parts.scheme == "http" and not _is_permitted(host, _addresses_in(host)):
        raise InvalidField("secret_url", f"must be https://, unless {SETTING} permits the host")
    for address in _addresses_in(host):
        if not (is_public(address) or _is_permitted(host, (address,))):
            raise InvalidField("secret_url", f"is not public; {SETTING} may permit it")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Destination(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), target)


def resolve(destination: Destination) -> str:
    """Return the address of a destination to connect to. Raises DestinationError."""
    host = destination.host
    try:
        resolved = socket.getaddrinfo(host, destination.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise DestinationError(f"the name {host} cannot be resolved") from None
    addresses = [ip_address(str(info[4][0]).partition("%")[0]) for info in resolved]
    for address in addresses:
        if not (is_public(address) or _is_permitted(host, (address,))):
            raise DestinationError(f"{host} has an address that is not public ({SETTING})")
    if destination.scheme == "http" and not _is_permitted(host, addresses):
        raise DestinationError(f"{host} may be called by https:// alone ({SETTING})")
    return str(addresses[0])


def _addresses_in(host: str) -> tuple[Address, ...]:
    try:
        return (ip_address(host),)
    except ValueError:
        return ()


def _is_permitted(host: str, addresses: "tuple[Address, ...] | list[Address]") -> bool:
    """Return whether the setting names the host, or a network of each of its addresses."""
    if host in settings.ALERTS.permitted_hosts:
        return True
    networks = settings.ALERTS.permitted_networks
    return bool(addresses) and all(
        any(address.version == network.version and address in network for network in networks)
        for address in addresses
    )
