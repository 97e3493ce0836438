"""Periodic work of a broker for its topics: rates, changed policies, expiry, quotas, deletion of unused topics."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from engine.base.errors import MagnetarError
from engine.base.names import SYSTEM_PREFIX, NamespaceName
from engine.base.tasks import TaskScope, contained, restarting
from engine.broker.errors import MetadataError, TopicNotFound
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.policy_changes import PolicyChanges
from engine.broker.ports import MigrationTarget, Namespaces
from engine.broker.settings import DataPathSettings
from engine.broker.topics.inactivity import Inactivity
from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from engine.managed.settings import LedgerConfig

log = logging.getLogger(__name__)

RATES_INTERVAL_S = 1.0
CHANGES_RETRY_S = 1.0
UNACKED_INTERVAL_S = 1.0
IDLE_INTERVAL_S = 60.0
"""Seconds for which an unused non-persistent topic stays loaded, at least."""
TURN_TOPICS = 50
"""Number of topics between which other tasks run."""
PARALLEL = 16
"""Number of topics whose storage is accessed at a time, so that one without an answer delays few others."""


class Job(NamedTuple):
    """Work that is repeated. ``work`` receives the seconds since its previous start."""

    name: str
    interval_s: float
    work: Callable[[float], Awaitable[None]]


class Upkeep:
    """The periodic jobs of a broker. ``start`` is called once, inside the running loop; ``close`` ends all jobs."""

    def __init__(
        self,
        registry: TopicRegistry,
        namespaces: Namespaces,
        ledger_config: Callable[[TopicPolicies], LedgerConfig],
        settings: DataPathSettings,
        *,
        changes: PolicyChanges | None = None,
        counted: Sequence[Callable[[list[Topic]], None]] = (),
        inactivity: Inactivity | None = None,
        find_ages: Callable[[float], Awaitable[None]] | None = None,
    ) -> None:
        """Create the jobs. Policies that are noted in ``changes`` are read and applied soon.

        ``counted`` are called once a second with the topics that may have changed since.
        """
        self._counted = counted
        self._registry = registry
        self._namespaces = namespaces
        self._ledger_config = ledger_config
        self._scope = TaskScope("upkeep")
        self._idle: dict[Topic, None] = {}
        self._changes = changes or PolicyChanges()
        self._unacked_max = settings.max_unacked_messages_per_broker
        part = settings.max_unacked_messages_per_subscription_on_broker_blocked
        self._share = max(self._unacked_max * part, 1)
        self._is_held = False
        unacked = Job("unacked", UNACKED_INTERVAL_S, self._check_unacked)
        self.jobs: tuple[Job, ...] = (
            *((unacked,) if self._unacked_max else ()),
            Job("rates", RATES_INTERVAL_S, self._count_rates),
            Job("idle", IDLE_INTERVAL_S, self._unload_idle),
            Job("policies", settings.retention_check_interval_in_seconds, self._apply_policies),
            Job("expiry", settings.message_expiry_check_interval_in_minutes * 60.0, self._expire),
            Job("quotas", settings.backlog_quota_check_interval_in_seconds, self._check_quotas),
            Job(
                "deduplication",
                settings.deduplication_snapshot_frequency_in_seconds,
                self._check_deduplication,
            ),
            Job(
                "compaction",
                settings.broker_service_compaction_monitor_interval_in_seconds,
                self._compact,
            ),
        )

        if find_ages is not None:
            self.jobs += (Job("ages", RATES_INTERVAL_S, find_ages),)
        if seconds := settings.cluster_migration_check_duration_seconds:
            self.jobs += (Job("migration", seconds, self._migrate),)
        if inactivity is not None:
            self._counted = (*counted, inactivity.count)
            seconds = settings.broker_delete_inactive_topics_frequency_seconds
            minutes = settings.subscription_expiry_check_interval_in_minutes
            self.jobs += (
                Job("inactive topics", seconds, partial(self._delete_inactive, inactivity)),
                Job(
                    "inactive subscriptions",
                    minutes * 60.0,
                    partial(self._delete_subscriptions, inactivity),
                ),
            )

    async def _check_unacked(self, elapsed_s: float) -> None:
        """Stop subscriptions with many unacknowledged messages while those of the whole broker reach the limit.

        They are resumed when less than half of the limit is unacknowledged.
        """
        limit = self._unacked_max
        unacked_by_subscription = {
            subscription: subscription.unacked
            for topic in self._registry
            for subscription in topic.subscriptions.values()
        }
        total = sum(unacked_by_subscription.values())
        if total >= limit:
            self._is_held = True
        elif total < limit / 2:
            self._is_held = False
        for subscription, unacked in unacked_by_subscription.items():
            if not self._is_held or unacked >= self._share:
                subscription.dispatch.hold(self._is_held)

    def start(self) -> None:
        for job in self.jobs:
            self._scope.spawn(job.name, restarting(job.name, partial(self._repeat, job)))
        self._scope.spawn("changed policies", restarting("policies", self._apply_changes))

    async def close(self) -> None:
        await self._scope.close()

    async def _repeat(self, job: Job) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(job.interval_s)
            now = loop.time()
            await job.work(now - before)
            before = now

    async def _count_rates(self, elapsed_s: float) -> None:
        touched = self._registry.counters.tick(elapsed_s)
        for counted in self._counted:
            counted(touched)

    async def _unload_idle(self, elapsed_s: float) -> None:
        """Unload non-persistent topics that were unused at this check and at the previous one.

        No other policy applies to them.
        """
        before, self._idle = self._idle, {}
        for index, topic in enumerate(self._registry):
            await _turn(index)
            if topic.name.persistent or topic.in_use:
                continue
            if topic not in before:
                self._idle[topic] = None
                continue
            with contained(f"unloading of {topic.name}"):
                await self._registry.unload(topic.name)

    async def _apply_changes(self) -> None:
        while True:
            changed = await self._changes.take()
            retry = False
            # Topics of other namespaces are not visited: a broker may have very many of them.
            for namespace in dict.fromkeys(
                where if isinstance(where, NamespaceName) else where.namespace for where in changed
            ):
                for index, topic in enumerate(self._registry.topics(namespace)):
                    await _turn(index)
                    concerned = namespace in changed or topic.name.partitioned in changed
                    if concerned and not await self._apply_policies_to(topic):
                        self._changes.note(topic.name.partitioned)
                        retry = True
            if retry:
                await asyncio.sleep(CHANGES_RETRY_S)

    async def _apply_policies(self, elapsed_s: float) -> None:
        """Apply the policies of every topic, which also trims ledgers whose retention has passed."""
        for index, topic in enumerate(self._registry):
            await _turn(index)
            await self._apply_policies_to(topic)

    async def _apply_policies_to(self, topic: Topic) -> bool:
        """Read and apply the policies of ``topic``. Return False when that is to be tried again soon."""
        if topic.closing:
            return True
        try:
            if not await self._is_kept(topic):
                await self._registry.unload(topic.name)
                return True
            policies = await self._namespaces.policies(topic.name)
            if topic.closing:  # while they were read
                return True
            await topic.apply(policies, self._ledger_config(policies))
        except TopicNotFound:
            return True  # its namespace is being deleted
        except MagnetarError as error:
            log.debug("policies not read topic=%s: %s", topic.name, error)
            return False
        except Exception:
            # An unexpected error would repeat at once, so the next periodic round tries again, and others continue.
            log.exception("policies not applied topic=%s", topic.name)
        return True

    async def _is_kept(self, topic: Topic) -> bool:
        """Return whether this cluster is one of those that hold the topic's namespace. Raises as ``peer_of``."""
        try:
            return await self._namespaces.peer_of(topic.name) is None
        except MetadataError as error:
            log.info("topic is no longer held topic=%s: %s", topic.name, error)
            return False

    async def _migrate(self, elapsed_s: float) -> None:
        """Migrate topics of this cluster, or of single namespaces, to the cluster that an administrator named."""
        targets: dict[NamespaceName, MigrationTarget | None] = {}
        for index, topic in enumerate(self._registry):
            await _turn(index)
            namespace = topic.name.namespace
            if namespace not in targets:
                targets[namespace] = None  # also while the store does not answer
                try:
                    targets[namespace] = await self._namespaces.migrated_to(namespace)
                except MagnetarError as error:
                    log.debug("migration not read namespace=%s: %s", namespace, error)
        due = (
            (topic, topic.migration.advance(target))
            for topic in self._registry
            if (target := targets.get(topic.name.namespace)) is not None
            and not topic.closing
            and not topic.name.local.startswith(SYSTEM_PREFIX)
        )
        await self._run_for_topics("migration", due)

    async def _expire(self, elapsed_s: float) -> None:
        """Acknowledge messages that are older than the TTL of their topic."""
        await self._run_for_topics(
            "expiry",
            (
                (topic, topic.expire())
                for topic in self._registry
                if topic.policies.backlog.message_ttl_s and not topic.closing
            ),
        )

    async def _check_quotas(self, elapsed_s: float) -> None:
        await self._run_for_topics(
            "quotas",
            ((topic, topic.quotas.check()) for topic in self._registry if not topic.closing),
        )

        behind = (
            (topic, topic.replication.find_oldest())
            for topic in self._registry
            if topic.replication.backlog and not topic.closing
        )
        await self._run_for_topics("replication's backlogs", behind)

    async def _check_deduplication(self, elapsed_s: float) -> None:
        for index, topic in enumerate(self._registry):
            await _turn(index)
            if topic.closing:  # since the last turn
                continue
            with contained(f"deduplication's check of {topic.name}"):
                topic.deduplication.check()

    async def _compact(self, elapsed_s: float) -> None:
        for index, topic in enumerate(self._registry):
            await _turn(index)
            threshold = topic.policies.storage.compaction_threshold
            if threshold and not topic.closing:
                with contained(f"compaction's check of {topic.name}"):
                    await topic.compaction.start_if_due(threshold)

    async def _delete_inactive(self, inactivity: Inactivity, elapsed_s: float) -> None:
        due = ((topic, inactivity.delete(topic)) for topic in await inactivity.topics_due())
        await self._run_for_topics("deletion of inactive topics", due)

    async def _delete_subscriptions(self, inactivity: Inactivity, elapsed_s: float) -> None:
        await self._run_for_topics(
            "deletion of inactive subscriptions",
            (
                (topic, inactivity.expire_subscriptions(topic))
                for topic in self._registry
                if topic.policies.subscriptions.expiration_minutes and not topic.closing
            ),
        )

    async def _run_for_topics(
        self, job: str, work: Iterable[tuple[Topic, Coroutine[object, object, None]]]
    ) -> None:
        """Await ``work`` of all topics, PARALLEL at a time. Failures are logged once and repeated in the next round."""
        remaining = iter(work)
        failures: list[str] = []

        async def worker() -> None:
            for topic, coroutine in remaining:
                try:
                    await coroutine
                except MagnetarError as error:
                    failures.append(f"{topic.name}: {error}")
                except Exception as error:
                    log.exception("%s failed topic=%s", job, topic.name)
                    failures.append(f"{topic.name}: {error!r}")
                await asyncio.sleep(0)  # thousands of topics without a pause would delay messages

        await asyncio.gather(*(worker() for _ in range(PARALLEL)))
        if failures:
            log.warning(
                "%s not done, tried again in the next round topics=%d first=%s",
                job,
                len(failures),
                failures[0],
            )


async def _turn(index: int) -> None:
    """Let other tasks run after some of the topics that a job visits: thousands without a pause would delay
    messages."""
    if index % TURN_TOPICS == TURN_TOPICS - 1:
        await asyncio.sleep(0)
