"""What can be done with runs: keyword-only functions, free of HTTP and Celery types. Changes are compare-and-set."""

import shutil
import time
from pathlib import Path
from typing import Any

import jsonschema
from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet

from gateway.jobs.models import JobRun, RunState
from spark_jobs.catalogue import ANALYSES

LEASE_MS = 15_000
ATTEMPTS_MAX = 3
QUEUE_PATIENCE_MS = 60_000
WARM_INTERVAL_MS = 600_000
ERROR_CHARACTERS_MAX = 2_000


class RunError(Exception):
    """A request about a run was refused; ``field`` names the parameter at fault, if one is."""

    def __init__(self, reason: str, *, field: str | None = None, status: int = 400) -> None:
        super().__init__(reason)
        self.reason = reason
        self.field = field
        self.status = status


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def output_dir(run_id: str) -> Path:
    """Where a finished run's files are."""
    return Path(settings.ENVIRONMENT.data_dir) / "runs" / run_id


def check_parameters(*, analysis: str, parameters: Any) -> dict[str, Any]:
    """The parameters with defaults filled in. Raises RunError naming the field."""
    known = ANALYSES.get(analysis)
    if known is None:
        raise RunError(
            f"there is no analysis {analysis!r}; there are: {', '.join(ANALYSES)}", field="analysis"
        )
    schema = known.parameters_schema
    problems = sorted(
        jsonschema.Draft202012Validator(schema).iter_errors(parameters), key=lambda e: list(e.path)
    )
    if problems:
        first = problems[0]
        field = ".".join(["parameters", *(str(part) for part in first.path)])
        raise RunError(f"{field}: {first.message}", field=field)
    defaults = {
        key: value["default"] for key, value in schema["properties"].items() if "default" in value
    }
    return {**defaults, **parameters}


def create(*, analysis: str, parameters: Any, user: str = "") -> JobRun:
    """A queued run, handed to the worker after the transaction. Raises RunError."""
    checked = check_parameters(analysis=analysis, parameters=parameters)
    topic = str(checked.get("topic", ""))
    title = ANALYSES[analysis].title + (f" of {topic}" if topic else "")
    run = JobRun(
        analysis=analysis,
        title=title[:200],
        topic=topic,
        parameters=checked,
        created_at=now_ms(),
        created_by=user,
    )
    with transaction.atomic():
        run.save(force_insert=True)
        transaction.on_commit(lambda: enqueue(run_id=run.id, attempt=run.attempt))
    return run


def enqueue(*, run_id: str, attempt: int) -> None:
    """Tell the workers. A lost message is made up for by ``recover``."""
    from gateway.jobs.tasks import execute

    execute.apply_async((run_id, attempt), ignore_result=True)


_warmed_ms = 0


def warm() -> None:
    """Have a worker start Spark and open its session, unless that was asked for a moment ago. Waits for Redis."""
    global _warmed_ms
    if now_ms() - _warmed_ms > WARM_INTERVAL_MS:
        _warmed_ms = now_ms()
        from gateway.jobs.tasks import warm as task

        task.apply_async(ignore_result=True, expires=60)


def cancel(*, run_id: str) -> JobRun:
    """Cancel at once what is queued; ask the worker to stop what runs; leave alone what is over. Raises RunError."""
    changed = JobRun.objects.filter(id=run_id, state=RunState.QUEUED).update(
        state=RunState.CANCELLED, stage="cancelled before it began", finished_at=now_ms()
    )
    if not changed:
        JobRun.objects.filter(id=run_id, state=RunState.RUNNING).update(
            cancel_requested=True, stage="cancelling"
        )
    return get(run_id=run_id)


def get(*, run_id: str) -> JobRun:
    """Raises RunError with status 404."""
    run = JobRun.objects.filter(id=run_id).first()
    if run is None:
        raise RunError(f"there is no run {run_id!r}", status=404)
    return run


