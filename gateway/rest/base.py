"""What the admin views share."""

from django.http import HttpRequest
from django.http.response import HttpResponseBase

from engine.base.errors import NotBuilt
from gateway.http.view import RestView
from gateway.rest.routes import Route


class AdminView(RestView):
    """Base of the admin views. ``route`` is set by the URL table: documented methods without a handler answer 501."""

    permission = "cluster"
    write_permission = "cluster"
    keeps_body = True
    route: Route | None = None

    def refuse_method(self, request: HttpRequest) -> HttpResponseBase:
        """501 for a documented call that is not built, else 405."""
        if self.route is not None and request.method in self.route.methods:
            raise NotBuilt(f"{request.method} {self.route.template} is not built yet")
        return super().refuse_method(request)

    @property
    def allowed_methods(self) -> list[str]:
        """For the Allow header."""
        documented = self.route.methods if self.route is not None else set()
        return sorted({*super().allowed_methods, *documented})


def web_url(request: HttpRequest) -> str:
    """Where the REST interface is, by the name it was called: of HTTP, brokers serve only the private admin RPC, whose
    address is of no use to a caller."""
    return f"{request.scheme}://{request.META['HTTP_HOST']}"


class UnbuiltView(AdminView):
    """Answers every documented call of a path of which nothing is built."""

    keeps_body = False  # it may be a message
