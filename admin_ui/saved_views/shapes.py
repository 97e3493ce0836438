"""Shapes of saved views."""

from rest_framework import serializers as s


class ViewBody(s.Serializer[object]):
    name = s.CharField(max_length=120)
    resource = s.ChoiceField(choices=("topics", "subscriptions", "runs", "audit"))
    query = s.DictField(child=s.CharField(max_length=1000, allow_blank=True))


class ViewName(s.Serializer[object]):
    name = s.CharField(max_length=120)


class ViewRow(ViewBody):
    id = s.CharField()
    created_at = s.IntegerField()


class ViewsAnswer(s.Serializer[object]):
    rows = ViewRow(many=True)
