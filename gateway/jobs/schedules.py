"""Schedules of analyses: each of their times has one run, whatever process starts it (J7).

The gateways and the workers look for due schedules. The process whose compare-and-set of ``next_at`` succeeds creates
the run in the same transaction. The owner's right is checked when the run starts, as that of any run (A23).
"""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from django.db import close_old_connections, transaction
from django.db.models import QuerySet

from engine.base.errors import Conflict, MagnetarError, NotFound, UnusableField
from gateway.jobs import background, cron, services
from gateway.jobs.models import JobRun, Schedule
from gateway.services.clock import now_ms

log = logging.getLogger(__name__)
LOOK_S = 10.0
SCHEDULES_MAX = 1_000


def create(
    *,
    analysis: str,
    parameters: Any,
    expression: str = "",
    every_hours: int | None = None,
    user: str = "",
    cluster: str = "",
    also_reads: Sequence[dict[str, str]] = (),
) -> Schedule:
    """Create a schedule; its first time is the next one. Raises UnusableField, Conflict for too many."""
    if bool(expression) == bool(every_hours):
        raise UnusableField("cron", "either cron or every_hours must be given")
    checked = services.check_parameters(analysis=analysis, parameters=parameters)
    kind, target = services.declared(analysis=analysis).target_of(checked)
    now = now_ms()
    if Schedule.objects.count() >= SCHEDULES_MAX:
        raise Conflict(f"there are {SCHEDULES_MAX} schedules; delete some first")
    return Schedule.objects.create(
        analysis=analysis,
        cluster=cluster,
        kind=kind,
        target=target,
        also_reads=list(also_reads),
        parameters=checked,
        cron=expression,
        every_hours=every_hours,
        created_at=now,
        created_by=user,
        next_at=cron.next_time(
            cron=expression, every_hours=every_hours, first_ms=now, after_ms=now
        ),
    )


def history(*, cluster: str = "") -> QuerySet[Schedule]:
    """Return the schedules of a cluster."""
    return Schedule.objects.filter(cluster=cluster)


def last_runs(ids: Sequence[str]) -> dict[str, JobRun]:
    """Return the newest run of each schedule that has one, without their results."""
    runs = JobRun.objects.defer("result", "partial", "log").filter(schedule__in=ids)
    return {run.schedule: run for run in runs.order_by("created_at", "id")}


def get(*, schedule_id: str) -> Schedule:
    """Return a schedule. Raises NotFound."""
    schedule = Schedule.objects.filter(id=schedule_id).first()
    if schedule is None:
        raise no_schedule(schedule_id)
    return schedule


def no_schedule(schedule_id: str) -> NotFound:
    """Return the error of a schedule that does not exist, or not for the caller."""
    return NotFound(f"there is no schedule {schedule_id!r}")


def delete(*, schedule_id: str) -> None:
    """Delete a schedule; its runs stay."""
    Schedule.objects.filter(id=schedule_id).delete()


def start_due() -> list[str]:
    """Create the runs of schedules whose time has come; return their ids.

    Times that passed while no process looked are one run together.
    """
    started = []
    for schedule in Schedule.objects.filter(next_at__lte=now_ms()):
        try:
            run = _start(schedule)
        except MagnetarError as error:
            # An analysis that is gone, or whose parameters have changed since.
            Schedule.objects.filter(id=schedule.id).update(error=str(error)[:500])
            log.warning("schedule %s could not start a run: %s", schedule.id, error)
            continue
        if run is not None:
            started.append(run.id)
    return started


def _start(schedule: Schedule) -> JobRun | None:
    """Create the run of the schedule's time; None when another process did."""
    now = now_ms()
    following = cron.next_time(
        cron=schedule.cron,
        every_hours=schedule.every_hours,
        first_ms=schedule.created_at,
        after_ms=now,
    )
    taken = Schedule.objects.filter(id=schedule.id, next_at=schedule.next_at)
    changes = {"next_at": following, "last_at": schedule.next_at, "error": ""}
    try:
        with transaction.atomic():
            if not taken.update(**changes):
                return None
            return services.create(
                analysis=schedule.analysis,
                parameters=schedule.parameters,
                user=schedule.created_by,
                cluster=schedule.cluster,
                also_reads=schedule.also_reads,
                schedule=schedule.id,
            )
    except MagnetarError:
        taken.update(**changes)  # the time is over without a run, and is not tried again
        raise


def start_due_for_ever() -> None:
    """Start due schedules, and work of apps that no process works on, in a thread of a gateway: a worker may be started
    by a run alone."""

    def run() -> None:
        pause = threading.Event()
        while not pause.wait(LOOK_S):
            try:
                start_due()
                background.request_unfinished()
            except Exception:
                log.warning("schedules and unfinished work could not be looked up", exc_info=True)
            finally:
                close_old_connections()

    threading.Thread(target=run, name="schedules", daemon=True).start()
