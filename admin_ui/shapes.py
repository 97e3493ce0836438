"""Shapes of the console API's answers and bodies, as serializers: the OpenAPI document comes from them, and bodies are
checked by them. Answers are plain dictionaries; a test holds them against these shapes. Here are those that several
resources share.

64-bit ids are strings, times integer milliseconds since the epoch, rates numbers per second.
"""

from typing import Any

from rest_framework import serializers as s

from engine.base.names import DOMAINS
from gateway.services.index.rows import KNOWN

BROKER_STATES = ("up", "slow", "down")


class Reason(s.Serializer[object]):
    reason = s.CharField()
    field = s.CharField(required=False)
    hop = s.CharField(required=False, help_text="what does not answer, as of getHealth")
    request_id = s.CharField(required=False)


class Asked(s.Serializer[object]):
    """Either ``preview`` with what the change is about, or the ``token`` that its preview answered."""

    preview = s.BooleanField(default=False)
    token = s.CharField(required=False, trim_whitespace=False)

    amount = ""
    """Of a preview."""
    at_once = False
    """Whether the amount is enough to have the change made, without a token."""

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
    """How much is not acknowledged. ``backlog_messages`` is exact where no entry is estimated or unmeasured."""

    backlog = s.IntegerField(help_text="entries: a batch is one; summed over subscriptions")
    backlog_messages = s.IntegerField(help_text="messages in them")
    backlog_estimated = s.IntegerField(help_text="entries whose messages are estimated by a mean")
    backlog_unmeasured = s.IntegerField(
        help_text="entries whose messages are not known: they are in backlog_messages as one each, which is then how "
        "many there are at least"
    )


class BacklogOrUnknown(s.Serializer[object]):
    """As BacklogShape; null: not known."""

    backlog = s.IntegerField(
        allow_null=True, help_text="entries: a batch is one; summed over subscriptions"
    )
    backlog_messages = s.IntegerField(allow_null=True, help_text="messages in them")
    backlog_estimated = s.IntegerField(
        allow_null=True, help_text="entries whose messages are estimated by a mean"
    )
    backlog_unmeasured = s.IntegerField(
        allow_null=True,
        help_text="entries whose messages are not known: they are in backlog_messages as one each, which is then how "
        "many there are at least",
    )


def oldest_at() -> s.IntegerField:
    return s.IntegerField(
        allow_null=True,
        help_text="when the first unacknowledged entry was published, as its broker last found it; 0: nothing is "
        "unacknowledged, null: not known",
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
        help_text="some broker has it loaded; null: not known, a broker does not answer",
    )
    producers = s.IntegerField(allow_null=True, help_text="null, as of all numbers: not known")
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
        help_text="at_rest: stored, and no broker has it loaded; live: as its broker just counted; last: as they were "
        "at 'at', for whoever knows does not answer; no: not known",
    )
    at = s.IntegerField(help_text="when these numbers were true")


class BrokerRow(s.Serializer[object]):
    id = s.CharField()
    url = s.CharField()
    state = s.ChoiceField(choices=BROKER_STATES)
    since = s.IntegerField(help_text="when it began to answer, or ceased to")
    started = s.IntegerField(allow_null=True, help_text="null: it does not say")
    known = s.ChoiceField(choices=KNOWN, help_text="as of TopicRow, of the numbers here")
    at = s.IntegerField(help_text="when it counted them; 0: never")
    topics = s.IntegerField(
        allow_null=True,
        help_text="null, as of its rates: it was not heard yet, or is not registered any more",
    )
    msg_rate_in = s.FloatField(allow_null=True)
    msg_rate_out = s.FloatField(allow_null=True)
    bytes_rate_in = s.FloatField(allow_null=True)
    bytes_rate_out = s.FloatField(allow_null=True)


class BookieRow(s.Serializer[object]):
    id = s.CharField()
    address = s.CharField(help_text="host:port; empty: it was never seen registered")
    state = s.CharField(help_text="writable, read-only, slow or down")
    since = s.IntegerField(help_text="when it began to answer, or ceased to, or became read-only")
    known = s.ChoiceField(choices=KNOWN, help_text="as of TopicRow, of the numbers here")
    at = s.IntegerField(help_text="when it told them; 0: never")
    free_bytes = s.IntegerField(allow_null=True, help_text="null: no page of it told it")
    total_bytes = s.IntegerField(allow_null=True)
    ledgers = s.IntegerField(allow_null=True)
    reason = s.CharField(help_text="why it is read-only; empty while it is not, or does not say")
    usage = s.FloatField(allow_null=True, help_text="of its fullest disk, 0 to 1")
    usage_limit = s.FloatField(allow_null=True, help_text="it is read-only from this usage on")
    usage_writable = s.FloatField(
        allow_null=True, help_text="and by itself writable again below this one"
    )


class PropertiesAnswer(s.Serializer[object]):
    properties = s.DictField(child=s.CharField(allow_blank=True))


class PropertiesBody(s.Serializer[object]):
    value = s.DictField(child=s.CharField(allow_blank=True, trim_whitespace=False))
    expected = s.DictField(
        child=s.CharField(allow_blank=True, trim_whitespace=False),
        help_text="as they were shown; 409 when they are not",
    )
