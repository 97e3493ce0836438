"""Shapes of payload rules."""

from rest_framework import serializers as s

from gateway.access.payload_rules import RULES_MAX
from gateway.sign_in import LEVELS


class PayloadRuleShape(s.Serializer[object]):
    role = s.CharField(max_length=255, allow_blank=True, help_text="exact; empty: every role")
    level = s.ChoiceField(choices=("", *LEVELS), help_text="exact; empty: every level")
    namespace = s.CharField(
        max_length=512, help_text="full name; t/* stands for all of a tenant, * for all"
    )
    shown = s.BooleanField()


class PayloadRulesAnswer(s.Serializer[object]):
    """The rules in their order: the first that matches decides; without one, payloads are shown at level full alone."""

    rows = PayloadRuleShape(many=True)


class PayloadRulesBody(s.Serializer[object]):
    rules = s.ListField(child=PayloadRuleShape(), max_length=RULES_MAX)
    expected = s.ListField(
        child=PayloadRuleShape(), help_text="the rules as they were shown; 409 when they changed"
    )
