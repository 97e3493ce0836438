"""Effects that a policy would have on a topic if it were in force, found by the rules that enforce it and the topic's
present contents."""

import asyncio
from dataclasses import dataclass, field
from typing import assert_never

from engine.admin.api.arguments import JsonObject
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.broker.administration.previews import cursor_changes
from engine.broker.policies import (
    QuotaAction,
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from engine.broker.topics.ephemeral import COMPACTION
from engine.broker.topics.inactivity import expired, is_unused, wait_s
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.managed.settings import LedgerConfig
from engine.tenancy.policies.policy import EffectKind


@dataclass(slots=True)
class _Effects:
    """Effects of a changed policy.

    ``passed``: the last position that would count as acknowledged, by durable subscription; ``gone``: subscriptions
    that would be deleted; ``deleted``: whether the topic would be; ``producers``: how many would be held or refused;
    ``within_s``: the time in which it happens. ``unknown``: the reason why the effects on a subscription are not
    known, by its name.
    """

    within_s: float = 0.0
    passed: dict[str, Position] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    deleted: bool = False
    producers: int = 0
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Change:
    """A changed policy of a topic. ``after``: the topic's policies with it; ``now_ms``: wall clock."""

    topic: Topic
    after: TopicPolicies
    settings: DataPathSettings
    now_ms: int


async def of(
    topic: Topic,
    effect: EffectKind,
    after: TopicPolicies,
    config: LedgerConfig,
    settings: DataPathSettings,
    now_ms: int,
    *,
    measured: bool,
) -> JsonObject:
    """Return what a policy of the kind ``effect`` would do, see ``POLICY_EFFECT``. Cancel-safe.

    ``config``: that of the topic's log under ``after``.
    """
    change = _Change(topic, after, settings, now_ms)
    effects = _Effects(unknown=dict(topic.subscriptions.unread))
    if topic.name.persistent:
        await _find(effect, change, effects)
    size, last = topic.log.freed(config, effects.passed, effects.gone)
    lost = await asyncio.gather(
        *(
            _lost(subscription, effects, last, now_ms, measured)
            for subscription in topic.subscriptions.values()
            if subscription.name != COMPACTION and subscription.name not in effects.unknown
        )
    )
    return {
        "bytes": topic.log.stats().size if effects.deleted else size,
        "deleted": effects.deleted,
        "subscriptions": [row for row in lost if row is not None],
        "producers": effects.producers,
        "unknown": effects.unknown,
        "within_s": effects.within_s,
    }


async def _lost(
    subscription: Subscription, effects: _Effects, last: Position, now_ms: int, measured: bool
) -> JsonObject | None:
    """Return what a subscription would lose; None for nothing. One that is not durable loses the entries that are
    deleted after its mark-delete position."""
    name = subscription.name
    deleted = effects.deleted or name in effects.gone
    to = effects.passed.get(name) if subscription.durable else last
    if not deleted and (to is None or to <= subscription.cursor.mark_delete):
        return None
    target = None if deleted else to
    loss = await cursor_changes.passed(subscription, target, now_ms, measured=measured)
    return {"name": name, "deleted": deleted, **loss} if deleted or loss["entries"] else None


async def _find(kind: EffectKind, change: _Change, effects: _Effects) -> None:
    """Add the effects of a kind of policy by its rule."""
    match kind:
        case EffectKind.RETENTION:
            pass  # Consumed ledgers are deleted as soon as the policy is in force, which ``freed`` counts.
        case EffectKind.TTL:
            await _by_ttl(change, effects)
        case EffectKind.SIZE_QUOTA:
            await _by_size(change, effects)
        case EffectKind.AGE_QUOTA:
            await _by_age(change, effects)
        case EffectKind.SUBSCRIPTION_EXPIRY:
            await _by_expiration(change, effects)
        case EffectKind.INACTIVITY:
            await _by_inactivity(change, effects)
        case _:
            assert_never(kind)


async def _by_ttl(change: _Change, effects: _Effects) -> None:
    effects.within_s = change.settings.message_expiry_check_interval_in_minutes * 60.0
    if change.after.backlog.message_ttl_s:
        await _pass_older(change, effects, change.after.backlog.message_ttl_s)


async def _by_size(change: _Change, effects: _Effects) -> None:
    quotas, quota = change.topic.quotas, change.after.backlog.size_quota
    effects.within_s = float(change.settings.backlog_quota_check_interval_in_seconds)
    if not quotas.is_large(quota.limit):
        return
    if quota.action is QuotaAction.EVICT:
        last = quotas.evicted_to(quota.limit)
        effects.passed = {subscription.name: last for subscription in quotas.counted()}
    else:
        effects.producers = len(change.topic.producers)


async def _by_age(change: _Change, effects: _Effects) -> None:
    quotas, quota = change.topic.quotas, change.after.backlog.age_quota
    effects.within_s = float(change.settings.backlog_quota_check_interval_in_seconds)
    try:
        is_old = await quotas.is_old(quota.limit, change.now_ms)
    except MagnetarError as error:
        effects.unknown |= {subscription.name: str(error) for subscription in quotas.counted()}
        return
    if is_old and quota.action is QuotaAction.EVICT:
        await _pass_older(change, effects, quota.limit)
    elif is_old:
        effects.producers = len(change.topic.producers)


async def _by_expiration(change: _Change, effects: _Effects) -> None:
    effects.within_s = change.settings.subscription_expiry_check_interval_in_minutes * 60.0
    effects.gone = expired(change.topic, change.after, change.now_ms)


async def _by_inactivity(change: _Change, effects: _Effects) -> None:
    wait = wait_s(change.after)
    effects.deleted = wait != float("inf") and is_unused(change.topic, change.after)
    if effects.deleted:
        effects.within_s = wait + change.settings.broker_delete_inactive_topics_frequency_seconds


async def _pass_older(change: _Change, effects: _Effects, seconds: int) -> None:
    """Add the entries that ``Topic.expire`` would acknowledge."""
    for subscription in change.topic.quotas.counted():
        if subscription.cursor.backlog_entries():
            name, mark_delete = subscription.name, subscription.cursor.mark_delete
            before_ms = change.now_ms - seconds * 1000
            try:
                effects.passed[name] = await change.topic.log.find_older(before_ms, mark_delete)
            except MagnetarError as error:
                effects.unknown[name] = str(error)
