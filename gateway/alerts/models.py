"""Records of alerts. Times are milliseconds since the epoch; ``cluster`` is the name of the cluster.

``tenant``: the tenant whose administrators own the row; empty for those of the cluster.
"""

from django.db import models

NAME_CHARS_MAX = 120


class ChannelKind(models.TextChoices):
    """Ways of notification."""

    WEBHOOK = "webhook"
    SLACK = "slack"
    EMAIL = "email"


class FiringState(models.TextChoices):
    """States of a firing. One that is pending has not lasted as long as its rule demands."""

    PENDING = "pending"
    FIRING = "firing"
    ENDED = "ended"


class DeliveryState(models.TextChoices):
    """States of a delivery; the last two are final."""

    DUE = "due"
    SENT = "sent"
    FAILED = "failed"


class DeliveryKind(models.TextChoices):
    """Kind of the event that a delivery reports of its firings."""

    BEGIN = "begin"
    ESCALATION = "escalation"
    END = "end"


class AlertChannel(models.Model):
    """A destination of notifications. ``secret_url`` is in no answer: who knows it can write there."""

    cluster = models.CharField(max_length=255)
    tenant = models.CharField(max_length=255, default="")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    kind = models.CharField(max_length=16, choices=ChannelKind.choices)
    secret_url = models.TextField(default="", help_text="of a webhook or of Slack")
    recipients = models.JSONField(default=list, help_text="addresses of e-mail")
    created_at = models.BigIntegerField()
    created_by = models.CharField(max_length=255)

    class Meta:
        ordering = ("name", "id")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "tenant", "name"), name="one_alert_channel_per_name"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} ({self.kind})"


class AlertRule(models.Model):
    """A condition, and who is notified of it. ``definition`` as ``definitions.Definition`` reads it."""

    cluster = models.CharField(max_length=255)
    tenant = models.CharField(max_length=255, default="")
    name = models.CharField(max_length=NAME_CHARS_MAX)
    enabled = models.BooleanField(default=True)
    severity = models.CharField(max_length=16)
    definition = models.JSONField()
    for_s = models.PositiveIntegerField(help_text="seconds that it has to last")
    channels = models.JSONField(default=list, help_text="ids")
    escalate_s = models.PositiveIntegerField(null=True, help_text="seconds without acknowledgement")
    escalate_to = models.JSONField(default=list, help_text="ids of channels")
    created_at = models.BigIntegerField()
    created_by = models.CharField(max_length=255)
    changed_at = models.BigIntegerField()
    unknown_since = models.BigIntegerField(null=True, help_text="null: it is evaluated")
    unknown_why = models.CharField(max_length=500, default="")
    left_out = models.PositiveIntegerField(
        default=0, help_text="objects that meet it beside those that have firings, at least"
    )

    class Meta:
        ordering = ("name", "id")
        constraints = (
            models.UniqueConstraint(
                fields=("cluster", "tenant", "name"), name="one_alert_rule_per_name"
            ),
        )

    def __str__(self) -> str:
        return self.name


