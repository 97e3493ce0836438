"""Shapes of the audit log."""

from rest_framework import serializers as s


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
