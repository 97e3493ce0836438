"""Shapes of change sets."""

from typing import Any

from rest_framework import serializers as s

from admin_ui.changes.change_kinds import COUNT_MAX, KINDS
from admin_ui.changes.definition_files import TEXT_MAX
from admin_ui.changes.services import OBJECTS_MAX
from admin_ui.models import ChangeState, ItemState

FILTERS = ("q", "tenant", "namespace", "domain", "attention", "older_s", "late")
"""Parameters of the lists of topics and subscriptions that choose rows; ``late`` of subscriptions alone."""


class ObjectShape(s.Serializer[object]):
    topic = s.CharField(max_length=1024, help_text="full name")
    subscription = s.CharField(max_length=1024, required=False, trim_whitespace=False)


class NewChangeSet(s.Serializer[object]):
    """One change of many objects: all that match ``query``, or the given ``objects``."""

    kind = s.ChoiceField(choices=tuple(KINDS))
    query = s.DictField(
        child=s.CharField(allow_blank=True),
        required=False,
        help_text=f"filter of the list of topics or subscriptions, by {', '.join(FILTERS)}; {{}}: all",
    )
    objects = s.ListField(child=ObjectShape(), required=False, max_length=OBJECTS_MAX)
    policy = s.CharField(required=False, help_text="of set-policy: name of the policy's row")
    value = s.JSONField(
        required=False, allow_null=True, help_text="of set-policy; null removes the topics' own"
    )
    count = s.IntegerField(
        required=False,
        max_value=COUNT_MAX,
        help_text="of skip: messages; of add-partitions: partitions afterwards",
    )
    timestamp = s.IntegerField(required=False, help_text="of reset: ms since the epoch")
    force = s.BooleanField(
        required=False, help_text="of delete-subscriptions: disconnect consumers"
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if ("query" in attrs) == ("objects" in attrs):
            raise s.ValidationError({"query": "Give either query or objects."})
        for name in attrs.get("query", ()):
            if name not in FILTERS:
                raise s.ValidationError({"query": f"May have {', '.join(FILTERS)}, not {name}."})
        of_subscriptions = KINDS[attrs["kind"]].of == "subscriptions"
        for item in attrs.get("objects", ()):
            if ("subscription" in item) != of_subscriptions:
                word = "Each needs a" if of_subscriptions else "None may have a"
                raise s.ValidationError({"objects": f"{word} subscription."})
        return attrs


class ConfirmBody(s.Serializer[object]):
    digest = s.CharField(help_text="that of the preview, which is then exactly made")


class ChangeCounts(s.Serializer[object]):
    """Numbers of objects by state."""

    def get_fields(self) -> dict[str, Any]:
        return {state.value: s.IntegerField() for state in ItemState}


class UnknownCounts(s.Serializer[object]):
    """Numbers of objects that a total does not have."""

    messages = s.IntegerField()
    entries = s.IntegerField()
    bytes = s.IntegerField()
    clients = s.IntegerField()
    again = s.IntegerField()


class ChangeTotals(UnknownCounts):
    """Sums of the previewed effects."""

    messages = s.IntegerField(help_text="unacknowledged messages that are lost")
    entries = s.IntegerField(help_text="entries that they are in")
    bytes = s.IntegerField(help_text="stored bytes that are deleted")
    clients = s.IntegerField(help_text="clients that are connected to the objects")
    again = s.IntegerField(help_text="messages that are delivered again")
    exact = s.BooleanField(help_text="false: messages of some entries are estimated")
    unknown = UnknownCounts()


class ChangeSetShape(s.Serializer[object]):
    id = s.CharField()
    cluster = s.CharField()
    kind = s.ChoiceField(choices=tuple(KINDS))
    of = s.ChoiceField(choices=("topics", "subscriptions", "definitions"))
    arguments = s.DictField()
    query = s.DictField(allow_null=True, help_text="null: the objects were named")
    state = s.ChoiceField(choices=ChangeState.choices)
    stopping = s.BooleanField()
    waiting = s.BooleanField(help_text="true: no worker has begun what is to be done")
    created_by = s.CharField()
    role = s.CharField(help_text="for which each object is judged; empty: none")
    created_at = s.IntegerField()
    planned_at = s.IntegerField(allow_null=True)
    confirmed_at = s.IntegerField(allow_null=True)
    ended_at = s.IntegerField(allow_null=True)
    digest = s.CharField(help_text="of the exact list and contents, to confirm them; empty: none")
    total = s.IntegerField(help_text="objects")
    counts = ChangeCounts()


class ChangeSetDetail(ChangeSetShape):
    totals = ChangeTotals()


class ChangeSetsAnswer(s.Serializer[object]):
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = ChangeSetShape(many=True)


class ChangeItemShape(s.Serializer[object]):
    topic = s.CharField(help_text="full name; of definitions also that of a tenant or namespace")
    subscription = s.CharField(help_text="empty for a topic")
    state = s.ChoiceField(choices=ItemState.choices)
    effect = s.DictField(
        allow_null=True,
        help_text="previewed: messages, entries, exact, bytes, clients, again, before, after",
    )
    result = s.DictField(allow_null=True, help_text="what was done")
    reason = s.CharField(help_text="why it was not done")


class ChangeItemsAnswer(s.Serializer[object]):
    total = s.IntegerField(help_text="objects of the requested state")
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = ChangeItemShape(many=True)


class DefinitionsBody(s.Serializer[object]):
    text = s.CharField(
        trim_whitespace=False, max_length=TEXT_MAX, help_text="the file, in YAML or JSON"
    )


class ApplyDefinitionsBody(DefinitionsBody):
    digest = s.CharField(help_text="that of the difference, which is then to be made")


class DefinitionField(s.Serializer[object]):
    field = s.CharField(help_text="such as policies.retention")
    before = s.JSONField(allow_null=True, help_text="null: not set")
    after = s.JSONField(allow_null=True, help_text="null: is removed")


class DefinitionDifference(s.Serializer[object]):
    kind = s.ChoiceField(
        ("tenant", "namespace", "topic", "subscription", "function", "source", "sink")
    )
    name = s.CharField(
        help_text="of a subscription that of its topic; of a function such as function://tenant/namespace/name"
    )
    subscription = s.CharField()
    exists = s.BooleanField(help_text="false: it would be created")
    fields_changed = DefinitionField(many=True)


class DefinitionsDiff(s.Serializer[object]):
    at = s.IntegerField()
    digest = s.CharField(help_text="of exactly these differences; empty without any")
    objects = s.IntegerField(help_text="in the file")
    differing = DefinitionDifference(many=True)
    not_in_file = s.ListField(
        child=s.CharField(),
        help_text="the first topics of the file's namespaces that it does not have; they stay",
    )
    not_in_file_total = s.IntegerField()