class AlertFiring(models.Model):
    """A time during which an object meets a rule, with the rule's name and severity at that time.

    ``object_hash`` is that of ``object``, which is too long for an index; an object without a firing's end is unique.
    ``unevaluated``: the rule itself could not be evaluated. ``notified``: ids of the channels that were notified of it.
    """

    cluster = models.CharField(max_length=255)
    tenant = models.CharField(max_length=255, default="")
    rule_id = models.BigIntegerField()
    rule_name = models.CharField(max_length=NAME_CHARS_MAX)
    severity = models.CharField(max_length=16)
    unevaluated = models.BooleanField(default=False)
    object = models.TextField()
    object_hash = models.CharField(max_length=64)
    topic = models.TextField(default="")
    subscription = models.TextField(default="")
    link = models.TextField(default="", help_text="path within the console")
    title = models.TextField()
    detail = models.TextField(default="")
    value = models.FloatField(null=True, help_text="the figure when it began")
    state = models.CharField(
        max_length=16, choices=FiringState.choices, default=FiringState.PENDING
    )
    since = models.BigIntegerField(help_text="when the condition was first seen")
    began_at = models.BigIntegerField(null=True)
    ended_at = models.BigIntegerField(null=True)
    end_reason = models.CharField(max_length=200, default="")
    acked_at = models.BigIntegerField(null=True)
    acked_by = models.CharField(max_length=255, default="")
    note = models.CharField(max_length=500, default="", help_text="of the acknowledgement")
    silenced = models.CharField(
        max_length=500, default="", help_text="why no channel was notified yet; empty: not silenced"
    )
    notified_at = models.BigIntegerField(null=True)
    notified = models.JSONField(default=list)
    escalated_at = models.BigIntegerField(null=True)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(
                fields=("rule_id", "object_hash"),
                condition=~models.Q(state="ended"),
                name="one_open_firing_per_object",
            ),
        )
        indexes = (
            models.Index(fields=("cluster", "state", "id"), name="firing_state"),
            models.Index(fields=("ended_at",), name="firing_ended"),
            # A list has one state: each of these has its rows in an order that is offered.
            models.Index(fields=("cluster", "state", "since", "id"), name="firing_by_since"),
            models.Index(fields=("cluster", "state", "began_at", "id"), name="firing_by_begin"),
            models.Index(fields=("cluster", "state", "ended_at", "id"), name="firing_by_end"),
            models.Index(fields=("cluster", "state", "rule_name", "id"), name="firing_by_rule"),
        )

    def __str__(self) -> str:
        return f"{self.rule_name}: {self.title} ({self.state})"


class AlertDelivery(models.Model):
    """A notification of one channel about firings of one rule.

    It is created in the transaction that changes its firings, and sent until it succeeds or is too old.
    ``claimed_until`` changes by compare-and-set on ``attempt``: of several gateways one sends. A process that ends
    between sending and recording leaves a delivery that is sent again, with the same id.
    """

    cluster = models.CharField(max_length=255)
    channel = models.ForeignKey(AlertChannel, models.CASCADE)
    kind = models.CharField(max_length=16, choices=DeliveryKind.choices)
    firings = models.ManyToManyField(AlertFiring, related_name="deliveries")
    left_out = models.PositiveIntegerField(default=0, help_text="further objects without firings")
    state = models.CharField(max_length=8, choices=DeliveryState.choices, default=DeliveryState.DUE)
    created_at = models.BigIntegerField()
    attempt = models.PositiveIntegerField(default=0)
    next_at = models.BigIntegerField()
    claimed_until = models.BigIntegerField(default=0)
    sent_at = models.BigIntegerField(null=True)
    error = models.CharField(max_length=500, default="")

    class Meta:
        ordering = ("id",)
        indexes = (models.Index(fields=("cluster", "state", "next_at"), name="delivery_due"),)

    def __str__(self) -> str:
        return f"{self.kind} {self.state}"


class AlertSilence(models.Model):
    """A time without notifications about some firings: those of a rule, of a place, or of one object."""

    cluster = models.CharField(max_length=255)
    tenant = models.CharField(max_length=255, default="")
    rule_id = models.BigIntegerField(null=True, help_text="null: every rule")
    scope = models.TextField(default="", help_text="tenant, namespace or topic by its full name")
    subscription = models.TextField(default="", help_text="of the topic")
    object = models.TextField(default="", help_text="object of a firing; empty: every one")
    until = models.BigIntegerField()
    reason = models.CharField(max_length=400)
    created_at = models.BigIntegerField()
    created_by = models.CharField(max_length=255)

    class Meta:
        ordering = ("-id",)

    def __str__(self) -> str:
        return self.reason


class AlertLease(models.Model):
    """The gateway that evaluates the rules of a cluster, changed by compare-and-set.

    ``evaluated_at``: when rules were evaluated last.
    """

    cluster = models.CharField(primary_key=True, max_length=255)
    holder = models.CharField(max_length=32)
    until = models.BigIntegerField()
    evaluated_at = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.cluster}: {self.holder}"
