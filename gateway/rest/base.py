"""What the admin views share."""

from typing import Any, TypeVar

from rest_framework import exceptions
from rest_framework.request import Request
from rest_framework.views import APIView

from engine.base.errors import NotBuilt
from gateway.http.bodies import no_content, principal
from gateway.rest.routes import Route
from gateway.services.engine_link import Work, link

T = TypeVar("T")


class AdminView(APIView):
    """Base of the admin views. ``route`` is set by the URL table: documented methods without a handler answer 501.
    ``quiet`` views are polled until they succeed: their 503 is an answer, not an event for the log."""

    quiet = False

    permission = "cluster"
    write_permission = "cluster"
    route: Route | None = None

    def run(self, work: Work[T]) -> T:
        """``work(engine)`` on behalf of whoever sent the request."""
        return link().run(work, principal=principal(self.request))

    def http_method_not_allowed(  # type: ignore[override]
        self, request: Request, *args: Any, **kwargs: Any
    ) -> Any:
        """501 for a documented call that is not built, else 405."""
        if self.route is not None and request.method in self.route.methods:
            raise NotBuilt(f"{request.method} {self.route.template} is not built yet")
        raise exceptions.MethodNotAllowed(request.method or "")

    @property
    def allowed_methods(self) -> list[str]:
        """For the Allow header."""
        documented = self.route.methods if self.route is not None else set()
        return sorted({*super().allowed_methods, *documented})

    @property
    def default_response_headers(self) -> dict[str, str]:
        """None: Pulsar sends Allow only with 405 and to OPTIONS."""
        return {}

    def options(  # type: ignore[override]
        self, request: Request, *args: Any, **kwargs: Any
    ) -> Any:
        """The methods, no body, as Pulsar answers."""
        answer = no_content(200)
        answer.headers["Allow"] = ", ".join(self.allowed_methods)
        return answer


class UnbuiltView(AdminView):
    """Answers every documented call of a path of which nothing is built."""
