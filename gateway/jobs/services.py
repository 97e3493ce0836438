"""Operations on runs: keyword-only functions without types of HTTP or Celery.

All changes are made by compare-and-set (J1).
"""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import close_old_connections, transaction
from django.db.models import Case, F, QuerySet, Value, When
from django.db.models.functions import Concat, Length

from engine.base.errors import NotFound, UnusableField
from engine.base.settings import command
from gateway.jobs import installation, outputs
from gateway.jobs.models import JobRun, RunState
from gateway.services.clock import now_ms
from spark_jobs.analysis import Analysis
from spark_jobs.catalogue import ANALYSES

log = logging.getLogger(__name__)
LEASE_MS = 15_000
SILENT_MS = 3_000
"""Age of a lease, which a worker renews every half second, from which on the run is shown as without an answer."""
ATTEMPTS_MAX = 2
QUEUE_PATIENCE_MS = 60_000
WARM_INTERVAL_MS = 600_000
SEND_S = 2.0
"""Time within which Redis must accept a connection, and answer."""
WORKER_START_S = 60.0
"""Time within which the supervisor must answer a request to start a worker."""
_sender = ThreadPoolExecutor(1, thread_name_prefix="to-redis")
EXECUTE, WARM = "jobs.execute", "jobs.warm"  # Names of the tasks in ``gateway.jobs.tasks``.
ERROR_CHARACTERS_MAX = 2_000
LOG_CHARACTERS_MAX = 100_000
WAITING = "waiting for a worker"
"""Stage of a queued run. The reason is added when the supervisor does not start a worker."""
STAGE_CHARACTERS_MAX = 200


def declared(*, analysis: str) -> Analysis:
    """Return the declaration of an analysis. Raises UnusableField."""
    known = ANALYSES.get(analysis)
    if known is None:
        raise UnusableField(
            "analysis", f"there is no {analysis!r}; there are: {', '.join(ANALYSES)}"
        )
    return known


def check_parameters(*, analysis: str, parameters: Any) -> dict[str, Any]:
    """Return the parameters with defaults filled in. Raises UnusableField naming the first wrong one."""
    import jsonschema  # Not at the gateway's start, of which it takes a tenth.

    known = declared(analysis=analysis)
    schema = known.parameters
    problems = sorted(
        jsonschema.Draft202012Validator(schema).iter_errors(parameters), key=lambda e: list(e.path)
    )
    if problems:
        first = problems[0]
        path = ["parameters", *(str(part) for part in first.path)]
        if first.validator == "required":
            path.append(next(name for name in first.validator_value if name not in first.instance))
        raise UnusableField(".".join(path), first.message)
    known.check_packages(parameters)
    defaults = {
        key: value["default"] for key, value in schema["properties"].items() if "default" in value
    }
    return {**defaults, **parameters}


def title_of(*, analysis: str, target: str) -> str:
    """Return the title of runs of an analysis, which may be gone."""
    known = ANALYSES.get(analysis)
    title = (known.title if known else analysis) + (f" of {target}" if target else "")
    return title[:200]


def create(
    *,
    analysis: str,
    parameters: Any,
    user: str = "",
    cluster: str = "",
    also_reads: Sequence[dict[str, str]] = (),
    rerun_of: str = "",
    schedule: str = "",
) -> JobRun:
    """Create a queued run and send it to the workers after the transaction. Names of clusters as in ``JobRun``, and
    ``rerun_of`` and ``schedule``.

    ``recover`` sends it again if Celery's broker is unavailable then.

    Raises UnusableField.
    """
    checked = check_parameters(analysis=analysis, parameters=parameters)
    known = declared(analysis=analysis)
    kind, target = known.target_of(checked)
    run = JobRun(
        analysis=analysis,
        title=title_of(analysis=analysis, target=target),
        cluster=cluster,
        kind=kind,
        target=target,
        also_reads=list(also_reads),
        parameters=checked,
        created_at=now_ms(),
        created_by=user,
        rerun_of=rerun_of,
        schedule=schedule,
    )
    with transaction.atomic():
        run.save(force_insert=True)
        # The caller does not wait for Redis: after a time-out it would send the request again and create another run.
        transaction.on_commit(
            lambda: in_background(lambda: enqueue(run_id=run.id, attempt=run.attempt))
        )
    return run


