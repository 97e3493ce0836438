"""Shapes of grants."""

from rest_framework import serializers as s

from admin_ui.rights import KINDS
from admin_ui.shapes import ChangeBody
from engine.auth.authorization.reasons import ACTIONS as ACTIONS_SHOWN
from engine.tenancy.checks import ACTIONS

ADMIN = "admin"
USE = "use"
WORDS = (*ACTIONS, ADMIN, USE)
CHANGED = tuple(
    dict.fromkeys(action.value for actions in ACTIONS_SHOWN.values() for action in actions)
)


class GrantRow(s.Serializer[object]):
    """The grants of a role at a place, as the words that were granted there."""

    kind = s.ChoiceField(choices=tuple(KINDS.values()), help_text="kind of the place")
    tenant = s.CharField()
    namespace = s.CharField(help_text="without the tenant")
    topic = s.CharField(help_text="full name")
    subscription = s.CharField(help_text="of all topics of the namespace")
    role = s.CharField()
    words = s.ListField(
        child=s.ChoiceField(choices=WORDS),
        help_text="actions; of a tenant 'admin', of a subscription 'use'",
    )


class GrantsAnswer(s.Serializer[object]):
    """The grants at a place, and those that count there: of its namespace and tenant."""

    rows = GrantRow(many=True)


class GrantBody(ChangeBody):
    """A change of what one role has at one place. A preview needs ``role`` and ``words``; no words remove the role."""

    amount = "words"
    role = s.CharField(max_length=255, required=False, trim_whitespace=False)
    words = s.ListField(child=s.ChoiceField(choices=WORDS), required=False)
    subscription = s.CharField(
        required=False,
        allow_blank=True,
        trim_whitespace=False,
        help_text="of the namespace that the query names; its only word is 'use'",
    )


class AccessChange(s.Serializer[object]):
    """A role or pattern whose rights at the place change."""

    role = s.CharField()
    gained = s.ListField(child=s.ChoiceField(choices=CHANGED))
    lost = s.ListField(child=s.ChoiceField(choices=CHANGED))


class ClosedClients(s.Serializer[object]):
    """Clients of brokers that were closed."""

    producers = s.IntegerField()
    consumers = s.IntegerField()


class LostClients(ClosedClients):
    """Open clients of brokers that would lose their right."""

    by_proxy = s.IntegerField(help_text="of them, clients of WebSockets and proxies")


class GrantPreview(s.Serializer[object]):
    """The effect of a change. ``token`` confirms exactly this change."""

    token = s.CharField(allow_null=True)
    at = s.IntegerField()
    before = s.ListField(child=s.CharField())
    after = s.ListField(child=s.CharField())
    effects = AccessChange(many=True, help_text="by the judge's rules, at this place")
    own_loss = s.BooleanField(help_text="whether the caller's own role loses something")
    connections = LostClients(
        allow_null=True, help_text="open clients that would be closed; null: not known"
    )
    within_s = s.FloatField(help_text="longest time until brokers have applied it")


class GrantReceipt(s.Serializer[object]):
    """The change that was made. A preview with role, subscription and ``before`` as words undoes it."""

    at = s.IntegerField()
    role = s.CharField()
    subscription = s.CharField()
    before = s.ListField(child=s.CharField())
    after = s.ListField(child=s.CharField())
    closed = ClosedClients(allow_null=True, help_text="null: not known")
