"""Shapes of where the console is, and who uses it."""

from rest_framework import serializers as s


class User(s.Serializer[object]):
    name = s.CharField()
    superuser = s.BooleanField()


class EnvironmentAnswer(s.Serializer[object]):
    cluster = s.CharField()
    clusters = s.ListField(child=s.CharField())
    version = s.CharField()
    broker_url = s.CharField(help_text="of all registered brokers; empty without one")
    http_url = s.CharField()
    authentication = s.BooleanField(help_text="whether clients must bring a token")
    user = User(allow_null=True)
    now = s.IntegerField()
