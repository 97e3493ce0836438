"""Error pages of Pulsar's web container (Jetty), sent when no handler answered: JSON, HTML or text by ``Accept``."""

import json
from html import escape

from django.http import HttpRequest, HttpResponse

PHRASES = {
    401: "Authentication required",
    404: "Not Found",
    406: "Not Acceptable",
    500: "Request failed.",
}
_HTML_TYPES = ("text/html", "text/*", "*/*")  # Jetty sends HTML to a client without a preference.
_JSON_TYPES = ("*/*", "application/*", "application/json")


def accepted_types(request: HttpRequest) -> list[str]:
    """Return the media types of the Accept header without parameters; ``*/*`` when there is none."""
    header = request.META.get("HTTP_ACCEPT") or "*/*"
    return [part.split(";", 1)[0].strip().lower() for part in header.split(",")]


def accepts_json(request: HttpRequest) -> bool:
    """Return whether the client accepts a JSON answer."""
    return any(media_type in _JSON_TYPES for media_type in accepted_types(request))


def page(request: HttpRequest, status: int) -> HttpResponse:
    """Return the container's page for ``status`` in the first form that ``Accept`` names.

    It shows the requested path as it was sent, escaped. As in Jetty, methods other than GET, HEAD and POST get no page.
    """
    if request.method not in ("GET", "HEAD", "POST"):
        return empty(status)
    target = getattr(request, "original_target", request.path)
    message = PHRASES[status]
    for media_type in accepted_types(request):
        if media_type in _HTML_TYPES:
            html = f"<html><head><title>Error {status} {message}</title></head><body><h2>HTTP ERROR {status} {message}"
            html += f"</h2><p>URI: {escape(target)}</p></body></html>"
            return HttpResponse(html, status=status, content_type="text/html;charset=utf-8")
        if media_type in _JSON_TYPES:
            body = {"servlet": "magnetar", "message": message, "url": target, "status": str(status)}
            return HttpResponse(json.dumps(body), status=status, content_type="application/json")
        if media_type == "text/plain":
            text = f"HTTP ERROR {status} {message}\nURI: {target}\nSTATUS: {status}\n"
            return HttpResponse(text, status=status, content_type="text/plain;charset=utf-8")
    return empty(status)


def empty(status: int) -> HttpResponse:
    """Return an answer without a body and without a content type."""
    answer = HttpResponse(b"", status=status)
    del answer.headers["Content-Type"]
    return answer
