"""Shapes of connections."""

from rest_framework import serializers as s

from admin_ui.shapes import ChangeBody


class ConnectionRow(s.Serializer[object]):
    """A client's connection to a broker."""

    id = s.CharField(help_text="NUMBER-TIME; no other connection of the broker ever has it")
    broker = s.CharField()
    number = s.IntegerField()
    since = s.IntegerField()
    address = s.CharField(help_text="host:port; of a proxy, where the client came through one")
    sent = s.CharField(allow_blank=True, help_text="version as the client sent it")
    library = s.CharField(allow_blank=True, help_text="empty: the client does not name one")
    language = s.CharField(allow_blank=True, help_text="empty: not known")
    version = s.CharField(allow_blank=True, help_text="of the library; empty: not sent")
    application = s.CharField(
        allow_blank=True,
        help_text="the client's description, or the application in its metadata; empty: neither",
    )
    role = s.CharField(allow_null=True, help_text="null: authentication is off")
    proxy = s.CharField(
        allow_null=True, help_text="role or version of the proxy that it came through; null: none"
    )
    listener = s.CharField(allow_blank=True, help_text="of the broker; empty: of none")
    producers = s.IntegerField()
    consumers = s.IntegerField()
    unacked = s.IntegerField(help_text="messages delivered and not acknowledged")
    msg_rate_in = s.FloatField(help_text="from its producers")
    bytes_rate_in = s.FloatField()
    msg_rate_out = s.FloatField(help_text="to its consumers")
    bytes_rate_out = s.FloatField()


class SilentBroker(s.Serializer[object]):
    broker = s.CharField()
    reason = s.CharField()


class ConnectionGroup(s.Serializer[object]):
    library = s.CharField(allow_blank=True, help_text="of a version; empty in other groups")
    value = s.CharField(allow_blank=True, help_text="empty: not stated by these clients")
    connections = s.IntegerField()
    producers = s.IntegerField()
    consumers = s.IntegerField()


class ConnectionsAnswer(s.Serializer[object]):
    at = s.IntegerField()
    total = s.IntegerField(help_text="connections that pass the filter")
    all = s.IntegerField(help_text="connections of the brokers that answered")
    brokers = s.IntegerField(help_text="brokers that were asked")
    silent = SilentBroker(many=True, help_text="those that did not answer: theirs are not known")
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = ConnectionRow(many=True)
    groups = ConnectionGroup(
        many=True, help_text="of those that pass, most first, at most 100; empty without group"
    )


class ConnectionClient(s.Serializer[object]):
    kind = s.ChoiceField(choices=("producer", "consumer"))
    topic = s.CharField()
    subscription = s.CharField(allow_blank=True)
    type = s.CharField(allow_blank=True, help_text="of the subscription")
    name = s.CharField(allow_blank=True)
    since = s.IntegerField()
    unacked = s.IntegerField()
    msg_rate = s.FloatField()
    bytes_rate = s.FloatField()
    metadata = s.DictField(child=s.CharField(allow_blank=True))


class ConnectionDetail(ConnectionRow):
    at = s.IntegerField()
    clients = ConnectionClient(many=True, help_text="producers, then consumers; at most 1,000")


class DisconnectClientBody(ChangeBody):
    """A disconnection, without further fields."""


class DisconnectClientPreview(s.Serializer[object]):
    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    connection = ConnectionDetail()


class DisconnectClientReceipt(s.Serializer[object]):
    at = s.IntegerField()
    producers = s.IntegerField(help_text="that were closed")
    consumers = s.IntegerField()
    unacked = s.IntegerField(help_text="messages that are delivered again")
