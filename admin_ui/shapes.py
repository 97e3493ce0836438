"""Shapes of the console API's answers and bodies, as serializers: the OpenAPI document comes from them, and bodies are
checked by them. Answers are plain dictionaries; a test holds them against these shapes.

64-bit ids are strings, times integer milliseconds since the epoch, rates numbers per second.
"""

from rest_framework import serializers as s

DOMAINS = ("persistent", "non-persistent")
DRAIN_STATES = ("empty", "draining", "growing", "stalled")
SEVERITIES = ("error", "warning")


class Reason(s.Serializer[object]):
    reason = s.CharField()
    field = s.CharField(required=False)
    request_id = s.CharField(required=False)


class User(s.Serializer[object]):
    name = s.CharField()
    superuser = s.BooleanField()


class EnvironmentAnswer(s.Serializer[object]):
    cluster = s.CharField()
    clusters = s.ListField(child=s.CharField())
    version = s.CharField()
    broker_url = s.CharField(help_text="of all registered brokers; empty without one")
    http_url = s.CharField()
    user = User(allow_null=True)
    now = s.IntegerField()


class TopicRow(s.Serializer[object]):
    name = s.CharField(help_text="full name, domain://tenant/namespace/topic")
    domain = s.ChoiceField(choices=DOMAINS)
    tenant = s.CharField()
    namespace = s.CharField(help_text="without the tenant")
    topic = s.CharField()
    partitions = s.IntegerField(help_text="0 for a plain topic")
    producers = s.IntegerField()
    consumers = s.IntegerField()
    subscriptions = s.IntegerField()
    msg_rate_in = s.FloatField()
    msg_rate_out = s.FloatField()
    bytes_rate_in = s.FloatField()
    bytes_rate_out = s.FloatField()
    backlog = s.IntegerField(help_text="entries, summed over subscriptions")
    storage_bytes = s.IntegerField()
    at = s.IntegerField(help_text="when these numbers were taken")


class TopicsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField(help_text="rows that pass the filter")
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = TopicRow(many=True)


class Totals(s.Serializer[object]):
    topics = s.IntegerField()
    subscriptions = s.IntegerField()
    producers = s.IntegerField()
    consumers = s.IntegerField()
    backlog = s.IntegerField()
    storage_bytes = s.IntegerField()
    msg_rate_in = s.FloatField()
    msg_rate_out = s.FloatField()
    bytes_rate_in = s.FloatField()
    bytes_rate_out = s.FloatField()


class Attention(s.Serializer[object]):
    severity = s.ChoiceField(choices=SEVERITIES)
    title = s.CharField()
    detail = s.CharField()
    link = s.CharField(help_text="path within the console")


class BrokerRow(s.Serializer[object]):
    id = s.CharField()
    url = s.CharField()
    state = s.CharField(help_text="up, or unreachable")
    topics = s.IntegerField()
    msg_rate_in = s.FloatField()
    msg_rate_out = s.FloatField()


class BookieRow(s.Serializer[object]):
    id = s.CharField()
    state = s.CharField(help_text="writable, read-only or down")
    free_bytes = s.IntegerField(allow_null=True)
    total_bytes = s.IntegerField(allow_null=True)


class OverviewAnswer(s.Serializer[object]):
    at = s.IntegerField()
    cluster = s.CharField()
    totals = Totals()
    attention = Attention(many=True)
    top_backlogs = TopicRow(many=True)
    brokers = BrokerRow(many=True)
    bookies = BookieRow(many=True)


class HistoryAnswer(s.Serializer[object]):
    at = s.IntegerField()
    step_ms = s.IntegerField()
    columns = s.ListField(child=s.CharField(), help_text="names of the numbers in each point")
    points = s.ListField(child=s.ListField(child=s.FloatField()), help_text="oldest first")


class LedgerRow(s.Serializer[object]):
    id = s.CharField()
    entries = s.IntegerField()
    bytes = s.IntegerField()
    state = s.CharField(help_text="open, closed or offloaded")


