"""The base of all REST views: Django REST framework's view, dispatched on the event loop.

The framework's OpenAPI schema is used, its dispatch and permissions are not. Callers are identified by ``auth``, bodies
are parsed by ``bodies`` and all answers are JSON, so the framework's Request and Response, which choose among parsers
and renderers, are not created.
"""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from rest_framework import exceptions
from rest_framework.views import APIView

from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.rights import SUPERUSER
from engine.auth.viewer import Viewer
from gateway.clusters.cluster import Cluster
from gateway.clusters.registry import clusters_for
from gateway.http import container, errors
from gateway.http.auth.access import (
    AccessRefusedError,
    Declared,
    authorize,
    declared_rights,
    needs_of,
    rights_of,
    viewer_of,
)
from gateway.http.auth.identity import identify, principal_of
from gateway.http.auth.levels import check_level, level_of
from gateway.http.auth.payloads import check_payloads, reveals
from gateway.http.bodies import no_content
from gateway.http.conditional import conditional
from gateway.http.paths import resolve_request
from gateway.services.engine_link import CALL_TIMEOUT_S, Work
from gateway.sign_in import AccessLevel

FOR_PROGRAMS = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Magnetar</title></head>
<body><h1>This address is for programs</h1>
<p>Pulsar's REST interface has it, for other methods than GET. <a href="/">Open the console</a>.</p>
</body></html>
"""
T = TypeVar("T")
Method = Callable[..., Awaitable[HttpResponseBase]]
CHANGING_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class RestView(APIView):
    """Base of all REST views. Its methods are coroutines that receive Django's request and return its response."""

    view_is_async = True
    quiet = False
    """True for a view that clients poll until it succeeds: its 503 is an expected answer and not logged."""
    negotiates = True
    """True for a view that refuses requests whose Accept header excludes JSON."""
    work_timeout_s = CALL_TIMEOUT_S
    reading_methods: ClassVar[frozenset[str]] = frozenset()
    """Methods such as POST that only read: they need the right of reading, and are no change for the audit log."""
    read_rights: ClassVar[Declared]
    """The rights that reading needs. A view without the rights of a method that it serves makes no URL."""
    write_rights: ClassVar[Declared]
    """The rights that its other methods need, or these by method."""
    for_operators: ClassVar[frozenset[str]] = frozenset()
    """Changing methods that are daily operations: they need the level operate. Others need the level full."""
    for_readers: ClassVar[frozenset[str]] = frozenset()
    """Changing methods that each caller may use at any level, since they concern its own session alone."""
    shows_payloads: ClassVar[frozenset[str]] = frozenset()
    """Methods that answer payloads of messages: payload rules hide them from people, and each call is recorded."""
    keeps_body = False
    """True for a view whose JSON bodies of changes are stored in the audit log."""
    request: HttpRequest  # type: ignore[assignment]
    identity: Identity
    """The caller."""
    level: AccessLevel
    """The part of its rights that the caller may use."""
    cluster: Cluster
    """The cluster that the request is about."""
    viewer: Viewer
    """Stands for all that the caller may see: the first argument of whatever lists, sums or exports. It is set for
    views that are ``for_viewer``."""
    for_viewer = False
    """True for a view whose answer depends on what the caller may see of several things."""
    principal = ""
    """The role for which the call is made; empty where authentication is off."""

    @classmethod
    def as_view(cls, **arguments: Any) -> Any:
        """Return the view for a URL. Raises TypeError for a method without a right."""
        declared_rights(cls)
        return super().as_view(**arguments)

    def setup(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        """Set ``kwargs`` to the names in the path below that of the cluster, which are the same for every cluster."""
        super().setup(request, *args, **kwargs)
        self.kwargs.pop("served_cluster", None)

    @classmethod
    def may_change(cls, request: HttpRequest) -> bool:
        """Return whether the request may change something; the audit log records it before it is handled."""
        return request.method in CHANGING_METHODS and request.method not in cls.reading_methods

    async def dispatch(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, served_cluster: str = "", **kwargs: Any
    ) -> HttpResponseBase:
        """Return the answer to the request, also when its method raises.

        ``served_cluster``: name of the cluster in the path, empty for the default; 404 for one that is not served.
        """
        try:
            await self.admit(request, served_cluster)
            name = (request.method or "").lower()
            method: Method | None = getattr(self, name, None)
            if method is None or name not in self.http_method_names:
                return self.refuse_method(request)
            return await conditional(request, await method(request, *args, **kwargs))
        except Exception as error:
            changing = self.may_change(request)
            return errors.handle(error, request, quiet=self.quiet, changing=changing)

    @classmethod
    def is_open(cls, request: HttpRequest) -> bool:
        """Return whether a caller needs no credentials for this request."""
        return not any(right.judged for right in rights_of(cls, request.method or ""))

    async def admit(self, request: HttpRequest, served_cluster: str) -> None:
        """Identify the caller and check its rights that the method needs (A2), before anything is read.

        Raises NotAcceptable, AuthenticationFailed, RolesRefused, PermissionDenied, NotFound for a cluster that is not
        served, AccessRefusedError, LevelRefusedError, PayloadsHiddenError, the store's errors, and what names of
        resources that are not valid raise.
        """
        if self.negotiates and not container.accepts_json(request):
            raise exceptions.NotAcceptable
        is_open = self.is_open(request)
        identity = UNAUTHENTICATED if is_open else await identify(request)
        self.identity = identity
        self.level = level_of(request)
        self.principal = principal_of(identity)
        self.cluster = clusters_for(request).named(served_cluster)
        if not is_open:
            rights = rights_of(type(self), request.method or "")
            await authorize(rights, self, identity, self.cluster)
            check_level(type(self), request.method or "", self.level)
            if reveals(type(self), request.method or ""):
                places = [resource for _, resource in needs_of(rights, self)]
                await check_payloads(clusters_for(request), identity, self.level, places)
        if self.for_viewer:
            self.viewer = await viewer_of(identity, self.cluster)

    async def is_superuser(self) -> bool:
        """Return whether the caller is a superuser; every caller is where authorization is off."""
        try:
            await authorize((SUPERUSER,), self, self.identity, self.cluster)
        except AccessRefusedError:
            return False
        return True

    async def work(self, work: Work[T]) -> T:
        """Return the result of ``work(engine)``, run with the request's principal. Raises TimeoutError."""
        return await self.cluster.link.arun(
            work, principal=self.principal, timeout_s=self.work_timeout_s
        )

    def refuse_method(self, request: HttpRequest) -> HttpResponseBase:
        """Return 405 with the allowed methods.

        A browser's GET, whose user may have typed a client's path, is answered with a page that links to the console.
        """
        answer = container.empty(405)
        if is_of_browser(request):
            answer = HttpResponse(FOR_PROGRAMS, status=405)
        answer.headers["Allow"] = ", ".join(self.allowed_methods)
        return answer

    async def options(  # type: ignore[override]
        self, request: HttpRequest, *args: Any, **kwargs: Any
    ) -> HttpResponseBase:
        """Return the allowed methods without a body, as Pulsar does."""
        answer = no_content(200)
        answer.headers["Allow"] = ", ".join(self.allowed_methods)
        return answer


def is_of_browser(request: HttpRequest) -> bool:
    """Return whether a person asks for a page."""
    return request.method == "GET" and "text/html" in request.headers.get("Accept", "")


def view_of(request: HttpRequest) -> type[RestView] | None:
    """Return the view class of the request's path; None for an unknown path.

    The path is resolved once: the match is stored as ``request.resolver_match``.
    """
    try:
        match = resolve_request(request)
    except Http404:
        return None
    view = getattr(match.func, "view_class", None)
    return view if isinstance(view, type) and issubclass(view, RestView) else None
