"""Properties of a request's connection: the peer's certificate, the client and scheme that a proxy forwarded (T3).

X-Forwarded-For and X-Forwarded-Proto count from the proxies of ``trusted_proxies`` alone: anyone may send them.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import Any

from engine.auth.credentials import PeerCertificate
from engine.base.addresses import IpNetwork

Application = Callable[[dict[str, Any], Callable[..., Any], Callable[..., Any]], Awaitable[Any]]
TLS_EXTENSION = "tls"
"""Name of ASGI's extension about TLS. A server of ``gateway.servers`` adds it to the scopes of connections in TLS, with
``certificate``: what ``ssl.SSLSocket.getpeercert`` returns for a trusted certificate, or None."""


def certificate_of(scope: Mapping[str, Any]) -> PeerCertificate | None:
    """Return the peer's certificate, which an authority of ``tls_trust_certs_file_path`` signed; None without one.

    It is the certificate of the connection itself: a proxy in front of the gateway passes none on.
    """
    certificate: PeerCertificate | None = (
        scope.get("extensions", {}).get(TLS_EXTENSION, {}).get("certificate")
    )
    return certificate


def through_proxies(inner: Application, proxies: Sequence[IpNetwork]) -> Application:
    """Return ``inner`` with the scopes of requests and WebSockets as the proxies forwarded them."""
    if not proxies:
        return inner

    async def forwarding(scope: dict[str, Any], *channels: Callable[..., Any]) -> Any:
        return await inner(forwarded(scope, proxies), *channels)

    return forwarding


def forwarded(scope: dict[str, Any], proxies: Sequence[IpNetwork]) -> dict[str, Any]:
    """Return a scope with the client and the scheme that a proxy forwarded; the same scope for another peer."""
    client = scope.get("client")
    if not client or not _is_in(client[0], proxies):
        return scope
    changed = {**scope}
    # Each proxy appends its peer, so what stands to the left of the first foreign address is the client's own word.
    for address in reversed(_listed(scope["headers"], b"x-forwarded-for")):
        if not _is_address(address):
            break
        changed["client"] = (address, 0)
        if not _is_in(address, proxies):
            break
    schemes = _listed(scope["headers"], b"x-forwarded-proto")
    if schemes:
        secure = schemes[-1].lower() in ("https", "wss")
        kind = "ws" if scope["type"] == "websocket" else "http"
        changed["scheme"] = f"{kind}s" if secure else kind
    return changed


def _listed(headers: Sequence[tuple[bytes, bytes]], wanted: bytes) -> list[str]:
    values = (value.decode("latin-1") for name, value in headers if name == wanted)
    return [item.strip() for value in values for item in value.split(",") if item.strip()]


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(address: str, proxies: Sequence[IpNetwork]) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return any(parsed in network for network in proxies)


def is_secure(scope: Mapping[str, Any]) -> bool:
    """Return whether the client's request came by TLS, to the gateway itself or to a named proxy."""
    return scope.get("scheme") in ("https", "wss")
