"""The page Pulsar's web container shows where no handler answered: JSON, HTML or text, what ``Accept`` names first."""

import json
from html import escape

from django.http import HttpRequest, HttpResponse

PHRASES = {404: "Not Found", 406: "Not Acceptable", 500: "Request failed."}
_HTML_TYPES = ("text/html", "text/*", "*/*")  # Jetty's choice for whoever has none
_JSON_TYPES = ("*/*", "application/*", "application/json")


def accepted_types(request: HttpRequest) -> list[str]:
    """Media types of the Accept header without parameters; ``*/*`` when there is none."""
    header = request.META.get("HTTP_ACCEPT") or "*/*"
    return [part.split(";", 1)[0].strip().lower() for part in header.split(",")]


def accepts_json(request: HttpRequest) -> bool:
    """Whether a JSON answer may be sent."""
    return any(media_type in _JSON_TYPES for media_type in accepted_types(request))


def page(request: HttpRequest, status: int) -> HttpResponse:
    """The container's page for ``status``; the requested path is shown as it was sent, escaped for its form. Like Jetty
    it has one for reading and posting alone."""
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
    """An answer without body and without a content type."""
    answer = HttpResponse(b"", status=status)
    del answer.headers["Content-Type"]
    return answer
