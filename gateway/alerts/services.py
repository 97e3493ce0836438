"""Changes of rules, channels and silences. All functions block; ``tenant`` is the owner, empty for the cluster."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from django.db import IntegrityError, models, transaction
from django.db.models import QuerySet

from engine.base.errors import AlreadyExists, Conflict, InvalidField, NotFound
from gateway.alerts.definitions import Definition, RuleScope
from gateway.alerts.destinations import parse_url
from gateway.alerts.messages import Notification
from gateway.alerts.models import (
    AlertChannel,
    AlertFiring,
    AlertRule,
    AlertSilence,
    ChannelKind,
    DeliveryKind,
    FiringState,
)
from gateway.alerts.sending import SendError, console_url, send
from gateway.services.clock import now_ms

R = TypeVar("R", AlertChannel, AlertRule)
RULES_MAX = 100
"""Bound on the rules of a cluster."""
ROWS_PER_TENANT_MAX = 20
CHANNELS_MAX = 100
SILENCES_MAX = 500
ORDERS_MAX = 32
"""Bound on the orders of topics that rules of a cluster need: one for each figure, direction and scope."""
RECIPIENTS_MAX = 20
_testers = ThreadPoolExecutor(4, "alert-tests")
_tested: set[tuple[str, str]] = set()
"""Cluster and tenant of the tests that are being sent."""
_tested_lock = Lock()


class Owned:
    """The rows of a cluster that a caller may see and change: all, or those of the ``tenant``."""

    def __init__(self, cluster: str, tenant: str) -> None:
        self.cluster = cluster
        self.tenant = tenant

    def of(self, model: type[models.Model]) -> "QuerySet[Any]":
        """Return the rows of a model."""
        rows: QuerySet[Any] = model._default_manager.filter(cluster=self.cluster)
        return rows.filter(tenant=self.tenant) if self.tenant else rows

    def get(self, model: type[models.Model], row_id: int) -> Any:
        """Return a row. Raises NotFound."""
        row = self.of(model).filter(pk=row_id).first()
        if row is None:
            raise NotFound(f"There is no such {model.__name__.removeprefix('Alert').lower()}")
        return row

    def check_room(self, model: type[models.Model], limit: int) -> None:
        """Raise Conflict when no further row may be made."""
        bound = ROWS_PER_TENANT_MAX if self.tenant else limit
        noun = f"{model.__name__.removeprefix('Alert').lower()}s"
        if self.of(model).count() >= bound:
            raise Conflict(f"there are {bound} {noun} already; delete some first")


# Channels


def save_channel(
    owned: Owned, given: Mapping[str, Any], user: str, row: AlertChannel | None = None
) -> AlertChannel:
    """Make a channel, or change one; an empty URL keeps the one that it has. Raises InvalidField, AlreadyExists,
    Conflict."""
    kind = ChannelKind(given["kind"])
    url = given["secret_url"]
    if row is None:
        owned.check_room(AlertChannel, CHANNELS_MAX)
    elif not url and row.kind == kind:
        url = row.secret_url
    recipients: Sequence[str] = given["recipients"]
    if kind is ChannelKind.EMAIL:
        url = ""
        if not 0 < len(recipients) <= RECIPIENTS_MAX:
            raise InvalidField("recipients", f"must have 1 to {RECIPIENTS_MAX} addresses")
    else:
        recipients = ()
        parse_url(url)
    channel = row or AlertChannel(
        cluster=owned.cluster, tenant=owned.tenant, created_at=now_ms(), created_by=user[:255]
    )
    channel.name, channel.kind = given["name"], kind
    channel.secret_url, channel.recipients = url, list(recipients)
    return _saved(channel)


def begin_test(channel: AlertChannel) -> "Future[str]":
    """Begin to send a test to a channel. The result says why it failed, empty when it was accepted. Raises Conflict
    while one of the same owner is being sent: destinations that hang would hold all threads."""
    owner = channel.cluster, channel.tenant
    with _tested_lock:
        if owner in _tested:
            raise Conflict("a test is being sent: try again when it is over, in at most 15 s")
        _tested.add(owner)
    return _testers.submit(_test, channel, owner)


def _test(channel: AlertChannel, owner: tuple[str, str]) -> str:
    now = now_ms()
    firing = AlertFiring(title="This is a test", detail="nothing is wrong", since=now, began_at=now)
    rule = f"Test of channel {channel.name}"
    notification = Notification(
        f"test-{now}", DeliveryKind.BEGIN, channel.cluster, rule, "info", [firing], 0, console_url()
    )
    try:
        send(channel, notification)
    except SendError as error:
        return str(error)
    finally:
        with _tested_lock:
            _tested.discard(owner)
    return ""


# Rules


def save_rule(
    owned: Owned, given: Mapping[str, Any], user: str, row: AlertRule | None = None
) -> AlertRule:
    """Make a rule, or change one. Raises InvalidField, AlreadyExists, Conflict."""
    tenant = owned.tenant if row is None else row.tenant
    definition = Definition.checked(given["definition"], tenant)
    channels = _checked_channels("channels", given["channels"], owned.cluster, tenant)
    escalate_to = _checked_channels("escalate_to", given["escalate_to"], owned.cluster, tenant)
    if (given["escalate_s"] is None) != (not escalate_to):
        raise InvalidField("escalate_to", "must be given together with escalate_s")
    with transaction.atomic():
        if row is None:
            owned.check_room(AlertRule, RULES_MAX)
            if AlertRule.objects.filter(cluster=owned.cluster).count() >= RULES_MAX:
                raise Conflict(f"there are {RULES_MAX} rules already; delete some first")
        _check_orders(owned.cluster, definition, row)
        now = now_ms()
        rule = row or AlertRule(
            cluster=owned.cluster, tenant=tenant, created_at=now, created_by=user[:255]
        )
        stored = definition.stored()
        if row is None or row.definition != stored or row.for_s != given["for_s"]:
            rule.changed_at = now
            rule.unknown_since, rule.unknown_why, rule.left_out = None, "", 0
        rule.definition = stored
        for name in ("name", "enabled", "severity", "for_s", "escalate_s"):
            setattr(rule, name, given[name])
        rule.channels, rule.escalate_to = channels, escalate_to
        return _saved(rule)


def _checked_channels(field: str, ids: Sequence[int], cluster: str, tenant: str) -> list[int]:
    distinct = list(dict.fromkeys(ids))
    own = AlertChannel.objects.filter(cluster=cluster, tenant=tenant, pk__in=distinct)
    if own.count() != len(distinct):
        owner = f"tenant {tenant}" if tenant else "the cluster"
        raise InvalidField(field, f"must be ids of channels of {owner}")
    return distinct


def _check_orders(cluster: str, definition: Definition, row: AlertRule | None) -> None:
    others = AlertRule.objects.filter(cluster=cluster)
    if row is not None:
        others = others.exclude(pk=row.pk)
    orders = {
        (stored["figure"], stored["op"], stored["scope"])
        for stored in (rule.definition for rule in others)
        if stored["kind"] in ("topic", "subscription") and "://" not in stored["scope"]
    }
    own = definition.stored()
    if own["kind"] in ("topic", "subscription") and not definition.scope.topic:
        orders.add((own["figure"], own["op"], own["scope"]))
    if len(orders) > ORDERS_MAX:
        raise Conflict(
            f"rules about many topics compare {ORDERS_MAX} figures and scopes already; use one of these"
        )


# Silences and acknowledgements


def make_silence(owned: Owned, given: Mapping[str, Any], user: str) -> AlertSilence:
    """Silence a rule, a place or the object of a firing. Raises InvalidField, NotFound, Conflict."""
    owned.check_room(AlertSilence, SILENCES_MAX)
    scope = RuleScope.parse(given["scope"])
    rule_id, item = given["rule_id"], ""
    subscription = given["subscription"]
    if given["firing_id"] is not None:
        firing = owned.get(AlertFiring, given["firing_id"])
        rule_id, item = firing.rule_id, firing.object
        scope = RuleScope.parse(firing.topic)
        subscription = firing.subscription
    elif rule_id is not None:
        owned.get(AlertRule, rule_id)
    if rule_id is None and not scope.text:
        raise InvalidField("scope", "must be given without a rule or firing: all would be silent")
    if owned.tenant and scope.text and scope.tenant != owned.tenant:
        raise InvalidField("scope", f"must be in tenant {owned.tenant}, whose silence it is")
    now = now_ms()
    if given["until"] <= now:
        raise InvalidField("until", "must be in the future")
    return AlertSilence.objects.create(
        cluster=owned.cluster,
        tenant=owned.tenant,
        rule_id=rule_id,
        scope=scope.text,
        subscription=subscription,
        object=item,
        until=given["until"],
        reason=given["reason"],
        created_at=now,
        created_by=user[:255],
    )


def acknowledge(owned: Owned, firing_id: int, note: str, user: str) -> AlertFiring:
    """Acknowledge a firing, so that it is not escalated. Raises NotFound, Conflict for one that has ended."""
    firing: AlertFiring = owned.get(AlertFiring, firing_id)
    rows = AlertFiring.objects.filter(pk=firing.pk, state=FiringState.FIRING)
    if not rows.update(acked_at=now_ms(), acked_by=user[:255], note=note):
        raise Conflict("the firing has ended, or has not begun")
    firing.refresh_from_db()
    return firing


def _saved(row: R) -> R:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        raise AlreadyExists(f"there is one named {row.name} already") from None
    return row
