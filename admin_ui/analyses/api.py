"""REST of analyses and runs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from django.http import StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from admin_ui.analyses import selectors, shapes
from admin_ui.calls import WINDOW, Call, ConsoleView, Parameter, checked, query
from admin_ui.params import window
from gateway.http.bodies import principal
from gateway.jobs import services

PIECE_BYTES = 1 << 16
PARQUET = "application/vnd.apache.parquet"
RUN_PATH = (Parameter("run_id", place="path"),)


class JobsView(ConsoleView):
    """Base: starting and cancelling is for who may change the cluster."""

    write_permission = "cluster"


class AnalysesView(JobsView):
    calls = {"get": Call("listAnalyses", shapes.AnalysisShape(many=True))}

    def get(self, request: Request) -> Response:
        """The analyses that can be launched."""
        return Response(selectors.analyses())


class RunsView(JobsView):
    calls = {
        "get": Call(
            "listRuns",
            shapes.RunPage,
            (Parameter("topic", "exact"), Parameter("analysis", "exact"), *WINDOW),
            errors=(400,),
        ),
        "post": Call(
            "startRun", shapes.RunShape, body=shapes.RunRequest, success=201, errors=(400,)
        ),
    }

    def get(self, request: Request) -> Response:
        """Runs, newest first, without their results."""
        params = query(request)
        offset, limit = window(params)
        runs = services.history(topic=params.get("topic", ""), analysis=params.get("analysis", ""))
        rows = [selectors.row(run, with_result=False) for run in runs[offset : offset + limit]]
        return Response({"total": runs.count(), "rows": rows})

    def post(self, request: Request) -> Response:
        """Queue a run of an analysis."""
        asked = checked(shapes.RunRequest, request)
        run = services.create(**asked, user=principal(request))
        return Response(selectors.row(run), status=201)


class RunView(JobsView):
    calls = {"get": Call("getRun", shapes.RunShape, RUN_PATH, errors=(404,))}

    def get(self, request: Request, run_id: str) -> Response:
        """One run with its progress and, when it is over, its result."""
        return Response(selectors.run(run_id))


class CancelRunView(JobsView):
    calls = {"post": Call("cancelRun", shapes.RunShape, RUN_PATH, errors=(404,))}

    def post(self, request: Request, run_id: str) -> Response:
        """Cancel; a run that is over stays as it is."""
        return Response(selectors.row(services.cancel(run_id=run_id)))


class DownloadView(JobsView):
    calls = {
        "get": Call(
            "downloadRunFile",
            parameters=(*RUN_PATH, Parameter("name", place="path")),
            errors=(404,),
            file=PARQUET,
        )
    }

    def get(self, request: Request, run_id: str, name: str) -> HttpResponseBase:
        """A file of a finished run."""
        path = services.file_of(run_id=run_id, name=name)
        answer = StreamingHttpResponse(_pieces(path), content_type=PARQUET)
        answer["Content-Length"] = str(path.stat().st_size)
        answer["Content-Disposition"] = f'attachment; filename="{run_id}-{name}"'
        return answer


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    """A file that nobody changes any more. Django's own FileResponse is read into memory as a whole under ASGI."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
