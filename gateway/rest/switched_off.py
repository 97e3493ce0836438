"""Functions, connectors, packages and transactions: what a Pulsar answers in which they are switched off.

Their calls are refused before anything of them is looked at, as Apache's broker does; nothing here is an event for the
log.
"""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from engine.base.errors import Conflict, NotFound, NotReady, PreconditionFailed, Refusal
from gateway.rest.base import AdminView
from gateway.rest.routes import Route, routes

NO_WORKER = Conflict(
    "Pulsar Function Worker is not enabled, probably functionsWorkerEnabled is set to false"
)
NO_PACKAGES = NotReady("Package Management Service is not enabled in the broker.")
NO_TRANSACTIONS = NotReady("This Broker is not configured with transactionCoordinatorEnabled=true.")
NO_SNAPSHOT = NotFound("Transaction buffer Snapshot for the topic does not exist")
_TREES: dict[str, Refusal] = {
    **{f"/admin/{tree}/": NO_WORKER for tree in ("v2/functions", "v2/worker", "v2/worker-stats")},
    **{
        f"/admin/v3/{tree}/": NO_WORKER
        for tree in ("functions", "source", "sources", "sink", "sinks")
    },
    "/admin/v3/packages/": NO_PACKAGES,
    "/admin/v3/transactions/transactionBufferInternalStats/": NO_SNAPSHOT,
    "/admin/v3/transactions/": NO_TRANSACTIONS,
}
"""Beginnings of paths; the first that fits counts."""
PACKAGES = ("function", "sink", "source")


class SwitchedOff(AdminView):
    """Refuses each documented call. Bodies are not read, so that any type of one is fine."""

    quiet = True
    negotiates = False
    refusal: ClassVar[Refusal]

    async def refuse(self, request: HttpRequest, **where: str) -> HttpResponse:
        """Raises what this tree answers; PreconditionFailed for a kind of package that there is not."""
        kind = where.get("type", PACKAGES[0])
        if kind not in PACKAGES:
            raise PreconditionFailed(f"Invalid package domain: '{kind}'")
        raise type(self.refusal)(self.refusal.reason)


def _refused() -> list[tuple[str, type[AdminView]]]:
    return [
        (route.template, _view(route, refusal))
        for route in routes().values()
        if (refusal := _refusal_of(route.template)) is not None
    ]


def _refusal_of(template: str) -> Refusal | None:
    return next((what for start, what in _TREES.items() if template.startswith(start)), None)


def _view(route: Route, refusal: Refusal) -> type[AdminView]:
    methods = {method.lower(): SwitchedOff.refuse for method in route.methods}
    return type("SwitchedOffCall", (SwitchedOff,), {"refusal": refusal, **methods})


ROUTES: list[tuple[str, type[AdminView]]] = _refused()
