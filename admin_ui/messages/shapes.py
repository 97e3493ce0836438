"""Shapes of messages."""

from rest_framework import serializers as s

from gateway.services.browsing.opening import Kind

FORMS = ("json", "text", "bytes", "none")
STOPPED = ("limit", "end", "bytes", "time")


class ValueShape(s.Serializer[object]):
    form = s.ChoiceField(
        FORMS, help_text="how text is to be read; bytes: hexadecimal digits; none: there is none"
    )
    text = s.CharField(help_text="JSON with all digits of its numbers, a text, or digits")
    bytes = s.IntegerField(help_text="size of the value")
    cut = s.BooleanField(help_text="text is only the beginning")
    schema_version = s.IntegerField(
        allow_null=True, help_text="version that the message names; null: none"
    )
    error = s.CharField(allow_null=True, help_text="why its schema cannot decode it")


class BatchPlace(s.Serializer[object]):
    index = s.IntegerField()
    size = s.IntegerField(help_text="messages in the batch")


class ChunkPlace(s.Serializer[object]):
    index = s.IntegerField()
    size = s.IntegerField(help_text="chunks of the message")
    message = s.CharField(help_text="the producer's name of the message")


class MessageAnswer(s.Serializer[object]):
    id = s.CharField(help_text="ledger:entry, in a batch ledger:entry:index")
    topic = s.CharField(help_text="full name of the topic or partition that has it")
    partition = s.IntegerField(help_text="-1: the topic has none")
    kind = s.ChoiceField(list(Kind))
    marker = s.CharField(allow_null=True, help_text="kind of a marker")
    problem = s.CharField(allow_null=True, help_text="why a damaged entry cannot be decoded")
    published = s.IntegerField(allow_null=True)
    event = s.IntegerField(allow_null=True)
    received = s.IntegerField(
        allow_null=True, help_text="by the broker's clock; null: brokers do not store it"
    )
    number = s.CharField(
        allow_null=True, help_text="in the topic, from 0; null: brokers do not store it"
    )
    producer = s.CharField()
    sequence = s.CharField(help_text="sequence id")
    key = s.CharField(allow_null=True)
    key_is_base64 = s.BooleanField()
    ordering_key = s.CharField(allow_null=True, help_text="base64")
    properties = s.DictField(child=s.CharField())
    batch = BatchPlace(allow_null=True)
    chunk = ChunkPlace(allow_null=True)
    compression = s.CharField()
    entry_bytes = s.IntegerField(help_text="stored bytes of its entry")
    encryption_keys = s.ListField(child=s.CharField(), help_text="names")
    replicated_from = s.CharField(allow_null=True, help_text="cluster that it was published in")
    deliver_at = s.IntegerField(allow_null=True)
    compacted_out = s.BooleanField()
    value = ValueShape()


class MessagesAnswer(s.Serializer[object]):
    at = s.IntegerField()
    direction = s.ChoiceField(("forward", "backward"))
    rows = MessageAnswer(many=True)
    scanned = s.IntegerField(help_text="messages that were looked at")
    entries = s.IntegerField()
    bytes = s.IntegerField(help_text="stored bytes that were read")
    took_ms = s.IntegerField()
    stopped = s.ChoiceField(
        STOPPED, help_text="why it ended: all requested, the end of the topic, or a bound"
    )
    partitions = s.IntegerField(help_text="0 of a plain topic")
    missing = s.ListField(child=s.IntegerField(), help_text="partitions that did not answer")
    after = s.CharField(help_text="the next page begins here, also when there is none yet")
