"""Policies of single topics, stored as Apache Pulsar does: in the system topic ``__change_events`` of their namespace.

A broker follows the namespaces whose topics it has loaded or whose policies were requested lately. All policies of a
topic are one event; the last event of its key holds (see ``engine.tenancy.change_events``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from engine.base.backoff import Backoff
from engine.base.clock import Clock
from engine.base.entropy import Entropy
from engine.base.errors import (
    Conflict,
    InvalidNameError,
    MagnetarError,
    PreconditionFailed,
    Refusal,
)
from engine.base.names import SYSTEM_PREFIX, NamespaceName, TopicName
from engine.base.tasks import TaskScope, restarting
from engine.broker.control.change_log import RETRY_S_MAX, ChangeLog, LatestEvent
from engine.broker.control.event_schemas import EventSchemas
from engine.broker.errors import ServiceNotReady
from engine.client.broker_link import BrokerLink, Credentials, LinkSettings
from engine.client.lookup import Links
from engine.metadata.records import Document
from engine.metadata.store import MetadataStore
from engine.net.network import Network
from engine.net.tls import ContextSource
from engine.schema.schema_registry import SchemaRegistry
from engine.tenancy.avro import AvroError
from engine.tenancy.change_events import (
    GLOBAL_PREFIX,
    key_of,
    log_topic,
    new_event,
    policies_of,
    with_policies,
)

LOAD_WAIT_S = 5.0
"""Time limit of the first read of a namespace's log; a topic's load has ``topic_load_timeout_seconds`` in all."""
CHANGE_WAIT_S = 10.0
"""Time limit for a change to be stored and read here."""
UNUSED_S = 60.0
"""Time without a request after which a log is closed, when no topic of its namespace is loaded here.

