"""Operations on copies: keyword-only functions without types of HTTP or Celery. All changes are by compare-and-set
(J1)."""

from typing import Any

from django.conf import settings
from django.db import IntegrityError, close_old_connections, connection, transaction
from django.db.models import BigIntegerField, Case, F, Q, QuerySet, Value, When
from django.db.models.functions import Coalesce

from engine.base.errors import Conflict, NotFound
from engine.base.names import TopicName
from gateway.copies.models import CopyJob, CopyMode, CopyState
from gateway.jobs.services import in_background, need_worker, send
from gateway.services.clock import now_ms
from gateway.services.copying.conditions import Conditions
from gateway.services.copying.copier import CopiedCounts, CopyProgress, Task
from gateway.services.copying.plan import CopyPlan
from gateway.services.copying.reading import SourcePlace

EXECUTE = "copies.execute"
LEASE_MS = 15_000
QUEUE_PATIENCE_MS = 60_000
START_LOCK = 0x636F707973746172
"""Key of the lock in which PostgreSQL lets one copy start at a time."""
ATTEMPTS_MAX = 50
"""Attempts of a copy whose workers are lost, after which it fails; a person may resume it."""
WAITING = "waiting for a worker"
UNFINISHED = (CopyState.QUEUED, CopyState.RUNNING)
RESUMABLE = (CopyState.STOPPED, CopyState.FAILED)
KEPT_MAX = 1_000
"""Finished copies that are kept."""


def create(**values: Any) -> CopyJob:
    """Create a queued copy of these columns and send it to the workers. A copy of this id that
    exists is returned as it is: the preview was confirmed before. Raises Conflict as ``_check_alone``."""
    job = CopyJob(
        created_at=now_ms(), place=list(SourcePlace()), counts=CopiedCounts().as_json(), **values
    )
    try:
        with transaction.atomic():
            _one_start_at_a_time()
            job.save(force_insert=True)
            _check_alone(job)
    except IntegrityError:
        return get(job_id=job.id)
    in_background(lambda: enqueue(job))
    old = CopyJob.objects.exclude(state__in=UNFINISHED).values_list("pk", flat=True)[KEPT_MAX:]
    CopyJob.objects.filter(pk__in=list(old)).delete()
    return job


def _one_start_at_a_time() -> None:
    """Wait until no other start of a copy is under way, and hold up others until the end of this transaction.

    On PostgreSQL two of them would not see each other's rows, and both find themselves alone. SQLite has one writer.
    """
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [START_LOCK])


def _check_alone(job: CopyJob) -> None:
    """Raise Conflict for a move while another of the same subscription is not over: both would send its messages; and
    for an undo while the copy, or another undo of it, is not over."""
    if job.mode == CopyMode.UNDO:
        one_of = Q(id=job.undoes) | Q(undoes=job.undoes)
        other = CopyJob.objects.filter(one_of, state__in=UNFINISHED).exclude(id=job.id).first()
        if other is not None:
            raise Conflict(f"Copy {other.id} is {other.state}: stop it first")
    if job.mode != CopyMode.MOVE:
        return
    topic = TopicName.parse(job.source)
    others = CopyJob.objects.filter(
        cluster=job.cluster,
        mode=CopyMode.MOVE,
        subscription=job.subscription,
        state__in=UNFINISHED,
    ).exclude(id=job.id)
    for other in others:
        source = TopicName.parse(other.source)
        if source in (topic, topic.partitioned) or source.partitioned == topic:
            raise Conflict(f"Copy {other.id} moves messages of this subscription: stop it first")


def enqueue(job: CopyJob) -> None:
    """Send a copy to the workers; ``recover`` sends it again when the message is lost."""
    if problem := need_worker():
        queued = CopyJob.objects.filter(id=job.id, attempt=job.attempt, state=CopyState.QUEUED)
        queued.update(stage=f"{WAITING}: {problem}"[:200])
    send(EXECUTE, (job.id, job.attempt))


def get(*, job_id: str) -> CopyJob:
    """Return a copy. Raises NotFound."""
    job = CopyJob.objects.filter(id=job_id).first()
    if job is None:
        raise no_copy(job_id)
    return job


def no_copy(job_id: str) -> NotFound:
    """Return the error of a copy that does not exist, or not for the caller."""
    return NotFound(f"there is no copy {job_id!r}")


def stop(*, job_id: str) -> CopyJob:
    """Stop a queued copy at once, request the worker of a running one to stop; do nothing when it is over."""
    queued = When(state=CopyState.QUEUED, then=Value(CopyState.STOPPED.value))
    CopyJob.objects.filter(id=job_id, state__in=UNFINISHED).update(
        stop_requested=True,
        finished_at=Case(When(state=CopyState.QUEUED, then=Value(now_ms()))),
        state=Case(queued, default=F("state")),
    )
    return get(job_id=job_id)


