"""Administrative operations that list topics with their figures: loaded ones, and stored ones at rest."""

from engine.admin.api.arguments import JsonObject
from engine.admin.api.rows import (
    LINK_ROWS,
    SUBSCRIPTION_ROWS,
    TOPIC_ROWS,
    TOPICS,
    TOPICS_AT_REST,
    LoadedTopics,
    TopicsAtRest,
)
from engine.base.clock import Clock
from engine.base.names import TopicName
from engine.broker.administration import reports
from engine.broker.administration.geo.link_feed import LinkFeed
from engine.broker.administration.subscription_feed import SubscriptionFeed
from engine.broker.administration.topic_feed import TopicFeed
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.managed.stored.resting import LogAtRest, RestingLogs
from engine.rpc.operation import Handlers, bind


class RowOperations:
    """Handlers of the operations, which ``engine.admin.api.rows`` describes."""

    def __init__(
        self,
        registry: TopicRegistry,
        topic_feed: TopicFeed,
        subscription_feed: SubscriptionFeed,
        link_feed: LinkFeed,
        resting: RestingLogs,
        clock: Clock,
    ) -> None:
        self._registry = registry
        self._topic_feed = topic_feed
        self._subscription_feed = subscription_feed
        self._link_feed = link_feed
        self._resting = resting
        self._clock = clock

    @property
    def handlers(self) -> Handlers:
        """The handlers by operation."""
        return dict(
            [
                bind(TOPIC_ROWS, self._topic_feed.since),
                bind(SUBSCRIPTION_ROWS, self._subscription_feed.since),
                bind(LINK_ROWS, self._link_feed.since),
                bind(TOPICS_AT_REST, self.topics_at_rest),
                bind(TOPICS, self.topics),
            ]
        )

    async def topics_at_rest(self, args: TopicsAtRest) -> JsonObject:
        at = self._clock.wall_ms()
        # A topic that was just created is loaded, and is asked for before the gateway has its row.
        logs: dict[TopicName, LogAtRest | None] = {}
        for name in args.topics:
            topic = self._registry.loaded(name) if name.persistent else None
            if topic is not None:
                logs[name] = _of_loaded(topic)
        others = [name for name in args.topics if name not in logs]
        stored = await self._resting.read([name.managed_ledger_name for name in others])
        logs.update(zip(others, stored, strict=True))
        rows: list[list[object]] = []
        missing: list[str] = []
        for name in args.topics:
            log = logs[name]
            if log is None:
                missing.append(name.full)
            else:
                rows.append([name.full, *reports.at_rest(log)])
        return {"at": at, "rows": rows, "missing": missing}

    async def topics(self, args: LoadedTopics) -> list[str]:
        return [str(topic.name) for topic in self._registry.topics(args.namespace)]


def _of_loaded(topic: Topic) -> LogAtRest:
    """Return the figures of a topic that this broker has loaded, as its stored state will have them."""
    cursors = topic.log.cursors.items()
    backlogs: dict[str, int | None] = {
        name: cursor.backlog_entries() for name, cursor in cursors if cursor.durable
    }
    return LogAtRest(topic.log.stats().size, backlogs | dict.fromkeys(topic.subscriptions.unread))
