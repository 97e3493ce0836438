"""Analyses and runs in the shapes of the console API."""

from typing import Any

from django.conf import settings

from gateway.jobs import services
from gateway.jobs.models import JobRun, RunState

Body = dict[str, Any]


def analyses() -> list[Body]:
    """Return the analyses that can be launched."""
    fields = ("name", "title", "question", "targets", "parameters")
    return [{name: getattr(analysis, name) for name in fields} for analysis in services.analyses()]


def _cluster_name(stored: str) -> str:
    """Return the name of a cluster as runs store it."""
    name: str = stored or settings.CLUSTERS[0].name
    return name


def row(run: JobRun, *, with_result: bool = True) -> Body:
    """Return a run as JSON; lists have no results."""
    downloads = [
        {**item, "href": f"/api/v1/runs/{run.id}/downloads/{item['name']}"}
        for item in run.downloads
    ]
    return {
        "id": run.id,
        "analysis": run.analysis,
        "title": run.title,
        "cluster": _cluster_name(run.cluster),
        "kind": run.kind,
        "target": run.target,
        "also_reads": [
            {**read, "cluster": _cluster_name(read["cluster"])} for read in run.also_reads
        ],
        "parameters": run.parameters,
        "state": run.state,
        "stage": services.stage_of(run),
        "cancelling": run.cancel_requested and run.state == RunState.RUNNING,
        "progress": {"done": run.done, "total": run.total},
        "attempt": run.attempt,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "error": run.error or None,
        "result": run.result if with_result else None,
        "partial": run.partial if with_result else None,
        "downloads": downloads,
    }
