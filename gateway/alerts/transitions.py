"""Firings from one evaluation to the next: which begin, which end, and who is notified of it. Pure: it changes the
records that it is given, and stores nothing.

A figure that is not known neither begins nor ends a firing: ``Outcome.holds`` is None then, and the firing stays (J9).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from gateway.alerts.conditions import OBJECTS_MAX, Match, Outcome
from gateway.alerts.definitions import Definition, RuleScope
from gateway.alerts.models import AlertFiring, DeliveryKind, FiringState

UNEVALUATED = "?"
"""Object of the firing about a rule that cannot be evaluated; no other object has it."""
TEXT_CHARS_MAX = 2_000


class ActiveRule(NamedTuple):
    """An enabled rule. ``stamp``: changes with the rule's condition."""

    id: int
    cluster: str
    tenant: str
    name: str
    severity: str
    definition: Definition
    for_ms: int
    channels: tuple[int, ...]
    escalate_ms: int | None
    escalate_to: tuple[int, ...]
    stamp: int


class Silence(NamedTuple):
    """A silence that applies now."""

    rule_id: int | None
    tenant: str
    scope: RuleScope
    subscription: str
    object: str
    until: int
    reason: str

    def covers(self, firing: AlertFiring) -> bool:
        """Return whether no channel is to be notified of a firing."""
        if self.tenant not in ("", firing.tenant):
            return False
        if self.rule_id not in (None, firing.rule_id) or self.object not in ("", firing.object):
            return False
        if self.subscription not in ("", firing.subscription):
            return False
        if not self.scope.text:
            return True
        return bool(firing.topic) and self.scope.has(firing.topic)


class Notice(NamedTuple):
    """A notification to be sent: a delivery to each of ``channels`` about all of ``firings``."""

    kind: DeliveryKind
    channels: tuple[int, ...]
    firings: list[AlertFiring]
    left_out: int = 0


@dataclass(slots=True)
class FiringChanges:
    """Records to be stored together. ``rules``: since when and why rules cannot be evaluated, and objects left out."""

    created: list[AlertFiring] = field(default_factory=list)
    changed: dict[int, AlertFiring] = field(default_factory=dict)
    """Records by their ``id()``, the only id of those that are not stored yet."""
    dropped: list[AlertFiring] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    rules: dict[int, tuple[int | None, str, int]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        parts = (self.created, self.changed, self.dropped, self.notices, self.rules)
        return any(parts)

    def change(self, firing: AlertFiring) -> None:
        """Note that a record is to be stored; one that is created is stored anyway."""
        if firing.pk is not None:
            self.changed[id(firing)] = firing


Open = dict[str, AlertFiring]
"""The firings of a rule that have not ended, by object."""


def advance(
    rule: ActiveRule,
    outcome: Outcome,
    open_firings: Open,
    now: int,
    changes: FiringChanges,
    unknown_ms: int,
) -> int:
    """Begin and end the firings of a rule; return the number of objects that are left out.

    ``unknown_ms``: for how long its evaluation must fail before that is a firing; 0: it never is.
    """
    matches = {match.object: match for match in outcome.matches}
    left_out = outcome.more
    for match in outcome.matches:
        if match.object not in open_firings:
            if len(open_firings) >= OBJECTS_MAX:
                left_out += 1
                continue
            _create(rule, match, open_firings, changes)
    if outcome.problem and unknown_ms and UNEVALUATED not in open_firings:
        title = "The rule cannot be evaluated"
        _create(rule, Match(UNEVALUATED, title, outcome.problem, None, now), open_firings, changes)
    for key, firing in list(open_firings.items()):
        for_ms = rule.for_ms
        met: bool | None = key in matches or outcome.holds(key)
        if firing.unevaluated:
            met, for_ms = bool(outcome.problem and unknown_ms), unknown_ms
        if met and firing.state == FiringState.PENDING:
            if now - firing.since >= for_ms:
                firing.state, firing.began_at = FiringState.FIRING, now
                if match_now := matches.get(key):
                    firing.detail, firing.value = match_now.detail, match_now.value
                changes.change(firing)
        elif met is False:
            end(firing, now, "", changes)
            del open_firings[key]
    return left_out


def end(firing: AlertFiring, now: int, reason: str, changes: FiringChanges) -> None:
    """End a firing; one that is pending leaves nothing."""
    if firing.state == FiringState.PENDING:
        if firing.pk is None:
            changes.created.remove(firing)
        else:
            changes.changed.pop(id(firing), None)
            changes.dropped.append(firing)
        return
    firing.state, firing.ended_at, firing.end_reason = FiringState.ENDED, now, reason
    changes.change(firing)


def _create(rule: ActiveRule, match: Match, open_firings: Open, changes: FiringChanges) -> None:
    firing = AlertFiring(
        cluster=rule.cluster,
        tenant=rule.tenant,
        rule_id=rule.id,
        rule_name=rule.name,
        severity=rule.severity,
        unevaluated=match.object == UNEVALUATED,
        object=match.object,
        object_hash=sha256(match.object.encode(errors="surrogatepass")).hexdigest(),
        topic=match.topic,
        subscription=match.subscription,
        link=match.link,
        title=match.title[:TEXT_CHARS_MAX],
        detail=match.detail[:TEXT_CHARS_MAX],
        value=match.value,
        since=match.since,
    )
    open_firings[match.object] = firing
    changes.created.append(firing)


def notify(
    rule: ActiveRule,
    open_firings: Collection[AlertFiring],
    silences: Sequence[Silence],
    now: int,
    changes: FiringChanges,
    left_out: int = 0,
) -> None:
    """Add the notices about firings that have begun, unless they were sent, and about those to be escalated.

    A firing that was silenced is notified once its silence ends, if it lasts until then. Firings of one rule that
    begin together are one notice.
    """
    begun: list[AlertFiring] = []
    escalated: list[AlertFiring] = []
    for firing in open_firings:
        if firing.state != FiringState.FIRING:
            continue
        silence = next((item for item in silences if item.covers(firing)), None)
        silenced = "" if silence is None else (silence.reason or "silenced")
        if firing.silenced != silenced:
            firing.silenced = silenced
            changes.change(firing)
        if silence is not None:
            continue
        if firing.notified_at is None and rule.channels:
            firing.notified_at, firing.notified = now, list(rule.channels)
            changes.change(firing)
            begun.append(firing)
        if _is_escalated(rule, firing, now):
            firing.escalated_at = now
            firing.notified = list(dict.fromkeys((*firing.notified, *rule.escalate_to)))
            changes.change(firing)
            escalated.append(firing)
    if begun:
        changes.notices.append(Notice(DeliveryKind.BEGIN, rule.channels, begun, left_out))
    if escalated:
        changes.notices.append(Notice(DeliveryKind.ESCALATION, rule.escalate_to, escalated))


def _is_escalated(rule: ActiveRule, firing: AlertFiring, now: int) -> bool:
    if rule.escalate_ms is None or not rule.escalate_to or firing.escalated_at is not None:
        return False
    began = firing.began_at or now
    return firing.acked_at is None and now - began >= rule.escalate_ms


def notify_ended(ended: Iterable[AlertFiring], changes: FiringChanges) -> None:
    """Add the notices about firings that have ended, to the channels that were notified of their beginning."""
    groups: dict[tuple[int, tuple[int, ...]], list[AlertFiring]] = {}
    for firing in ended:
        if firing.notified:
            groups.setdefault((firing.rule_id, tuple(firing.notified)), []).append(firing)
    for (_, channels), firings in groups.items():
        changes.notices.append(Notice(DeliveryKind.END, channels, firings))
