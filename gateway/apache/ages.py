"""Ages of the backlogs of one broker of an Apache Pulsar cluster, for its lists.

The statistics of all topics do not have them. So the statistics of single topics with a backlog are requested, with the
publish time of the oldest unacknowledged message, at most ``READS_PER_S`` a second: those that were never read first,
then those that were read longest ago. What was read longer than ``KEPT_MS`` ago counts as unknown again.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from engine.admin.api.rows import OLDEST_UNKNOWN, ROW_COLUMNS, SubscriptionCell
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from gateway.apache.rest import ApacheRest, topic_path
from gateway.services.clock import now_ms

log = logging.getLogger(__name__)

READS_PER_S = 5.0
KEPT_MS = 600_000
IDLE_S = 1.0
_OLDEST_OF_TOPIC = 1 + ROW_COLUMNS.index("oldest_at")
_BACKLOG_OF_TOPIC = 1 + ROW_COLUMNS.index("backlog")
_NAME, _BACKLOG, _OLDEST = map(SubscriptionCell._fields.index, ("name", "backlog", "oldest_at"))
Rows = Mapping[str, list[Any]]


class AgeReading(NamedTuple):
    """Publish times of the oldest unacknowledged messages by subscription, ms, as read at ``at``, ms."""

    at: int
    oldest: Mapping[str, int]


class BacklogAges:
    """The readings, for one event loop."""

    def __init__(self, rest: ApacheRest, url: str) -> None:
        self._rest = rest
        self._url = url
        self._readings: dict[str, AgeReading] = {}
        self._backlogs: dict[str, int] = {}

    def follow(self, topics: Rows) -> None:
        """Read the topics that have a backlog in these rows, from now on."""
        self._backlogs = {
            name: row[_BACKLOG_OF_TOPIC]
            for name, row in topics.items()
            if row[_BACKLOG_OF_TOPIC] and TopicName.parse(name).persistent
        }
        for gone in self._readings.keys() - self._backlogs.keys():
            del self._readings[gone]

    async def read_repeatedly(self) -> None:
        """Read one topic after the other until it is cancelled."""
        while True:
            name = self._next()
            if name is None:
                await asyncio.sleep(IDLE_S)
                continue
            await self._read(name)
            await asyncio.sleep(1 / READS_PER_S)

    def _next(self) -> str | None:
        """Return the topic to read: never read and with the largest backlog, else read longest ago."""
        never = AgeReading(0, {})
        return min(
            self._backlogs,
            key=lambda name: (self._readings.get(name, never).at, -self._backlogs[name]),
            default=None,
        )

    async def _read(self, name: str) -> None:
        oldest: dict[str, int] = {}
        try:
            stats = await self._rest.get(
                topic_path(TopicName.parse(name), "stats"),
                at=self._url,
                getEarliestTimeInBacklog=True,
                subscriptionBacklogSize=False,
                excludePublishers=True,
                excludeConsumers=True,
            )
            for title, sub in (stats.get("subscriptions") or {}).items():
                at = int(sub.get("earliestMsgPublishTimeInBacklog") or 0)
                if at > 0:
                    oldest[title] = at
        except (MagnetarError, OSError, TimeoutError) as error:
            # Unknown until its next turn: a topic that is not answered must not hold up the others.
            log.debug("age of a backlog is not read topic=%s error=%s", name, error)
        self._readings[name] = AgeReading(now_ms(), oldest)

    def known(self, topic: str) -> Mapping[str, int]:
        """Return the times of a topic's subscriptions that were read lately."""
        reading = self._readings.get(topic)
        if reading is None or now_ms() - reading.at > KEPT_MS:
            return {}
        return reading.oldest

    def added(self, topics: Rows, subscriptions: Rows) -> tuple[Rows, Rows]:
        """Return both kinds of rows with the ages; of a topic only where that of each of its backlogs is known."""
        aged_topics, aged_subscriptions = dict(topics), dict(subscriptions)
        for name in self._backlogs:
            known = self.known(name)
            if not known or name not in subscriptions:
                continue
            cells = [_aged(cell, known) for cell in subscriptions[name][1:]]
            aged_subscriptions[name] = [name, *cells]
            times = [cell[_OLDEST] for cell in cells if cell[_BACKLOG]]
            if times and OLDEST_UNKNOWN not in times:
                row = topics[name]
                aged_topics[name] = [
                    *row[:_OLDEST_OF_TOPIC],
                    min(times),
                    *row[_OLDEST_OF_TOPIC + 1 :],
                ]
        return aged_topics, aged_subscriptions


def _aged(cell: list[Any], known: Mapping[str, int]) -> list[Any]:
    if not cell[_BACKLOG]:
        return cell
    oldest = known.get(cell[_NAME], OLDEST_UNKNOWN)
    return [*cell[:_OLDEST], oldest, *cell[_OLDEST + 1 :]]
