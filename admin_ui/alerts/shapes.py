"""Shapes of alerts."""

from rest_framework import serializers as s

from gateway.alerts.definitions import (
    CAUSES_MAX,
    FOR_S_MAX,
    NAME_CHARS_MAX,
    SEVERITIES,
    THRESHOLD_MAX,
    RuleKind,
)
from gateway.alerts.models import (
    NAME_CHARS_MAX as TITLE_CHARS_MAX,
)
from gateway.alerts.models import ChannelKind, DeliveryKind, DeliveryState, FiringState

KINDS = [kind.value for kind in RuleKind]


class Condition(s.Serializer[object]):
    kind = s.ChoiceField(choices=KINDS)
    scope = s.CharField(
        default="",
        allow_blank=True,
        max_length=1024,
        help_text="a tenant, tenant/namespace or full topic name; empty: the cluster",
    )
    subscription = s.CharField(default="", allow_blank=True, max_length=1024)
    causes = s.ListField(
        child=s.CharField(max_length=NAME_CHARS_MAX),
        default=list,
        max_length=CAUSES_MAX,
        help_text="codes of what needs attention; empty: all",
    )
    severity = s.ChoiceField(
        choices=SEVERITIES, default="warning", help_text="least severity of what needs attention"
    )
    figure = s.CharField(default="", allow_blank=True, max_length=NAME_CHARS_MAX)
    op = s.ChoiceField(choices=("above", "below"), default="above")
    threshold = s.FloatField(default=0.0, min_value=-THRESHOLD_MAX, max_value=THRESHOLD_MAX)
    remote = s.CharField(
        default="",
        allow_blank=True,
        max_length=255,
        help_text="another cluster, of rules about links",
    )
    part = s.CharField(
        default="",
        allow_blank=True,
        max_length=255,
        help_text="id of a broker or bookie, of rules about them; empty: each",
    )


class RuleBody(s.Serializer[object]):
    name = s.CharField(max_length=TITLE_CHARS_MAX)
    enabled = s.BooleanField(default=True)
    severity = s.ChoiceField(choices=SEVERITIES, default="warning")
    definition = Condition()
    for_s = s.IntegerField(
        default=60, min_value=0, max_value=FOR_S_MAX, help_text="seconds that it has to last"
    )
    channels = s.ListField(child=s.IntegerField(), default=list, max_length=20)
    escalate_s = s.IntegerField(
        default=None,
        allow_null=True,
        min_value=60,
        max_value=FOR_S_MAX,
        help_text="seconds after which a firing that is not acknowledged is escalated; null: never",
    )
    escalate_to = s.ListField(child=s.IntegerField(), default=list, max_length=20)


class RuleRow(RuleBody):
    id = s.IntegerField()
    tenant = s.CharField(help_text="whose rule it is; empty: of the cluster")
    words = s.CharField(help_text="the condition as a text")
    created_at = s.IntegerField()
    created_by = s.CharField()
    firing = s.IntegerField(help_text="firings now")
    unknown_since = s.IntegerField(allow_null=True, help_text="null: it is evaluated")
    unknown_why = s.CharField()
    left_out = s.IntegerField(
        help_text="objects that meet it beside those with firings, at least; they are counted only"
    )


class RulesAnswer(s.Serializer[object]):
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = RuleRow(many=True)
    evaluated_at = s.IntegerField(
        allow_null=True, help_text="when rules were evaluated last, up to 5 s late; null: never"
    )


class PreviewBody(s.Serializer[object]):
    definition = Condition()
    for_s = s.IntegerField(default=60, min_value=0, max_value=FOR_S_MAX)


class PreviewAnswer(s.Serializer[object]):
    now = s.IntegerField(help_text="objects that meet the condition now, at least")
    examples = s.ListField(child=s.CharField())
    problem = s.CharField(help_text="why some objects are not known now; empty: all are")
    times = s.IntegerField(
        allow_null=True, help_text="how often it would have fired; null: no history tells"
    )
    recorded_s = s.IntegerField(help_text="seconds of recorded history that were searched")
    since = s.IntegerField(allow_null=True, help_text="when that history begins")
    subjects = s.IntegerField(help_text="objects whose history was searched")
    of = s.IntegerField(help_text="objects that the rule is about")
    note = s.CharField(help_text="what limits the answer; empty: nothing")
    words = s.CharField(help_text="the condition as a text")