def enqueue(*, run_id: str, attempt: int) -> bool:
    """Send a run to the workers; return False when the message could not be sent.

    ``recover`` sends the run again after that and after a lost message (J4). Blocks for at most about SEND_S, also
    while Redis accepts connections and does not answer.
    """
    # Celery is slow to import, and a worker to start.
    threading.Thread(target=_import_celery, daemon=True).start()
    if problem := need_worker():
        name = "redis" if problem.startswith("redis") else "worker"
        remedy = f"; start it with: {command()} start {name}"
        reason = f"{WAITING}: {problem}"[: STAGE_CHARACTERS_MAX - len(remedy)]
        queued = JobRun.objects.filter(id=run_id, attempt=attempt, state=RunState.QUEUED)
        queued.update(stage=reason + remedy)
    return send(EXECUTE, (run_id, attempt))


def send_work(task: str, arguments: tuple[Any, ...]) -> bool:
    """Send a task to the workers, one of which the supervisor starts if there is none; return False when it could not
    be sent. Blocks as ``enqueue``."""
    need_worker()
    return send(task, arguments)


def in_background(work: Callable[[], object]) -> None:
    """Run ``work``, which waits for Redis, in the single thread reserved for it; return at once."""

    def run() -> None:
        try:
            work()
        except Exception:
            log.exception("a request to Redis failed")

    _sender.submit(run)


def _import_celery() -> None:
    if find_spec("celery"):
        import gateway.jobs.sending  # noqa: F401


def send(task: str, arguments: tuple[Any, ...], **options: Any) -> bool:
    # Not at the gateway's start, since Celery is slow to import; an installed gateway may be without.
    if find_spec("celery") is None:
        log.warning("%s%s could not be sent: Celery is not installed", task, arguments)
        return False
    from gateway.jobs.sending import send

    return send(task, arguments, SEND_S, **options)


def need_worker() -> str:
    """Let the supervisor start Redis and a worker if they start with the first analysis.

    Return the problem when it does not, else an empty text: the message cannot be sent then, or waits in Redis.
    """
    environment = settings.ENVIRONMENT
    if not environment.workers_on_demand or not environment.control_socket:
        return ""
    from gateway.standalone.control import STOPPING, NotRunningError, send_request

    try:
        answer = send_request(Path(environment.control_socket), "need", "worker", WORKER_START_S)
    except NotRunningError as error:
        answer = {"error": str(error)}
    problem = str(answer.get("error", ""))
    if problem:
        # Nothing is wrong where the user stops the instance meanwhile.
        level = logging.INFO if problem == STOPPING else logging.WARNING
        log.log(level, "the supervisor did not start a worker: %s", problem)
    return problem


def resume() -> None:
    """Let the supervisor start a worker if runs are not over, which an earlier process of this instance created. The
    worker queues them again. Returns at once."""

    def need() -> None:
        try:
            unfinished = JobRun.objects.filter(state__in=(RunState.QUEUED, RunState.RUNNING))
            if unfinished.exists():
                need_worker()
        finally:
            close_old_connections()

    if settings.ENVIRONMENT.workers_on_demand:
        in_background(need)


class Warming:
    """Requests that a worker start Spark: a part of the process's clusters, which it has once for all of them."""

    def __init__(self, clusters: object) -> None:
        self._sent_ms = 0
        """Time when the last request was sent."""
        self._sending = threading.Lock()

    def begin(self) -> None:
        """Do so at the gateway's start where the settings say so."""
        if settings.ENVIRONMENT.spark_at_start:
            self.request()

    def request(self) -> None:
        """Request a worker to start Spark and open its session, at most once in WARM_INTERVAL_MS.

        Returns at once; a failure is logged, and the next call sends the request again.
        """
        if now_ms() - self._sent_ms > WARM_INTERVAL_MS and self._sending.acquire(blocking=False):
            in_background(self._send)

    def _send(self) -> None:
        try:
            if installation.is_missing():
                return
            if not need_worker() and send(WARM, (), expires=60):
                self._sent_ms = now_ms()
        finally:
            self._sending.release()


def cancel(*, run_id: str) -> JobRun:
    """Cancel a queued run at once, request the worker of a running one to stop; do nothing when it is over.

    The cancellation is final: the run can only end as cancelled (J3). It is a single statement, so that a run which a
    worker claims or loses meanwhile is cancelled too. Raises NotFound.
    """
    queued = When(state=RunState.QUEUED, then=Value(RunState.CANCELLED.value))
    JobRun.objects.filter(id=run_id, state__in=(RunState.QUEUED, RunState.RUNNING)).update(
        cancel_requested=True,
        finished_at=Case(When(state=RunState.QUEUED, then=Value(now_ms()))),
        state=Case(queued, default=F("state")),
    )
    return get(run_id=run_id)


def get(*, run_id: str) -> JobRun:
    """Return a run. Raises NotFound."""
    run = JobRun.objects.filter(id=run_id).first()
    if run is None:
        raise no_run(run_id)
    return run


