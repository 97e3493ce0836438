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


class ChunkPosition(s.Serializer[object]):
    index = s.IntegerField()
    id = s.CharField(help_text="ledger:entry")


class MessageChunks(s.Serializer[object]):
    """The chunks of a message, looked for around one of them."""

    size = s.IntegerField(help_text="chunks of the message")
    positions = ChunkPosition(many=True, help_text="of those that were found")
    missing = s.ListField(child=s.IntegerField(), help_text="those that were not found, from 0")
    unread = s.CharField(
        allow_null=True,
        help_text="why not everything was looked at where they may be; null: they are not stored",
    )
    begun_again = s.CharField(
        allow_null=True,
        help_text="position at which the producer sent all chunks anew, before the last of these",
    )
    is_large = s.BooleanField(help_text="the message is too large to be joined: 32 MiB")
    is_whole = s.BooleanField(help_text="the value is that of the message, else of this chunk")


class MessageAnswer(s.Serializer[object]):
    id = s.CharField(help_text="ledger:entry, in a batch ledger:entry:index")
    topic = s.CharField(help_text="full name of the topic or partition that has it")
    partition = s.IntegerField(help_text="-1: the topic has none")
    kind = s.ChoiceField(list(Kind))
    marker = s.CharField(allow_null=True, help_text="kind of a marker")
    problem = s.CharField(
        allow_null=True, help_text="why a damaged entry cannot be decoded, or chunks not be joined"
    )
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
    chunk = ChunkPlace(
        allow_null=True, help_text="of a message that was joined at its last chunk, the last"
    )
    chunks = MessageChunks(
        allow_null=True, help_text="of a message that is requested by its position; null in lists"
    )
    compression = s.CharField()
    entry_bytes = s.IntegerField(
        allow_null=True,
        help_text="stored bytes of its entry; null: Apache's REST does not state them",
    )
    encryption_keys = s.ListField(child=s.CharField(), help_text="names")
    replicated_from = s.CharField(allow_null=True, help_text="cluster that it was published in")
    deliver_at = s.IntegerField(allow_null=True)
    compacted_out = s.BooleanField()
    value = ValueShape()


class RemovedKey(s.Serializer[object]):
    partition = s.IntegerField(help_text="-1: the topic has none")
    key = s.CharField()


class CompactionHorizon(s.Serializer[object]):
    partition = s.IntegerField(help_text="-1: the topic has none")
    position = s.CharField(allow_null=True, help_text="ledger:entry; null: it was not compacted")


class CompactedShape(s.Serializer[object]):
    keys = s.IntegerField(help_text="keys of this page: its rows and removed ones")
    removed = RemovedKey(
        many=True,
        help_text="keys that are deleted, or whose latest value does not meet the conditions any more",
    )
    deleted = s.IntegerField(help_text="those of removed whose latest value is null or empty")
    replaced = s.IntegerField(help_text="messages with a later one of the same key on this page")
    without_key = s.IntegerField(help_text="messages without a key, which are not shown")
    undecoded = s.IntegerField(
        help_text="damaged entries, encrypted batches and chunks before the last one"
    )
    incomplete = s.IntegerField(
        help_text="those of undecoded that end a message of which chunks are missing: no client receives it"
    )
    other_keys = s.IntegerField(help_text="messages with another key than the one looked for")
    horizons = CompactionHorizon(
        many=True, help_text="up to where the last compaction kept the latest values"
    )


class MessagesAnswer(s.Serializer[object]):
    at = s.IntegerField()
    direction = s.ChoiceField(("forward", "backward"))
    rows = MessageAnswer(many=True)
    scanned = s.IntegerField(help_text="messages that were looked at")
    entries = s.IntegerField()
    bytes = s.IntegerField(help_text="bytes that were read")
    took_ms = s.IntegerField()
    stopped = s.ChoiceField(
        STOPPED, help_text="why it ended: all requested, the end of the topic, or a bound"
    )
    partitions = s.IntegerField(help_text="0 of a plain topic")
    missing = s.ListField(child=s.IntegerField(), help_text="partitions that did not answer")
    after = s.CharField(help_text="the next page begins here, also when there is none yet")
    compacted = CompactedShape(
        allow_null=True, help_text="of the latest value of each key; null: all messages are shown"
    )


class GivenMessageShape(s.Serializer[object]):
    value = s.JSONField(
        required=False,
        allow_null=True,
        help_text="a text, JSON, which stands for its text, or null for none",
    )
    value_base64 = s.CharField(required=False, help_text="the value as bytes, instead")
    key = s.CharField(required=False, allow_null=True, allow_blank=True)
    key_is_base64 = s.BooleanField(required=False)
    ordering_key = s.CharField(required=False, allow_null=True, help_text="base64")
    properties = s.DictField(child=s.CharField(allow_blank=True), required=False)
    event_time = s.IntegerField(required=False, help_text="epoch milliseconds")
    deliver_at = s.IntegerField(required=False, help_text="not before, in epoch milliseconds")
    deliver_after_ms = s.IntegerField(required=False, help_text="delay, instead of deliver_at")


class PublishBody(s.Serializer[object]):
    preview = s.BooleanField(default=False, help_text="true: check the messages, publish none")
    messages = GivenMessageShape(many=True, required=False)
    lines = s.ListField(
        child=s.CharField(),
        required=False,
        help_text="messages as lines of JSON, instead: numbers keep their digits",
    )
    schema_version = s.IntegerField(
        required=False,
        allow_null=True,
        help_text="version that encodes them; -1: bytes without a schema; without it the newest",
    )


class MessageProblem(s.Serializer[object]):
    message = s.IntegerField(help_text="number in the request, from 0")
    field = s.CharField(help_text="such as value.lines[0].price")
    reason = s.CharField()


class PublishPreview(s.Serializer[object]):
    at = s.IntegerField()
    messages = s.IntegerField()
    bytes = s.IntegerField(help_text="of the values of those that are right")
    partitions = s.IntegerField(help_text="0 of a plain topic")
    schema_version = s.IntegerField(allow_null=True)
    schema_type = s.CharField(allow_null=True)
    wrong = s.IntegerField(help_text="messages that cannot be published")
    problems = MessageProblem(many=True, help_text="the first of them")


class PublishResult(s.Serializer[object]):
    id = s.CharField(allow_null=True, help_text="null: not stored as far as known")
    partition = s.IntegerField(help_text="-1: the topic has none")
    problem = s.CharField(allow_null=True)
    retriable = s.BooleanField(help_text="publishing it again may help")


class PublishReceipt(s.Serializer[object]):
    at = s.IntegerField()
    messages = s.IntegerField()
    stored = s.IntegerField()
    schema_version = s.IntegerField(allow_null=True)
    results = PublishResult(many=True, help_text="in the order of the messages")
