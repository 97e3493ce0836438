"""Shapes of tenants and namespaces.

Topics are those of the metadata. Plain non-persistent topics, which only brokers know, are not counted and do not
prevent a deletion.
"""

from rest_framework import serializers as s

from admin_ui.policies.shapes import PolicyRow
from admin_ui.shapes import BacklogShape
from engine.tenancy.bundles import BUNDLES_MAX


class TenantBody(s.Serializer[object]):
    admin_roles = s.ListField(child=s.CharField(max_length=1000))
    allowed_clusters = s.ListField(child=s.CharField(max_length=1000))


class NewTenant(TenantBody):
    name = s.CharField(max_length=255)


class TenantRow(s.Serializer[object]):
    name = s.CharField()
    admin_roles = s.ListField(child=s.CharField())
    allowed_clusters = s.ListField(child=s.CharField())
    namespaces = s.IntegerField()


class TenantNumbersShape(BacklogShape):
    """Sums of the topics of a tenant or namespace."""

    topics = s.IntegerField()
    unknown = s.IntegerField(help_text="topics that are not in the sums")
    msg_rate_in = s.FloatField(help_text="per second")
    msg_rate_out = s.FloatField(help_text="per second")
    oldest_at = s.IntegerField(
        allow_null=True,
        help_text="time of the oldest unacknowledged message; 0: none is; null: not known",
    )
    storage_bytes = s.IntegerField()


class ListedTenant(TenantRow):
    numbers = TenantNumbersShape(allow_null=True, help_text="null: no numbers are known yet")


class TenantsAnswer(s.Serializer[object]):
    total = s.IntegerField(help_text="tenants that pass the filter")
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = ListedTenant(many=True)


class NewNamespace(s.Serializer[object]):
    name = s.CharField(max_length=255, help_text="without the tenant")
    bundles = s.IntegerField(min_value=1, max_value=BUNDLES_MAX)


class QuotaUse(s.Serializer[object]):
    """A limit that is set on a namespace, and how much of it the topic uses that is closest to it."""

    name = s.ChoiceField(choices=("backlog size", "backlog age", "topics"))
    limit = s.IntegerField(help_text="bytes, seconds or topics with partitions")
    used = s.FloatField(allow_null=True, help_text="in the unit of the limit; null: not known")
    share = s.FloatField(allow_null=True, help_text="used / limit; null: not known")
    at_most = s.BooleanField(
        help_text="whether it is an upper bound: what the largest topic stores, which its backlog does not exceed"
    )


class NamespaceRow(s.Serializer[object]):
    name = s.CharField(help_text="without the tenant")
    topics = s.IntegerField(help_text="stored topics; a partitioned one counts once")
    policies = s.IntegerField(help_text="number of policies that are set on the namespace")
    deleting = s.BooleanField(
        help_text="whether a deletion began and did not end; deleting again completes it"
    )
    numbers = TenantNumbersShape(allow_null=True, help_text="null: no numbers are known yet")
    quotas = QuotaUse(
        many=True, help_text="limits that are set on the namespace, the fullest first; empty: none"
    )


class NamespacesAnswer(s.Serializer[object]):
    tenant = TenantRow()
    total = s.IntegerField(help_text="namespaces that pass the filter")
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = NamespaceRow(many=True)


class NamespaceAnswer(s.Serializer[object]):
    tenant = s.CharField()
    name = s.CharField(help_text="without the tenant")
    bundles = s.IntegerField()
    topics = s.IntegerField(help_text="stored topics; a partitioned one counts once")
    first_topics = s.ListField(child=s.CharField(), help_text="full names of up to ten")
    unknown = s.CharField(
        help_text="why values of brokers are not known; empty when they are known"
    )
    properties = s.DictField(child=s.CharField(allow_blank=True))
    policies = PolicyRow(many=True)
