"""The console's own records. Metadata of the messaging system is in the metadata store alone."""

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
