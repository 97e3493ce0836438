"""What keeps other web pages away from a gateway on loopback: host and origin checks, and the response headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.http.request import split_domain_port, validate_host

from gateway.http.refusal import refuse

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        # The component kit sets element styles for layout; scripts stay strict.
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADERS = [
    (b"Content-Security-Policy", CONTENT_SECURITY_POLICY.encode()),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"X-Frame-Options", b"DENY"),
    (b"Referrer-Policy", b"same-origin"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
]
"""Sent with every answer."""
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def is_allowed_host(host: str) -> bool:
    """``host`` is a Host header's value. A page that rebinds its DNS name to loopback still sends its own name."""
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def is_same_origin(origin: str | None, host: str) -> bool:
    """Whether a request with this Origin header comes from our own page. Programs that are no browsers send none."""
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()


def refuse_foreign(request: HttpRequest) -> JsonResponse | None:
    """The answer to a request that is not for us, or to a change that another's page asks for; None to all others."""
    host = request.META.get("HTTP_HOST", "")
    if not host or not is_allowed_host(host):
        reason = "Host header is not one this gateway answers to; set MAGNETAR_ALLOWED_HOSTS"
        return JsonResponse({"reason": reason}, status=400)
    if request.method in SAFE_METHODS or is_same_origin(request.META.get("HTTP_ORIGIN"), host):
        return None
    return JsonResponse({"reason": "Cross-origin changes are refused"}, status=403)


Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Any]


class SameOriginSockets:
    """ASGI wrapper: a WebSocket handshake from a foreign page or for a foreign host is refused."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(
        self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> Any:
        sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = sent.get("host", "")
        if is_allowed_host(host) and is_same_origin(sent.get("origin"), host):
            return await self._inner(scope, receive, send)
        await receive()
        return await refuse(send, 403)
