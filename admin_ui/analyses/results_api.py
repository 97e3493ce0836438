"""REST of the results of runs: files, scripts, comparisons and logs."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase

from admin_ui.analyses import selectors, shapes, tables
from admin_ui.analyses.api import RUN_PATH, JobsView
from admin_ui.analyses.comparing import compared, compared_parameters
from admin_ui.analyses.script import script_of
from admin_ui.calls import Call, Parameter, in_thread, query
from admin_ui.params import window
from engine.auth.rights import SUPERUSER
from engine.base.errors import InvalidField, NotFound, UnusableField
from gateway.http.bodies import json_answer
from gateway.jobs import services
from gateway.jobs.stores import context_of

PIECE_BYTES = 1 << 16
PARQUET = "application/vnd.apache.parquet"
PAGE = (
    Parameter("offset", "first row of a table or series as CSV or JSON, from 0", int),
    Parameter("limit", "rows of it, 1 to 1000; all without offset and limit", int),
)
TYPES = {".parquet": PARQUET, ".json": "application/json", ".csv": "text/csv; charset=utf-8"}
"""Content types by the ends of names; of others the bytes are answered."""


class DownloadView(JobsView):
    """The files of runs."""

    calls = {
        "get": Call(
            "downloadRunFile",
            parameters=(*RUN_PATH, Parameter("name", place="path"), *PAGE),
            errors=(400, 404),
            file=PARQUET,
        )
    }

    async def get(self, request: HttpRequest, run_id: str, name: str) -> HttpResponseBase:
        """Answer a file of a finished run; as CSV or JSON its result, or rows of a table."""
        run = await self.run(run_id)
        params = query(request)
        page = window(params) if params.keys() & {"offset", "limit"} else (0, None)
        answer: HttpResponseBase
        kind = TYPES.get(Path(name).suffix, "application/octet-stream")
        is_written = name in [item["name"] for item in run.downloads]
        text = None if is_written or not run.result else tables.text_of(run.result, name, *page)
        if page[1] is not None and (text is None or name == tables.WHOLE):
            raise InvalidField("offset", "only series and tables as CSV or JSON have pages of rows")
        if text is not None:
            answer = HttpResponse(text, content_type=kind)
        else:
            path = await in_thread(services.file_of)(run_id=run_id, name=name)
            answer = StreamingHttpResponse(_pieces(path), content_type=kind)
            answer["Content-Length"] = str(path.stat().st_size)
        answer["Content-Disposition"] = f'attachment; filename="{run_id}-{name}"'
        return answer


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    """Yield a file that is not changed any more. Under ASGI, Django's FileResponse would read the whole file into
    memory."""
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece


class ScriptView(JobsView):
    """The scripts of runs."""

    calls = {"get": Call("downloadRunScript", None, RUN_PATH, errors=(404,), file="text/x-python")}

    async def get(self, request: HttpRequest, run_id: str) -> HttpResponse:
        """Answer the Python script that runs the analysis as the run did; without the addresses of the stores for
        callers who are no superuser."""
        run = await self.run(run_id)
        script = script_of(
            run=run.id,
            analysis=run.analysis,
            title=run.title,
            parameters=run.parameters,
            stores=context_of(run) if await self.is_superuser() else {},
        )
        answer = HttpResponse(script, content_type="text/x-python; charset=utf-8")
        answer["Content-Disposition"] = f'attachment; filename="{run.analysis}-{run_id}.py"'
        return answer


class ComparisonView(JobsView):
    """Two runs of an analysis side by side."""

    calls = {
        "get": Call(
            "compareRuns",
            shapes.ComparisonShape,
            (*RUN_PATH, Parameter("other", "id of the second run", place="path")),
            errors=(404, 422),
        )
    }

    async def get(self, request: HttpRequest, run_id: str, other: str) -> HttpResponse:
        """Answer two finished runs of an analysis with the differences of their parameters and figures."""
        first, second = await self.run(run_id), await self.run(other)
        if first.analysis != second.analysis:
            raise UnusableField("other", f"is a run of {second.analysis}, not of {first.analysis}")
        for run in (first, second):
            if run.result is None:
                raise NotFound(f"run {run.id} has no result to compare")
        return json_answer(
            {
                "runs": [selectors.row(run) for run in (first, second)],
                "parameters": compared_parameters(first.parameters, second.parameters),
                "figures": compared(first.result, second.result),
            }
        )


class RunLogView(JobsView):
    """The log of a run, which may have addresses of the instance and texts of its programs."""

    read_rights = SUPERUSER
    calls = {"get": Call("getRunLog", shapes.RunLog, RUN_PATH, errors=(404,))}

    async def get(self, request: HttpRequest, run_id: str) -> HttpResponse:
        """Answer what the attempts of a run did, and where Spark's own pages are."""
        run = await self.run(run_id)
        url = settings.ENVIRONMENT.spark_pages_url or None
        return json_answer({"lines": services.log_of(run), "spark_url": url})
