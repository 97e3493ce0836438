"""The base of the resources of Pulsar's REST interface: views, one for each path of the table of routes."""

import logging

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from engine.base.errors import NotBuilt
from gateway.clusters.registry import path_of
from gateway.http.auth.access import AccessRefusedError, RefusedAsError
from gateway.http.view import RestView
from gateway.rest.access.refusals import refusal_of
from gateway.rest.routes import RestRoute

log = logging.getLogger(__name__)


class AdminResource(RestView):
    """Base of the resources.

    ``route`` is set by the URL table. A documented method without a handler is answered with 501.
    """

    keeps_body = True
    route: RestRoute | None = None

    async def admit(self, request: HttpRequest, served_cluster: str) -> None:
        """Admit a call as ``RestView.admit`` does. A refusal has the status and text of Apache's broker; what is
        missing, and who can give it, is logged."""
        try:
            await super().admit(request, served_cluster)
        except AccessRefusedError as error:
            log.info("refused method=%s path=%s: %s", request.method, request.path, error.reason)
            template = self.route.template if self.route is not None else ""
            raise RefusedAsError(*refusal_of(error, request, template, self.kwargs)) from error

    def refuse_method(self, request: HttpRequest) -> HttpResponseBase:
        """Raise NotBuilt (501) for a documented call that is not built; return 405 for any other."""
        if self.route is not None and request.method in self.route.methods:
            raise NotBuilt(f"{request.method} {self.route.template} is not built yet")
        return super().refuse_method(request)

    @property
    def allowed_methods(self) -> list[str]:
        """The methods of the Allow header, those that are not built included."""
        documented = self.route.methods if self.route is not None else set()
        return sorted({*super().allowed_methods, *documented})


def web_url(request: HttpRequest) -> str:
    """Return the URL of the REST interface of the request's cluster, with the host that the client sent.

    It stands for a broker's HTTP address: brokers serve only the private admin RPC, which clients cannot use.
    """
    name = request.resolver_match.kwargs.get("served_cluster") if request.resolver_match else None
    return f"{request.scheme}://{request.META['HTTP_HOST']}{path_of(name or '')}"


class UnbuiltResource(AdminResource):
    """A path of which no call is built: every documented one is answered with 501."""

    keeps_body = False  # The body may be a message, which the audit log must not store.
