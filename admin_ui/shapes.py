"""Shapes of the console API's answers and bodies, as serializers. The OpenAPI document is generated from them, and
bodies are checked by them. Answers are plain dictionaries; a test compares them with these shapes. This module has the
shapes that several resources share.

64-bit ids are strings, times are integer milliseconds since the epoch, rates are numbers per second.
"""

from typing import Any

from rest_framework import serializers as s

from engine.admin.lag import LagCause, LagSeverity
from engine.base.names import DOMAINS
from gateway.services.attention.board import TopicCause
from gateway.services.index.rows import KNOWN
from gateway.sign_in import LEVELS

BROKER_STATES = ("up", "slow", "down")


class Reason(s.Serializer[object]):
    reason = s.CharField()
    field = s.CharField(required=False)
    hop = s.CharField(required=False, help_text="the part that does not answer, as in getHealth")
    request_id = s.CharField(required=False)


class ChangeBody(s.Serializer[object]):
    """A change, requested by ``preview`` with its subject or by the ``token`` that the preview returned."""

    preview = s.BooleanField(default=False)
    token = s.CharField(required=False, trim_whitespace=False)

    amount = ""
    """Name of the field that a preview needs, if any."""
    at_once = False
    """True when the amount alone, without a token, has the change made."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        given = self.amount in attrs
        if attrs["preview"]:
            if self.amount and not given:
                raise s.ValidationError({self.amount: "This field is required for a preview."})
        elif "token" not in attrs and not (self.at_once and given):
            needed = self.amount if self.amount and not given else "token"
            raise s.ValidationError({needed: "Preview the change first: its token confirms it."})
        return attrs


class BacklogShape(s.Serializer[object]):
    """Amount of what is not acknowledged. ``backlog_messages`` is exact where no entry is estimated or unmeasured."""

    backlog = s.IntegerField(help_text="entries: a batch is one; summed over subscriptions")
    backlog_messages = s.IntegerField(help_text="messages in them")
    backlog_estimated = s.IntegerField(help_text="entries whose messages are estimated by a mean")
    backlog_unmeasured = s.IntegerField(
        help_text="entries whose messages are not known: backlog_messages counts each as one message and is then a "
        "lower bound"
    )


class BacklogOrUnknown(s.Serializer[object]):
    """A BacklogShape whose values may be null: not known."""

    backlog = s.IntegerField(
        allow_null=True, help_text="entries: a batch is one; summed over subscriptions"
    )
    backlog_messages = s.IntegerField(allow_null=True, help_text="messages in them")
    backlog_estimated = s.IntegerField(
        allow_null=True, help_text="entries whose messages are estimated by a mean"
    )
    backlog_unmeasured = s.IntegerField(
        allow_null=True,
        help_text="entries whose messages are not known: backlog_messages counts each as one message and is then a "
        "lower bound",
    )


def oldest_at() -> s.IntegerField:
    return s.IntegerField(
        allow_null=True,
        help_text="when the first unacknowledged entry was published, as its broker last reported; 0: nothing is "
        "unacknowledged, null: not known",
    )


PROBLEM_CAUSES = [cause.value for cause in (*LagCause, *TopicCause)]


class ProblemShape(s.Serializer[object]):
    severity = s.ChoiceField(choices=[severity.value for severity in LagSeverity])
    cause = s.ChoiceField(choices=PROBLEM_CAUSES)


def age_target_s() -> s.IntegerField:
    return s.IntegerField(
        allow_null=True,
        help_text="age in seconds that the oldest unacknowledged message is not to exceed; null: no target",
    )


class TopicRow(BacklogOrUnknown):
    name = s.CharField(help_text="full name, domain://tenant/namespace/topic")
    domain = s.ChoiceField(choices=DOMAINS)
    tenant = s.CharField()
    namespace = s.CharField(help_text="without the tenant")
    topic = s.CharField()
    partitions = s.IntegerField(help_text="0 for a plain topic")
    loaded = s.BooleanField(
        allow_null=True,
        help_text="whether a broker has it loaded; null: not known, a broker does not answer",
    )
    producers = s.IntegerField(allow_null=True, help_text="null, as in all numbers: not known")
    consumers = s.IntegerField(allow_null=True)
    subscriptions = s.IntegerField(allow_null=True)
    msg_rate_in = s.FloatField(allow_null=True)
    msg_rate_out = s.FloatField(allow_null=True)
    bytes_rate_in = s.FloatField(allow_null=True)
    bytes_rate_out = s.FloatField(allow_null=True)
    oldest_at = oldest_at()
    storage_bytes = s.IntegerField(allow_null=True)
    known = s.ChoiceField(
        choices=KNOWN,
        help_text="at_rest: stored, and no broker has it loaded; live: as its broker just counted; last: the values of "
        "'at', since the broker does not answer; no: not known",
    )
    at = s.IntegerField(help_text="when these numbers were true")


class BrokerRow(s.Serializer[object]):
    id = s.CharField()
    url = s.CharField()
    state = s.ChoiceField(choices=BROKER_STATES)
    since = s.IntegerField(help_text="when it began to answer, or ceased to")
    started = s.IntegerField(allow_null=True, help_text="null: not reported")
    known = s.ChoiceField(choices=KNOWN, help_text="as in TopicRow, for the numbers here")
    at = s.IntegerField(help_text="when it counted them; 0: never")
    topics = s.IntegerField(
        allow_null=True,
        help_text="null, as in its rates: it did not answer yet, or is no longer registered",
    )
    msg_rate_in = s.FloatField(allow_null=True)
    msg_rate_out = s.FloatField(allow_null=True)
    bytes_rate_in = s.FloatField(allow_null=True)
    bytes_rate_out = s.FloatField(allow_null=True)


class BookieRow(s.Serializer[object]):
    id = s.CharField()
    address = s.CharField(help_text="host:port; empty: it was never registered as far as is known")
    state = s.CharField(help_text="writable, read-only, slow or down")
    since = s.IntegerField(help_text="when it began to answer, or ceased to, or became read-only")
    known = s.ChoiceField(choices=KNOWN, help_text="as in TopicRow, for the numbers here")
    at = s.IntegerField(help_text="when it reported them; 0: never")
    free_bytes = s.IntegerField(allow_null=True, help_text="null: not reported")
    total_bytes = s.IntegerField(allow_null=True)
    ledgers = s.IntegerField(allow_null=True)
    stored_bytes = s.IntegerField(
        allow_null=True, help_text="bytes that it keeps of ledgers, open ones too"
    )
    reason = s.CharField(
        help_text="why it is read-only; empty while it is writable, or when not reported"
    )
    usage = s.FloatField(allow_null=True, help_text="of its fullest disk, 0 to 1")
    usage_limit = s.FloatField(allow_null=True, help_text="usage at which it becomes read-only")
    usage_writable = s.FloatField(
        allow_null=True, help_text="usage below which it becomes writable again by itself"
    )


class PropertiesAnswer(s.Serializer[object]):
    properties = s.DictField(child=s.CharField(allow_blank=True))


class PropertiesBody(s.Serializer[object]):
    value = s.DictField(child=s.CharField(allow_blank=True, trim_whitespace=False))
    expected = s.DictField(
        child=s.CharField(allow_blank=True, trim_whitespace=False),
        help_text="the properties as they were shown; 409 when they have changed",
    )


class ActingRoleShape(s.Serializer[object]):
    role = s.CharField(max_length=255)
    level = s.ChoiceField(choices=LEVELS)


class PersonSessionShape(s.Serializer[object]):
    id = s.CharField()
    current = s.BooleanField(help_text="whether it is the caller's own")
    created_at = s.IntegerField()
    last_seen_at = s.IntegerField(help_text="to the minute")
    address = s.CharField(allow_blank=True)
    browser = s.CharField(allow_blank=True, help_text="the User-Agent header")


class PersonSessionsShape(s.Serializer[object]):
    rows = PersonSessionShape(many=True)
