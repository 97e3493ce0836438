"""``/api/v1``'s analyses and runs: validate, call one service, serialize."""

from typing import Any

from django.http import FileResponse, HttpRequest, JsonResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers as s
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from gateway.jobs import services
from gateway.jobs.models import JobRun, RunState
from gateway.rest.base import object_body
from spark_jobs.catalogue import ANALYSES

PAGE_MAX = 200


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


def describe(run: JobRun, *, with_result: bool = True) -> dict[str, Any]:
    """A run as JSON; lists leave the result out."""
    downloads = [
        {**item, "href": f"/api/v1/runs/{run.id}/downloads/{item['name']}"}
        for item in run.downloads
    ]
    return {
        "id": run.id,
        "analysis": run.analysis,
        "title": run.title,
        "parameters": run.parameters,
        "state": run.state,
        "stage": run.stage,
        "progress": {"done": run.done, "total": run.total},
        "attempt": run.attempt,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "error": run.error or None,
        "result": run.result if with_result else None,
        "downloads": downloads,
    }


class JobsView(APIView):
    """Base: what runs do is the console's own, and a refusal names its field."""

    permission = "console"
    write_permission = "cluster"

    def handle_exception(self, error: Exception) -> Any:
        """RunError as ``{"reason", "field"}``; everything else by the common table."""
        if isinstance(error, services.RunError):
            body = {"reason": error.reason}
            if error.field is not None:
                body["field"] = error.field
            return JsonResponse(body, status=error.status)
        return super().handle_exception(error)


class Analyses(JobsView):
    @extend_schema(operation_id="listAnalyses", responses=AnalysisShape(many=True))
    def get(self, request: Request) -> Response:
        """The analyses that can be launched."""
        fields = ("id", "title", "description", "parameters_schema")
        return Response([{f: getattr(a, f) for f in fields} for a in ANALYSES.values()])


class Runs(JobsView):
    @extend_schema(
        operation_id="listRuns",
        parameters=[
            OpenApiParameter(name, type_)
            for name, type_ in (("topic", str), ("analysis", str), ("offset", int), ("limit", int))
        ],
        responses={200: RunPage, 400: REFUSED},
    )
    def get(self, request: Request) -> Response:
        """Runs, newest first, without their results."""
        query = request.query_params
        offset = _whole(query.get("offset", "0"), "offset", 0, 1_000_000_000)
        limit = _whole(query.get("limit", "50"), "limit", 1, PAGE_MAX)
        runs = services.history(topic=query.get("topic", ""), analysis=query.get("analysis", ""))
        rows = [describe(run, with_result=False) for run in runs[offset : offset + limit]]
        return Response({"total": runs.count(), "rows": rows})

    @extend_schema(
        operation_id="startRun", request=RunRequest, responses={201: RunShape, 400: REFUSED}
    )
    def post(self, request: Request) -> Response:
        """Queue a run of an analysis."""
        body = object_body(request) or {}
        for field, kind in (("analysis", str), ("parameters", dict)):
            if not isinstance(body.get(field), kind):
                what = "a string" if kind is str else "an object"
                raise services.RunError(f"{field}: expected {what}", field=field)
        run = services.create(
            analysis=body["analysis"],
            parameters=body["parameters"],
            user=request.user.get_username() if request.user.is_authenticated else "",
        )
        return Response(describe(run), status=201)


class Run(JobsView):
    @extend_schema(operation_id="getRun", responses={200: RunShape, 404: REFUSED})
    def get(self, request: Request, run_id: str) -> Response:
        """One run with its progress and, when it is over, its result."""
        return Response(describe(services.get(run_id=run_id)))


class CancelRun(JobsView):
    @extend_schema(operation_id="cancelRun", request=None, responses={200: RunShape, 404: REFUSED})
    def post(self, request: Request, run_id: str) -> Response:
        """Cancel; a run that is over stays as it is."""
        return Response(describe(services.cancel(run_id=run_id)))


class Download(JobsView):
    @extend_schema(
        operation_id="downloadRunFile",
        responses={(200, "application/vnd.apache.parquet"): bytes, 404: REFUSED},
    )
    def get(self, request: HttpRequest, run_id: str, name: str) -> HttpResponseBase:
        """A file of a finished run."""
        run = services.get(run_id=run_id)
        if name not in [item["name"] for item in run.downloads]:
            raise services.RunError(f"run {run_id} has no file {name!r}", status=404)
        path = services.output_dir(run.id) / name
        if not path.is_file():
            raise services.RunError(f"the file {name!r} of run {run_id} was removed", status=404)
        kind = "application/vnd.apache.parquet"
        return FileResponse(
            path.open("rb"), as_attachment=True, filename=f"{run_id}-{name}", content_type=kind
        )


def _whole(text: str, field: str, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = low - 1
    if not low <= value <= high:
        raise services.RunError(
            f"{field}: expected a whole number from {low} to {high}", field=field
        )
    return value