def resume(*, job_id: str, rate: int | None = None) -> CopyJob:
    """Queue a stopped or failed copy again, where it came to. Raises NotFound, Conflict in other states, for one that
    is undone, and as ``_check_alone``."""
    job = get(job_id=job_id)
    with transaction.atomic():
        _one_start_at_a_time()
        if CopyJob.objects.filter(undoes=job_id).exists():
            raise Conflict("The copy is undone: start another one")
        changed = CopyJob.objects.filter(id=job_id, state__in=RESUMABLE).update(
            state=CopyState.QUEUED,
            attempt=F("attempt") + 1,
            stop_requested=False,
            lease_until_ms=now_ms(),
            finished_at=None,
            error="",
            stage=WAITING,
            rate=job.rate if rate is None else rate,
        )
        if not changed:
            raise Conflict(f"The copy is {job.state}: only a stopped or failed one is resumed")
        _check_alone(job)
    again = get(job_id=job_id)
    in_background(lambda: enqueue(again))
    return again


def task_of(job: CopyJob) -> Task:
    """Return the work of a copy; of an undo that of the copy that is undone, over the targets."""
    return Task(
        TopicName.parse(job.source),
        job.target,
        job.subscription if job.mode == CopyMode.MOVE else "",
        job.rate,
        producer_of(job.undoes or job.id),
        Conditions.of(job.conditions),
        CopyPlan.of(job.plan),
    )


def producer_of(job_id: str) -> str:
    """Return the name of a copy's producers, without the number of the source's part."""
    return f"magnetar-copy-{job_id}-"


def needed_topics(job: CopyJob) -> tuple[list[str], list[str]]:
    """Return the topics that a copy consumes from and those that it produces to."""
    if job.mode == CopyMode.UNDO:
        return sorted(
            {str(TopicName.parse(p["topic"]).partitioned) for p in job.plan["sources"]}
        ), []
    return [job.source], sorted(job.plan["targets"])


def start_worker() -> None:
    """Let the supervisor start a worker if copies are not over, which an earlier process of this instance created."""

    def need() -> None:
        try:
            if CopyJob.objects.filter(state__in=UNFINISHED).exists():
                need_worker()
        finally:
            close_old_connections()

    if settings.ENVIRONMENT.workers_on_demand:
        in_background(need)


# --- called by workers ------------------------------------------------------------------------------------------------


def claim(*, job_id: str, attempt: int) -> CopyJob | None:
    """Claim a queued copy for an attempt; None when it is not queued for it any more."""
    now = now_ms()
    changed = CopyJob.objects.filter(id=job_id, attempt=attempt, state=CopyState.QUEUED).update(
        state=CopyState.RUNNING,
        stage="",
        problem="",
        started_at=Coalesce("started_at", Value(now, output_field=BigIntegerField())),
        lease_until_ms=now + LEASE_MS,
    )
    return CopyJob.objects.filter(id=job_id, attempt=attempt).first() if changed else None


def _held(job: CopyJob) -> QuerySet[CopyJob]:
    """Return the query of the copy's row, empty when it is over or belongs to another attempt."""
    return CopyJob.objects.filter(id=job.id, attempt=job.attempt, state=CopyState.RUNNING)


def beat(*, job: CopyJob) -> bool | None:
    """Renew the lease; return whether a stop was requested, None when the copy is over or belongs to another
    attempt."""
    _held(job).update(lease_until_ms=now_ms() + LEASE_MS)
    return _held(job).values_list("stop_requested", flat=True).first()


def report(*, job: CopyJob, progress: CopyProgress) -> bool:
    """Store how far the copy came; return False when a stop was requested, or it belongs to another attempt."""
    _held(job).update(
        place=list(progress.place),
        counts=progress.counts.as_json(),
        problem=progress.problem[:2_000],
    )
    return _held(job).filter(stop_requested=False).exists()


def finish(*, job: CopyJob, state: CopyState, error: str = "") -> bool:
    """Close a copy; return False, without a change, when it belongs to another attempt or is over."""
    values = {"state": state, "finished_at": now_ms(), "error": error[:2_000], "problem": ""}
    return bool(_held(job).update(**values))


def close_stopped(*, job: CopyJob) -> None:
    """Close a copy whose stop was requested; one that belongs to another attempt, or is over, stays as it is."""
    stopped = _held(job).filter(stop_requested=True)
    stopped.update(state=CopyState.STOPPED, finished_at=now_ms(), problem="")


def recover() -> None:
    """Queue copies again that lost their worker or their message."""
    now = now_ms()
    lost = CopyJob.objects.filter(state=CopyState.RUNNING, lease_until_ms__lt=now)
    for job in lost:
        row = CopyJob.objects.filter(
            id=job.id,
            attempt=job.attempt,
            state=CopyState.RUNNING,
            lease_until_ms=job.lease_until_ms,
        )
        if job.stop_requested:
            row.update(state=CopyState.STOPPED, finished_at=now)
        elif job.attempt >= ATTEMPTS_MAX:
            error = f"the worker was lost {job.attempt} times; see the worker's log"
            row.update(state=CopyState.FAILED, finished_at=now, error=error)
        elif row.update(
            state=CopyState.QUEUED,
            attempt=job.attempt + 1,
            lease_until_ms=now,
            stage="the worker was lost, trying again",
        ):
            enqueue(get(job_id=job.id))
    before = now - QUEUE_PATIENCE_MS
    stale = Q(state=CopyState.QUEUED, created_at__lt=before, lease_until_ms__lt=before)
    for job in CopyJob.objects.filter(stale):
        # A second message is harmless, since a copy is claimed once.
        if CopyJob.objects.filter(stale, id=job.id, attempt=job.attempt).update(lease_until_ms=now):
            enqueue(job)
