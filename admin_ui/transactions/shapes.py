"""Shapes of transactions."""

from rest_framework import serializers as s

from admin_ui.shapes import ChangeBody


class CoordinatorRow(s.Serializer[object]):
    """A coordinator of transactions. Figures are null while it does not answer."""

    coordinator = s.IntegerField()
    broker = s.CharField(allow_null=True, help_text="service URL of the broker that serves it")
    state = s.CharField(allow_null=True)
    open = s.IntegerField(allow_null=True, help_text="transactions that are not ended")
    newest = s.IntegerField(
        allow_null=True, help_text="number of the last one; -1 before the first"
    )
    low_water_mark = s.IntegerField(
        allow_null=True, help_text="all up to this number have ended; -1 when none has"
    )
    ready_at = s.IntegerField(allow_null=True, help_text="when it had read its log")
    reason = s.CharField(allow_blank=True, help_text="why it does not answer; empty when it does")


class AckedSubscription(s.Serializer[object]):
    topic = s.CharField()
    subscription = s.CharField()


class TransactionRow(s.Serializer[object]):
    """A transaction that is not ended."""

    coordinator = s.IntegerField()
    number = s.IntegerField()
    status = s.CharField(help_text="OPEN, COMMITTING or ABORTING")
    since = s.IntegerField(help_text="its begin, ms")
    timeout_ms = s.IntegerField(help_text="time behind its begin after which it is aborted")
    owner = s.CharField(allow_null=True, help_text="role; null: authentication is off")
    topics = s.ListField(child=s.CharField(), help_text="that it publishes to, and holds back")
    subscriptions = AckedSubscription(many=True, help_text="on which it acknowledges")


class TransactionsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    enabled = s.BooleanField(help_text="false: the brokers offer no transactions")
    coordinators = CoordinatorRow(many=True)
    total = s.IntegerField(
        help_text="transactions that pass the filter, of coordinators that answer"
    )
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = TransactionRow(many=True)


class AbortTransactionBody(ChangeBody):
    """An abort, without further fields."""


class AbortTransactionPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    transaction = TransactionRow()


class AbortTransactionReceipt(s.Serializer[object]):
    at = s.IntegerField()
    transaction = TransactionRow(help_text="as it was before")