def history(*, topic: str = "", analysis: str = "") -> QuerySet[JobRun]:
    """Newest first, without the results."""
    runs = JobRun.objects.defer("result")
    if topic:
        runs = runs.filter(topic=topic)
    if analysis:
        runs = runs.filter(analysis=analysis)
    return runs


# -- the worker's side


def claim(*, run_id: str, attempt: int) -> JobRun | None:
    """Take a queued run; None when it is no longer this attempt's to take."""
    changed = JobRun.objects.filter(id=run_id, attempt=attempt, state=RunState.QUEUED).update(
        state=RunState.RUNNING,
        stage="starting",
        started_at=now_ms(),
        lease_until_ms=now_ms() + LEASE_MS,
    )
    return JobRun.objects.get(id=run_id) if changed else None


def _mine(run: JobRun) -> QuerySet[JobRun]:
    return JobRun.objects.filter(id=run.id, attempt=run.attempt, state=RunState.RUNNING)


def beat(*, run: JobRun) -> bool:
    """Renew the lease; False when the run was cancelled or taken over, and the work should stop."""
    _mine(run).update(lease_until_ms=now_ms() + LEASE_MS)
    return _mine(run).filter(cancel_requested=False).exists()


def report(*, run: JobRun, stage: str, done: int, total: int) -> None:
    """Progress; ``done / total`` never goes back, whatever order reports arrive in."""
    mine = _mine(run).filter(cancel_requested=False)
    mine.filter(done__lte=done).update(done=done, total=max(done, total))
    mine.update(stage=stage)


def finish(
    *, run: JobRun, state: RunState, error: str = "", result: Any = None, downloads: Any = ()
) -> bool:
    """Close a run; False when it was no longer this attempt's, and nothing changed."""
    changes: dict[str, Any] = {
        "state": state,
        "stage": state.value,
        "finished_at": now_ms(),
        "error": error[:ERROR_CHARACTERS_MAX],
        "result": result,
        "downloads": list(downloads),
    }
    if state is RunState.SUCCEEDED:
        changes["done"] = F("total")
    return bool(_mine(run).update(**changes))


def publish_outputs(*, run: JobRun, staged: Path) -> list[dict[str, Any]]:
    """Move a finished attempt's files into place in one rename; their names and sizes."""
    final = output_dir(run.id)
    final.parent.mkdir(parents=True, exist_ok=True)
    if final.exists():
        shutil.rmtree(final)
    staged.rename(final)
    return [{"name": path.name, "bytes": path.stat().st_size} for path in sorted(final.iterdir())]


def recover() -> list[str]:
    """Queue again what lost its worker or its message; the ids. A run is tried at most ATTEMPTS_MAX times."""
    touched = []
    now = now_ms()
    for run in JobRun.objects.filter(state=RunState.RUNNING, lease_until_ms__lt=now):
        mine = _mine(run).filter(lease_until_ms__lt=now)
        if run.cancel_requested:
            mine.update(state=RunState.CANCELLED, stage="cancelled", finished_at=now)
        elif run.attempt >= ATTEMPTS_MAX:
            error = f"the worker was lost {run.attempt} times; see the worker's log"
            mine.update(state=RunState.FAILED, stage="failed", finished_at=now, error=error)
        elif mine.update(
            state=RunState.QUEUED,
            attempt=run.attempt + 1,
            stage="the worker was lost, trying again",
        ):
            enqueue(run_id=run.id, attempt=run.attempt + 1)
        touched.append(run.id)
    stale = JobRun.objects.filter(state=RunState.QUEUED, created_at__lt=now - QUEUE_PATIENCE_MS)
    for run in stale.filter(lease_until_ms__lt=now - QUEUE_PATIENCE_MS):
        # the message may be lost or the worker busy: telling it twice is harmless, a run is claimed once
        JobRun.objects.filter(id=run.id, attempt=run.attempt).update(lease_until_ms=now)
        enqueue(run_id=run.id, attempt=run.attempt)
        touched.append(run.id)
    return touched
