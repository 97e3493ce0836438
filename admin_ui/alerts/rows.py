"""Rows of alerts in the form of the console's interface. A channel's URL is in none of them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.db.models import Count

from admin_ui.lists.record_order import RecordOrder
from gateway.alerts.definitions import Definition
from gateway.alerts.models import (
    AlertChannel,
    AlertDelivery,
    AlertFiring,
    AlertRule,
    AlertSilence,
    DeliveryState,
    FiringState,
)

Body = dict[str, Any]
RULE_ORDER = RecordOrder(
    {name: name for name in ("name", "created_at", "changed_at", "created_by", "enabled")}, "name"
)
FIRING_ORDER = RecordOrder(
    {"since": "since", "began_at": "began_at", "ended_at": "ended_at", "rule": "rule_name"},
    "-since",
    nullable=("began_at", "ended_at"),
)


def rule_rows(rules: Sequence[AlertRule]) -> list[Body]:
    """Return the rows of rules, with the number of their firings."""
    firings = AlertFiring.objects.filter(state=FiringState.FIRING, unevaluated=False)
    counted = firings.filter(rule_id__in=[rule.pk for rule in rules]).values_list("rule_id")
    counts = dict(counted.annotate(Count("id")).order_by())
    return [
        {
            "id": rule.pk,
            **rule_document(rule),
            "words": Definition.checked(rule.definition, rule.tenant).words,
            "created_at": rule.created_at,
            "created_by": rule.created_by,
            "firing": counts.get(rule.pk, 0),
            "unknown_since": rule.unknown_since,
            "unknown_why": rule.unknown_why,
            "left_out": rule.left_out,
        }
        for rule in rules
    ]


def rule_document(rule: AlertRule) -> Body:
    """Return what a caller may change of a rule, for its row and the audit log."""
    names = ("tenant", "name", "enabled", "severity", "definition", "for_s")
    return {
        **{name: getattr(rule, name) for name in names},
        "channels": rule.channels,
        "escalate_s": rule.escalate_s,
        "escalate_to": rule.escalate_to,
    }


def channel_rows(channels: Sequence[AlertChannel]) -> list[Body]:
    """Return the rows of channels, with their last notifications."""
    rows = []
    for channel in channels:
        deliveries = AlertDelivery.objects.filter(channel=channel)
        tried = deliveries.filter(attempt__gt=0).order_by("-id").first()
        sent = deliveries.filter(state=DeliveryState.SENT).order_by("-sent_at").first()
        rows.append(
            {
                "id": channel.pk,
                **channel_document(channel),
                "created_at": channel.created_at,
                "created_by": channel.created_by,
                "waiting": deliveries.filter(state=DeliveryState.DUE).count(),
                "sent_at": None if sent is None else sent.sent_at,
                "error": "" if tried is None else tried.error,
            }
        )
    return rows


def channel_document(channel: AlertChannel) -> Body:
    """Return a channel without its URL, of which the host alone is shown."""
    host = urlsplit(channel.secret_url).hostname if channel.secret_url else ""
    return {
        "tenant": channel.tenant,
        "name": channel.name,
        "kind": channel.kind,
        "host": host or "",
        "recipients": channel.recipients,
    }


def firing_rows(firings: Sequence[AlertFiring]) -> list[Body]:
    """Return the rows of firings, with their deliveries."""
    through = AlertDelivery.firings.through.objects.filter(alertfiring__in=firings)
    deliveries: dict[int, list[Body]] = defaultdict(list)
    for item in through.select_related("alertdelivery__channel").order_by("alertdelivery_id"):
        deliveries[item.alertfiring_id].append(_delivery(item.alertdelivery))
    names = (
        *(
            "tenant",
            "rule_id",
            "severity",
            "unevaluated",
            "title",
            "detail",
            "topic",
            "subscription",
        ),
        *("link", "value", "state", "since", "began_at", "ended_at", "end_reason", "acked_at"),
        *("acked_by", "note", "silenced", "escalated_at"),
    )
    return [
        {
            "id": firing.pk,
            "rule": firing.rule_name,
            **{name: getattr(firing, name) for name in names},
            "deliveries": deliveries[firing.pk],
        }
        for firing in firings
    ]


def _delivery(delivery: AlertDelivery) -> Body:
    is_due = delivery.state == DeliveryState.DUE
    return {
        "channel": delivery.channel.name,
        "kind": delivery.kind,
        "state": delivery.state,
        "attempts": delivery.attempt,
        "created_at": delivery.created_at,
        "sent_at": delivery.sent_at,
        "next_at": delivery.next_at if is_due else None,
        "error": delivery.error,
    }


def silence_rows(silences: Iterable[AlertSilence]) -> list[Body]:
    """Return the rows of silences, with the names of their rules."""
    silences = list(silences)
    ids = [silence.rule_id for silence in silences if silence.rule_id is not None]
    names = dict(AlertRule.objects.filter(pk__in=ids).values_list("pk", "name"))
    return [
        {
            "id": silence.pk,
            "rule": names.get(silence.rule_id or 0, ""),
            **{
                name: getattr(silence, name)
                for name in (
                    *("tenant", "rule_id", "scope", "subscription", "until", "reason"),
                    *("created_at", "created_by"),
                )
            },
        }
        for silence in silences
    ]
