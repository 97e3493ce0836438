"""Properties of network addresses. Pure."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach ``host``: ``localhost``, ``127.0.0.0/8``, ``::1``."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
