"""Reading of the figures of topics that no broker has loaded, from the metadata store by way of brokers in turn."""

import asyncio
import logging
from collections.abc import Iterator

from engine.admin.api.rows import TOPICS_AT_REST, TOPICS_AT_REST_MAX, TopicsAtRest
from engine.admin.client import BrokerAddress
from engine.base.errors import InvalidNameError
from engine.base.names import TopicName
from engine.base.tasks import TaskScope
from gateway.services.clock import now_ms
from gateway.services.engine_link import FAILURES, Engine
from gateway.services.index.topic_index import TopicIndex
from gateway.services.subscriptions.subscription_index import SubscriptionIndex

log = logging.getLogger(__name__)

TIMEOUT_S = 15.0


class RestingReads:
    """The readings, one at a time, for the collector's rounds."""

    def __init__(
        self, topics: TopicIndex, subscriptions: SubscriptionIndex, tasks: TaskScope
    ) -> None:
        self._topics = topics
        self._subscriptions = subscriptions
        self._tasks = tasks
        self._reading: asyncio.Task[None] | None = None
        self._turn = 0

    def read_next(self, engine: Engine, brokers: list[BrokerAddress], at: int) -> None:
        """Have the next of ``brokers`` in turn read some topics, unless the last reading is under way. ``at``: now,
        ms."""
        if not brokers or (self._reading is not None and not self._reading.done()):
            return
        names = self._topics.due(at, TOPICS_AT_REST_MAX)
        if names:
            self._turn += 1
            broker = brokers[self._turn % len(brokers)]
            self._reading = self._tasks.spawn("at rest", self._read(engine, broker, names))

    async def _read(self, engine: Engine, broker: BrokerAddress, names: list[str]) -> None:
        is_read = False
        try:
            request = TopicsAtRest(list(_parsed(names)))
            async with asyncio.timeout(TIMEOUT_S):
                answer = await engine.call_on(broker, TOPICS_AT_REST, request)
            is_read = True
            self._topics.apply_at_rest(answer)
            for name, *_, backlogs in answer["rows"]:
                # A broker of an earlier version reports no backlogs by subscription.
                if isinstance(backlogs, dict) and self._topics.is_unloaded(name):
                    self._subscriptions.read_at_rest(name, backlogs)
            for name in answer["missing"]:
                self._subscriptions.read_at_rest(name, {})
        except FAILURES as error:
            log.debug("topics at rest not read broker=%s error=%r", broker.id, error)
        finally:
            if not is_read:
                self._topics.postpone(names, now_ms())


def _parsed(names: list[str]) -> Iterator[TopicName]:
    """Yield the valid topic names; a stored name that is not valid can be loaded by no broker."""
    for name in names:
        try:
            yield TopicName.parse(name)
        except InvalidNameError as error:
            log.debug("stored name is not a topic's: %s", error)
