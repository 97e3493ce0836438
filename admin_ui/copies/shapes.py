"""Shapes of copies and dead letters."""

from typing import Any

from rest_framework import serializers as s

from admin_ui.shapes import ChangeBody
from gateway.copies.models import CopyMode, CopyState
from gateway.services.index.rows import KNOWN

RATE_DEFAULT = 1_000
RATE_MAX = 100_000
TIME_MAX = (1 << 53) - 1
STOPPED = ("end", "bound")


class _KnownMembers(s.Serializer[object]):
    # Base of shapes that refuse other members: a misspelt condition would choose every message. It has no docstring,
    # which would describe each of them.
    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (other := data.keys() - self.fields.keys()):
            raise s.ValidationError({sorted(other)[0]: "There is no such member."})
        return super().to_internal_value(data)


class LetterShape(_KnownMembers):
    """The common features of a group of dead letters; empty texts are not known."""

    origin = s.CharField(
        required=False, allow_null=True, allow_blank=True, help_text="topic of its origin"
    )
    subscription = s.CharField(required=False, allow_null=True, allow_blank=True)
    reason = s.CharField(
        required=False,
        allow_null=True,
        allow_blank=True,
        help_text="why it is dead, without numbers and quoted texts",
    )
    shape = s.CharField(
        required=False, allow_null=True, allow_blank=True, help_text="what its value is like"
    )


def _condition(text: str) -> s.CharField:
    return s.CharField(
        required=False, allow_null=True, allow_blank=True, trim_whitespace=False, help_text=text
    )


class ConditionsShape(_KnownMembers):
    key = _condition("exact")
    producer = _condition("exact")
    properties = s.ListField(
        child=s.CharField(), required=False, help_text="each a name or name=value"
    )
    text = _condition("in the value, whatever its case")
    path = _condition("a path that the value has, such as $.lines[0].price")
    equals = _condition("what is at the path")
    since = s.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=TIME_MAX, help_text="publish time"
    )
    until = s.IntegerField(
        required=False,
        allow_null=True,
        min_value=0,
        max_value=TIME_MAX,
        help_text="publish time, which is before it",
    )
    first = _condition("position of the first message, ledger:entry or ledger:entry:index")
    last = _condition("position of the last message")
    group = LetterShape(required=False, allow_null=True)


