"""Requests that the gateway makes to itself for a caller: each passes the audit log and the view's own checks."""

from io import BytesIO
from typing import Any
from urllib.parse import unquote

from django.core.handlers.asgi import ASGIRequest
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase

from admin_ui.audit.recording import AuditRecorder
from gateway.http import errors
from gateway.http.paths import resolve_request, use_raw_path

LEFT_OUT = frozenset(
    {
        *(b"accept", b"accept-encoding", b"accept-language", b"content-type", b"content-length"),
        *(b"content-encoding", b"if-none-match", b"if-match", b"if-modified-since", b"range"),
        b"transfer-encoding",
    }
)
"""Headers about the body and the form of the answer; those that identify the caller are kept."""


async def get(outer: HttpRequest, target: str) -> HttpResponseBase:
    """Return the answer to a GET of ``target``, a path with its query, by the caller of ``outer``."""
    path, _, query = target.partition("?")
    scope: dict[str, Any] = {
        **outer.scope,  # type: ignore[attr-defined]
        "method": "GET",
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
    }
    scope["headers"] = [pair for pair in scope["headers"] if pair[0].lower() not in LEFT_OUT]
    inner = ASGIRequest(scope, BytesIO())
    for name in ("user", "auser", "session"):
        if hasattr(outer, name):
            setattr(inner, name, getattr(outer, name))
    use_raw_path(inner)
    return await AuditRecorder(_by_view)(inner)


async def _by_view(request: HttpRequest) -> HttpResponseBase:
    try:
        view, arguments, named = resolve_request(request)
        answer: HttpResponseBase = await view(request, *arguments, **named)
        return answer
    except Http404 as error:
        return errors.not_found(request, error)
