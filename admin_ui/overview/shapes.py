"""Shapes of the first page."""

from rest_framework import serializers as s

from admin_ui.shapes import TopicRow

SEVERITIES = ("error", "warning")


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
    unknown = s.IntegerField(
        help_text="topics of which some number is not known: the sums leave it out"
    )


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
    points = s.ListField(
        child=s.ListField(child=s.FloatField(allow_null=True)),
        help_text="oldest first; null: not known then",
    )
