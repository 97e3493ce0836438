"""Protection of a gateway on loopback against other web pages: host and origin checks, and response headers."""

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
        # The component library sets styles of elements for layout; scripts stay strict.
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
"""Headers of every answer."""
PREFLIGHT_HEADER = "HTTP_ACCESS_CONTROL_REQUEST_METHOD"
PREFLIGHT_KEPT_S = 600
ORIGIN_SHOWN_MAX = 200
HTTPS_REQUIRED = "max-age=31536000"
"""A year, in which browsers use https for the host that answered by it."""
FOREIGN_HOST = "Host header is not one this gateway answers to; set MAGNETAR_ALLOWED_HOSTS"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


def is_allowed_host(host: str) -> bool:
    """Return whether the gateway answers to ``host``, a Host header's value.

    It stops pages that rebind their DNS name to loopback: they still send their own name.
    """
    domain, _port = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def is_allowed_origin(origin: str | None, host: str) -> bool:
    """Return whether an Origin header names the gateway's own host or an origin of the setting ``allowed_origins``.

    None is allowed: programs other than browsers send no Origin.
    """
    if origin is None or origin.lower() in settings.ALLOWED_ORIGINS:
        return True
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:  # "http://[" is not a URL.
        return False


def _refusal_of(origin: str | None) -> str:
    shown = (origin or "")[:ORIGIN_SHOWN_MAX]
    return f"Origin {shown!r} is not one this gateway answers to; set MAGNETAR_ALLOWED_ORIGINS"


def refuse_foreign(request: HttpRequest) -> JsonResponse | None:
    """Return the refusal of a request for a foreign host, or of a change from an origin that is not allowed.

    A preflight counts as the change that it asks for. Returns None for all other requests.
    """
    host = request.META.get("HTTP_HOST", "")
    if not host or not is_allowed_host(host):
        return JsonResponse({"reason": FOREIGN_HOST}, status=400)
    origin = request.META.get("HTTP_ORIGIN")
    is_safe = request.method in SAFE_METHODS and not _is_preflight(request)
    if is_safe or is_allowed_origin(origin, host):
        return None
    return JsonResponse({"reason": f"Cross-origin change: {_refusal_of(origin)}"}, status=403)


def _is_preflight(request: HttpRequest) -> bool:
    """Return whether a browser asks if a page of another origin may send a request."""
    return request.method == "OPTIONS" and PREFLIGHT_HEADER in request.META


def is_of_another_site(request: HttpRequest) -> bool:
    """Return whether a page of another site made a browser send the request, as by an image's address.

    Such a page cannot read the answer; a view whose reading has an effect must not have it for such a request.
    """
    return request.META.get("HTTP_SEC_FETCH_SITE", "") in ("cross-site", "same-site")


def preflight_of(request: HttpRequest) -> HttpResponse | None:
    """Return the answer to a preflight from an origin of the setting ``allowed_origins``; None for other requests."""
    if not _is_preflight(request) or not _is_named(request.META.get("HTTP_ORIGIN")):
        return None
    answer = HttpResponse(status=204)
    answer["Access-Control-Allow-Methods"] = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
    wanted = request.META.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "")
    answer["Access-Control-Allow-Headers"] = wanted or "*"
    answer["Access-Control-Max-Age"] = str(PREFLIGHT_KEPT_S)
    return answer


def add_cors_headers(request: HttpRequest, answer: HttpResponseBase) -> None:
    """Add the headers that let a page of an origin of ``allowed_origins`` read the answer in a browser.

    ``Access-Control-Allow-Credentials`` is not among them, so a browser sends no cookies from there.
    """
    if not settings.ALLOWED_ORIGINS:
        return
    patch_vary_headers(answer, ("Origin",))
    origin = request.META.get("HTTP_ORIGIN")
    if _is_named(origin):
        answer.headers["Access-Control-Allow-Origin"] = origin
        answer.headers["Access-Control-Expose-Headers"] = "*"


def require_https(request: HttpRequest, answer: HttpResponseBase) -> None:
    """Add the header by which a browser uses https for this host from now on, when the request came by it.

    Not for ``localhost``, where it would hold for all servers of this machine; for addresses, browsers ignore it.
    """
    if request.is_secure():
        domain, _port = split_domain_port(request.META.get("HTTP_HOST", ""))
        if is_allowed_host(domain) and domain != "localhost":
            answer.headers["Strict-Transport-Security"] = HTTPS_REQUIRED


def _is_named(origin: str | None) -> TypeGuard[str]:
    return origin is not None and origin.lower() in settings.ALLOWED_ORIGINS


Scope = MutableMapping[str, Any]
Application = Callable[[Scope, Callable[..., Awaitable[Any]], Callable[..., Awaitable[Any]]], Any]


class AllowedOriginSockets:
    """ASGI wrapper that refuses WebSocket handshakes for a foreign host or from an origin that is not allowed."""

    def __init__(self, inner: Application) -> None:
        self._inner = inner

    async def __call__(
        self, scope: Scope, receive: Callable[..., Any], send: Callable[..., Any]
    ) -> Any:
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        host = headers.get("host", "")
        origin = headers.get("origin")
        if not is_allowed_host(host):
            reason = FOREIGN_HOST
        elif not is_allowed_origin(origin, host):
            reason = _refusal_of(origin)
        else:
            return await self._inner(scope, receive, send)
        await receive()
        return await refuse(send, 403, reason)
