"""``/api/v1``'s analyses and runs: validate, call one service, serialize."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from django.http import HttpRequest, JsonResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from gateway.jobs import outputs, services
from gateway.jobs.models import JobRun
from gateway.rest.base import object_body, principal
from spark_jobs.catalogue import ANALYSES

PAGE_MAX = 200
PIECE_BYTES = 1 << 16


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
    def get(self, request: Request) -> Response:
        """The analyses that can be launched."""
        fields = ("id", "title", "description", "parameters_schema")
        return Response([{f: getattr(a, f) for f in fields} for a in ANALYSES.values()])


class Runs(JobsView):
    def get(self, request: Request) -> Response:
        """Runs, newest first, without their results."""
        query = request.query_params
        offset = _whole(query.get("offset", "0"), "offset", 0, 1_000_000_000)
        limit = _whole(query.get("limit", "50"), "limit", 1, PAGE_MAX)
        runs = services.history(topic=query.get("topic", ""), analysis=query.get("analysis", ""))
        rows = [describe(run, with_result=False) for run in runs[offset : offset + limit]]
        return Response({"total": runs.count(), "rows": rows})

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
            user=principal(request),
        )
        return Response(describe(run), status=201)


class Run(JobsView):
    def get(self, request: Request, run_id: str) -> Response:
        """One run with its progress and, when it is over, its result."""
        return Response(describe(services.get(run_id=run_id)))


class CancelRun(JobsView):
    def post(self, request: Request, run_id: str) -> Response:
        """Cancel; a run that is over stays as it is."""
        return Response(describe(services.cancel(run_id=run_id)))


class Download(JobsView):
    def get(self, request: HttpRequest, run_id: str, name: str) -> HttpResponseBase:
        """A file of a finished run."""
        run = services.get(run_id=run_id)
        if name not in [item["name"] for item in run.downloads]:
            raise services.RunError(f"run {run_id} has no file {name!r}", status=404)
        path = outputs.file_of(run, name)
        if not path.is_file():
            raise services.RunError(f"the file {name!r} of run {run_id} was removed", status=404)
        answer = StreamingHttpResponse(_pieces(path), content_type="application/vnd.apache.parquet")
        answer["Content-Length"] = str(path.stat().st_size)
        answer["Content-Disposition"] = f'attachment; filename="{run_id}-{name}"'
        return answer


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    """A file that nobody changes any more. Django's own FileResponse is read into memory as a whole under ASGI."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece


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
