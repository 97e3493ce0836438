"""Shapes of a topic's schema. Versions count from 0; a definition that is JSON is indented."""

from rest_framework import serializers as s

from engine.schema.kinds import SchemaKind
from engine.tenancy.policies.policy import Level
from engine.tenancy.strategy import Strategy

KINDS = tuple(kind.value for kind in SchemaKind)
STOPPED = ("asked", "begin", "bytes", "time")
LEFT_OUT = ("encrypted", "no-value", "damaged", "chunks", "version")
MESSAGES_MAX = 1_000
MESSAGES = 100


class StrategyRow(s.Serializer[object]):
    value = s.ChoiceField([strategy.value for strategy in Strategy])
    level = s.ChoiceField([level.value for level in Level], help_text="level of that value")


class VersionRow(s.Serializer[object]):
    version = s.IntegerField()
    type = s.ChoiceField(KINDS, allow_null=True)
    registered = s.IntegerField(allow_null=True)
    size = s.IntegerField(allow_null=True, help_text="bytes of the definition")
    reason = s.CharField(allow_null=True, help_text="why it cannot be read; null: it can be read")


class VersionsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField(help_text="versions since the last deletion")
    newest = s.IntegerField(help_text="number of the newest; -1 without any")
    strategy = StrategyRow()
    versions = VersionRow(many=True, help_text="newest first")


class VersionAnswer(s.Serializer[object]):
    version = s.IntegerField()
    type = s.ChoiceField(KINDS)
    registered = s.IntegerField()
    size = s.IntegerField(help_text="bytes of the definition as it was registered")
    definition = s.CharField(help_text="of KEY_VALUE a JSON object with key and value")
    properties = s.DictField(child=s.CharField())


class CandidateShape(s.Serializer[object]):
    type = s.ChoiceField(KINDS)
    definition = s.CharField(default="", allow_blank=True, trim_whitespace=False)
    properties = s.DictField(
        child=s.CharField(allow_blank=True, trim_whitespace=False), default=dict
    )


class NewVersion(CandidateShape):
    newest = s.IntegerField(
        min_value=-1, help_text="as in the verdict: the version that it is to follow"
    )


class RehearsalBody(CandidateShape):
    messages = s.IntegerField(default=MESSAGES, min_value=1, max_value=MESSAGES_MAX)


class VerdictShape(s.Serializer[object]):
    newest = s.IntegerField(help_text="number of the newest version at that time; -1 without any")
    version = s.IntegerField(
        allow_null=True, help_text="the version that has this schema already, if any"
    )
    compatible = s.BooleanField()
    reason = s.CharField(allow_null=True, help_text="why it is not compatible, with the field")
    strategy = StrategyRow()


class RegisteredVersion(s.Serializer[object]):
    version = s.IntegerField()


class Deleted(s.Serializer[object]):
    version = s.IntegerField(help_text="number of the deletion, which is a version, too")


class Example(s.Serializer[object]):
    id = s.CharField(help_text="id of one message: ledger:entry, in a batch with :index")
    published = s.IntegerField(help_text="0: not known")


class Failure(Example):
    """Messages of one producer and version that break at one field."""

    producer = s.CharField()
    version = s.IntegerField(
        allow_null=True, help_text="version that they were written with; null: none"
    )
    path = s.CharField(
        help_text="path of the field, items of lists as []; empty: the whole message"
    )
    reason = s.CharField(help_text="reason of the newest of them")
    value = s.CharField(
        allow_null=True,
        help_text="JSON of the newest, decoded with its own version; null: that fails, too",
    )
    count = s.IntegerField()


class LeftOut(Example):
    """Messages that cannot be decoded here at all."""

    why = s.ChoiceField(LEFT_OUT)
    reason = s.CharField()
    count = s.IntegerField()


class Sample(Example):
    producer = s.CharField()
    version = s.IntegerField(allow_null=True)
    value = s.CharField(help_text="JSON, as a consumer with the candidate receives it")


class Times(s.Serializer[object]):
    to = s.IntegerField()

    def get_fields(self) -> dict[str, s.Field]:  # type: ignore[type-arg]
        return super().get_fields() | {"from": s.IntegerField()}


class Rehearsal(s.Serializer[object]):
    at = s.IntegerField()
    asked = s.IntegerField()
    messages = s.IntegerField(help_text="messages that were read: decoded, failed and left out")
    entries = s.IntegerField()
    bytes = s.IntegerField(help_text="bytes that were read, or that they decompress to")
    took_ms = s.IntegerField()
    stopped = s.ChoiceField(
        STOPPED, help_text="why it ended: all requested, the topic's beginning, or a bound"
    )
    partitions = s.IntegerField(help_text="0 of a plain topic")
    missing = s.ListField(child=s.IntegerField(), help_text="partitions that did not answer")
    span = Times(allow_null=True)
    decoded = s.IntegerField()
    failed = s.IntegerField()
    failures = Failure(many=True, help_text="the most frequent first")
    more_failures = s.IntegerField(help_text="kinds of failure that are not listed")
    left_out = LeftOut(many=True)
    samples = Sample(many=True)
