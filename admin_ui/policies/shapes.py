"""Shapes of policies, and of the effects of saving one.

Within a policy's value, whole numbers beyond 2^53 are strings, and so are its bounds: a page must send back exactly
what it received.
"""

from rest_framework import serializers as s

from admin_ui.shapes import ChangeBody
from engine.tenancy.policies.policy import Level
from engine.tenancy.policies.policy_calls import PolicyTool

LEVELS = tuple(level.value for level in Level)


class PolicyPart(s.Serializer[object]):
    """A part of a value, or a value that has no parts."""

    name = s.CharField(help_text="empty for a value without parts")
    type = s.ChoiceField(choices=("integer", "number", "boolean", "string", "array"))
    optional = s.BooleanField(help_text="it may be missing")
    minimum = s.CharField(required=False)
    maximum = s.CharField(required=False)
    unit = s.CharField(required=False)
    enum = s.ListField(child=s.CharField(), required=False)


class PolicyRemoval(s.Serializer[object]):
    method = s.ChoiceField(choices=("DELETE", "POST", "PUT"))
    body = s.JSONField(allow_null=True, help_text="JSON value to send, unless by DELETE")


class PolicyRest(s.Serializer[object]):
    """The calls of Pulsar's REST interface that set and remove the policy here."""

    path = s.CharField(help_text="below the path of the namespace or topic, with its query")
    method = s.ChoiceField(choices=("POST", "PUT"), help_text="method that sets it")
    value_query = s.CharField(help_text="query parameter for the value; empty: it is the body")
    removal = PolicyRemoval(allow_null=True, help_text="null: no call removes it")


class PolicyOption(s.Serializer[object]):
    """An option for one field of the value. A field that the value lacks is left out."""

    flag = s.CharField(help_text="word before the field's value")
    field = s.CharField(help_text="name of the field; empty for a value without parts")
    suffix = s.CharField(help_text="unit after a number of 0 or more")
    divisor = s.IntegerField(help_text="divides a number, or the tool cannot express it")
    cases = s.DictField(
        child=s.ListField(child=s.CharField()),
        allow_null=True,
        help_text="words for each value that the tool can express, instead of the flag",
    )


class PolicyCommand(s.Serializer[object]):
    """The commands of one tool that set and remove the policy here; the place's name is the last word."""

    tool = s.ChoiceField(choices=tuple(tool.value for tool in PolicyTool))
    set = s.ListField(child=s.CharField(), help_text="words before those of the options")
    remove = s.ListField(child=s.CharField(), help_text="empty: the tool cannot remove it")
    options = PolicyOption(many=True)


class PolicyRow(s.Serializer[object]):
    name = s.CharField()
    title = s.CharField()
    meaning = s.CharField()
    parts = PolicyPart(many=True, help_text="one part without a name, or the parts of an object")
    topics_own = s.BooleanField(help_text="topics may have a value of their own")
    value = s.JSONField(allow_null=True, help_text="value in force; null: not known")
    level = s.ChoiceField(choices=LEVELS, allow_null=True, help_text="level of that value")
    own = s.JSONField(
        allow_null=True, help_text="value of the namespace or topic itself; null: none"
    )
    inherited = s.JSONField(
        allow_null=True, help_text="value in force without own; null: not known"
    )
    inherited_level = s.ChoiceField(choices=LEVELS, help_text="level of the inherited value")
    rest = PolicyRest()
    commands = PolicyCommand(many=True, help_text="at most one of each tool")


class TopicPoliciesAnswer(s.Serializer[object]):
    policies = PolicyRow(many=True)


class PolicyBody(ChangeBody):
    """A change of a policy. A preview needs ``value``; null removes the value set at this level."""

    amount = "value"
    value = s.JSONField(required=False, allow_null=True)


class Loser(s.Serializer[object]):
    """A subscription that would lose what it has not acknowledged, or would be deleted. ``messages`` is null when they
    were not counted, and estimated unless ``exact``."""

    topic = s.CharField(help_text="full name of the topic or partition")
    name = s.CharField()
    deleted = s.BooleanField()
    entries = s.IntegerField()
    messages = s.IntegerField(allow_null=True)
    exact = s.BooleanField()


