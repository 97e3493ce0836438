"""What a policy would take of a topic if it were in force: by the rules that act, of what the topic holds now."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from engine.admin.api import JsonObject
from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.broker.administration.previews import cursor_changes
from engine.broker.ports import QuotaAction, TopicPolicies
from engine.broker.settings import DataPathSettings
from engine.broker.topics.ephemeral import COMPACTION
from engine.broker.topics.inactivity import expired, is_unused, wait_s
from engine.broker.topics.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.managed.settings import LedgerConfig


@dataclass(slots=True)
class _Taken:
    """``passed``: durable subscriptions that would count everything up to there as acknowledged; ``gone``: those that
    would be deleted; ``deleted``: the topic itself. ``unknown``: why what is not here is not known, by subscription.
    """

    within_s: float = 0.0
    passed: dict[str, Position] = field(default_factory=dict)
    gone: list[str] = field(default_factory=list)
    deleted: bool = False
    producers: int = 0
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Asked:
    """``after``: policies of the topic as they would be. ``now_ms``: when that is judged, by the wall clock."""

    topic: Topic
    after: TopicPolicies
    settings: DataPathSettings
    now_ms: int


async def of(
    topic: Topic,
    policy: str,
    after: TopicPolicies,
    config: LedgerConfig,
    settings: DataPathSettings,
    now_ms: int,
    *,
    measured: bool,
) -> JsonObject:
    """See ``POLICY_EFFECT``. ``config``: of the topic's log by ``after``. Cancel-safe."""
    asked = _Asked(topic, after, settings, now_ms)
    taken = _Taken(unknown=dict(topic.unread))
    if topic.name.persistent:
        await RULES[policy](asked, taken)
    size, last = topic.log.freed(config, taken.passed, taken.gone)
    lost = await asyncio.gather(
        *(
            _lost(each, taken, last, now_ms, measured)
            for each in topic.subscriptions.values()
            if each.name != COMPACTION and each.name not in taken.unknown
        )
    )
    return {
        "bytes": topic.log.stats().size if taken.deleted else size,
        "deleted": taken.deleted,
        "subscriptions": [one for one in lost if one is not None],
        "producers": taken.producers,
        "unknown": taken.unknown,
        "within_s": taken.within_s,
    }


async def _lost(
    subscription: Subscription, taken: _Taken, last: Position, now_ms: int, measured: bool
) -> JsonObject | None:
    """What one subscription would lose; None for nothing. One that is not durable loses what is deleted before it."""
    name = subscription.name
    deleted = taken.deleted or name in taken.gone
    to = taken.passed.get(name) if subscription.durable else last
    if not deleted and (to is None or to <= subscription.cursor.mark_delete):
        return None
    target = None if deleted else to
    found = await cursor_changes.passed(subscription, target, now_ms, measured=measured)
    return {"name": name, "deleted": deleted, **found} if deleted or found["entries"] else None


# By policy


async def _by_retention(asked: _Asked, taken: _Taken) -> None:
    """Ledgers that are consumed go, as soon as it is in force."""


async def _by_ttl(asked: _Asked, taken: _Taken) -> None:
    taken.within_s = asked.settings.message_expiry_check_interval_in_minutes * 60.0
    if asked.after.message_ttl_s:
        await _pass_older(asked, taken, asked.after.message_ttl_s)


async def _by_size(asked: _Asked, taken: _Taken) -> None:
    quotas, quota = asked.topic.quotas, asked.after.size_quota
    taken.within_s = float(asked.settings.backlog_quota_check_interval_in_seconds)
    if not quotas.is_large(quota.limit):
        return
    if quota.action is QuotaAction.EVICT:
        last = quotas.evicted_to(quota.limit)
        taken.passed = {each.name: last for each in quotas.counted()}
    else:
        taken.producers = len(asked.topic.producers)


async def _by_age(asked: _Asked, taken: _Taken) -> None:
    quotas, quota = asked.topic.quotas, asked.after.age_quota
    taken.within_s = float(asked.settings.backlog_quota_check_interval_in_seconds)
    try:
        is_old = await quotas.is_old(quota.limit, asked.now_ms)
    except MagnetarError as error:
        taken.unknown |= {each.name: str(error) for each in quotas.counted()}
        return
    if is_old and quota.action is QuotaAction.EVICT:
        await _pass_older(asked, taken, quota.limit)
    elif is_old:
        taken.producers = len(asked.topic.producers)


async def _by_expiration(asked: _Asked, taken: _Taken) -> None:
    taken.within_s = asked.settings.subscription_expiry_check_interval_in_minutes * 60.0
    taken.gone = expired(asked.topic, asked.after, asked.now_ms)


async def _by_inactivity(asked: _Asked, taken: _Taken) -> None:
    wait = wait_s(asked.after)
    taken.deleted = wait != float("inf") and is_unused(asked.topic, asked.after)
    if taken.deleted:
        taken.within_s = wait + asked.settings.broker_delete_inactive_topics_frequency_seconds


async def _pass_older(asked: _Asked, taken: _Taken, seconds: int) -> None:
    """As ``Topic.expire``."""
    for each in asked.topic.quotas.counted():
        if each.cursor.backlog_entries():
            before_ms, after = asked.now_ms - seconds * 1000, each.cursor.mark_delete
            try:
                taken.passed[each.name] = await asked.topic.log.find_older(before_ms, after)
            except MagnetarError as error:
                taken.unknown[each.name] = str(error)


RULES: dict[str, Callable[[_Asked, _Taken], Awaitable[None]]] = {
    "retention": _by_retention,
    "messageTTL": _by_ttl,
    "backlogQuota.destination_storage": _by_size,
    "backlogQuota.message_age": _by_age,
    "subscriptionExpirationTime": _by_expiration,
    "inactiveTopicPolicies": _by_inactivity,
}
"""Every row of the table of policies that ``takes``."""
