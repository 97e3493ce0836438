"""Shapes of the topics list, and of one topic in full."""

from rest_framework import serializers as s

from admin_ui.shapes import TopicRow

DRAIN_STATES = ("empty", "draining", "growing", "stalled")


class TopicsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField(help_text="rows that pass the filter")
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = TopicRow(many=True)


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


class CountedRow(TopicRow):
    """A row of which all is known: its topic was just asked."""

    loaded = s.BooleanField(help_text="false: nobody has created its partitions yet")
    producers = s.IntegerField()
    consumers = s.IntegerField()
    subscriptions = s.IntegerField()
    msg_rate_in = s.FloatField()
    msg_rate_out = s.FloatField()
    bytes_rate_in = s.FloatField()
    bytes_rate_out = s.FloatField()
    backlog = s.IntegerField(help_text="entries, summed over subscriptions")
    storage_bytes = s.IntegerField()


class TopicAnswer(s.Serializer[object]):
    at = s.IntegerField()
    row = CountedRow()
    owner = s.CharField(help_text="the broker that serves it; empty when none does, or several")
    ledgers = LedgerRow(many=True)
    producers = ProducerRow(many=True)
    subscriptions = SubscriptionRow(many=True)