class DeletedTopic(s.Serializer[object]):
    name = s.CharField(help_text="full name of the topic or partition")
    bytes = s.IntegerField(help_text="stored")


class NotCounted(s.Serializer[object]):
    name = s.CharField(
        help_text="full name of a topic, followed by a subscription if it is one; or a broker"
    )
    reason = s.CharField()


class PolicyEffects(s.Serializer[object]):
    """Losses among the topics that brokers have loaded. Lists hold the first entries."""

    topics = s.IntegerField(
        help_text="stored topics that the value applies to; a partitioned one counts once"
    )
    counted = s.IntegerField(help_text="topics that were checked completely")
    at_rest = s.IntegerField(
        allow_null=True, help_text="topics that no broker has loaded; null: not known"
    )
    bytes = s.IntegerField(help_text="bytes that would be deleted")
    subscriptions = Loser(many=True, help_text="most entries first")
    subscriptions_total = s.IntegerField()
    entries = s.IntegerField(help_text="entries lost by all subscriptions")
    deleted = DeletedTopic(many=True, help_text="topics that would be deleted, the largest first")
    deleted_total = s.IntegerField()
    producers = s.IntegerField(help_text="producers that would be disconnected")
    not_counted = NotCounted(many=True)
    not_counted_total = s.IntegerField()
    within_s = s.FloatField(help_text="longest time until brokers have applied it, in seconds")


class Overriding(s.Serializer[object]):
    name = s.CharField(help_text="full name of the topic")
    value = s.JSONField(help_text="its own value")


class FlowStart(s.Serializer[object]):
    """A cluster that the topics begin to be sent to: what is published from then on. Messages that are stored already
    are not sent."""

    cluster = s.CharField()
    msg_rate_in = s.FloatField(allow_null=True, help_text="that arrive here; null: not known")
    bytes_rate_in = s.FloatField(allow_null=True)
    storage_bytes = s.IntegerField(allow_null=True, help_text="stored here, and not sent")


class FlowEnd(s.Serializer[object]):
    """A cluster that the topics are not sent to any more. It keeps what it has received."""

    cluster = s.CharField()
    unsent = s.IntegerField(help_text="entries that are not known to be stored there")
    sending = s.BooleanField(help_text="messages are sent there now, so that it changes")
    unknown = s.IntegerField(
        help_text="topics and partitions of which it is not known, as none is loaded"
    )


class ReplicationFlows(s.Serializer[object]):
    """Effect of a changed list of replication clusters."""

    at = s.IntegerField()
    topics = s.IntegerField(help_text="stored topics that the list applies to")
    starts = FlowStart(many=True)
    ends = FlowEnd(many=True)
    leaves = s.BooleanField(
        help_text="this cluster stops serving the topics: clients are refused or redirected; its copy is kept"
    )


class PolicyPreview(s.Serializer[object]):
    """The effects of a change. ``token``, null when too large, confirms exactly this change."""

    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    row = PolicyRow(help_text="the policy as it is")
    effects = PolicyEffects(
        allow_null=True, help_text="null: this policy deletes nothing, or no broker answers"
    )
    flows = ReplicationFlows(
        allow_null=True, help_text="of the list of replication clusters; null: another policy"
    )
    overriding = Overriding(
        many=True, help_text="the first of the topics that keep a value of their own"
    )
    overriding_total = s.IntegerField(allow_null=True, help_text="null: not known")
    unknown = s.CharField(help_text="why a null is not known; empty when all is known")


class PolicyReceipt(s.Serializer[object]):
    at = s.IntegerField()
    row = PolicyRow(help_text="the policy as it is now")
    effects = PolicyEffects(
        allow_null=True, help_text="effects as in the preview, counted again before saving"
    )
    flows = ReplicationFlows(allow_null=True, help_text="as in the preview, counted again")
