"""What can be done with runs: keyword-only functions, free of HTTP and Celery types. Changes: compare-and-set (J1)."""

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
from django.db import transaction
from django.db.models import Case, F, QuerySet, Value, When
from kombu.exceptions import OperationalError

from engine.base.errors import InvalidField, NotFound
from gateway.jobs import outputs
from gateway.jobs.models import JobRun, RunState
from spark_jobs.catalogue import ANALYSES, Analysis

log = logging.getLogger(__name__)
LEASE_MS = 15_000
SILENT_MS = 3_000
"""A worker that holds a run renews its lease every half second; after this long it is said that it does not."""
ATTEMPTS_MAX = 3
QUEUE_PATIENCE_MS = 60_000
WARM_INTERVAL_MS = 600_000
SEND_S = 2.0
"""How long Redis may take to accept a connection, and to answer."""
_sender = ThreadPoolExecutor(1, thread_name_prefix="to-redis")
EXECUTE, WARM = "jobs.execute", "jobs.warm"  # names of the tasks in ``gateway.jobs.tasks``
ERROR_CHARACTERS_MAX = 2_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def check_parameters(*, analysis: str, parameters: Any) -> dict[str, Any]:
    """The parameters with defaults filled in. Raises InvalidField."""
    known = ANALYSES.get(analysis)
    if known is None:
        raise InvalidField(
            "analysis", f"there is no {analysis!r}; there are: {', '.join(ANALYSES)}"
        )
    schema = known.parameters_schema
    problems = sorted(
        jsonschema.Draft202012Validator(schema).iter_errors(parameters), key=lambda e: list(e.path)
    )
    if problems:
        first = problems[0]
        field = ".".join(["parameters", *(str(part) for part in first.path)])
        raise InvalidField(field, first.message)
    defaults = {
        key: value["default"] for key, value in schema["properties"].items() if "default" in value
    }
    return {**defaults, **parameters}


def create(*, analysis: str, parameters: Any, user: str = "") -> JobRun:
    """A queued run, handed to a worker after the transaction; by ``recover`` when Celery's broker is away just then.

    Raises InvalidField.
    """
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
        # not waited for: who asked would ask again, and that would be another run
        transaction.on_commit(
            lambda: in_background(lambda: enqueue(run_id=run.id, attempt=run.attempt))
        )
    return run


def enqueue(*, run_id: str, attempt: int) -> bool:
    """J4. Tell the workers; False when nobody could be told. ``recover`` makes up for that and for a lost message.

    Blocks for at most about SEND_S, also while Redis accepts connections and does not answer.
    """
    return _send(EXECUTE, (run_id, attempt))


def in_background(work: Callable[[], object]) -> None:
    """Have ``work``, which asks Redis, done soon: in the one thread that waits for Redis and for nothing else."""

    def done() -> None:
        try:
            work()
        except Exception:
            log.exception("asking Redis failed")

    _sender.submit(done)


def _send(task: str, arguments: tuple[Any, ...], **options: Any) -> bool:
    from gateway.celery import app  # not at the gateway's start: Celery is slow to load

    # A connection of its own: with time-outs, which the worker's own, that waits for messages, must not have.
    limits = {"socket_timeout": SEND_S, "socket_connect_timeout": SEND_S, "max_retries": 0}
    try:
        with app.connection_for_write(transport_options=limits) as connection:
            app.send_task(
                task, arguments, ignore_result=True, connection=connection, retry=False, **options
            )
    except (OperationalError, OSError) as error:
        log.warning("Celery's broker could not be told of %s%s: %s", task, arguments, error)
        return False
    return True


_warmed_ms = 0
_warming = threading.Lock()


def warm() -> None:
    """Have a worker start Spark and open its session, unless that was asked for a moment ago or is being asked.

    Returns at once; a failure is logged, and the next call asks again.
    """
    if now_ms() - _warmed_ms > WARM_INTERVAL_MS and _warming.acquire(blocking=False):
        in_background(_ask_to_warm)


def _ask_to_warm() -> None:
    global _warmed_ms
    try:
        if _send(WARM, (), expires=60):
            _warmed_ms = now_ms()
    finally:
        _warming.release()


def cancel(*, run_id: str) -> JobRun:
    """Cancel at once what is queued; ask the worker to stop what runs; leave alone what is over. Raises NotFound.

    J3. One statement, so that a run which a worker takes or loses meanwhile does not slip through. It is final: from
    now on the run can only end as cancelled.
    """
    queued = When(state=RunState.QUEUED, then=Value(RunState.CANCELLED.value))
    JobRun.objects.filter(id=run_id, state__in=(RunState.QUEUED, RunState.RUNNING)).update(
        cancel_requested=True,
        finished_at=Case(When(state=RunState.QUEUED, then=Value(now_ms()))),
        state=Case(queued, default=F("state")),
    )
    return get(run_id=run_id)