def no_run(run_id: str) -> NotFound:
    """Return the error of a run that does not exist, or not for the caller."""
    return NotFound(f"there is no run {run_id!r}")


def analyses() -> list[Analysis]:
    """Return the analyses that can be started."""
    return list(ANALYSES.values())


def pin(*, run_id: str, pinned: bool) -> JobRun:
    """Pin a run to what it reads, or no longer. Raises NotFound."""
    JobRun.objects.filter(id=run_id).update(pinned=pinned)
    return get(run_id=run_id)


def file_of(*, run_id: str, name: str) -> Path:
    """Return the path of a file of a finished run; the file does not change any more. Raises NotFound."""
    run = get(run_id=run_id)
    if name not in [item["name"] for item in run.downloads]:
        raise NotFound(f"run {run_id} has no file {name!r}")
    path = outputs.file_of(run, name)
    if not path.is_file():
        raise NotFound(f"the file {name!r} of run {run_id} was removed")
    return path


def stage_of(run: JobRun) -> str:
    """Return what a run does or waits for; the stage that it stopped at when it is over.

    A running one whose worker has not renewed the lease for SILENT_MS is shown as waiting for the worker: it may be
    lost, and the run is then tried again when the lease has expired.
    """
    silent_ms = now_ms() - (run.lease_until_ms - LEASE_MS)
    if run.state != RunState.RUNNING or silent_ms < SILENT_MS:
        return run.stage
    then = "the run is tried again" if run.attempt < ATTEMPTS_MAX else "the run fails"
    if run.cancel_requested:
        then = "it ends as cancelled"
    return f"its worker has not answered for {silent_ms // 1000} s; if it does not return, {then}"


def history(
    *,
    cluster: str = "",
    target: str = "",
    analysis: str = "",
    state: str = "",
    pinned: bool = False,
) -> QuerySet[JobRun]:
    """Return runs of a cluster, newest first, without their results; with ``pinned`` those alone."""
    runs = JobRun.objects.defer("result", "partial", "log").filter(cluster=cluster)
    if target:
        runs = runs.filter(target=target)
    if analysis:
        runs = runs.filter(analysis=analysis)
    if state:
        runs = runs.filter(state=state)
    if pinned:
        runs = runs.filter(pinned=True)
    return runs


# --- called by workers ------------------------------------------------------------------------------------------------


def claim(*, run_id: str, attempt: int) -> JobRun | None:
    """Claim a queued run for an attempt; None when the run is not queued for it any more."""
    changed = JobRun.objects.filter(id=run_id, attempt=attempt, state=RunState.QUEUED).update(
        state=RunState.RUNNING,
        stage="starting",
        started_at=now_ms(),
        work_at=None,
        lease_until_ms=now_ms() + LEASE_MS,
        partial=None,
    )
    # Read by the attempt: a worker that was stopped since the update may have lost the run to the next attempt.
    return JobRun.objects.filter(id=run_id, attempt=attempt).first() if changed else None


def _held(run: JobRun) -> QuerySet[JobRun]:
    """Return the query of the run's row, empty when the run is over or belongs to another attempt."""
    return JobRun.objects.filter(id=run.id, attempt=run.attempt, state=RunState.RUNNING)


def beat(*, run: JobRun) -> bool:
    """Renew the lease; return False when the run was cancelled or taken over, so that the work should stop."""
    _held(run).update(lease_until_ms=now_ms() + LEASE_MS)
    return _held(run).filter(cancel_requested=False).exists()


def report(*, run: JobRun, stage: str, done: int, total: int) -> None:
    """Store progress. ``done`` never decreases, in whatever order reports arrive."""
    held = _held(run).filter(cancel_requested=False)
    held.filter(done__lte=done).update(done=done, total=max(done, total))
    held.update(stage=stage)


def begin_work(*, run: JobRun) -> None:
    """Store that the attempt has Spark and works from now on."""
    _held(run).update(work_at=now_ms())


def note(*, run: JobRun, text: str) -> None:
    """Add a line to the run's log, which has at most LOG_CHARACTERS_MAX."""
    line = f"{now_ms()} {run.attempt} {text.strip()}"[:ERROR_CHARACTERS_MAX].replace("\n", "\\n")
    rows = JobRun.objects.annotate(size=Length("log")).filter(id=run.id)
    rows.filter(size__lt=LOG_CHARACTERS_MAX).update(log=Concat("log", Value(line + "\n")))


def log_of(run: JobRun) -> list[dict[str, Any]]:
    """Return the lines of a run's log: time, attempt and text."""
    lines = (line.split(" ", 2) for line in run.log.split("\n") if line)
    return [
        {"at": int(at), "attempt": int(attempt), "text": text.replace("\\n", "\n")}
        for at, attempt, text in lines
    ]