class CopyBody(_KnownMembers):
    preview = s.BooleanField(default=False)
    token = s.CharField(
        required=False, trim_whitespace=False, help_text="of the preview, which starts the copy"
    )
    target = s.CharField(
        required=False,
        allow_null=True,
        help_text="topic; null or without it: the origin that each dead letter names",
    )
    subscription = s.CharField(
        required=False,
        allow_null=True,
        help_text="of the topic: its unacknowledged messages are moved, so acknowledged when"
        " they are stored; without it messages are copied",
    )
    conditions = ConditionsShape(required=False)
    rate = s.IntegerField(
        default=RATE_DEFAULT, min_value=1, max_value=RATE_MAX, help_text="messages a second"
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["preview"] == ("token" in attrs):
            raise s.ValidationError({"token": "give either preview or the preview's token"})
        return attrs


class CopyTargetShape(s.Serializer[object]):
    topic = s.CharField()
    messages = s.IntegerField()
    partitions = s.IntegerField(help_text="0 of a plain topic")
    deduplicated = s.BooleanField(help_text="its brokers drop what is sent again")
    problem = s.CharField(allow_null=True, help_text="why nothing can be copied there")


class CopyPreview(s.Serializer[object]):
    token = s.CharField()
    at = s.IntegerField()
    mode = s.ChoiceField(("copy", "move"))
    scanned = s.IntegerField(help_text="messages that were looked at")
    scanned_entries = s.IntegerField()
    entries = s.IntegerField(help_text="stored entries of the range, as the topic is now")
    stopped = s.ChoiceField(
        STOPPED, help_text="bound: there is more, and the counts are least ones"
    )
    matched = s.IntegerField(help_text="messages that would be copied")
    without_origin = s.IntegerField(help_text="matching messages that name no origin to go to")
    first_published = s.IntegerField(allow_null=True)
    last_published = s.IntegerField(allow_null=True)
    targets = CopyTargetShape(many=True)
    at_least_once = s.BooleanField(
        help_text="a target has no deduplication: after a failure some messages may be there twice"
    )


class CopyAmounts(s.Serializer[object]):
    entries = s.IntegerField(help_text="entries that were read")
    scanned = s.IntegerField()
    matched = s.IntegerField()
    copied = s.IntegerField(help_text="stored at the target, by its receipts")
    repeated = s.IntegerField(help_text="sent again after a failure, and dropped by the broker")
    acknowledged = s.IntegerField(help_text="at the source of a move, or by an undo")
    consumed = s.IntegerField(help_text="by an undo: found acknowledged already")
    unclear = s.IntegerField(
        help_text="by an undo: found acknowledged where it had been interrupted, by it or by a consumer"
    )
    not_copied = s.IntegerField(
        help_text="matching messages without a target, incomplete, or refused by it"
    )


class CopyRow(s.Serializer[object]):
    id = s.CharField()
    cluster = s.CharField()
    mode = s.ChoiceField(CopyMode.choices)
    topic = s.CharField(help_text="whose messages are copied")
    target = s.CharField(allow_null=True, help_text="null: the origin of each dead letter")
    targets = s.ListField(child=s.CharField())
    subscription = s.CharField(allow_null=True)
    conditions = ConditionsShape()
    rate = s.IntegerField()
    state = s.ChoiceField(CopyState.choices)
    stage = s.CharField(help_text="what it waits for; empty: it works")
    problem = s.CharField(allow_null=True, help_text="failure that is tried again")
    error = s.CharField(allow_null=True)
    entries = s.IntegerField(help_text="of the range; counts.entries of them were read")
    counts = CopyAmounts()
    at_least_once = s.BooleanField()
    attempt = s.IntegerField()
    created_at = s.IntegerField()
    created_by = s.CharField()
    started_at = s.IntegerField(allow_null=True)
    finished_at = s.IntegerField(allow_null=True)
    stopping = s.BooleanField()
    undoes = s.CharField(allow_null=True)
    undone_by = s.CharField(allow_null=True)


class CopiesAnswer(s.Serializer[object]):
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = CopyRow(many=True)


class ResumeBody(s.Serializer[object]):
    rate = s.IntegerField(
        required=False, min_value=1, max_value=RATE_MAX, help_text="messages a second from now on"
    )


class UndoCopyBody(ChangeBody):
    pass


class UndoSubscription(s.Serializer[object]):
    topic = s.CharField()
    subscription = s.CharField()
    held = s.IntegerField(help_text="copies that would be skipped for it")
    consumed = s.IntegerField(help_text="copies that it acknowledged already")


class UndoCopyPreview(s.Serializer[object]):
    token = s.CharField()
    at = s.IntegerField()
    scanned = s.IntegerField()
    scanned_entries = s.IntegerField()
    entries = s.IntegerField()
    stopped = s.ChoiceField(STOPPED)
    copies = s.IntegerField(help_text="copies that were found in the targets")
    subscriptions = UndoSubscription(many=True)


class DeadLetterTopic(s.Serializer[object]):
    name = s.CharField()
    kind = s.ChoiceField(("dead letters", "retries"))
    known = s.ChoiceField(choices=KNOWN, help_text="as in TopicRow, for backlog and rates")
    origin = s.CharField(allow_null=True, help_text="that its oldest message names; null: unknown")
    subscription = s.CharField(allow_null=True)
    entries = s.IntegerField(allow_null=True, help_text="stored entries; null: unknown")
    oldest_at = s.IntegerField(
        allow_null=True, help_text="when its oldest stored message was published"
    )
    backlog = s.IntegerField(allow_null=True, help_text="unacknowledged messages")
    msg_rate_in = s.FloatField(allow_null=True)
    storage_bytes = s.IntegerField(allow_null=True)
    problem = s.CharField(allow_null=True, help_text="why its messages were not looked at")


class DeadLetterTopics(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = DeadLetterTopic(many=True)


class LetterSample(s.Serializer[object]):
    id = s.CharField()
    topic = s.CharField()
    published = s.IntegerField()
    key = s.CharField(allow_null=True)
    origin_id = s.CharField(allow_null=True)
    reason = s.CharField()


class DeadLetterGroup(s.Serializer[object]):
    origin = s.CharField()
    subscription = s.CharField()
    reason = s.CharField()
    shape = s.CharField()
    messages = s.IntegerField()
    bytes = s.IntegerField(help_text="of the values")
    first_published = s.IntegerField()
    last_published = s.IntegerField()
    sample = LetterSample()


class DeadLettersAnswer(s.Serializer[object]):
    at = s.IntegerField()
    groups = DeadLetterGroup(many=True)
    scanned = s.IntegerField()
    scanned_entries = s.IntegerField()
    entries = s.IntegerField(help_text="stored entries of the topic")
    stopped = s.ChoiceField(("limit", "end", "bytes", "time"))
    missing = s.ListField(child=s.IntegerField())
    after = s.CharField(help_text="the next part begins here")
