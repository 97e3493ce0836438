"""Apache's workers of the cluster, as the coordination topic shows them: its consumers that are none of ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from engine.admin.api.arguments import JsonObject
from engine.admin.api.statistics import TOPIC_STATS, TopicStats
from engine.admin.client import AdminClient
from engine.base.errors import Refusal
from engine.base.names import TopicName
from engine.functions.worker.placing.leadership import OWN_WORKER, PARTICIPANTS


class ApacheWorker(NamedTuple):
    """A worker of Apache Pulsar, and the address of its REST interface."""

    id: str
    host: str
    port: int

    @property
    def info(self) -> dict[str, object]:
        """Pulsar's WorkerInfo."""
        return {"workerId": self.id, "workerHostname": self.host, "port": self.port}


@dataclass(frozen=True, slots=True)
class Membership:
    """Apache's workers by id. ``leader``: the one that leads; None while a worker of ours does, or none."""

    workers: Mapping[str, ApacheWorker] = field(default_factory=dict)
    leader: ApacheWorker | None = None


class ApacheMembers:
    """Reader of the statistics of the coordination topic."""

    def __init__(self, brokers: AdminClient, topic: str) -> None:
        self._brokers = brokers
        self._topic = TopicName.parse(topic)
        self._last = Membership()

    async def now(self) -> Membership:
        """Return Apache's workers. Raises Refusal while the topic's broker does not answer."""
        stats: JsonObject = await self._brokers.call(TOPIC_STATS, TopicStats(self._topic))
        self._last = membership(stats)
        return self._last

    async def last_known(self) -> Membership:
        """Return Apache's workers: the last known ones while the topic's broker does not answer."""
        try:
            return await self.now()
        except Refusal:
            return self._last

    async def ids(self) -> set[str]:
        """Return the last known ids of Apache's workers."""
        return set((await self.last_known()).workers)


def membership(stats: JsonObject) -> Membership:
    """Return the membership that the statistics of the topic show. A consumer whose name is none of a worker is left
    out."""
    subscription = stats.get("subscriptions", {}).get(PARTICIPANTS, {})
    active = subscription.get("activeConsumerName", "")
    workers: dict[str, ApacheWorker] = {}
    leader = None
    for consumer in subscription.get("consumers", []):
        metadata = consumer.get("metadata") or {}
        worker = worker_of(str(metadata.get("id") or consumer.get("consumerName", "")))
        if OWN_WORKER in metadata or worker is None:
            continue
        workers[worker.id] = worker
        if consumer.get("consumerName") == active:
            leader = worker
    return Membership(workers, leader)


def worker_of(label: str) -> ApacheWorker | None:
    """Return the worker that a label ``id:host:port`` names; None for another text."""
    parts = label.rsplit(":", 2)
    if len(parts) != 3 or not parts[0] or not parts[2].isdecimal():
        return None
    return ApacheWorker(parts[0], parts[1], int(parts[2]))
