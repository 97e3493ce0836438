"""The console's own records. Metadata of the messaging system is in the metadata store alone."""

from typing import Any

from django.db import models


class AuditEntry(models.Model):
    """One attempted change. It is written before the change, without a status, and completed before the answer is sent.
    An entry without a status is a change whose outcome is not known."""

    at_ms = models.BigIntegerField(help_text="milliseconds since the epoch, when the call arrived")
    actor = models.CharField(max_length=255, help_text="user name, or 'anonymous'")
    address = models.CharField(max_length=64, help_text="where the call came from")
    method = models.CharField(max_length=8)
    target = models.CharField(max_length=4096, help_text="path and query as they were sent")
    status = models.PositiveSmallIntegerField(null=True, help_text="HTTP status of the answer")
    request_id = models.CharField(
        max_length=64, default="", help_text="the caller's X-Request-Id or one of ours; answered"
    )
    given = models.TextField(default="", help_text="the JSON body, without secrets; long ones cut")
    changes = models.TextField(
        default="", help_text="JSON list of what was changed, each with before and after"
    )

    role = models.CharField(
        max_length=255, default="", help_text="role that the call was made for; empty: none"
    )
    operation = models.CharField(
        max_length=255, default="", help_text="id of the console's call, or method and path of REST"
    )
    cluster = models.CharField(max_length=255, default="")
    tenant = models.CharField(max_length=255, default="", help_text="that the call is about")
    namespace = models.CharField(max_length=512, default="", help_text="full name, as the tenant")
    topic = models.CharField(
        max_length=512, default="", help_text="full name, of a partition its topic's; long ones cut"
    )

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["at_ms"], name="audit_at"),
            # A list is ordered by id: each of these has the rows of one value in that order.
            models.Index(fields=["actor", "id"], name="audit_actor"),
            models.Index(fields=["role", "id"], name="audit_role"),
            models.Index(fields=["operation", "id"], name="audit_operation"),
            models.Index(fields=["status", "id"], name="audit_status"),
            models.Index(fields=["tenant", "id"], name="audit_tenant"),
            models.Index(fields=["namespace", "id"], name="audit_namespace"),
            models.Index(fields=["topic", "id"], name="audit_topic"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.method} {self.target} → {self.status}"


class AuditLink(models.Model):
    """One link of the chain of hashes over the audit log (``admin_ui.audit.chain``)."""

    seq = models.BigIntegerField(primary_key=True)
    kind = models.PositiveSmallIntegerField()
    entry_id = models.BigIntegerField()
    digest = models.CharField(max_length=64)

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest}"


class AuditHead(models.Model):
    """The last link of the chain, and the link and entry behind which it begins; one row."""

    id = models.PositiveSmallIntegerField(primary_key=True)
    seq = models.BigIntegerField(default=0)
    digest = models.CharField(max_length=64, default="")
    base_seq = models.BigIntegerField(default=0)
    base_digest = models.CharField(max_length=64, default="")
    removed_id = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.seq}:{self.digest}"


class SavedView(models.Model):
    """A list's search parameters under a name, to open again or to share."""

    owner = models.CharField(max_length=255)
    name = models.CharField(max_length=120)
    resource = models.CharField(max_length=32, help_text="which list: topics, runs, audit")
    query = models.JSONField(help_text="the list's search parameters, an object of strings")
    created_at_ms = models.BigIntegerField()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "resource", "name"], name="one_view_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.owner}: {self.name}"


class ChangeState(models.TextChoices):
    """States of a change set. A worker leads one from ``planning`` to ``planned`` and from ``running`` to ``stopped``
    or ``finished``; its owner does the rest."""

    PLANNING = "planning"
    PLANNED = "planned"
    RUNNING = "running"
    STOPPED = "stopped"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class ItemState(models.TextChoices):
    """States of one object of a change set: ``refused`` is one that the preview found to be impossible, ``failed`` one
    that is unchanged, ``unknown`` one that may be changed or not."""

    WAITING = "waiting"
    PLANNED = "planned"
    REFUSED = "refused"
    APPLYING = "applying"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"


class ChangeSet(models.Model):
    """One change of many objects. Times are milliseconds since the epoch.

    Rows change only by compare-and-set on ``state``, and a worker's also on ``attempt``, which rises when a worker
    claims the set, so that a late statement of a lost worker changes nothing. ``lease_until_ms``: the worker that has
    it is lost after that; 0: none has it. ``sent_at_ms``: when a worker was last requested.
    ``digest``: of the exact list and contents that the preview found, by which its owner confirms them.
    ``arguments``: those of the change; ``query``: the filter of the list that the objects are from; null
    where they were named.
    """

    id = models.CharField(primary_key=True, max_length=16)
    cluster = models.CharField(max_length=255)
    kind = models.CharField(max_length=32)
    arguments: "models.JSONField[Any, Any]" = models.JSONField(default=dict)
    query: "models.JSONField[Any, Any]" = models.JSONField(null=True)
    role = models.CharField(max_length=255, blank=True, default="")
    created_by = models.CharField(max_length=255)
    address = models.CharField(max_length=64, blank=True, default="")
    state = models.CharField(
        max_length=16, choices=ChangeState.choices, default=ChangeState.PLANNING
    )
    stop_requested = models.BooleanField(default=False)
    digest = models.CharField(max_length=64, blank=True, default="")
    attempt = models.PositiveIntegerField(default=0)
    lease_until_ms = models.BigIntegerField(default=0)
    sent_at_ms = models.BigIntegerField(default=0)
    created_at = models.BigIntegerField()
    planned_at = models.BigIntegerField(null=True)
    confirmed_at = models.BigIntegerField(null=True)
    ended_at = models.BigIntegerField(null=True)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=ChangeState.values), name="change_state_is_known"
            ),
        )
        indexes = (models.Index(fields=["cluster", "created_at", "id"], name="change_by_creation"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.id} {self.state}"


class ChangeItem(models.Model):
    """One object of a change set, in the order of its id. ``content``: what applying it needs, as the preview found it;
    ``effect``: what it would do, ``result``: what it did, ``reason``: why it was not done."""

    change_set = models.ForeignKey(ChangeSet, on_delete=models.CASCADE, related_name="items")
    topic = models.CharField(max_length=1024)
    subscription = models.CharField(max_length=1024, blank=True, default="")
    state = models.CharField(max_length=16, choices=ItemState.choices, default=ItemState.WAITING)
    content: "models.JSONField[Any, Any]" = models.JSONField(null=True)
    effect: "models.JSONField[Any, Any]" = models.JSONField(null=True)
    result: "models.JSONField[Any, Any]" = models.JSONField(null=True)
    reason = models.TextField(blank=True, default="")

    class Meta:
        ordering = ("id",)
        indexes = (
            models.Index(fields=["change_set", "state", "id"], name="change_item_state"),
            models.Index(fields=["change_set", "topic", "id"], name="change_item_topic"),
        )

    def __str__(self) -> str:
        return f"{self.topic} {self.subscription} {self.state}".replace("  ", " ")
