"""Shapes of the list of topics, and of the page of a topic."""

from rest_framework import serializers as s

from admin_ui.shapes import (
    BacklogShape,
    ChangeBody,
    ProblemShape,
    TopicRow,
    age_target_s,
    oldest_at,
)
from engine.admin.api.traces import ENTRIES_MAX, SECONDS_MAX
from engine.admin.lag import LagCause, LagSeverity
from engine.base.names import DOMAINS
from engine.tenancy.topics import PARTITIONS_MAX

SPAN_NAMES = ("publish", "admit", "append", "bookie", "dispatch", "process")
"""Steps of a traced entry."""
CHANGES = ("delete", "terminate", "unload", "partitions")
"""Changes of a topic as a whole."""


class TroubleShape(ProblemShape):
    """A problem of a topic itself."""

    title = s.CharField()


class ListedRow(TopicRow):
    attention = ProblemShape(
        allow_null=True, help_text="the most harmful problem of its subscriptions; null: none found"
    )
    trend = s.ListField(
        child=s.IntegerField(allow_null=True),
        required=False,
        help_text="backlog in entries of the last 15 minutes, one per minute, oldest first; null: not known",
    )


class TopicsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField(help_text="topics that pass the filter")
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = ListedRow(many=True)


class NameList(s.Serializer[object]):
    total = s.IntegerField()
    names = s.ListField(child=s.CharField(), help_text="the first of these names")


class ScopesAnswer(s.Serializer[object]):
    tenants = NameList()
    namespaces = NameList(help_text="as tenant/namespace")


def partition() -> s.IntegerField:
    """Return the field for the number of a partition."""
    return s.IntegerField(allow_null=True, help_text="null for a plain topic")


def schema_version() -> s.IntegerField:
    """Return the field for the version of the topic's schema that a client uses."""
    return s.IntegerField(
        allow_null=True, help_text="version of the topic's schema that it uses; null: none"
    )


class LedgerRow(s.Serializer[object]):
    id = s.CharField()
    entries = s.IntegerField()
    bytes = s.IntegerField()
    state = s.CharField(help_text="open, closed or offloaded")
    partition = partition()


class ProducerRow(s.Serializer[object]):
    """A producer as a client opened it: on a partitioned topic it is connected to each partition."""

    id = s.CharField()
    name = s.CharField()
    address = s.CharField()
    msg_rate_in = s.FloatField()
    bytes_rate_in = s.FloatField()
    client_version = s.CharField()
    connected_since = s.CharField(help_text="ISO 8601, empty when unknown")
    partitions = s.ListField(
        child=s.IntegerField(),
        help_text="partitions to which it is connected; empty for a plain topic",
    )
    schema_version = schema_version()


class ConsumerRow(s.Serializer[object]):
    name = s.CharField()
    address = s.CharField()
    msg_rate_out = s.FloatField()
    permits = s.IntegerField()
    unacked = s.IntegerField()
    connected_since = s.CharField(help_text="ISO 8601, empty when unknown")
    partition = partition()
    schema_version = schema_version()


class PositionRow(s.Serializer[object]):
    partition = partition()
    mark_delete = s.CharField(help_text="ledger:entry, empty when unknown")
    read_position = s.CharField(help_text="ledger:entry, empty when unknown")
    backlog = s.IntegerField(help_text="entries")


class LagShape(s.Serializer[object]):
    cause = s.ChoiceField(choices=[cause.value for cause in LagCause])
    severity = s.ChoiceField(choices=[severity.value for severity in LagSeverity])
    title = s.CharField(help_text="continues a sentence that begins with the subscription's name")
    detail = s.CharField(help_text="the numbers that show it")
    advice = s.CharField(help_text="a next step that does no harm")
    since = s.IntegerField()
    at_least = s.BooleanField(help_text="it began at 'since', or before")


class SubscriptionRow(BacklogShape):
    name = s.CharField()
    type = s.CharField(
        help_text="Exclusive, Shared, Failover, Key_Shared; empty before the first consumer"
    )
    durable = s.BooleanField()
    msg_rate_out = s.FloatField()
    msg_rate_redeliver = s.FloatField()
    unacked = s.IntegerField()
    consumers = ConsumerRow(many=True)
    positions = PositionRow(many=True, help_text="one, or one for each partition that answered")
    oldest_at = oldest_at()
    age_target_s = age_target_s()
    net_rate = s.FloatField(
        help_text="change of the backlog in entries per second; negative while it drains"
    )
    lag = LagShape(allow_null=True, help_text="why it does not drain; null: nothing prevents it")


