"""REST of the connections of clients."""

from typing import ClassVar

from django.http import HttpRequest, HttpResponse

from admin_ui.calls import (
    WINDOW,
    Call,
    ClusterView,
    Parameter,
    PreviewedView,
    SnapshotView,
    actor_of,
    checked,
)
from admin_ui.connections import selectors, services, shapes
from engine.auth.rights import SUPERUSER
from gateway.http.bodies import json_answer
from gateway.services.source import Ability

FILTERS = (
    Parameter("q", "words in address, version, application, role or broker, in any case"),
    Parameter("library", "exact, as Pulsar-Java"),
    Parameter("version", "its beginning by whole parts: 2 for 2.x"),
    Parameter("role", "exact"),
    Parameter("application", "exact"),
    Parameter("broker", "id; exact"),
    Parameter("host", "of the address, without the port; exact"),
    Parameter("proxy", "whether it came through a proxy", enum=selectors.CHOICES["proxy"]),
    Parameter("kind", "what it has open", enum=selectors.CHOICES["kind"]),
    Parameter("sort", "a field of the rows, '-' in front for descending; default -since"),
    Parameter("group", "also count those that are alike", enum=selectors.CHOICES["group"]),
)
_PATH = (
    Parameter("broker", "its id, as in listBrokers", place="path"),
    Parameter("connection", "its id, as in listConnections", place="path"),
)


class ConnectionsView(SnapshotView):
    """A window of the filtered and sorted connections of clients to all brokers."""

    read_rights = SUPERUSER
    calls = {
        "get": Call(
            "listConnections",
            shapes.ConnectionsAnswer,
            parameters=(*FILTERS, *WINDOW),
            errors=(400, 403, 405),
        )
    }
    selector = selectors.connections


class ConnectionView(ClusterView):
    """One connection with its producers and consumers."""

    read_rights = SUPERUSER
    calls = {
        "get": Call("getConnection", shapes.ConnectionDetail, _PATH, errors=(400, 403, 404, 405)),
    }

    async def get(self, request: HttpRequest, broker: str, connection: str) -> HttpResponse:
        self.cluster.require(Ability.CONNECTIONS)
        return json_answer(
            await self.work(
                lambda engine: selectors.connection(self.viewer, engine, broker, connection)
            )
        )


class DisconnectClientView(PreviewedView):
    """Close a connection with all its producers and consumers. A request is first a ``preview`` of them, then closes
    exactly that connection by the ``token``. Its client may connect again at once."""

    write_rights = SUPERUSER
    for_operators = frozenset({"POST"})
    calls: ClassVar[dict[str, Call]] = {
        "post": Call(
            "disconnectClient",
            (shapes.DisconnectClientPreview, shapes.DisconnectClientReceipt),
            _PATH,
            body=shapes.DisconnectClientBody,
            errors=(400, 403, 404, 405, 409),
        )
    }

    async def post(self, request: HttpRequest, broker: str, connection: str) -> HttpResponse:
        user, cluster = actor_of(request), self.cluster
        cluster.require(Ability.CONNECTIONS)
        return await self.previewed(
            checked(shapes.DisconnectClientBody, request),
            lambda engine: services.preview(engine, broker, connection, user),
            lambda engine, token: services.apply(cluster, engine, broker, connection, user, token),
        )
