"""What keeps other web pages away from a gateway on loopback: host and origin checks, and the response headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import split_domain_port, validate_host

from gateway.http.duplex import Answer, middleware
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
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def _set_headers(request: HttpRequest, answer: Answer) -> Answer:
    answer.headers.setdefault("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    answer.headers.setdefault("X-Content-Type-Options", "nosniff")
    answer.headers.setdefault("X-Frame-Options", "DENY")
    answer.headers.setdefault("Referrer-Policy", "same-origin")
    answer.headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
    if isinstance(answer, HttpResponse) and answer.status_code not in (204, 304):
        answer.headers.setdefault("Content-Length", str(len(answer.content)))
    return answer


def is_allowed_host(host: str) -> bool:
    """``host`` is a Host header's value. A page that rebinds its DNS name to loopback still sends its own name."""
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def is_same_origin(origin: str | None, host: str) -> bool:
    """Whether a request with this Origin header comes from our own page. Programs that are no browsers send none."""
    return origin is None or urlsplit(origin).netloc.lower() == host.lower()


def _refuse_foreign_host(request: HttpRequest) -> Answer | None:
    host = request.META.get("HTTP_HOST", "")
    if host and is_allowed_host(host):
        return None
    reason = "Host header is not one this gateway answers to; set MAGNETAR_ALLOWED_HOSTS"
    return JsonResponse({"reason": reason}, status=400)


def _refuse_foreign_origin(request: HttpRequest) -> Answer | None:
    if request.method in SAFE_METHODS:
        return None
    if is_same_origin(request.META.get("HTTP_ORIGIN"), request.META.get("HTTP_HOST", "")):
        return None
    return JsonResponse({"reason": "Cross-origin changes are refused"}, status=403)


headers = middleware(after=_set_headers)
allowed_host = middleware(before=_refuse_foreign_host)
same_origin = middleware(before=_refuse_foreign_origin)

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
