"""Operations that read, by the GET requests of Apache's REST interface."""

from typing import Any

from engine.admin.api.arguments import OnTopic
from engine.admin.api.brokers import HEALTH
from engine.admin.api.dynamic_settings import RUNTIME_SETTINGS
from engine.admin.api.messages import LAST_MESSAGE_ID, MESSAGE_ID_BY_TIME, MessageIdByTime
from engine.admin.api.rows import TOPICS, TOPICS_AT_REST, LoadedTopics, TopicsAtRest
from engine.admin.api.statistics import (
    INTERNAL_INFO,
    INTERNAL_STATS,
    TOPIC_STATS,
    InternalStats,
    TopicStats,
)
from engine.admin.api.subscriptions import SUBSCRIPTIONS
from engine.admin.api.topics import COMPACTION_STATUS, LOOKUP, TOPIC_PROPERTIES
from gateway.apache.brokers import Handlers, Target
from gateway.apache.reports import STATS
from gateway.apache.rest import part, topic_path
from gateway.services.clock import now_ms

Json = dict[str, Any]


async def _topic_stats(target: Target, args: TopicStats) -> Json:
    stats: Json = await target.rest.get(
        topic_path(args.topic, "stats"),
        getPreciseBacklog=args.precise_backlog,
        subscriptionBacklogSize=args.subscription_backlog_size,
        getEarliestTimeInBacklog=args.topic.persistent,
        excludePublishers=args.exclude_publishers,
        excludeConsumers=args.exclude_consumers,
    )
    return with_ages(stats)


def with_ages(stats: Json) -> Json:
    """Return statistics with the times of the oldest unacknowledged messages, where they are known."""
    times = []
    for sub in (stats.get("subscriptions") or {}).values():
        at = int(sub.get("earliestMsgPublishTimeInBacklog") or 0)
        if sub.get("msgBacklog") and at > 0:
            sub["oldestUnacknowledgedAt"] = at
            times.append(at)
        elif not sub.get("msgBacklog"):
            times.append(0)
    backlogs = [sub for sub in (stats.get("subscriptions") or {}).values() if sub.get("msgBacklog")]
    if all("oldestUnacknowledgedAt" in sub for sub in backlogs):
        stats["oldestUnacknowledgedAt"] = min((at for at in times if at), default=0)
    for link in (stats.get("replication") or {}).values():
        # Present where the topic is sent to that cluster.
        if (
            link.get("outboundConnection")
            or link.get("replicationBacklog")
            or link.get("connected")
        ):
            link["blockedBy"] = None
    return stats


async def _internal_stats(target: Target, args: InternalStats) -> Json:
    if not args.topic.persistent:
        return {}
    answer: Json = await target.rest.get(
        topic_path(args.topic, "internalStats"), metadata=args.metadata
    )
    return answer


async def _internal_info(target: Target, args: OnTopic) -> Json:
    answer: Json = await target.rest.get(topic_path(args.topic, "internal-info"))
    return answer


async def _subscriptions(target: Target, args: OnTopic) -> list[str]:
    return sorted(await target.rest.get(topic_path(args.topic, "subscriptions")))


async def _properties(target: Target, args: OnTopic) -> dict[str, str]:
    return dict(await target.rest.get(topic_path(args.topic, "properties")) or {})


async def _last_message_id(target: Target, args: OnTopic) -> Json:
    answer: Json = await target.rest.get(topic_path(args.topic, "lastMessageId"))
    return answer


async def _message_id_by_time(target: Target, args: MessageIdByTime) -> Json:
    answer: Json = await target.rest.get(
        topic_path(args.topic, "messageid", str(args.timestamp_ms))
    )
    return answer


async def _compaction_status(target: Target, args: OnTopic) -> Json:
    answer: Json = await target.rest.get(topic_path(args.topic, "compaction"))
    return answer


async def _lookup(target: Target, args: OnTopic) -> Json:
    domain = "persistent" if args.topic.persistent else "non-persistent"
    names = (*str(args.topic.namespace).split("/"), args.topic.local)
    path = f"/lookup/v2/topic/{domain}/{'/'.join(map(part, names))}"
    answer: Json = await target.rest.get(path)
    return answer


async def _topics(target: Target, args: LoadedTopics) -> list[str]:
    """Return the topics that the broker has loaded, of its statistics."""
    answer = await target.rest.get(STATS, at=target.at)
    wanted = "" if args.namespace is None else str(args.namespace)
    return sorted(
        name
        for namespace, bundles in answer.items()
        if wanted in ("", namespace)
        for domains in bundles.values()
        for topics in domains.values()
        for name in topics
    )


async def _topics_at_rest(target: Target, args: TopicsAtRest) -> Json:
    """Answer that nothing is known of topics at rest: Apache would load a topic to report its figures."""
    return {
        "at": now_ms(),
        "rows": [[str(name), None, None, None, None] for name in args.topics],
        "missing": [],
    }


async def _health(target: Target, args: object) -> str:
    await target.rest.call("GET", "/admin/v2/brokers/health", at=target.at)
    return "ok"


async def _runtime_settings(target: Target, args: object) -> dict[str, str]:
    path = "/admin/v2/brokers/configuration/runtime"
    return dict(await target.rest.get(path, at=target.at))


READS: Handlers = {
    TOPIC_STATS.name: _topic_stats,
    INTERNAL_STATS.name: _internal_stats,
    INTERNAL_INFO.name: _internal_info,
    SUBSCRIPTIONS.name: _subscriptions,
    TOPIC_PROPERTIES.name: _properties,
    LAST_MESSAGE_ID.name: _last_message_id,
    MESSAGE_ID_BY_TIME.name: _message_id_by_time,
    COMPACTION_STATUS.name: _compaction_status,
    LOOKUP.name: _lookup,
    TOPICS.name: _topics,
    TOPICS_AT_REST.name: _topics_at_rest,
    HEALTH.name: _health,
    RUNTIME_SETTINGS.name: _runtime_settings,
}
