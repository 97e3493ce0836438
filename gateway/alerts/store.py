"""Alerts in the console's database, by compare-and-set among gateways (J8). All functions block."""

import logging
from collections.abc import Iterable
from typing import NamedTuple

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Max, QuerySet

from engine.base.errors import MagnetarError
from gateway.alerts.definitions import Definition, RuleScope
from gateway.alerts.models import (
    AlertChannel,
    AlertDelivery,
    AlertFiring,
    AlertLease,
    AlertRule,
    AlertSilence,
    DeliveryState,
    FiringState,
)
from gateway.alerts.transitions import ActiveRule, FiringChanges, Silence

log = logging.getLogger(__name__)
LEASE_MS = 15_000
"""Time for which a gateway evaluates without renewing its lease; another takes over after it."""
DAY_MS = 86_400_000
_KEPT = (
    *("state", "detail", "value", "began_at", "ended_at", "end_reason", "silenced"),
    *("notified_at", "notified", "escalated_at"),
)
"""Columns that only the gateway with the lease writes; acknowledgements are written by any."""
WRITTEN = 200


class LeaseLostError(MagnetarError):
    """Another gateway evaluates the rules now: nothing was written."""


class Loaded(NamedTuple):
    """Rules and silences, which the gateway with the lease evaluates."""

    rules: list[ActiveRule]
    silences: list[Silence]
    unknown: dict[int, tuple[int | None, str, int]]
    """State of the rules, see ``FiringChanges.rules``."""


def has_work(cluster: str) -> bool:
    """Return whether a gateway has to evaluate rules of a cluster, or to end or send something."""
    return (
        AlertRule.objects.filter(cluster=cluster, enabled=True).exists()
        or open_of(cluster).exists()
        or AlertDelivery.objects.filter(cluster=cluster, state=DeliveryState.DUE).exists()
    )


def open_of(cluster: str) -> QuerySet[AlertFiring]:
    """Return the firings that have not ended."""
    states = (FiringState.PENDING, FiringState.FIRING)
    return AlertFiring.objects.filter(cluster=cluster, state__in=states)


class Lease(NamedTuple):
    """A lease that was taken or renewed. ``evaluated_at``: when rules were evaluated last, by any gateway; ``is_new``:
    another gateway may have changed firings since this one had it."""

    evaluated_at: int
    is_new: bool


def take_lease(cluster: str, holder: str, now: int) -> Lease | None:
    """Take or renew the lease; None while another gateway has it."""
    leases, until = AlertLease.objects.filter(cluster=cluster), now + LEASE_MS
    is_new = not leases.filter(holder=holder).update(until=until)
    if is_new and not leases.filter(until__lt=now).update(holder=holder, until=until):
        try:
            with transaction.atomic():
                AlertLease.objects.create(cluster=cluster, holder=holder, until=until)
        except IntegrityError:
            return None
    return Lease(leases.values_list("evaluated_at", flat=True).get(), is_new)


def release(cluster: str, holder: str) -> None:
    """Give the lease up, so that another gateway need not wait for its end."""
    AlertLease.objects.filter(cluster=cluster, holder=holder).update(until=0)


def load(cluster: str, now: int) -> Loaded:
    """Return the enabled rules and present silences. A rule that cannot be read is logged and left out."""
    rules, unknown = [], {}
    for record in AlertRule.objects.filter(cluster=cluster, enabled=True):
        try:
            rules.append(active(record))
        except (MagnetarError, ValueError, KeyError) as error:
            log.warning("alert rule %d cannot be read: %s", record.pk, error)
            continue
        unknown[record.pk] = record.unknown_since, record.unknown_why, record.left_out
    silences = [
        Silence(
            record.rule_id,
            record.tenant,
            RuleScope.parse(record.scope),
            record.subscription,
            record.object,
            record.until,
            record.reason,
        )
        for record in AlertSilence.objects.filter(cluster=cluster, until__gt=now)
    ]
    return Loaded(rules, silences, unknown)


def active(record: AlertRule) -> ActiveRule:
    """Return a rule as it is evaluated. Raises InvalidField, ValueError, KeyError for one that cannot be read."""
    return ActiveRule(
        record.pk,
        record.cluster,
        record.tenant,
        record.name,
        record.severity,
        Definition.checked(record.definition, record.tenant),
        record.for_s * 1_000,
        tuple(record.channels),
        None if record.escalate_s is None else record.escalate_s * 1_000,
        tuple(record.escalate_to),
        record.changed_at,
    )


def acknowledged(cluster: str) -> dict[int, int]:
    """Return when open firings were acknowledged, by id."""
    firings = AlertFiring.objects.filter(cluster=cluster, state=FiringState.FIRING)
    acked = firings.filter(acked_at__isnull=False).values_list("id", "acked_at")
    return {firing: acked_at for firing, acked_at in acked if acked_at is not None}


