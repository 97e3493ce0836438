"""Shapes of tenants, namespaces and their policies.

Whole numbers beyond 2^53 are strings within a policy's value, and so are its bounds: a page must give back exactly what
it was given. Topics are those of the metadata: plain non-persistent ones, which only brokers know, stand in no way.
"""

from rest_framework import serializers as s

from engine.tenancy.bundles import BUNDLES_MAX
from engine.tenancy.policies import Level

LEVELS = tuple(level.value for level in Level)


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


class TenantsAnswer(s.Serializer[object]):
    total = s.IntegerField(help_text="tenants that pass the filter")
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = TenantRow(many=True)


class NewNamespace(s.Serializer[object]):
    name = s.CharField(max_length=255, help_text="without the tenant")
    bundles = s.IntegerField(min_value=1, max_value=BUNDLES_MAX)


class NamespaceRow(s.Serializer[object]):
    name = s.CharField(help_text="without the tenant")
    topics = s.IntegerField(help_text="stored ones; a partitioned one counts once")
    policies = s.IntegerField(help_text="how many are set here")
    deleting = s.BooleanField(help_text="a deletion began and did not end; deleting again finishes")


class NamespacesAnswer(s.Serializer[object]):
    tenant = TenantRow()
    total = s.IntegerField(help_text="namespaces that pass the filter")
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = NamespaceRow(many=True)


class PolicyPart(s.Serializer[object]):
    """A part of a value, or a value that has no parts."""

    name = s.CharField(help_text="empty for a value without parts")
    type = s.ChoiceField(choices=("integer", "number", "boolean", "string"))
    optional = s.BooleanField(help_text="it may stay away")
    minimum = s.CharField(required=False)
    maximum = s.CharField(required=False)
    unit = s.CharField(required=False)
    enum = s.ListField(child=s.CharField(), required=False)


class PolicyRow(s.Serializer[object]):
    name = s.CharField()
    title = s.CharField()
    meaning = s.CharField()
    parts = PolicyPart(many=True, help_text="one without a name, or those of an object")
    topics_own = s.BooleanField(help_text="topics may have a value of their own")
    value = s.JSONField(allow_null=True, help_text="in force; null: not known")
    level = s.ChoiceField(choices=LEVELS, allow_null=True, help_text="which says so")
    own = s.JSONField(allow_null=True, help_text="the namespace's; null: none")
    inherited = s.JSONField(allow_null=True, help_text="what holds without own; null: not known")


class NamespaceAnswer(s.Serializer[object]):
    tenant = s.CharField()
    name = s.CharField(help_text="without the tenant")
    bundles = s.IntegerField()
    topics = s.IntegerField(help_text="stored ones; a partitioned one counts once")
    first_topics = s.ListField(child=s.CharField(), help_text="full names of up to ten")
    unknown = s.CharField(help_text="why values of brokers are not known; empty when they are")
    policies = PolicyRow(many=True)


class PolicyBody(s.Serializer[object]):
    value = s.JSONField(allow_null=True, help_text="null removes it")
    expected = s.JSONField(allow_null=True, help_text="own, as it was shown; 409 when it is not")
