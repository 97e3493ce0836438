"""Descriptions of the runs API for the OpenAPI document. Loaded only when somebody asks for the document."""

from typing import Any

from drf_spectacular.utils import (
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_view,
)
from rest_framework import serializers as s

from gateway.jobs import api
from gateway.jobs.models import RunState


class AnalysisShape(s.Serializer[object]):
    id = s.CharField()
    title = s.CharField()
    description = s.CharField()
    parameters_schema = s.DictField(help_text="JSON Schema of the parameters")


class ProgressShape(s.Serializer[object]):
    done = s.IntegerField()
    total = s.IntegerField(help_text="0 while it is not known")


class DownloadShape(s.Serializer[object]):
    name = s.CharField()
    bytes = s.IntegerField()
    href = s.CharField()


class RunShape(s.Serializer[object]):
    id = s.CharField()
    analysis = s.CharField()
    title = s.CharField()
    parameters = s.DictField()
    state = s.ChoiceField(choices=RunState.values)
    stage = s.CharField()
    progress = ProgressShape()
    attempt = s.IntegerField()
    created_at = s.IntegerField()
    started_at = s.IntegerField(allow_null=True)
    finished_at = s.IntegerField(allow_null=True)
    error = s.CharField(allow_null=True)
    result = s.DictField(
        allow_null=True, help_text="docs/formats/analysis-result.md; null in lists"
    )
    downloads = DownloadShape(many=True)


class RunPage(s.Serializer[object]):
    total = s.IntegerField()
    rows = RunShape(many=True)


class RunRequest(s.Serializer[object]):
    analysis = s.CharField()
    parameters = s.DictField()


class RefusalShape(s.Serializer[object]):
    reason = s.CharField()
    field = s.CharField(required=False)


REFUSED = OpenApiResponse(RefusalShape)


def describe() -> None:
    """Attach the descriptions to the views."""
    query = (("topic", str), ("analysis", str), ("offset", int), ("limit", int))
    run = {200: RunShape, 404: REFUSED}
    views: list[tuple[type[Any], dict[str, Any]]] = [
        (
            api.Analyses,
            {"get": extend_schema(operation_id="listAnalyses", responses=AnalysisShape(many=True))},
        ),
        (
            api.Runs,
            {
                "get": extend_schema(
                    operation_id="listRuns",
                    parameters=[OpenApiParameter(name, kind) for name, kind in query],
                    responses={200: RunPage, 400: REFUSED},
                ),
                "post": extend_schema(
                    operation_id="startRun",
                    request=RunRequest,
                    responses={201: RunShape, 400: REFUSED},
                ),
            },
        ),
        (api.Run, {"get": extend_schema(operation_id="getRun", responses=run)}),
        (
            api.CancelRun,
            {"post": extend_schema(operation_id="cancelRun", request=None, responses=run)},
        ),
        (
            api.Download,
            {
                "get": extend_schema(
                    operation_id="downloadRunFile",
                    responses={(200, "application/vnd.apache.parquet"): bytes, 404: REFUSED},
                )
            },
        ),
    ]
    for view, methods in views:
        extend_schema_view(**methods)(view)