def get(*, run_id: str) -> JobRun:
    """Raises NotFound."""
    run = JobRun.objects.filter(id=run_id).first()
    if run is None:
        raise NotFound(f"there is no run {run_id!r}")
    return run


def analyses() -> list[Analysis]:
    """The analyses that can be launched."""
    return list(ANALYSES.values())


def file_of(*, run_id: str, name: str) -> Path:
    """A file of a finished run, which nobody changes any more. Raises NotFound."""
    run = get(run_id=run_id)
    if name not in [item["name"] for item in run.downloads]:
        raise NotFound(f"run {run_id} has no file {name!r}")
    path = outputs.file_of(run, name)
    if not path.is_file():
        raise NotFound(f"the file {name!r} of run {run_id} was removed")
    return path


def stage_of(run: JobRun) -> str:
    """Return what a run waits for or does; where it stopped when it is over.

    A running one whose worker has not renewed the lease for SILENT_MS waits for that, whatever it did before: the
    worker may be gone, and the run is then tried again when the lease has lapsed.
    """
    silent_ms = now_ms() - (run.lease_until_ms - LEASE_MS)
    if run.state != RunState.RUNNING or silent_ms < SILENT_MS:
        return run.stage
    then = "the run is tried again" if run.attempt < ATTEMPTS_MAX else "the run fails"
    if run.cancel_requested:
        then = "it ends as cancelled"
    return f"its worker has not answered for {silent_ms // 1000} s; if it stays away, {then}"


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
    # by the attempt: a worker that stood still since may have lost the run to the next one
    return JobRun.objects.filter(id=run_id, attempt=attempt).first() if changed else None


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
) -> RunState | None:
    """Close a run and say how; None when it was no longer this attempt's, and nothing changed.

    A run that was asked to stop ends as cancelled and shows nothing, whatever its attempt came to. What did not
    succeed keeps the stage that it stopped at.
    """
    changes: dict[str, Any] = {
        "state": state,
        "finished_at": now_ms(),
        "error": error[:ERROR_CHARACTERS_MAX],
        "result": result,
        "downloads": list(downloads),
    }
    if state is RunState.SUCCEEDED:
        changes |= {"stage": state.value, "done": F("total")}
    if _mine(run).filter(cancel_requested=False).update(**changes):
        return state
    return RunState.CANCELLED if close_cancelled(run=run) else None


def close_cancelled(*, run: JobRun) -> bool:
    """Close a run that was asked to stop; False when it was not, or is over, or another attempt's."""
    return bool(_mine(run).filter(cancel_requested=True).update(**_as_cancelled()))


def _as_cancelled() -> dict[str, Any]:
    return {"state": RunState.CANCELLED, "finished_at": now_ms()}


def recover() -> list[str]:
    """Queue again what lost its worker or its message; the ids of the runs that changed.

    Any number of workers may do so at once: of each run only what was read is changed, so one of them has it. A run
    is tried at most ATTEMPTS_MAX times.
    """
    now = now_ms()
    lost = JobRun.objects.filter(state=RunState.RUNNING, lease_until_ms__lt=now)
    touched = [run.id for run in lost if _worker_lost(run)]
    stale = JobRun.objects.filter(
        state=RunState.QUEUED,
        created_at__lt=now - QUEUE_PATIENCE_MS,
        lease_until_ms__lt=now - QUEUE_PATIENCE_MS,
    )
    for run in stale:
        # the message may be lost or the worker busy: telling it twice is harmless, a run is claimed once
        if not _as_read(run).update(lease_until_ms=now):
            continue
        touched.append(run.id)
        if not enqueue(run_id=run.id, attempt=run.attempt):
            break  # nor could it be told of the others
    return touched


def _as_read(run: JobRun) -> QuerySet[JobRun]:
    """The run if it still stands as ``run`` was read: a claim, a heartbeat, a cancellation, another's recovery show."""
    return JobRun.objects.filter(
        id=run.id,
        attempt=run.attempt,
        state=run.state,
        lease_until_ms=run.lease_until_ms,
        cancel_requested=run.cancel_requested,
    )


def _worker_lost(run: JobRun) -> bool:
    if run.cancel_requested:
        return bool(_as_read(run).update(**_as_cancelled()))
    if run.attempt >= ATTEMPTS_MAX:
        error = f"the worker was lost {run.attempt} times; see the worker's log"
        failed = {"state": RunState.FAILED, "finished_at": now_ms()}
        return bool(_as_read(run).update(**failed, error=error))
    queued = _as_read(run).update(
        state=RunState.QUEUED,
        attempt=run.attempt + 1,
        lease_until_ms=now_ms(),  # patience with the new message begins here
        stage="the worker was lost, trying again",
    )
    if queued:
        enqueue(run_id=run.id, attempt=run.attempt + 1)
    return bool(queued)
