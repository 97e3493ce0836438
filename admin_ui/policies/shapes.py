"""Shapes of policies, and of what saving one would take.

Whole numbers beyond 2^53 are strings within a policy's value, and so are its bounds: a page must give back exactly what
it was given.
"""

from rest_framework import serializers as s

from admin_ui.shapes import Asked
from engine.tenancy.policies.policy import Level

LEVELS = tuple(level.value for level in Level)


class PolicyPart(s.Serializer[object]):
    """A part of a value, or a value that has no parts."""

    name = s.CharField(help_text="empty for a value without parts")
    type = s.ChoiceField(choices=("integer", "number", "boolean", "string", "array"))
    optional = s.BooleanField(help_text="it may stay away")
    minimum = s.CharField(required=False)
    maximum = s.CharField(required=False)
    unit = s.CharField(required=False)
    enum = s.ListField(child=s.CharField(), required=False)


class PolicyRow(s.Serializer[object]):
    name = s.CharField()
    title = s.CharField()
    meaning = s.CharField()
    parts = PolicyPart(many=True, help_text="one without a name, or those of an object")
    topics_own = s.BooleanField(help_text="topics may have a value of their own")
    value = s.JSONField(allow_null=True, help_text="in force; null: not known")
    level = s.ChoiceField(choices=LEVELS, allow_null=True, help_text="which says so")
    own = s.JSONField(allow_null=True, help_text="the namespace's or topic's; null: none")
    inherited = s.JSONField(allow_null=True, help_text="what holds without own; null: not known")
    inherited_level = s.ChoiceField(choices=LEVELS, help_text="which says that")


class TopicPoliciesAnswer(s.Serializer[object]):
    policies = PolicyRow(many=True)


class PolicyBody(Asked):
    """A preview is of a ``value``; null removes it."""

    amount = "value"
    value = s.JSONField(required=False, allow_null=True)


class Loser(s.Serializer[object]):
    """A subscription that would lose what it has not acknowledged, or go: ``messages`` null when they were not counted,
    estimated unless ``exact``."""

    topic = s.CharField(help_text="or partition, full name")
    name = s.CharField()
    deleted = s.BooleanField()
    entries = s.IntegerField()
    messages = s.IntegerField(allow_null=True)
    exact = s.BooleanField()


class DeletedTopic(s.Serializer[object]):
    name = s.CharField(help_text="or partition, full name")
    bytes = s.IntegerField(help_text="stored")


class NotCounted(s.Serializer[object]):
    name = s.CharField(
        help_text="full name, a subscription's behind it if it is one's; or of a broker"
    )
    reason = s.CharField()


class PolicyEffects(s.Serializer[object]):
    """What would go of what is stored in topics that brokers have loaded. Of lists the first are here."""

    topics = s.IntegerField(
        help_text="stored ones whose value it is; a partitioned one counts once"
    )
    counted = s.IntegerField(help_text="topics of which all was looked at")
    at_rest = s.IntegerField(
        allow_null=True, help_text="topics that no broker has loaded; null: not known"
    )
    bytes = s.IntegerField(help_text="that would be deleted")
    subscriptions = Loser(many=True, help_text="most entries first")
    subscriptions_total = s.IntegerField()
    entries = s.IntegerField(help_text="lost by all subscriptions")
    deleted = DeletedTopic(many=True, help_text="topics that would go, the largest first")
    deleted_total = s.IntegerField()
    producers = s.IntegerField(help_text="that would be sent away")
    not_counted = NotCounted(many=True)
    not_counted_total = s.IntegerField()
    within_s = s.FloatField(help_text="when brokers will have acted on it at the latest")


class Overriding(s.Serializer[object]):
    name = s.CharField(help_text="full name")
    value = s.JSONField(help_text="its own")


class PolicyPreview(s.Serializer[object]):
    """``token``, null when too large, confirms the change of just that."""

    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    row = PolicyRow(help_text="as it is")
    effects = PolicyEffects(
        allow_null=True, help_text="null: nothing goes by this policy, or no broker tells"
    )
    overriding = Overriding(
        many=True, help_text="the first topics that have their own value: they keep it"
    )
    overriding_total = s.IntegerField(allow_null=True, help_text="null: not known")
    unknown = s.CharField(help_text="why what is null is not known; empty when nothing is")


class PolicyReceipt(s.Serializer[object]):
    at = s.IntegerField()
    row = PolicyRow(help_text="as it is now")
    effects = PolicyEffects(
        allow_null=True, help_text="of the preview, counted again before it was saved"
    )
