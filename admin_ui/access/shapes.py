"""Shapes of rights and what gives them."""

from rest_framework import serializers as s

from admin_ui.rights import KINDS
from engine.auth.authorization.reasons import ACTIONS, RightSource

ACTION_WORDS = tuple(
    dict.fromkeys(action.value for actions in ACTIONS.values() for action in actions)
)
SOURCES = tuple(source.value for source in RightSource)
PLACES = tuple(KINDS.values())


class PlaceShape(s.Serializer[object]):
    """The name of a place in parts; those that it does not have are empty."""

    kind = s.ChoiceField(choices=PLACES)
    tenant = s.CharField()
    namespace = s.CharField(help_text="without the tenant")
    topic = s.CharField(help_text="full name")
    subscription = s.CharField()


class RightBasis(PlaceShape):
    """A thing that gives a right: a list that has the role, or a grant, with its place and the listed role."""

    given_by = s.ChoiceField(choices=SOURCES)
    role = s.CharField()
    words = s.ListField(child=s.CharField(), help_text="granted actions; empty unless a grant")
    why = s.CharField(help_text="the same as a sentence")


class ActionAllowed(s.Serializer[object]):
    action = s.ChoiceField(choices=ACTION_WORDS)
    why = s.CharField(help_text="sentences of all that gives it")
    because = RightBasis(many=True, help_text="the right ends with the last of them")


class RoleAccessRow(s.Serializer[object]):
    role = s.CharField()
    pattern = s.BooleanField(help_text="it stands for all roles that it matches")
    actions = ActionAllowed(many=True)


class SubscriptionRoles(s.Serializer[object]):
    name = s.CharField()
    roles = s.ListField(child=s.CharField(), help_text="the only roles that may use it")


class AccessAnswer(PlaceShape):
    judged = s.BooleanField(help_text="false: authorization is off, everybody may do everything")
    rows = RoleAccessRow(many=True, help_text="roles that records name here")
    subscriptions = SubscriptionRoles(
        many=True, help_text="subscriptions of the namespace that are closed to other roles"
    )
    prefixed = s.BooleanField(
        help_text="whether the name of a subscription must begin with the role that uses it"
    )


class RoleRow(s.Serializer[object]):
    role = s.CharField()
    pattern = s.BooleanField()
    superuser = s.BooleanField()
    proxy = s.BooleanField()
    tenants = s.IntegerField(help_text="tenants that it administers")
    namespaces = s.IntegerField(help_text="namespaces in which something is granted to it")
    grants = s.IntegerField(help_text="grants on namespaces and topics")
    subscriptions = s.IntegerField(help_text="subscriptions that are closed to others")


class RolesAnswer(s.Serializer[object]):
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    judged = s.BooleanField()
    rows = RoleRow(many=True)


class ReachRow(PlaceShape):
    resource = s.CharField(help_text="the place as text")
    every_topic = s.BooleanField(help_text="a subscription of this name on each topic")
    actions = ActionAllowed(many=True)


class ReachAnswer(s.Serializer[object]):
    """The rights of a role, on the largest places; what is in a tenant that it administers is not listed."""

    role = s.CharField()
    pattern = s.BooleanField()
    judged = s.BooleanField()
    total = s.IntegerField()
    offset = s.IntegerField()
    limit = s.IntegerField()
    rows = ReachRow(many=True)


class MayAction(s.Serializer[object]):
    allowed = s.BooleanField()
    why = s.CharField(help_text="the missing right and who can give it; empty when allowed")


class MayAnswer(s.Serializer[object]):
    """The operations of this document whose path the place fills, by their ids."""

    actions = s.DictField(child=MayAction())
