"""The OpenAPI document of the console API. Loaded only when somebody asks for it, so that the views stay free of it."""

import json
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import serializers

from admin_ui import api, shapes
from gateway.jobs.openapi import describe as describe_runs

Shape = type[serializers.Serializer[Any]]


def _text(name: str, description: str, enum: tuple[str, ...] | None = None) -> OpenApiParameter:
    return OpenApiParameter(name, str, description=description, enum=enum)


WINDOW = [
    OpenApiParameter("offset", int, description="first row, from 0", default=0),
    OpenApiParameter("limit", int, description="rows, 1 to 1000", default=100),
]
TOPIC_FILTERS = [
    _text("q", "part of the full name, in any case"),
    _text("tenant", "exact"),
    _text("namespace", "name, or tenant/name"),
    _text("domain", "persistent or non-persistent", shapes.DOMAINS),
    _text("sort", "a field of the rows, '-' in front for descending; default -backlog"),
    *WINDOW,
]
TOPIC_PATH = [
    OpenApiParameter("domain", str, OpenApiParameter.PATH, enum=shapes.DOMAINS),
    *(OpenApiParameter(name, str, OpenApiParameter.PATH) for name in ("tenant", "namespace")),
    OpenApiParameter(
        "topic", str, OpenApiParameter.PATH, description="local name, percent-encoded"
    ),
]
SUBSCRIPTION_PATH = [*TOPIC_PATH, OpenApiParameter("subscription", str, OpenApiParameter.PATH)]


def _answers(shape: Shape | None, *, success: int = 200, errors: tuple[int, ...] = ()) -> Any:
    return {success: shape, **dict.fromkeys((*errors, 503), shapes.Reason)}


def _reads(operation: str, shape: Shape, parameters: Any = (), errors: tuple[int, ...] = ()) -> Any:
    return extend_schema(
        operation_id=operation,
        parameters=list(parameters),
        responses=_answers(shape, errors=errors),
    )


def _changes(operation: str, body: Shape) -> Any:
    return extend_schema(
        operation_id=operation,
        parameters=SUBSCRIPTION_PATH,
        request=body,
        responses=_answers(shapes.CursorChange, errors=(400, 404, 405, 412)),
    )


@cache
def describe() -> None:
    """Attach the descriptions to the views, once."""
    views: list[tuple[type[Any], dict[str, Any]]] = [
        (api.EnvironmentView, {"get": _reads("getEnvironment", shapes.EnvironmentAnswer)}),
        (api.OverviewView, {"get": _reads("getOverview", shapes.OverviewAnswer)}),
        (api.HistoryView, {"get": _reads("getHistory", shapes.HistoryAnswer)}),
        (
            api.TopicsView,
            {"get": _reads("listTopics", shapes.TopicsAnswer, TOPIC_FILTERS, errors=(400,))},
        ),
        (
            api.TopicView,
            {"get": _reads("getTopic", shapes.TopicAnswer, TOPIC_PATH, errors=(400, 404, 412))},
        ),
        (api.SkipAllView, {"post": _changes("skipAll", shapes.SkipAllBody)}),
        (api.SkipView, {"post": _changes("skip", shapes.SkipBody)}),
        (api.ResetView, {"post": _changes("reset", shapes.ResetBody)}),
        (
            api.AuditView,
            {
                "get": _reads(
                    "listAudit",
                    shapes.AuditAnswer,
                    [_text("q", "part of the target"), _text("actor", "exact"), *WINDOW],
                    errors=(400,),
                )
            },
        ),
        (
            api.ViewsView,
            {
                "get": _reads("listViews", shapes.ViewsAnswer, [_text("resource", "exact")]),
                "post": extend_schema(
                    operation_id="saveView",
                    request=shapes.ViewBody,
                    responses=_answers(shapes.ViewRow, success=201, errors=(400, 409, 422)),
                ),
            },
        ),
        (
            api.SavedViewView,
            {
                "delete": extend_schema(
                    operation_id="deleteView",
                    parameters=[OpenApiParameter("view_id", int, OpenApiParameter.PATH)],
                    responses=_answers(None, success=204, errors=(404,)),
                )
            },
        ),
    ]
    for view, methods in views:
        extend_schema_view(**methods)(view)
    describe_runs()


def console_endpoints_only(
    endpoints: list[tuple[str, str, str, Any]],
) -> list[tuple[str, str, str, Any]]:
    """drf-spectacular's hook: the admin REST is Pulsar's and documented there."""
    describe()
    return [item for item in endpoints if item[0].startswith("/api/v1/")]


def document() -> dict[str, Any]:
    """The OpenAPI document as a dictionary."""
    generator = SchemaGenerator()  # type: ignore[no-untyped-call]
    found: dict[str, Any] = generator.get_schema(request=None, public=True)  # type: ignore[no-untyped-call]
    return found


@cache
def document_text() -> str:
    """The document as JSON text, ordered and indented so that a change shows as a small difference."""
    return json.dumps(document(), indent=2, ensure_ascii=False, default=str) + "\n"