class PartitionRow(TopicRow):
    partition = s.IntegerField()
    owner = s.CharField(help_text="the broker that serves it; empty when none does")


class ReplicationRow(s.Serializer[object]):
    """Another cluster that the topic is sent to or comes from; sums over the partitions that answered."""

    cluster = s.CharField()
    sent = s.BooleanField(help_text="the topic is sent there")
    connected = s.BooleanField(help_text="all of the topic that is sent there has a connection")
    backlog = s.IntegerField(help_text="entries that the cluster is not known to have")
    delay_s = s.IntegerField(help_text="age of the oldest entry that was sent and is not stored")
    msg_rate_in = s.FloatField(help_text="messages a second from there")
    msg_rate_out = s.FloatField()
    blocked_by = s.CharField(allow_null=True, help_text="why nothing is sent; null: it is sent")


class TopicAnswer(s.Serializer[object]):
    at = s.IntegerField()
    row = TopicRow()
    trouble = TroubleShape(
        allow_null=True, help_text="a problem of the topic itself; null: none is found"
    )
    owner = s.CharField(help_text="the broker that serves it; empty when none does, or several")
    ledgers = LedgerRow(many=True)
    producers = ProducerRow(many=True)
    replication = ReplicationRow(many=True)
    subscriptions = SubscriptionRow(many=True)
    partitions = PartitionRow(many=True, help_text="empty for a plain topic")
    missing = s.ListField(
        child=s.IntegerField(),
        help_text="partitions that did not answer: only their rows are here",
    )


# Changes


class NewTopic(s.Serializer[object]):
    domain = s.ChoiceField(choices=DOMAINS)
    tenant = s.CharField(max_length=255)
    namespace = s.CharField(max_length=255, help_text="without the tenant")
    topic = s.CharField(max_length=1000, trim_whitespace=False, help_text="local name")
    partitions = s.IntegerField(
        min_value=0, max_value=PARTITIONS_MAX, help_text="0 for a plain topic"
    )
    properties = s.DictField(child=s.CharField(allow_blank=True, trim_whitespace=False))


class MadeTopic(s.Serializer[object]):
    name = s.CharField(help_text="full name")
    partitions = s.IntegerField(help_text="0 for a plain topic")


class TopicChangeBody(ChangeBody):
    pass


class MorePartitionsBody(ChangeBody):
    amount = "partitions"
    partitions = s.IntegerField(required=False, min_value=1, max_value=PARTITIONS_MAX)


class ClientShape(s.Serializer[object]):
    name = s.CharField()
    address = s.CharField()


class UnreadOfSubscription(s.Serializer[object]):
    """Entries that a subscription has not acknowledged. ``messages`` is null when storage does not have their number,
    and estimated unless ``exact``."""

    name = s.CharField()
    durable = s.BooleanField()
    entries = s.IntegerField()
    messages = s.IntegerField(allow_null=True)
    exact = s.BooleanField()
    consumers = ClientShape(many=True)


class TopicPreview(s.Serializer[object]):
    """The content and the users of a topic, over all partitions. ``token``, null when too large or when nothing would
    change, confirms exactly that change."""

    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    partitions = s.IntegerField(help_text="0 for a plain topic")
    partitions_after = s.IntegerField(
        allow_null=True, help_text="number after the change, if it adds partitions"
    )
    bytes = s.IntegerField(help_text="stored bytes")
    entries = s.IntegerField(help_text="stored entries")
    terminated = s.BooleanField()
    producers = ClientShape(many=True)
    subscriptions = UnreadOfSubscription(many=True)
    unread = s.ListField(
        child=s.CharField(),
        help_text="subscriptions that cannot be read now: their numbers are not known",
    )
    remakes = s.BooleanField(
        help_text="whether clients that use the topic after its deletion create it again"
    )


class TopicReceipt(s.Serializer[object]):
    change = s.ChoiceField(CHANGES)
    at = s.IntegerField()
    last = s.ListField(
        child=s.CharField(), help_text="after a termination, the last message of each part"
    )


class TraceBody(s.Serializer[object]):
    """Request to trace the next entries of a topic, of each partition as many."""

    entries = s.IntegerField(min_value=1, max_value=ENTRIES_MAX, default=1)
    seconds = s.IntegerField(
        min_value=1,
        max_value=SECONDS_MAX,
        default=60,
        help_text="time within which they are published",
    )
    sampled_only = s.BooleanField(
        default=False,
        help_text="only entries whose property traceparent has the context of a sampled trace",
    )