def report_partial(*, run: JobRun, result: Mapping[str, Any]) -> None:
    """Store what the attempt found so far."""
    _held(run).filter(cancel_requested=False).update(partial=dict(result))


def finish(
    *,
    run: JobRun,
    state: RunState,
    error: str = "",
    result: Any = None,
    downloads: Any = (),
    output_url: str = "",
) -> RunState | None:
    """Close a run and return its final state; None, without a change, when it belongs to another attempt or is over.

    A run whose cancellation was requested ends as cancelled, without error or result. A run that did not succeed keeps
    the stage that it stopped at.
    """
    changes: dict[str, Any] = {
        "state": state,
        "finished_at": now_ms(),
        "error": error[:ERROR_CHARACTERS_MAX],
        "result": result,
        "downloads": list(downloads),
        "output_url": output_url,
    }
    if state is RunState.SUCCEEDED:
        changes |= {"stage": state.value, "done": F("total"), "partial": None}
    if _held(run).filter(cancel_requested=False).update(**changes):
        return state
    return RunState.CANCELLED if close_cancelled(run=run) else None


def close_cancelled(*, run: JobRun) -> bool:
    """Close a run whose cancellation was requested; return whether it was closed.

    It is not when no cancellation was requested, when it is over, or when it belongs to another attempt.
    """
    return bool(_held(run).filter(cancel_requested=True).update(**_cancelled()))


def _cancelled() -> dict[str, Any]:
    return {"state": RunState.CANCELLED, "finished_at": now_ms()}


def recover() -> list[str]:
    """Queue runs again that lost their worker or their message; return the ids of the changed runs.

    Several workers may do so at once: a run is changed only if it is as it was read, so one of them changes it. A run
    is tried at most ATTEMPTS_MAX times.
    """
    now = now_ms()
    # A worker runs: this is called by workers only.
    waiting = JobRun.objects.filter(state=RunState.QUEUED, stage__startswith=f"{WAITING}: ")
    waiting.update(stage=WAITING)
    lost = JobRun.objects.filter(state=RunState.RUNNING, lease_until_ms__lt=now)
    changed = [run.id for run in lost if _worker_lost(run)]
    stale = JobRun.objects.filter(
        state=RunState.QUEUED,
        created_at__lt=now - QUEUE_PATIENCE_MS,
        lease_until_ms__lt=now - QUEUE_PATIENCE_MS,
    )
    for run in stale:
        # The message may be lost or the workers busy. A second message is harmless, since a run is claimed once.
        if not _as_read(run).update(lease_until_ms=now):
            continue
        changed.append(run.id)
        if not enqueue(run_id=run.id, attempt=run.attempt):
            break  # The broker is unavailable, so the other messages could not be sent either.
    return changed


def retry(*, run: JobRun, reason: str) -> bool:
    """Queue a run again whose attempt failed without a fault of its own; return whether it is queued.

    It is not after ATTEMPTS_MAX attempts, when its cancellation was requested, or when another attempt has it.
    """
    held = _held(run).filter(cancel_requested=False, attempt__lt=ATTEMPTS_MAX)
    return _queue_again(run, held, f"{reason}, trying again")


def _queue_again(run: JobRun, row: QuerySet[JobRun], stage: str) -> bool:
    """Queue the run for its next attempt if ``row`` still has it; return whether it had."""
    queued = row.update(
        state=RunState.QUEUED,
        attempt=run.attempt + 1,
        # The new message may wait in the queue for QUEUE_PATIENCE_MS from now.
        lease_until_ms=now_ms(),
        stage=stage,
    )
    if queued:
        enqueue(run_id=run.id, attempt=run.attempt + 1)
    return bool(queued)


def _as_read(run: JobRun) -> QuerySet[JobRun]:
    """Return the query of the run's row, empty when the row has changed since it was read.

    A claim, a heartbeat, a cancellation and the recovery by another worker change it.
    """
    return JobRun.objects.filter(
        id=run.id,
        attempt=run.attempt,
        state=run.state,
        lease_until_ms=run.lease_until_ms,
        cancel_requested=run.cancel_requested,
    )


def _worker_lost(run: JobRun) -> bool:
    """Queue a run again whose lease has expired, or close it; return whether its row was changed."""
    if run.cancel_requested:
        return bool(_as_read(run).update(**_cancelled()))
    if run.attempt >= ATTEMPTS_MAX:
        error = f"the worker was lost {run.attempt} times; see the worker's log"
        failed = {"state": RunState.FAILED, "finished_at": now_ms()}
        return bool(_as_read(run).update(**failed, error=error))
    return _queue_again(run, _as_read(run), "the worker was lost, trying again")
