"""The console's own REST API under ``/api/v1``: thin views over selectors and services. Shapes are in ``shapes``."""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, cast

from django.http import HttpResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from admin_ui import selectors, services, shapes
from admin_ui.audit import actor_of
from admin_ui.models import AuditEntry, SavedView
from engine.base.names import NamespaceName, TopicName, check_subscription
from gateway.rest.base import no_content, object_body, principal
from gateway.rest.errors import BadInputError
from gateway.services.engine_link import link

Body = dict[str, Any]


class ConsoleView(APIView):
    """Base: reading and changing are open to whoever may use the console."""

    permission = "console"
    write_permission = "console"


def checked(shape: type[serializers.Serializer[Any]], request: Request) -> Body:
    """The request's JSON body, held against its shape. Raises BadInputError naming the first wrong field."""
    serializer = shape(data=object_body(request) or {})
    if not serializer.is_valid():
        errors = cast(dict[str, Any], serializer.errors)
        field, problems = next(iter(errors.items()))
        raise BadInputError(field, _first(problems))
    return dict(serializer.validated_data)


def _first(problems: Any) -> str:
    while isinstance(problems, list | dict):
        problems = next(iter(problems.values())) if isinstance(problems, dict) else problems[0]
    return str(problems)


def query(request: Request) -> dict[str, str]:
    """Query parameters, the last of each."""
    return {name: str(value) for name, value in request.query_params.items()}


def http_url(request: Request) -> str:
    """Where the gateway is reached, by the name it was called."""
    return f"{request.scheme}://{request.get_host()}"


class EnvironmentView(ConsoleView):
    """Where the console is and who uses it."""

    def get(self, request: Request) -> Response:
        body = link().run(selectors.environment)
        body["http_url"] = http_url(request)
        user = request.user
        body["user"] = (
            {"name": user.get_username(), "superuser": user.is_superuser}
            if user.is_authenticated
            else None
        )
        return Response(body)


class SnapshotView(ConsoleView):
    """A reading view over the collector's last snapshot."""

    selector: ClassVar[Callable[[dict[str, str]], Awaitable[Body]]]

    def get(self, request: Request) -> Response:
        params = query(request)
        return Response(link().run(lambda engine: type(self).selector(params)))


class OverviewView(SnapshotView):
    selector = selectors.overview


class HistoryView(SnapshotView):
    selector = selectors.history


class TopicsView(SnapshotView):
    selector = selectors.topics


def topic_name(domain: str, tenant: str, namespace: str, topic: str) -> TopicName:
    """The topic of a path. Raises BadInputError for an unknown domain, InvalidNameError for a name."""
    if domain not in shapes.DOMAINS:
        raise BadInputError("domain", "must be persistent or non-persistent")
    return NamespaceName.of(tenant, namespace).topic(topic, domain)


class TopicView(ConsoleView):
    """One topic in full."""

    def get(self, request: Request, **where: str) -> Response:
        name = topic_name(**where)
        return Response(link().run(lambda engine: selectors.topic(engine, name)))


class CursorView(ConsoleView):
    """Move a subscription's position: first ask what it would do (``preview``), then do it."""

    write_permission = "console"
    change: ClassVar[services.Change]
    body_shape: ClassVar[type[serializers.Serializer[Any]]]

    def post(self, request: Request, subscription: str, **where: str) -> Response:
        name = topic_name(**where)
        check_subscription(subscription)
        asked = checked(self.body_shape, request)
        amounts = {"count": asked.get("count"), "timestamp": asked.get("timestamp")}
        if asked["preview"]:
            found = link().run(
                lambda engine: services.preview(engine, name, subscription, self.change, **amounts),
                principal=principal(request),
            )
            return Response(found)
        link().run(
            lambda engine: services.apply(engine, name, subscription, self.change, **amounts),
            principal=principal(request),
        )
        said = services.commands(http_url(request), name, subscription, self.change, **amounts)
        return Response({"done": True, "commands": said})


class SkipAllView(CursorView):
    change = "skip-all"
    body_shape = shapes.SkipAllBody


class SkipView(CursorView):
    change = "skip"
    body_shape = shapes.SkipBody


class ResetView(CursorView):
    change = "reset"
    body_shape = shapes.ResetBody


class AuditView(ConsoleView):
    """Who changed what, newest first."""

    def get(self, request: Request) -> Response:
        params = query(request)
        offset, limit = selectors.window(params)
        entries = AuditEntry.objects.all()
        if params.get("q"):
            entries = entries.filter(target__icontains=params["q"])
        if params.get("actor"):
            entries = entries.filter(actor=params["actor"])
        found = [
            {
                "id": str(entry.pk),
                "at": entry.at_ms,
                "actor": entry.actor,
                "address": entry.address,
                "method": entry.method,
                "target": entry.target,
                "status": entry.status,
            }
            for entry in entries[offset : offset + limit]
        ]
        return Response({"total": entries.count(), "offset": offset, "limit": limit, "rows": found})


def _view_row(view: SavedView) -> Body:
    return {
        "id": str(view.pk),
        "name": view.name,
        "resource": view.resource,
        "query": view.query,
        "created_at": view.created_at_ms,
    }


class ViewsView(ConsoleView):
    """The user's saved views."""

    def get(self, request: Request) -> Response:
        mine = SavedView.objects.filter(owner=actor_of(request._request))
        if request.query_params.get("resource"):
            mine = mine.filter(resource=request.query_params["resource"])
        return Response({"rows": [_view_row(view) for view in mine]})

    def post(self, request: Request) -> Response:
        asked = checked(shapes.ViewBody, request)
        view = services.save_view(owner=actor_of(request._request), **asked)
        return Response(_view_row(view), status=201)


class SavedViewView(ConsoleView):
    """One saved view."""

    def delete(self, request: Request, view_id: int) -> HttpResponse:
        services.delete_view(owner=actor_of(request._request), view_id=view_id)
        return no_content()