class SpanShape(s.Serializer[object]):
    """One step of an entry; times in microseconds since the broker received it."""

    id = s.CharField(help_text="16 hexadecimal digits")
    parent_id = s.CharField(
        allow_null=True, help_text="null: no span of this trace or of the publisher"
    )
    name = s.ChoiceField(choices=SPAN_NAMES)
    start_us = s.IntegerField()
    end_us = s.IntegerField(allow_null=True, help_text="null: not ended, or not known")
    detail = s.DictField(child=s.CharField())


class TraceShape(s.Serializer[object]):
    topic = s.CharField(help_text="the partition, of a partitioned topic")
    partition = partition()
    trace_id = s.CharField(help_text="32 hexadecimal digits; the publisher's where it gave one")
    parent_span_id = s.CharField(allow_null=True)
    producer = s.CharField()
    position = s.CharField(allow_null=True, help_text="ledger:entry; null: not stored")
    messages = s.IntegerField()
    bytes = s.IntegerField()
    received_ms = s.IntegerField()
    state = s.ChoiceField(choices=("storing", "stored", "failed"))
    more_deliveries = s.IntegerField(help_text="deliveries without spans: only the first ones have")
    spans = SpanShape(many=True)


class TracesAnswer(s.Serializer[object]):
    at = s.IntegerField()
    left = s.IntegerField(help_text="entries that are still to be selected")
    traces = TraceShape(many=True, help_text="newest first")


class HeldBytes(s.Serializer[object]):
    holder = s.CharField(help_text="what holds the ledgers: a subscription, retention, nothing, …")
    ledgers = s.IntegerField()
    bytes = s.IntegerField()
    why = s.CharField(help_text="what that means")
    next = s.CharField(help_text="the step that would free them")


class HoldingSubscription(s.Serializer[object]):
    name = s.CharField()
    ledgers = s.IntegerField(help_text="that it has not acknowledged, or that lie behind such")
    bytes = s.IntegerField()
    alone_bytes = s.IntegerField(help_text="of ledgers that no other subscription needs")


class HeldLedgerRow(s.Serializer[object]):
    topic = s.CharField(help_text="the partition, of a partitioned topic")
    ledger_id = s.IntegerField()
    entries = s.IntegerField()
    bytes = s.IntegerField()
    closed_ms = s.IntegerField(help_text="0: it accepts entries")
    holder = s.CharField()
    subscriptions = s.ListField(child=s.CharField(), help_text="that need it, at most 20")
    until_ms = s.IntegerField(allow_null=True, help_text="end of its retention; null: none by time")


class HoldingSubscriptionOf(HoldingSubscription):
    topic = s.CharField()


class TopicHeldSpace(s.Serializer[object]):
    topic = s.CharField()
    ledgers = s.IntegerField()
    bytes = s.IntegerField()
    holder = s.CharField(help_text="what holds most of them; empty: nothing is stored")


class UnreadTopic(s.Serializer[object]):
    topic = s.CharField()
    reason = s.CharField()


class NamespaceHeldSpaceAnswer(s.Serializer[object]):
    """The reasons that keep the ledgers of the topics of a namespace with the most stored bytes, at most 100. Bytes are
    those of one copy."""

    at = s.IntegerField()
    copies = s.IntegerField(help_text="of each entry, at most; 0: no topic was read")
    topics = s.IntegerField(help_text="persistent topics of the namespace")
    read = s.IntegerField(help_text="topics in this answer")
    unread = UnreadTopic(many=True, help_text="those among the largest that could not be read")
    ledgers = s.IntegerField()
    held = HeldBytes(many=True, help_text="most bytes first")
    subscriptions = HoldingSubscriptionOf(many=True, help_text="most bytes first, at most 200")
    by_topic = TopicHeldSpace(many=True, help_text="most bytes first")


class HeldSpaceAnswer(s.Serializer[object]):
    """The reasons that keep the ledgers of a topic. Bytes are those of one copy."""

    at = s.IntegerField()
    copies = s.IntegerField(help_text="of each entry")
    retention_s = s.IntegerField(help_text="0: none, -1: no limit")
    retention_bytes = s.IntegerField(help_text="0: none, -1: no limit")
    ledgers = s.IntegerField()
    held = HeldBytes(many=True, help_text="most bytes first")
    subscriptions = HoldingSubscription(many=True, help_text="most bytes first, at most 200")
    largest = HeldLedgerRow(many=True, help_text="ledgers, most bytes first, at most 200")