def write(cluster: str, holder: str, changes: FiringChanges, now: int) -> None:
    """Store changes and their deliveries in one transaction. Raises LeaseLostError, after which nothing is stored."""
    with transaction.atomic():
        # The lease is written first: a gateway that takes over meanwhile waits, or this one finds that it lost it.
        lease = AlertLease.objects.filter(cluster=cluster, holder=holder, until__gte=now)
        if not lease.update(evaluated_at=now, until=now + LEASE_MS):
            raise LeaseLostError("another gateway evaluates the alert rules")
        AlertFiring.objects.bulk_create(changes.created, batch_size=WRITTEN)
        changed = list(changes.changed.values())
        AlertFiring.objects.bulk_update(changed, _KEPT, batch_size=WRITTEN)
        AlertFiring.objects.filter(pk__in=[firing.pk for firing in changes.dropped]).delete()
        known = set(AlertChannel.objects.filter(cluster=cluster).values_list("pk", flat=True))
        for notice in changes.notices:
            for channel in notice.channels:
                if channel in known:
                    delivery = AlertDelivery.objects.create(
                        cluster=cluster,
                        channel_id=channel,
                        kind=notice.kind,
                        left_out=notice.left_out,
                        created_at=now,
                        next_at=now,
                    )
                    delivery.firings.set(notice.firings)
        for rule, (since, why, left_out) in changes.rules.items():
            AlertRule.objects.filter(pk=rule).update(
                unknown_since=since, unknown_why=why[:500], left_out=left_out
            )


def note_evaluated(cluster: str, holder: str, now: int) -> None:
    """Note that rules were evaluated. Raises LeaseLostError."""
    write(cluster, holder, FiringChanges(), now)


def remove_old(cluster: str, now: int) -> None:
    """Delete firings and silences that ended longer ago than the setting ``alert_days``."""
    if days := settings.ALERTS.alert_days:
        before = now - days * DAY_MS
        AlertFiring.objects.filter(cluster=cluster, ended_at__lt=before).delete()
        AlertDelivery.objects.filter(cluster=cluster, firings=None, created_at__lt=before).delete()
        AlertSilence.objects.filter(cluster=cluster, until__lt=before).delete()


# Deliveries

CLAIM_MS = 60_000
"""Time for which a gateway has a delivery to send, longer than sending may take."""
RETRY_FIRST_MS, RETRY_MAX_MS = 10_000, 1_800_000
GIVEN_UP_MS = DAY_MS
"""Age from which a delivery that fails is not tried again."""


def due_channels(cluster: str, now: int) -> dict[int, int]:
    """Return the channels that have a delivery to be sent now, with how often one was tried; the least often first."""
    due = AlertDelivery.objects.filter(
        cluster=cluster, state=DeliveryState.DUE, next_at__lte=now, claimed_until__lt=now
    )
    tried = due.values("channel_id").annotate(tried=Max("attempt"))
    return dict(tried.order_by("tried", "channel_id").values_list("channel_id", "tried"))


def claim(channel: int, now: int) -> AlertDelivery | None:
    """Claim the first unsent delivery of a channel; None when it is not due, or another gateway has it.

    Deliveries of a channel are sent in their order: a later one waits for those before it.
    """
    waiting = AlertDelivery.objects.filter(channel_id=channel, state=DeliveryState.DUE)
    first = waiting.select_related("channel").order_by("id").first()
    if first is None or first.next_at > now or first.claimed_until >= now:
        return None
    mine = AlertDelivery.objects.filter(
        pk=first.pk, state=DeliveryState.DUE, attempt=first.attempt, claimed_until__lt=now
    )
    if not mine.update(attempt=F("attempt") + 1, claimed_until=now + CLAIM_MS):
        return None
    first.attempt += 1
    return first


def finish(delivery: AlertDelivery, error: str, now: int) -> None:
    """Record the outcome of a claimed delivery; an error is tried again, until the delivery is ``GIVEN_UP_MS`` old."""
    mine = AlertDelivery.objects.filter(pk=delivery.pk, attempt=delivery.attempt)
    if not error:
        mine.update(state=DeliveryState.SENT, sent_at=now, error="", claimed_until=0)
        return
    is_over = now - delivery.created_at >= GIVEN_UP_MS
    mine.update(
        state=DeliveryState.FAILED if is_over else DeliveryState.DUE,
        error=error[:500],
        claimed_until=0,
        next_at=now + min(RETRY_FIRST_MS << min(delivery.attempt - 1, 16), RETRY_MAX_MS),
    )


def firings_of(delivery: AlertDelivery) -> Iterable[AlertFiring]:
    """Return the firings that a delivery reports, the first first."""
    return list(delivery.firings.order_by("id"))
