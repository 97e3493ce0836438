"""Shapes of the audit log."""

from rest_framework import serializers as s


class AuditChange(s.Serializer[object]):
    where = s.CharField(required=False, help_text="a metadata node, or a broker's operation")
    before = s.JSONField(
        required=False, allow_null=True, help_text="of a document the differing members"
    )
    after = s.JSONField(required=False, allow_null=True)
    more = s.IntegerField(required=False, help_text="how many changes are left out")


class AuditRow(s.Serializer[object]):
    id = s.CharField()
    at = s.IntegerField()
    actor = s.CharField(help_text="name of the person; of a program its role")
    role = s.CharField(help_text="role that the call was made for; empty: none")
    address = s.CharField()
    method = s.CharField()
    operation = s.CharField(help_text="id of a call of this document, or method and path of REST")
    target = s.CharField(help_text="path and query as they were sent")
    cluster = s.CharField(
        help_text="what the call is about; empty: nothing of the kind, or several"
    )
    tenant = s.CharField()
    namespace = s.CharField(help_text="full name")
    topic = s.CharField(help_text="full name")
    status = s.IntegerField(allow_null=True, help_text="null: outcome not seen")
    request_id = s.CharField(help_text="X-Request-Id of call and answer")
    given = s.CharField(help_text="the JSON body, without secrets; long ones cut")
    changes = AuditChange(many=True)


class AuditAnswer(s.Serializer[object]):
    total = s.IntegerField()
    exact = s.BooleanField(help_text="false: there are more than total")
    searched_since = s.IntegerField(
        allow_null=True,
        help_text="older entries were not searched: ask for them with this time as 'to'; null: all were",
    )
    until_id = s.CharField(
        help_text="newest entry of the list; given with further windows, it keeps their rows in place"
    )
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = AuditRow(many=True)


class AuditLinkShape(s.Serializer[object]):
    number = s.IntegerField(help_text="from 1; 0: the chain has no link")
    digest = s.CharField(allow_blank=True, help_text="SHA-256 in hexadecimal digits")


class AuditVerification(s.Serializer[object]):
    problem = s.CharField(
        help_text="a sentence about the first entry or link that does not fit; empty: all do"
    )
    entry_id = s.CharField(
        allow_null=True, help_text="the entry of the problem; null: none, or it is not stored"
    )
    entries = s.IntegerField(help_text="entries that fit; of a problem, those before it")
    removed_to = s.CharField(
        allow_null=True,
        help_text="entries up to this one are not kept or older than the chain; null: there are none",
    )
    link = AuditLinkShape(help_text="the last link that fits, for audit_verify --noted")


class ChangeMark(s.Serializer[object]):
    """A change for a chart."""

    at = s.IntegerField()
    operation = s.CharField()
    method = s.CharField()
    status = s.IntegerField(allow_null=True, help_text="null: outcome not seen")
    actor = s.CharField(help_text="empty unless the caller administers the place")
    id = s.CharField(help_text="of the entry, for superusers; else empty")


class ChangeMarks(s.Serializer[object]):
    complete = s.BooleanField(help_text="false: only the newest are here")
    rows = ChangeMark(many=True, help_text="changes that were made, oldest first")
