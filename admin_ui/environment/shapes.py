"""Shapes of the environment of the console."""

from rest_framework import serializers as s


class User(s.Serializer[object]):
    name = s.CharField()
    superuser = s.BooleanField()


class EnvironmentAnswer(s.Serializer[object]):
    cluster = s.CharField()
    clusters = s.ListField(
        child=s.CharField(), help_text="those that the configuration store knows"
    )
    served = s.ListField(
        child=s.CharField(), help_text="those of this gateway, the default one first"
    )
    version = s.CharField()
    broker_url = s.CharField(
        help_text="service URL with all registered brokers; empty without a broker"
    )
    kind = s.ChoiceField(
        choices=["magnetar", "apache"],
        help_text="apache: the cluster is reached by the REST interface of Apache Pulsar",
    )
    lacks = s.DictField(
        child=s.CharField(),
        help_text="features that the cluster does not have, each with the reason",
    )
    http_url = s.CharField()
    authentication = s.BooleanField(help_text="whether clients must send a token")
    open_to_anyone = s.BooleanField(
        help_text="whether other machines may be served although authentication is off (insecure_anywhere)"
    )
    user = User(allow_null=True)
    now = s.IntegerField()
