"""Calls between Apache's functions workers, with the answers of a Pulsar in which functions are switched off.

They are refused before the request is checked, as Apache's broker does. The refusals are not logged.
"""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from engine.auth.rights import AUTHENTICATED
from engine.base.errors import Conflict, Refusal
from gateway.rest.base import AdminResource
from gateway.rest.routes import RestRoute, routes

NO_WORKER = Conflict(
    "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false"
)
_TREES: dict[str, Refusal] = {
    "/admin/v3/functions/leader/": NO_WORKER,
}
"""Refusals by the start of the path."""


class SwitchedOffResource(AdminResource):
    """A path whose documented calls are refused. Bodies are not parsed, so any content type is accepted."""

    read_rights = write_rights = AUTHENTICATED
    quiet = True
    negotiates = False
    refusal: ClassVar[Refusal]

    async def refuse(self, request: HttpRequest, **names: str) -> HttpResponse:
        """Raise the refusal of the tree."""
        raise type(self.refusal)(self.refusal.reason)


def _refused() -> list[tuple[str, type[AdminResource]]]:
    return [
        (route.template, _view(route, refusal))
        for route in routes().values()
        if (refusal := _refusal_of(route.template)) is not None
    ]


def _refusal_of(template: str) -> Refusal | None:
    return next((reason for start, reason in _TREES.items() if template.startswith(start)), None)


def _view(route: RestRoute, refusal: Refusal) -> type[AdminResource]:
    methods = {method.lower(): SwitchedOffResource.refuse for method in route.methods}
    return type("SwitchedOffCall", (SwitchedOffResource,), {"refusal": refusal, **methods})


ROUTES: list[tuple[str, type[AdminResource]]] = _refused()
