"""Properties of network addresses. Pure."""

from ipaddress import ip_address


def _is_loopback(host: str) -> bool:
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
    return authenticated or insecure or _is_loopback(host)
