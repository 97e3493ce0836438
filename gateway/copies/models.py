"""Copies of messages in the console's database, which alone decides their states."""

from typing import Any

from django.db import models

from gateway.jobs.models import new_run_id


class CopyState(models.TextChoices):
    """States of a copy. Stopped and failed ones can be resumed."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPED = "stopped"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class CopyMode(models.TextChoices):
    """Kinds of work: messages are copied to a topic, moved there from a subscription, or a copy is taken back."""

    COPY = "copy"
    MOVE = "move"
    UNDO = "undo"


class CopyJob(models.Model):
    """A copy. Times are milliseconds since the epoch.

    Rows change only by compare-and-set on (attempt, state), so that a late message of a lost worker changes nothing.
    ``cluster``: as in ``JobRun``. ``target``: full name, empty for the origin of each dead letter. ``subscription``: of
    the source, from which messages are moved. ``conditions``, ``plan``: as of the confirmed preview. ``place`` and
    ``counts``: how far it came. ``problem``: the failure that it waits for. ``undoes``: id of the copy that is undone.
    """

    id = models.CharField(primary_key=True, max_length=16, default=new_run_id, editable=False)
    cluster = models.CharField(max_length=255, blank=True, default="")
    mode = models.CharField(max_length=8, choices=CopyMode.choices)
    source = models.CharField(max_length=1024, db_index=True)
    target = models.CharField(max_length=1024, blank=True, default="")
    subscription = models.CharField(max_length=1024, blank=True, default="")
    conditions: "models.JSONField[Any, Any]" = models.JSONField(default=dict)
    rate = models.PositiveIntegerField()
    plan: "models.JSONField[Any, Any]" = models.JSONField()
    state = models.CharField(max_length=16, choices=CopyState.choices, default=CopyState.QUEUED)
    stage = models.CharField(max_length=200, blank=True, default="waiting for a worker")
    problem = models.TextField(blank=True, default="")
    place: "models.JSONField[Any, Any]" = models.JSONField(default=list)
    counts: "models.JSONField[Any, Any]" = models.JSONField(default=dict)
    attempt = models.PositiveIntegerField(default=1)
    stop_requested = models.BooleanField(default=False)
    lease_until_ms = models.BigIntegerField(default=0)
    created_at = models.BigIntegerField()
    created_by = models.CharField(max_length=150, blank=True, default="")
    started_at = models.BigIntegerField(null=True)
    finished_at = models.BigIntegerField(null=True)
    error = models.TextField(blank=True, default="")
    undoes = models.CharField(max_length=16, blank=True, default="", db_index=True)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=CopyState.values), name="copy_state_is_known"
            ),
        )
        indexes = (models.Index(fields=("state", "lease_until_ms")),)
