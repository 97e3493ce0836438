"""Shapes of the instance's health."""

from rest_framework import serializers as s

from gateway.services.health.hops import HopState, Kind


class HopShape(s.Serializer[object]):
    hop = s.ChoiceField(choices=[kind.value for kind in Kind])
    id = s.CharField(help_text="of a broker or bookie; empty for what there is one of")
    state = s.ChoiceField(
        choices=[state.value for state in HopState],
        help_text="slow: late, and answered a moment ago; unknown: not asked yet",
    )
    since = s.IntegerField(help_text="when it began to answer, or ceased to")
    reason = s.CharField(help_text="empty while it answers")
    advice = s.CharField(help_text="what to do next; empty while it answers")


class HealthAnswer(s.Serializer[object]):
    now = s.IntegerField()
    at = s.IntegerField(
        allow_null=True,
        help_text="when every registered broker and the metadata store were last heard: all numbers are as of then; "
        "null: not all of them were yet. Without a registered broker when the last one was",
    )
    hops = HopShape(many=True)
