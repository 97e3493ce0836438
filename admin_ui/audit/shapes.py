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
    actor = s.CharField()
    address = s.CharField()
    method = s.CharField()
    target = s.CharField()
    status = s.IntegerField(allow_null=True, help_text="null: outcome not seen")
    request_id = s.CharField(help_text="X-Request-Id of call and answer")
    given = s.CharField(help_text="the JSON body, without secrets; long ones cut")
    changes = AuditChange(many=True)


class AuditAnswer(s.Serializer[object]):
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = AuditRow(many=True)
