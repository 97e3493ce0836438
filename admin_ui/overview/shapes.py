"""Shapes of the first page."""

from rest_framework import serializers as s

from admin_ui.shapes import BacklogShape, BookieRow, BrokerRow, TopicRow

SEVERITIES = ("error", "warning", "info")


class TotalsShape(BacklogShape):
    topics = s.IntegerField()
    subscriptions = s.IntegerField()
    producers = s.IntegerField()
    consumers = s.IntegerField()
    storage_bytes = s.IntegerField()
    msg_rate_in = s.FloatField()
    msg_rate_out = s.FloatField()
    bytes_rate_in = s.FloatField()
    bytes_rate_out = s.FloatField()
    unknown = s.IntegerField(help_text="topics that are not in the sums: nothing is known of them")
    last = s.IntegerField(
        help_text="topics that are in the sums with their last known numbers: there may be others by now"
    )


class AttentionItem(s.Serializer[object]):
    key = s.CharField(help_text="stays with the item while it is there")
    severity = s.ChoiceField(choices=SEVERITIES)
    cause = s.CharField(help_text="code, as of the topic list's filter")
    title = s.CharField(help_text="moments in all texts are ISO 8601 in UTC")
    detail = s.CharField()
    advice = s.CharField(help_text="what to do next that harms nothing")
    link = s.CharField(help_text="path within the console")
    command = s.CharField(
        help_text="a command line that does what is advised; empty: none is known"
    )
    topic = s.CharField(help_text="full name; empty when it is not about one")
    subscription = s.CharField(help_text="empty when it is not about one")
    count = s.IntegerField(help_text="how many such ones this item stands for")
    score = s.FloatField(help_text="harm: items with more come first")
    since = s.IntegerField(allow_null=True, help_text="null: not known")
    at_least = s.BooleanField(help_text="it began at 'since', or before")


class Attention(s.Serializer[object]):
    known = s.BooleanField(
        help_text="every registered broker and the store answer: there is no item that is not here"
    )
    since = s.IntegerField(
        allow_null=True, help_text="since when all subscriptions are looked at; null: not all are"
    )
    settled = s.BooleanField(
        help_text="for long enough that each cause was told: no item means that nothing is wrong"
    )
    items = AttentionItem(many=True)
    more = s.IntegerField(help_text="what else needs attention and is in no item")


class OverviewAnswer(s.Serializer[object]):
    at = s.IntegerField()
    cluster = s.CharField()
    totals = TotalsShape()
    attention = Attention()
    top_backlogs = TopicRow(many=True)
    brokers = BrokerRow(many=True)
    bookies = BookieRow(many=True)
