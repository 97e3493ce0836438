"""Runs of analyses in the console's database, which alone decides the state of a run; Celery and Spark do not."""

import secrets
from typing import Any

from django.db import models


class RunState(models.TextChoices):
    """States of a run: queued, running, then one of the last three, which are final."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


def new_run_id() -> str:
    return secrets.token_hex(8)


class JobRun(models.Model):
    """A run of an analysis. Times are milliseconds since the epoch.

    Rows change only by compare-and-set on (attempt, state), so that a late message of a lost worker changes nothing.
    ``lease_until_ms`` is renewed by the worker while the run is running; the worker is lost when it has expired.
    ``kind``, ``target``: what the analysis reads, by its full name, which is empty for the cluster.
    ``cluster``: name of the cluster, empty for the gateway's default one.
    ``also_reads``: further topics that it reads, each with its ``cluster`` and ``topic``.
    ``rerun_of``: id of the run that it repeats, ``schedule`` of the schedule that started it; empty for none.
    ``work_at``: when its last attempt had Spark and began to work, null before that.
    ``pinned``: it is shown with what it reads, and kept whatever the limits of runs are.
    ``log``: lines of a time, the attempt and what it did.
    ``output_url``: the folder with a copy of its files, empty for none.
    ``partial``: what the last attempt found so far; of a run that succeeded only the ``result`` is kept.
    """

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    analysis = models.CharField(max_length=64)
    title = models.CharField(max_length=200)
    cluster = models.CharField(max_length=255, blank=True, default="")
    kind = models.CharField(max_length=16, default="cluster")
    target = models.CharField(max_length=1024, blank=True, default="", db_index=True)
    also_reads: "models.JSONField[Any, Any]" = models.JSONField(default=list)
    parameters = models.JSONField()
    state = models.CharField(max_length=16, choices=RunState.choices, default=RunState.QUEUED)
    stage = models.CharField(max_length=200, default="waiting for a worker")
    done = models.PositiveBigIntegerField(default=0)
    total = models.PositiveBigIntegerField(default=0)
    attempt = models.PositiveIntegerField(default=1)
    cancel_requested = models.BooleanField(default=False)
    lease_until_ms = models.BigIntegerField(default=0)
    created_at = models.BigIntegerField()
    started_at = models.BigIntegerField(null=True)
    work_at = models.BigIntegerField(null=True)
    finished_at = models.BigIntegerField(null=True)
    created_by = models.CharField(max_length=150, blank=True, default="")
    rerun_of = models.CharField(max_length=16, blank=True, default="")
    schedule = models.CharField(max_length=16, blank=True, default="", db_index=True)
    pinned = models.BooleanField(default=False)
    log = models.TextField(blank=True, default="")
    output_url = models.TextField(blank=True, default="")
    error = models.TextField(blank=True, default="")
    partial: "models.JSONField[Any, Any]" = models.JSONField(null=True)
    result: "models.JSONField[Any, Any]" = models.JSONField(null=True)
    downloads: "models.JSONField[Any, Any]" = models.JSONField(default=list)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=RunState.values), name="run_state_is_known"
            ),
        )
        indexes = (
            models.Index(fields=("state", "lease_until_ms")),
            models.Index(fields=("cluster", "created_at", "id"), name="run_by_creation"),
        )


class Schedule(models.Model):
    """The launch of an analysis at set times. Times are milliseconds since the epoch.

    What it reads is stored as in ``JobRun``, by which its runs start. ``next_at`` changes by compare-and-set, in the
    transaction that creates the run of the time before, so that each time has one run (J7).
    ``cron`` is an expression in UTC; without one it starts every ``every_hours`` since it was created.
    ``error``: why the last time has no run; empty when it has.
    """

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    analysis = models.CharField(max_length=64)
    cluster = models.CharField(max_length=255, blank=True, default="")
    kind = models.CharField(max_length=16)
    target = models.CharField(max_length=1024, blank=True, default="", db_index=True)
    also_reads: "models.JSONField[Any, Any]" = models.JSONField(default=list)
    parameters = models.JSONField()
    cron = models.CharField(max_length=200, blank=True, default="")
    every_hours = models.PositiveIntegerField(null=True)
    created_at = models.BigIntegerField()
    created_by = models.CharField(max_length=150, blank=True, default="")
    next_at = models.BigIntegerField(null=True, db_index=True)
    last_at = models.BigIntegerField(null=True)
    error = models.TextField(blank=True, default="")

    class Meta:
        ordering = ("created_at", "id")
