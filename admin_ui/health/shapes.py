"""Shapes of the instance's health."""

from rest_framework import serializers as s

from gateway.services.health.hops import HopState, Kind


class HopShape(s.Serializer[object]):
    hop = s.ChoiceField(choices=[kind.value for kind in Kind])
    id = s.CharField(
        help_text="id of a broker, bookie or functions worker; empty for a part of which there is one"
    )
    state = s.ChoiceField(
        choices=[state.value for state in HopState],
        help_text="slow: late, but answered a moment ago; unknown: not probed yet",
    )
    since = s.IntegerField(help_text="when it began to answer, or ceased to")
    reason = s.CharField(help_text="empty while it answers")
    advice = s.CharField(help_text="what to do next; empty while it answers")


class HealthAnswer(s.Serializer[object]):
    now = s.IntegerField()
    at = s.IntegerField(
        allow_null=True,
        help_text="time of all numbers: when every registered broker and the metadata store had last answered; "
        "null: not all of them have answered yet. Without a registered broker: when the last one answered",
    )
    late_ms = s.IntegerField(help_text="age from which numbers of the cluster are not current")
    current = s.BooleanField(
        help_text="false while the metadata store or a registered broker is down: numbers are as last known"
    )
    hops = HopShape(many=True)
