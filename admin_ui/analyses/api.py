"""REST of analyses and runs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from admin_ui.analyses import selectors, shapes
from admin_ui.calls import (
    OF_CLUSTER,
    WINDOW,
    Call,
    ConsoleView,
    InstanceView,
    Parameter,
    checked,
    in_thread,
    query,
)
from admin_ui.params import window
from engine.auth.rights import AUTHENTICATED, SUPERUSER
from gateway.clusters.registry import clusters_for
from gateway.http.bodies import json_answer
from gateway.http.security import is_of_another_site
from gateway.jobs import services, targets

PIECE_BYTES = 1 << 16
PARQUET = "application/vnd.apache.parquet"
RUN_PATH = (Parameter("run_id", place="path"),)


class JobsView(ConsoleView):
    """Base of the views of runs. A run reads topics from bookies, without a broker's check, and the list is of
    all users: both need a superuser."""

    read_rights = write_rights = SUPERUSER


class AnalysesView(JobsView):
    read_rights = AUTHENTICATED
    calls = {"get": Call("listAnalyses", shapes.AnalysisShape(many=True))}

    async def get(self, request: HttpRequest) -> HttpResponse:
        """Answer the analyses that can be launched, and let Spark start, which takes longer than filling in a form."""
        if not is_of_another_site(request):
            clusters_for(request).part(services.Warming).request()
        return json_answer(selectors.analyses())


class RunsView(JobsView, InstanceView):
    """The runs of a cluster."""

    calls = {
        "get": Call(
            "listRuns",
            shapes.RunPage,
            (OF_CLUSTER, Parameter("target", "exact"), Parameter("analysis", "exact"), *WINDOW),
            errors=(400, 404),
        ),
        "post": Call(
            "startRun",
            shapes.RunShape,
            (OF_CLUSTER,),
            body=shapes.RunRequest,
            success=201,
            errors=(400, 404),
        ),
    }

    @property
    def stored_cluster(self) -> str:
        """The cluster as runs store it."""
        is_default = self.cluster is clusters_for(self.request).default
        return "" if is_default else self.cluster.name

    async def get(self, request: HttpRequest) -> HttpResponse:
        """Answer runs, newest first, without their results."""
        self.viewer.require_everything("Runs")
        params = query(request)
        offset, limit = window(params)
        runs = services.history(
            cluster=self.stored_cluster,
            target=params.get("target", ""),
            analysis=params.get("analysis", ""),
        )
        page = runs[offset : offset + limit]
        rows = [selectors.row(run, with_result=False) async for run in page]
        return json_answer({"total": await runs.acount(), "rows": rows})

    async def post(self, request: HttpRequest) -> HttpResponse:
        """Queue a run of an analysis."""
        body = checked(shapes.RunRequest, request)
        parameters = services.check_parameters(**body)
        kind = services.declared(analysis=body["analysis"]).target
        parameters = await self.work(lambda engine: targets.completed(engine, kind, parameters))
        run = await in_thread(services.create)(
            analysis=body["analysis"],
            parameters=parameters,
            user=self.principal,
            cluster=self.stored_cluster,
        )
        return json_answer(selectors.row(run), status=201)


class RunView(JobsView):
    calls = {"get": Call("getRun", shapes.RunShape, RUN_PATH, errors=(404,))}

    async def get(self, request: HttpRequest, run_id: str) -> HttpResponse:
        """Answer a run with its progress and, when it is over, its result."""
        self.viewer.require_everything("Runs")
        return json_answer(await in_thread(selectors.run)(run_id))


class CancelRunView(JobsView):
    calls = {"post": Call("cancelRun", shapes.RunShape, RUN_PATH, errors=(404,))}

    async def post(self, request: HttpRequest, run_id: str) -> HttpResponse:
        """Cancel a run; a run that is over stays as it is."""
        return json_answer(selectors.row(await in_thread(services.cancel)(run_id=run_id)))


class DownloadView(JobsView):
    calls = {
        "get": Call(
            "downloadRunFile",
            parameters=(*RUN_PATH, Parameter("name", place="path")),
            errors=(404,),
            file=PARQUET,
        )
    }

    async def get(self, request: HttpRequest, run_id: str, name: str) -> HttpResponseBase:
        """Answer a file of a finished run."""
        self.viewer.require_everything("Runs")
        path = await in_thread(services.file_of)(run_id=run_id, name=name)
        answer = StreamingHttpResponse(_pieces(path), content_type=PARQUET)
        answer["Content-Length"] = str(path.stat().st_size)
        answer["Content-Disposition"] = f'attachment; filename="{run_id}-{name}"'
        return answer


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    """Yield a file that is not changed any more. Under ASGI, Django's FileResponse would read the whole file into
    memory."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
