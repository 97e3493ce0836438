"""The outermost middleware: routing on the raw path, host and origin checks, the front end's files, request counts."""

from collections.abc import Awaitable, Callable

from asgiref.sync import markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from gateway.http.paths import use_raw_path
from gateway.http.security import add_cors_headers, preflight_of, refuse_foreign, require_https
from gateway.http.static_files import file_of
from gateway.services import metrics

METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})


class Entrance:
    """Django middleware, asynchronous only."""

    sync_capable = False
    async_capable = True

    def __init__(self, get_response: Callable[[HttpRequest], Awaitable[HttpResponseBase]]) -> None:
        markcoroutinefunction(self)
        self._get_response = get_response

    async def __call__(self, request: HttpRequest) -> HttpResponseBase:
        use_raw_path(request)
        answer: HttpResponseBase | None = (
            refuse_foreign(request) or preflight_of(request) or file_of(request)
        )
        if answer is None:
            answer = await self._get_response(request)
        add_cors_headers(request, answer)
        require_https(request, answer)
        # A client may invent methods, and each label value is a series that is never dropped.
        method = request.method if request.method in METHODS else "other"
        metrics.requests.labels(method, str(answer.status_code)).inc()
        return answer