class ProducerRow(s.Serializer[object]):
    id = s.CharField()
    name = s.CharField()
    address = s.CharField()
    msg_rate_in = s.FloatField()
    bytes_rate_in = s.FloatField()
    client_version = s.CharField()
    connected_since = s.CharField(help_text="ISO 8601, empty when unknown")


class ConsumerRow(s.Serializer[object]):
    name = s.CharField()
    address = s.CharField()
    msg_rate_out = s.FloatField()
    permits = s.IntegerField()
    unacked = s.IntegerField()
    connected_since = s.CharField(help_text="ISO 8601, empty when unknown")


class Drain(s.Serializer[object]):
    state = s.ChoiceField(choices=DRAIN_STATES)
    eta_s = s.FloatField(allow_null=True, help_text="seconds until empty, while draining")


class SubscriptionRow(s.Serializer[object]):
    name = s.CharField()
    type = s.CharField(
        help_text="Exclusive, Shared, Failover, Key_Shared; empty before the first consumer"
    )
    durable = s.BooleanField()
    backlog = s.IntegerField()
    msg_rate_out = s.FloatField()
    msg_rate_redeliver = s.FloatField()
    unacked = s.IntegerField()
    consumers = ConsumerRow(many=True)
    mark_delete = s.CharField(help_text="ledger:entry, empty when unknown")
    read_position = s.CharField(help_text="ledger:entry, empty when unknown")
    oldest_unacked_ms = s.IntegerField(required=False, help_text="publish time")
    net_rate = s.FloatField(help_text="change of the backlog per second; negative while it drains")
    drain = Drain()


class TopicAnswer(s.Serializer[object]):
    at = s.IntegerField()
    row = TopicRow()
    owner = s.CharField(help_text="the broker that serves it; empty when none does, or several")
    ledgers = LedgerRow(many=True)
    producers = ProducerRow(many=True)
    subscriptions = SubscriptionRow(many=True)


class SkipAllBody(s.Serializer[object]):
    preview = s.BooleanField(default=False)


class SkipBody(s.Serializer[object]):
    preview = s.BooleanField(default=False)
    count = s.IntegerField(min_value=1, max_value=(1 << 53) - 1, help_text="messages")


class ResetBody(s.Serializer[object]):
    preview = s.BooleanField(default=False)
    timestamp = s.IntegerField(
        min_value=0,
        max_value=(1 << 53) - 1,
        help_text="milliseconds; the first message published at or after it becomes next",
    )


class Commands(s.Serializer[object]):
    curl = s.CharField()
    pulsar_admin = s.CharField()


class CursorChange(s.Serializer[object]):
    """A preview has ``affected``, ``from`` and ``to``; an applied change has ``done`` and ``commands``."""

    affected = s.IntegerField(required=False, help_text="entries dropped or redelivered")
    to = s.CharField(required=False, allow_null=True, help_text="mark-delete position after")
    done = s.BooleanField(required=False)
    commands = Commands(required=False)

    def get_fields(self) -> dict[str, s.Field]:  # type: ignore[type-arg]
        fields = super().get_fields()
        # ``from`` is a keyword, so it cannot be a class attribute.
        fields["from"] = s.CharField(
            required=False, allow_null=True, help_text="mark-delete position before"
        )
        return fields


class AuditRow(s.Serializer[object]):
    id = s.CharField()
    at = s.IntegerField()
    actor = s.CharField()
    address = s.CharField()
    method = s.CharField()
    target = s.CharField()
    status = s.IntegerField(allow_null=True, help_text="null: outcome not seen")


class AuditAnswer(s.Serializer[object]):
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = AuditRow(many=True)


class ViewBody(s.Serializer[object]):
    name = s.CharField(max_length=120)
    resource = s.ChoiceField(choices=("topics", "runs", "audit"))
    query = s.DictField(child=s.CharField(max_length=1000, allow_blank=True))


class ViewRow(ViewBody):
    id = s.CharField()
    created_at = s.IntegerField()


class ViewsAnswer(s.Serializer[object]):
    rows = ViewRow(many=True)
