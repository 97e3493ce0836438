"""What keeps other web pages away from a gateway on loopback: host and origin checks, and the response headers."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeGuard
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.request import split_domain_port, validate_host
from django.http.response import HttpResponseBase
from django.utils.cache import patch_vary_headers

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
PREFLIGHT_HEADER = "HTTP_ACCESS_CONTROL_REQUEST_METHOD"
PREFLIGHT_KEPT_S = 600
ORIGIN_SHOWN_MAX = 200
FOREIGN_HOST = "Host header is not one this gateway answers to; set MAGNETAR_ALLOWED_HOSTS"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def is_allowed_host(host: str) -> bool:
    """``host`` is a Host header's value. A page that rebinds its DNS name to loopback still sends its own name."""
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def is_allowed_origin(origin: str | None, host: str) -> bool:
    """Whether a request with this Origin header comes from our own page or one of the setting ``allowed_origins``.
    Programs that are no browsers send none."""
    if origin is None or origin.lower() in settings.ALLOWED_ORIGINS:
        return True
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # "http://[" is no URL
        return False


def _refusal_of(origin: str | None) -> str:
    shown = (origin or "")[:ORIGIN_SHOWN_MAX]
    return f"Origin {shown!r} is not one this gateway answers to; set MAGNETAR_ALLOWED_ORIGINS"


def refuse_foreign(request: HttpRequest) -> JsonResponse | None:
    """The answer to a request that is not for us, or to a change that a page of an origin that is not allowed asks for,
    or asks whether it may; None to all others."""
    host = request.META.get("HTTP_HOST", "")
    if not host or not is_allowed_host(host):
        return JsonResponse({"reason": FOREIGN_HOST}, status=400)
    origin = request.META.get("HTTP_ORIGIN")
    is_safe = request.method in SAFE_METHODS and not _is_preflight(request)
    if is_safe or is_allowed_origin(origin, host):
        return None
    return JsonResponse({"reason": f"Cross-origin change: {_refusal_of(origin)}"}, status=403)


def _is_preflight(request: HttpRequest) -> bool:
    """Whether a browser asks if a page of another origin may make a request."""
    return request.method == "OPTIONS" and PREFLIGHT_HEADER in request.META


def preflight_of(request: HttpRequest) -> HttpResponse | None:
    """The answer to a preflight from an origin of the setting ``allowed_origins``; None to all other requests."""
    if not _is_preflight(request) or not _is_named(request.META.get("HTTP_ORIGIN")):
        return None
    answer = HttpResponse(status=204)
    answer["Access-Control-Allow-Methods"] = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
    wanted = request.META.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
    answer["Access-Control-Allow-Headers"] = wanted or "*"
    answer["Access-Control-Max-Age"] = str(PREFLIGHT_KEPT_S)
    return answer


def let_origin_read(request: HttpRequest, answer: HttpResponseBase) -> None:
    """Add the headers by which a browser lets a page of an origin of ``allowed_origins`` see the answer. Cookies are
    never accepted from there."""
    if not settings.ALLOWED_ORIGINS:
        return
    patch_vary_headers(answer, ("Origin",))
    origin = request.META.get("HTTP_ORIGIN")
    if _is_named(origin):
        answer.headers["Access-Control-Allow-Origin"] = origin
        answer.headers["Access-Control-Expose-Headers"] = "*"


def _is_named(origin: str | None) -> TypeGuard[str]:
    return origin is not None and origin.lower() in settings.ALLOWED_ORIGINS


Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Any]


class AllowedOriginSockets:
    """ASGI wrapper: a WebSocket handshake from a page of an origin that is not allowed, or for a foreign host, is
    refused."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(
        self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> Any:
        sent = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = sent.get("host", "")
        origin = sent.get("origin")
        if not is_allowed_host(host):
            reason = FOREIGN_HOST
        elif not is_allowed_origin(origin, host):
            reason = _refusal_of(origin)
        else:
            return await self._inner(scope, receive, send)
        await receive()
        return await refuse(send, 403, reason)