It is longer than any request waits.
"""
LINKS = LinkSettings(connect_timeout_s=5.0, request_timeout_s=5.0)


class PolicyLog:
    """Own policies of all topics. Created inside a running loop; must be closed.

    ``loaded`` returns the topics that are loaded here. ``on_change`` is called with a topic, never a partition, within
    about a second of any change of its policies on any broker. That holds while its namespace is followed: from the
    first ``get`` of one of its topics until UNUSED_S after the last one with none loaded.
    """

    def __init__(
        self,
        *,
        store: MetadataStore,
        schemas: SchemaRegistry,
        network: Network,
        clock: Clock,
        entropy: Entropy,
        cluster: str,
        service_url: str,
        tls: ContextSource | None = None,
        credentials: Credentials | None = None,
        loaded: Callable[[], Iterable[TopicName]],
        on_change: Callable[[TopicName], None],
    ) -> None:
        self._on_change = on_change
        self._store = store
        self._schemas = schemas
        self._clock = clock
        self._entropy = entropy
        self._cluster = cluster
        self._service_url = service_url
        self._loaded = loaded
        self._links = Links(network, replace(LINKS, tls=tls, credentials=credentials), BrokerLink)
        self._logs: dict[NamespaceName, ChangeLog] = {}
        self._asked_s: dict[NamespaceName, float] = {}
        self._tasks = TaskScope("topic policies")
        self._tasks.spawn("unused", restarting("end of unused policies", self._close_unused))

    async def get(self, topic: TopicName, *, everywhere: bool = False) -> Document:
        """Return the topic's own policies that are set, the partitioned topic's for a partition; {} without any.

        ``everywhere``: those set for all clusters instead. System topics have none. Once the namespace's log was read,
        the last known policies are returned also while its owner cannot be reached. Raises ServiceNotReady when the
        policies are not known. Cancel-safe.
        """
        if is_system(topic):
            return {}
        log = await self._known(topic.namespace)
        latest = log.latest(key_of(topic.partitioned, everywhere=everywhere))
        if latest is None:
            return {}
        if latest.unread:
            raise ServiceNotReady(f"Policies of {topic} cannot be read: {latest.unread}")
        return policies_of(latest.event)

    async def every(
        self, namespace: NamespaceName, *, everywhere: bool = False
    ) -> dict[TopicName, Document]:
        """Return the policies of each topic of the namespace that has any, a partitioned one once. See ``get``."""
        log = await self._known(namespace)
        keys = [key for key in log.keys if key.startswith(GLOBAL_PREFIX) is everywhere]
        topics = [_topic_of(key.removeprefix(GLOBAL_PREFIX)) for key in keys]
        return {
            topic: await self.get(topic, everywhere=everywhere)
            for topic in topics
            if topic is not None
        }

    async def _known(self, namespace: NamespaceName) -> ChangeLog:
        log = self._log_of(namespace)
        try:
            async with asyncio.timeout(LOAD_WAIT_S):
                await log.known()
        except TimeoutError as error:
            raise ServiceNotReady(
                f"Policies of the topics of {namespace} are not known yet"
            ) from error
        return log

    async def change(
        self, topic: TopicName, change: Callable[[Document], None], *, everywhere: bool = False
    ) -> None:
        """Edit the topic's policies in place; return when that is stored on an ack quorum and ``get`` here has it.

        Unset fields are absent; a field that is None afterwards is unset. Changes of this broker follow each other.
        When another broker changed the same topic between the read and the write here, the edit is applied again on
        top of that change (``change`` is called again), so that both hold in the end. Until then only the edit does,
        and for good when this broker dies meanwhile.

        Raises ServiceNotReady (the change may be stored), PreconditionFailed for values that do not fit, NotFound
        without the namespace, Conflict when the stored event cannot be read, and what ``change`` raises. After a
        cancellation the change may be stored.
        """
        if is_system(topic):
            raise PreconditionFailed(f"{topic} is a system topic: it has no policies")
        topic = topic.partitioned
        key = key_of(topic, everywhere=everywhere)

        def edited(base: LatestEvent | None) -> Document | None:
            """Return the event to write, None when the change has no effect."""
            if base is not None and base.unread:
                raise Conflict(f"Policies of {topic} cannot be read: {base.unread}")
            empty = new_event(topic, self._cluster, everywhere=everywhere)
            event = empty if base is None else base.event
            policies = policies_of(event)
            change(policies)
            after = with_policies(event, policies)
            return None if policies_of(after) == policies_of(event) else after

        async def write(log: ChangeLog) -> None:
            base = expected = log.latest(key)
            while (event := edited(base)) is not None:
                done = await log.append(key, event, local=self._local(everywhere))
                if done.before == expected:
                    return
                # Another broker's event precedes ours: edit that one.
                base, expected = (done.before, done.after)

        await self._write(topic, write)

    async def forget(self, topic: TopicName) -> None:
        """Delete all policies of a topic that is deleted; a partition has none of its own.

        Raises ServiceNotReady. After that or a cancellation the policies may be deleted.
        """
        if is_system(topic) or topic.partition >= 0:
            return

        async def write(log: ChangeLog) -> None:
            for everywhere in (False, True):
                key = key_of(topic, everywhere=everywhere)
                if log.latest(key) is not None:
                    await log.append(key, None, local=self._local(everywhere))

        await self._write(topic, write)

    def _local(self, everywhere: bool) -> str | None:
        return None if everywhere else self._cluster

    async def _write(self, topic: TopicName, write: Callable[[ChangeLog], Awaitable[None]]) -> None:
        """Call ``write`` until it succeeds, or raise ServiceNotReady after CHANGE_WAIT_S."""
        backoff = Backoff(max_s=RETRY_S_MAX)
        log = self._log_of(topic.namespace)
        reason = "no answer in time"
        try:
            async with asyncio.timeout(CHANGE_WAIT_S), log.changing:
                while True:
                    await log.current()
                    try:
                        return await write(log)
                    except Refusal:
                        raise
                    except AvroError as error:
                        text = str(error).removeprefix("topicPoliciesEvent.policies.")
                        raise PreconditionFailed(text) from error
                    except MagnetarError as error:
                        reason = str(error)
                        await asyncio.sleep(backoff.next_s(self._entropy.random()))
        except TimeoutError as error:
            raise ServiceNotReady(
                f"Policies of {topic} may or may not be changed: {reason}"
            ) from error

    # --- logs ------------------------------------------------------------------------------------

    def _log_of(self, namespace: NamespaceName) -> ChangeLog:
        if self._tasks.closed:
            raise ServiceNotReady("The broker is shutting down")
        self._asked_s[namespace] = self._clock.monotonic_s()
        log = self._logs.get(namespace)
        if log is None:
            topic = log_topic(namespace)
            log = self._logs[namespace] = ChangeLog(
                topic,
                store=self._store,
                schemas=EventSchemas(topic, self._schemas),
                links=self._links,
                service_url=self._service_url,
                clock=self._clock,
                entropy=self._entropy,
                on_change=self._changed,
            )
        return log

    def _changed(self, key: str) -> None:
        topic = _topic_of(key.removeprefix(GLOBAL_PREFIX))
        if topic is not None:
            self._on_change(topic)

    async def _close_unused(self) -> None:
        while True:
            await asyncio.sleep(UNUSED_S / 2)
            used = {topic.namespace for topic in self._loaded() if not is_system(topic)}
            since_s = self._clock.monotonic_s() - UNUSED_S
            for namespace, log in list(self._logs.items()):
                if namespace not in used and self._asked_s[namespace] < since_s:
                    del self._logs[namespace], self._asked_s[namespace]
                    await log.close()

    async def close(self) -> None:
        """Stop following all logs. Safe to call twice."""
        await self._tasks.close()
        self._links.abort()
        await asyncio.gather(*(log.close() for log in self._logs.values()))
        self._logs.clear()


def _topic_of(key: str) -> TopicName | None:
    """Return the topic of a key; None for a key of another writer, which is no topic's name."""
    try:
        return TopicName.parse(key)
    except InvalidNameError:
        return None


def is_system(topic: TopicName) -> bool:
    return topic.local.startswith(SYSTEM_PREFIX)
