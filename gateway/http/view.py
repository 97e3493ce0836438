"""What all REST views are: Django REST framework's, dispatched on the event loop.

The framework's permissions and schema hold; of its dispatch a request pays only for what it uses. There is no
authenticator but Django's session (``identity``), no parser (``bodies``) and no renderer but JSON, so its Request and
Response, which choose among these, are not made.
"""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import resolve
from rest_framework import exceptions
from rest_framework.views import APIView

from gateway.http import container, errors
from gateway.http.bodies import no_content
from gateway.http.conditional import conditional
from gateway.http.identity import identify
from gateway.services.engine_link import CALL_TIMEOUT_S, Work, link

FOR_PROGRAMS = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Magnetar</title></head>
<body><h1>This address is for programs</h1>
<p>Pulsar's REST interface has it, for other methods than GET. <a href="/">Open the console</a>.</p>
</body></html>
"""
T = TypeVar("T")
Method = Callable[..., Awaitable[HttpResponseBase]]
CHANGING_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class View(APIView):
    """Base of all REST views. Methods are coroutines that take Django's request and return its response.

    ``quiet`` views are polled until they succeed: their 503 is an answer, not an event for the log. ``negotiates``:
    an Accept header without JSON is refused.
    """

    view_is_async = True
    quiet = False
    negotiates = True
    work_timeout_s = CALL_TIMEOUT_S
    reading_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods, such as POST, that change something elsewhere and nothing here that the audit log records: they read, or
    publish messages."""
    keeps_body = False
    """Whether the audit log keeps the JSON body of a change."""
    request: HttpRequest  # type: ignore[assignment]
    principal = ""
    """The signed-in user's name; empty for nobody."""

    @classmethod
    def may_change(cls, request: HttpRequest) -> bool:
        """Whether the call is one that may change something, which the audit log records before it is handled."""
        return request.method in CHANGING_METHODS and request.method not in cls.reading_methods

    async def dispatch(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """The answer, whatever happens."""
        try:
            await self.admit(request)
            name = (request.method or "").lower()
            method: Method | None = getattr(self, name, None)
            if method is None or name not in self.http_method_names:
                return self.refuse_method(request)
            return await conditional(request, await method(request, *args, **kwargs))
        except Exception as error:
            changing = self.may_change(request)
            return errors.handle(error, request, quiet=self.quiet, changing=changing)

    async def admit(self, request: HttpRequest) -> None:
        """Returns when this caller may use this view with this method. Raises NotAcceptable, NotAuthenticated,
        PermissionDenied."""
        if self.negotiates and not container.accepts_json(request):
            raise exceptions.NotAcceptable
        user = await identify(request)
        if user.is_authenticated:
            self.principal = user.get_username()
        for permission in self.get_permissions():
            if not permission.has_permission(request, self):  # type: ignore[arg-type]
                refusal = exceptions.PermissionDenied if self.principal else None
                raise (refusal or exceptions.NotAuthenticated)()

    async def work(self, work: Work[T]) -> T:
        """``work(engine)`` on behalf of whoever sent the request. Raises TimeoutError."""
        return await link().arun(work, principal=self.principal, timeout_s=self.work_timeout_s)

    def refuse_method(self, request: HttpRequest) -> HttpResponseBase:
        """405 with the methods that there are; for somebody at a browser, who may have typed a client's path, a page
        that leads on."""
        answer = container.empty(405)
        if request.method == "GET" and "text/html" in request.headers.get("Accept", ""):
            answer = HttpResponse(FOR_PROGRAMS, status=405)
        answer.headers["Allow"] = ", ".join(self.allowed_methods)
        return answer

    async def options(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """The methods, no body, as Pulsar answers."""
        answer = no_content(200)
        answer.headers["Allow"] = ", ".join(self.allowed_methods)
        return answer


def view_of(request: HttpRequest) -> type[View] | None:
    """The class that answers the request, by the URL table; None for a path without one. Resolves the path once: what
    was found is kept as ``request.resolver_match``."""
    if request.resolver_match is None:
        try:
            request.resolver_match = resolve(request.path_info)
        except Http404:
            return None
    view = getattr(request.resolver_match.func, "view_class", None)
    return view if isinstance(view, type) and issubclass(view, View) else None
