"""Shapes of links between clusters."""

from rest_framework import serializers as s

from engine.base.names import DOMAINS
from gateway.services.index.rows import KNOWN


class ClusterRecord(s.Serializer[object]):
    name = s.CharField()
    url = s.CharField(help_text="address of its brokers in its record here; empty: there is none")


class StopCause(s.Serializer[object]):
    """Topics that are not sent, or slowed down, for one cause."""

    cause = s.CharField(help_text="code, as in the filter of a link's topics")
    topics = s.IntegerField()
    topic = s.CharField(help_text="full name of the one that has it for longest")
    why = s.CharField(help_text="its reason in words; may be empty")
    since = s.IntegerField(allow_null=True, help_text="its begin; null: not known")


class LinkTrend(s.Serializer[object]):
    """Means of the last 15 minutes, oldest first, one per step; null: not known."""

    end = s.IntegerField(help_text="end of the last step")
    step_ms = s.IntegerField()
    sent = s.ListField(child=s.FloatField(allow_null=True), help_text="messages per second")
    received = s.ListField(child=s.FloatField(allow_null=True), help_text="messages per second")
    backlog = s.ListField(child=s.FloatField(allow_null=True))


class LinkRow(s.Serializer[object]):
    """Link of a cluster to another one, in both directions. Figures are null when they are not known at all."""

    remote = s.CharField()
    known = s.ChoiceField(
        choices=KNOWN,
        help_text="live; last: some figures are as a silent broker reported them; no: a broker has not reported, so"
        " that figures are those of the others",
    )
    at = s.IntegerField(help_text="time of the oldest report in the sums; 0: there is none")
    silent = s.ListField(child=s.CharField(), help_text="brokers that do not report now")
    topics = s.IntegerField(
        allow_null=True,
        help_text="topics and partitions that are sent there, of those that are loaded",
    )
    stopped = s.IntegerField(allow_null=True, help_text="of them those that are not sent now")
    backlog = s.IntegerField(
        allow_null=True, help_text="entries that are not known to be stored there: a batch is one"
    )
    oldest_at = s.IntegerField(
        allow_null=True,
        help_text="publish time of the oldest of them; 0: there is none, null: not known",
    )
    msg_rate = s.FloatField(allow_null=True, help_text="messages stored there per second")
    bytes_rate = s.FloatField(allow_null=True)
    received_topics = s.IntegerField(allow_null=True, help_text="with a producer of that cluster")
    received_msg_rate = s.FloatField(allow_null=True)
    received_bytes_rate = s.FloatField(allow_null=True)
    causes = StopCause(many=True, help_text="those that need an operator first")
    trend = LinkTrend(allow_null=True, help_text="null: the history cannot be read now")


class GeoAnswer(s.Serializer[object]):
    at = s.IntegerField()
    cluster = s.CharField()
    records = ClusterRecord(
        many=True, allow_null=True, help_text="other clusters that this one knows; null: not known"
    )
    links = LinkRow(many=True, help_text="one for each other cluster, by name")


class EndsOfCluster(s.Serializer[object]):
    cluster = s.CharField()
    ends = GeoAnswer(allow_null=True, help_text="null: not shown, for the reason in why")
    why = s.CharField(help_text="missing right, or the part that does not answer; else empty")


class GeoOfAllAnswer(s.Serializer[object]):
    clusters = EndsOfCluster(many=True, help_text="those of this gateway, the default one first")


class CauseCount(s.Serializer[object]):
    cause = s.CharField()
    topics = s.IntegerField()


class LinkTopicRow(s.Serializer[object]):
    name = s.CharField(help_text="full name of the topic or partition")
    domain = s.ChoiceField(choices=DOMAINS)
    tenant = s.CharField(help_text="this and the next two: of the topic as it is listed")
    namespace = s.CharField()
    topic = s.CharField()
    broker = s.CharField(help_text="that sends it; empty: no broker has it loaded")
    backlog = s.IntegerField(help_text="entries that are not known to be stored there")
    oldest_at = s.IntegerField(
        allow_null=True, help_text="publish time of the first; 0: there is none, null: not known"
    )
    msg_rate = s.FloatField()
    bytes_rate = s.FloatField()
    cause = s.CharField(allow_null=True, help_text="why it is not sent; null: it is sent")
    why = s.CharField()
    since = s.IntegerField(allow_null=True)


class LinkAnswer(s.Serializer[object]):
    at = s.IntegerField()
    cluster = s.CharField()
    remote = s.CharField()
    link = LinkRow(
        allow_null=True,
        help_text="without its trend; null for a user who does not see all tenants",
    )
    causes = CauseCount(many=True, help_text="of the topics before the filters q and cause")
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = LinkTopicRow(many=True)