class ChannelBody(s.Serializer[object]):
    name = s.CharField(max_length=TITLE_CHARS_MAX)
    kind = s.ChoiceField(choices=ChannelKind.values)
    secret_url = s.CharField(
        default="",
        allow_blank=True,
        max_length=2000,
        help_text="of a webhook or Slack; it is answered nowhere. Empty in a change: as before",
    )
    recipients = s.ListField(child=s.EmailField(), default=list, max_length=20)


class ChannelRow(s.Serializer[object]):
    id = s.IntegerField()
    tenant = s.CharField()
    name = s.CharField()
    kind = s.ChoiceField(choices=ChannelKind.values)
    host = s.CharField(help_text="host of the URL, whose rest is secret; empty: e-mail")
    recipients = s.ListField(child=s.CharField())
    created_at = s.IntegerField()
    created_by = s.CharField()
    waiting = s.IntegerField(help_text="notifications that are not sent yet")
    sent_at = s.IntegerField(allow_null=True, help_text="last accepted notification")
    error = s.CharField(help_text="why the last notification was not accepted; empty: it was")


class ChannelsAnswer(s.Serializer[object]):
    rows = ChannelRow(many=True)
    mail = s.BooleanField(help_text="whether the gateway has a mail server")


class TestAnswer(s.Serializer[object]):
    accepted = s.BooleanField()
    error = s.CharField(help_text="why it was not accepted; empty: it was")


class DeliveryShape(s.Serializer[object]):
    channel = s.CharField()
    kind = s.ChoiceField(choices=DeliveryKind.values)
    state = s.ChoiceField(choices=DeliveryState.values)
    attempts = s.IntegerField()
    created_at = s.IntegerField()
    sent_at = s.IntegerField(allow_null=True)
    next_at = s.IntegerField(allow_null=True, help_text="next attempt; null: none")
    error = s.CharField()


class FiringRow(s.Serializer[object]):
    id = s.IntegerField()
    tenant = s.CharField()
    rule_id = s.IntegerField()
    rule = s.CharField()
    severity = s.ChoiceField(choices=SEVERITIES)
    unevaluated = s.BooleanField(help_text="the rule itself could not be evaluated")
    title = s.CharField()
    detail = s.CharField()
    topic = s.CharField()
    subscription = s.CharField()
    link = s.CharField(help_text="path within the console; empty: none")
    value = s.FloatField(allow_null=True)
    state = s.ChoiceField(choices=FiringState.values)
    since = s.IntegerField()
    began_at = s.IntegerField(allow_null=True, help_text="null: it is pending")
    ended_at = s.IntegerField(allow_null=True)
    end_reason = s.CharField()
    acked_at = s.IntegerField(allow_null=True)
    acked_by = s.CharField()
    note = s.CharField()
    silenced = s.CharField(help_text="reason of the silence that covers it; empty: none")
    escalated_at = s.IntegerField(allow_null=True)
    deliveries = DeliveryShape(many=True)


class FiringsAnswer(s.Serializer[object]):
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = FiringRow(many=True)


class AcknowledgeBody(s.Serializer[object]):
    note = s.CharField(default="", allow_blank=True, max_length=500)


class SilenceBody(s.Serializer[object]):
    rule_id = s.IntegerField(default=None, allow_null=True)
    firing_id = s.IntegerField(
        default=None, allow_null=True, help_text="instead: the rule and object of this firing"
    )
    scope = s.CharField(default="", allow_blank=True, max_length=1024)
    subscription = s.CharField(default="", allow_blank=True, max_length=1024)
    until = s.IntegerField(help_text="ms since the epoch")
    reason = s.CharField(max_length=400)


class SilenceRow(s.Serializer[object]):
    id = s.IntegerField()
    tenant = s.CharField()
    rule_id = s.IntegerField(allow_null=True)
    rule = s.CharField(help_text="name of the rule; empty: every rule, or one that is deleted")
    scope = s.CharField()
    subscription = s.CharField()
    until = s.IntegerField()
    reason = s.CharField()
    created_at = s.IntegerField()
    created_by = s.CharField()


class SilencesAnswer(s.Serializer[object]):
    rows = SilenceRow(many=True)
