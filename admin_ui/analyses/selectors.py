"""Analyses and runs in the shapes of the console API."""

from typing import Any

from django.conf import settings

from admin_ui.analyses.tables import derived_names
from gateway.jobs import services
from gateway.jobs.models import JobRun, RunState, Schedule

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
    names = derived_names(run.result) if with_result else ()
    downloads = [
        {**item, "href": f"/api/v1/runs/{run.id}/downloads/{item['name']}"}
        for item in (*run.downloads, *({"name": name, "bytes": None} for name in names))
    ]
    return {
        "id": run.id,
        "analysis": run.analysis,
        "title": run.title,
        "cluster": _cluster_name(run.cluster),
        "kind": run.kind,
        "target": run.target,
        "also_reads": _also_reads(run),
        "parameters": run.parameters,
        "state": run.state,
        "stage": services.stage_of(run),
        "cancelling": run.cancel_requested and run.state == RunState.RUNNING,
        "progress": {"done": run.done, "total": run.total},
        "attempt": run.attempt,
        "owner": run.created_by,
        "rerun_of": run.rerun_of or None,
        "schedule": run.schedule or None,
        "pinned": run.pinned,
        "output_url": run.output_url or None,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "error": run.error or None,
        "result": run.result if with_result else None,
        "partial": run.partial if with_result else None,
        "downloads": downloads,
    }


def schedule_row(schedule: Schedule, last: JobRun | None) -> Body:
    """Return a schedule with its newest run as JSON."""
    return {
        "id": schedule.id,
        "analysis": schedule.analysis,
        "title": services.title_of(analysis=schedule.analysis, target=schedule.target),
        "cluster": _cluster_name(schedule.cluster),
        "kind": schedule.kind,
        "target": schedule.target,
        "also_reads": _also_reads(schedule),
        "parameters": schedule.parameters,
        "cron": schedule.cron,
        "every_hours": schedule.every_hours,
        "owner": schedule.created_by,
        "created_at": schedule.created_at,
        "next_at": schedule.next_at,
        "last_at": schedule.last_at,
        "last_run": last.id if last else None,
        "last_state": last.state if last else None,
        "error": schedule.error or None,
    }


def _also_reads(reader: JobRun | Schedule) -> list[Body]:
    return [{**read, "cluster": _cluster_name(read["cluster"])} for read in reader.also_reads]
