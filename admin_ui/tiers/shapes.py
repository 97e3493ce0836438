"""Shapes of requests and answers about tiered storage."""

from rest_framework import serializers as s

PLACES = ("bookies", "both", "store", "unreadable")
"""Places of a ledger; the last one is in objects of a format that is not read here."""


class TierPolicy(s.Serializer[object]):
    store = s.CharField(help_text="driver and bucket")
    threshold_bytes = s.IntegerField(help_text="that stay on bookies; -1: no limit")
    threshold_s = s.IntegerField(help_text="age from which ledgers are moved; -1: never")
    deletion_lag_s = s.IntegerField(help_text="for which a moved ledger stays on bookies; -1: ever")
    bookies_first = s.BooleanField(help_text="what both have is read from bookies")


class TierState(s.Serializer[object]):
    topic = s.CharField(help_text="the partition, of a partitioned topic")
    status = s.ChoiceField(("NOT_RUN", "RUNNING", "SUCCESS", "ERROR"))
    error = s.CharField(allow_blank=True, help_text="why ledgers could not be moved")
    trouble = s.CharField(allow_blank=True, help_text="its kind: away, slow, forbidden, full, …")
    retry_ms = s.IntegerField(allow_null=True, help_text="time of the next attempt")
    read_error = s.CharField(allow_blank=True, help_text="why the last read failed")
    ledgers = s.IntegerField(help_text="to be moved")
    done_ledgers = s.IntegerField()
    bytes = s.IntegerField(help_text="to be moved")
    done_bytes = s.IntegerField()


class TierLedger(s.Serializer[object]):
    topic = s.CharField(help_text="the partition, of a partitioned topic")
    ledger_id = s.IntegerField()
    entries = s.IntegerField()
    bytes = s.IntegerField()
    closed_ms = s.IntegerField(help_text="0: it accepts entries")
    tier = s.ChoiceField(PLACES)
    due = s.BooleanField(help_text="would be moved now")
    moved_ms = s.IntegerField(help_text="0: never")


class TierSum(s.Serializer[object]):
    tier = s.ChoiceField(PLACES)
    ledgers = s.IntegerField()
    bytes = s.IntegerField(help_text="counted once")


class TierPreview(s.Serializer[object]):
    ledgers = s.IntegerField(help_text="that would be moved")
    bytes = s.IntegerField()
    bookies_cost = s.FloatField(
        allow_null=True, help_text="of these a month on bookies, all copies"
    )
    store_cost = s.FloatField(allow_null=True, help_text="of these a month in tiered storage")


class TiersAnswer(s.Serializer[object]):
    at = s.IntegerField()
    policy = TierPolicy(allow_null=True, help_text="null: no tiered storage")
    states = TierState(many=True)
    sums = TierSum(many=True)
    preview = TierPreview()
    copies = s.IntegerField(help_text="of each entry on bookies")
    count = s.IntegerField(help_text="ledgers in all")
    ledgers = TierLedger(many=True, help_text="oldest first, at most 500 of each partition")


class OffloadBody(s.Serializer[object]):
    keep_bytes = s.IntegerField(
        min_value=0, default=0, help_text="of the newest closed ledgers that stay on bookies"
    )


class OffloadAnswer(s.Serializer[object]):
    started = s.ListField(child=s.CharField(), help_text="topics of which ledgers are moved now")


class OrphansBody(s.Serializer[object]):
    remove = s.BooleanField(default=False, help_text="delete them")
    age_s = s.IntegerField(min_value=3600, default=86_400, help_text="least age of an object")


class BucketScan(s.Serializer[object]):
    bucket = s.CharField()
    error = s.CharField(allow_blank=True, help_text="why it could not be scanned")
    objects = s.IntegerField(required=False)
    bytes = s.IntegerField(required=False)
    young = s.IntegerField(required=False, help_text="objects too new for a verdict")
    foreign = s.IntegerField(required=False, help_text="objects of other clusters")
    others = s.IntegerField(required=False, help_text="objects of other names")
    orphans = s.IntegerField(required=False, help_text="objects that no topic names")
    orphan_bytes = s.IntegerField(required=False)
    removed = s.BooleanField(required=False)


class OrphansAnswer(s.Serializer[object]):
    buckets = BucketScan(many=True)
