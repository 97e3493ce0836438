"""Shapes of the first page."""

from rest_framework import serializers as s

from admin_ui.shapes import BacklogShape, BookieRow, BrokerRow, TopicRow, oldest_at

SEVERITIES = ("error", "warning", "info")


class TotalsShape(BacklogShape):
    topics = s.IntegerField()
    subscriptions = s.IntegerField()
    producers = s.IntegerField()
    consumers = s.IntegerField()
    storage_bytes = s.IntegerField()
    oldest_at = oldest_at()
    msg_rate_in = s.FloatField()
    msg_rate_out = s.FloatField()
    bytes_rate_in = s.FloatField()
    bytes_rate_out = s.FloatField()
    unknown = s.IntegerField(
        help_text="topics that are not in the sums: their numbers are not known"
    )
    last = s.IntegerField(
        help_text="topics that are in the sums with their last known numbers, which may have changed"
    )


class AttentionItem(s.Serializer[object]):
    key = s.CharField(help_text="identifies the item as long as it exists")
    severity = s.ChoiceField(choices=SEVERITIES)
    cause = s.CharField(help_text="code, as in the filter of the topic list")
    title = s.CharField(help_text="moments in all texts are ISO 8601 in UTC")
    detail = s.CharField()
    advice = s.CharField(help_text="a next step that does no harm")
    link = s.CharField(help_text="path within the console")
    command = s.CharField(help_text="a command line that does the advised step; empty: none")
    topic = s.CharField(help_text="full name; empty when the item is not about a topic")
    subscription = s.CharField(help_text="empty when the item is not about a subscription")
    count = s.IntegerField(help_text="number of problems that this item represents")
    score = s.FloatField(help_text="harm; items with more harm are listed first")
    since = s.IntegerField(allow_null=True, help_text="null: not known")
    at_least = s.BooleanField(help_text="it began at 'since', or before")


class Attention(s.Serializer[object]):
    known = s.BooleanField(
        help_text="whether every registered broker and the metadata store answer: no item is missing"
    )
    since = s.IntegerField(
        allow_null=True,
        help_text="time since which all subscriptions are observed; null: not all are",
    )
    settled = s.BooleanField(
        help_text="whether that is long enough to detect each cause: no item then means that nothing is wrong"
    )
    items = AttentionItem(many=True)
    more = s.IntegerField(help_text="number of further items that are left out")


class OverviewAnswer(s.Serializer[object]):
    at = s.IntegerField()
    cluster = s.CharField()
    totals = TotalsShape()
    attention = Attention()
    top_backlogs = TopicRow(many=True)
    brokers = BrokerRow(many=True)
    bookies = BookieRow(many=True)
