"""Policies of single topics, as Apache Pulsar stores them: in the system topic ``__change_events`` of their namespace.

Known to this broker for the namespaces it has topics of or was asked about lately. All policies of a topic are one
event; the last one of its key holds (see ``engine.tenancy.change_events``).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

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
from engine.base.names import NamespaceName, TopicName
from engine.base.tasks import TaskScope, restarting
from engine.broker.control.change_log import RETRY_S_MAX, ChangeLog, Latest
from engine.broker.control.event_schemas import EventSchemas
from engine.broker.errors import ServiceNotReady
from engine.client.broker_link import BrokerLink, LinkSettings
from engine.client.lookup import Links
from engine.metadata.records import Document
from engine.metadata.store import MetadataStore
from engine.net.network import Network
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
from engine.tenancy.topics import SYSTEM_PREFIX

LOAD_WAIT_S = 5.0
"""For a namespace's log to be read for the first time; a topic's load has ``topic_load_timeout_seconds`` in all."""
CHANGE_WAIT_S = 10.0
"""For a change to be stored and seen here."""
UNUSED_S = 60.0
"""A log is closed when nobody asked for so long, which is longer than anybody waits for it, and no topic of its
namespace is loaded here."""
LINKS = LinkSettings(connect_timeout_s=5.0, request_timeout_s=5.0)


class PolicyLog:
    """Every topic's own policies. Made inside a running loop; ``close`` it.

    ``loaded``: topics that are loaded here.
    ``on_change`` is told of a topic (a partitioned one as such) within about a second of any change of its policies,
    wherever it was made, while its namespace is followed: from the first ``get`` of one of its topics until UNUSED_S
    after the last one with none loaded.
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
        loaded: Callable[[], Iterable[TopicName]],
    ) -> None:
        self.on_change: Callable[[TopicName], None] = lambda topic: None
        self._store = store
        self._schemas = schemas
        self._clock = clock
        self._entropy = entropy
        self._cluster = cluster
        self._service_url = service_url
        self._loaded = loaded
        self._links = Links(network, LINKS, BrokerLink)
        self._logs: dict[NamespaceName, ChangeLog] = {}
        self._asked_s: dict[NamespaceName, float] = {}
        self._tasks = TaskScope("topic policies")
        self._tasks.spawn("unused", restarting("end of unused policies", self._close_unused))

    async def get(self, topic: TopicName, *, everywhere: bool = False) -> Document:
        """The topic's own policies that are set, of the partitioned parent for a partition; {} when there are none.
        ``everywhere``: those set for all clusters instead. System topics have none.

        Once its namespace's log was read, what was last known is given also while its owner cannot be reached.
        Raises ServiceNotReady when they are not known. Cancel-safe.
        """
        if is_system(topic):
            return {}
        log = await self._known(topic.namespace)
        found = log.latest(key_of(topic.partitioned, everywhere=everywhere))
        if found is None:
            return {}
        if found.unread:
            raise ServiceNotReady(f"Policies of {topic} cannot be read: {found.unread}")
        return policies_of(found.event)

    async def every(
        self, namespace: NamespaceName, *, everywhere: bool = False
    ) -> dict[TopicName, Document]:
        """As ``get``, of each topic of the namespace that has any policies of its own, a partitioned one once."""
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
        """Edit the topic's policies in place; returns when that is stored on an ack quorum and ``get`` here has it.
        Unset fields are absent; what is None afterwards is not set.

        Changes made here come one after the other. When another broker's change of the same topic came between our
        reading and our writing, ours is done again on top of it (``change`` is called again), so that both hold in the
        end; for the moment until then only ours does, and for good when this broker dies in it.
        Raises ServiceNotReady (it may have been stored), PreconditionFailed for values that do not fit, NotFound
        without the namespace, Conflict when what is stored cannot be read, and what ``change`` raises. Cancelled: it
        may be stored.
        """
        if is_system(topic):
            raise PreconditionFailed(f"{topic} is a system topic: it has no policies")
        topic = topic.partitioned

        key = key_of(topic, everywhere=everywhere)

        def edited(base: Latest | None) -> Document | None:
            """The event to write, None when there is nothing to change."""
            if base is not None and base.unread:
                raise Conflict(f"Policies of {topic} cannot be read: {base.unread}")
            fresh = new_event(topic, self._cluster, everywhere=everywhere)
            event = fresh if base is None else base.event
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
                base, expected = done.before, done.after  # somebody else's came between

        await self._write(topic, write)

    async def forget(self, topic: TopicName) -> None:
        """Delete all policies of a topic that is deleted; those of a partition are its parent's and stay. Raises
        ServiceNotReady (they may be deleted); cancelled likewise."""
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
        """Try until it is done or CHANGE_WAIT_S are over."""
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
            self.on_change(topic)

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
        """Follow nothing any more; safe to call twice."""
        await self._tasks.close()
        self._links.abort()
        await asyncio.gather(*(log.close() for log in self._logs.values()))
        self._logs.clear()


def _topic_of(key: str) -> TopicName | None:
    """None for a key that is no topic's: somebody else wrote here."""
    try:
        return TopicName.parse(key)
    except InvalidNameError:
        return None


def is_system(topic: TopicName) -> bool:
    return topic.local.startswith(SYSTEM_PREFIX)
