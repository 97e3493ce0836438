"""Revocation: what clients opened is judged again when the records by which it was judged change, and closed.

A client that lost its right is disconnected within a second of the confirmed change, while the store answers, and a
watcher of topics is suspended. While the store does not answer, nothing is closed (A19).
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from engine.admin.api.losses import ChangedRecords
from engine.auth.actions import Action
from engine.auth.authorization.policy_view import NamespaceAccess, PolicyView, TenantAccess
from engine.auth.identity import Identity
from engine.auth.judge import Judge, Verdict
from engine.auth.resource_names import Resource, SubscriptionName, TenantName
from engine.base.errors import MagnetarError
from engine.base.names import NamespaceName
from engine.base.tasks import TaskScope, restarting
from engine.broker.connection.sessions import Sessions
from engine.broker.dispatch.consumer import Consumer
from engine.broker.errors import NotAuthorized
from engine.broker.policy_changes import ChangeQueue
from engine.broker.topic_table import TopicTable
from engine.broker.topics.publish import Producer
from engine.broker.topics.publishers import Publishers
from engine.broker.topics.subscriptions.subscription import Subscription
from engine.broker.topics.topic import Topic
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.policy_judge import PolicyJudge
from engine.tenancy.access.stored_access import Recorded

log = logging.getLogger(__name__)

Losses = dict[str, int]
"""See ``engine.admin.api.losses``."""
RETRY_S = 0.5
"""Seconds until records that could not be read are read again."""
PARALLEL = 64
"""Number of records that are read at a time: all may have changed while the store was away."""
TURN_CLIENTS = 200
"""Number of producers and consumers between which other tasks run."""


class _Open(NamedTuple):
    """Something that a client opened, by the right that it needs."""

    identity: Identity
    action: Action
    resource: Resource


@dataclass(frozen=True, slots=True)
class _OpenProducer:
    """A producer, also one that waits to be exclusive."""

    producer: Producer
    publishers: Publishers
    right: _Open

    @property
    def address(self) -> str:
        return self.producer.outlet.address

    def is_open(self) -> bool:
        publishers, producer = self.publishers, self.producer
        return publishers.attached.get(producer.name) is producer or producer in publishers.waiting

    def close(self, verdict: Verdict) -> None:
        self.publishers.revoke(self.producer, NotAuthorized(verdict.reason))


@dataclass(frozen=True, slots=True)
class _OpenConsumer:
    """A consumer of a subscription."""

    consumer: Consumer
    subscription: Subscription
    right: _Open

    @property
    def address(self) -> str:
        return self.consumer.outlet.address

    def is_open(self) -> bool:
        return self.consumer.attached

    def close(self, verdict: Verdict) -> None:
        self.subscription.disconnect_one(self.consumer)


def _clients_of(topic: Topic) -> Iterator[_OpenProducer | _OpenConsumer]:
    """Yield the clients that a topic has now."""
    publishers = topic.publishers
    for producer in [*publishers.attached.values(), *publishers.waiting]:
        right = _Open(producer.outlet.identity, Action.PRODUCE, topic.name)
        yield _OpenProducer(producer, publishers, right)
    for subscription in list(topic.subscriptions.values()):
        name = SubscriptionName(topic.name, subscription.name)
        for consumer in list(subscription.consumers):
            right = _Open(consumer.outlet.identity, Action.CONSUME, name)
            yield _OpenConsumer(consumer, subscription, right)


class _Changed:
    """PolicyView of the stored records with a change."""

    def __init__(
        self, change: ChangedRecords, namespace: NamespaceName | None, stored: PolicyView
    ) -> None:
        self._name, self._namespace_name, self._stored = change.tenant, namespace, stored
        self._tenant = TenantAccess.of({"adminRoles": change.administrators})
        self._namespace = NamespaceAccess.of(change.policies)

    def tenant(self, name: str) -> TenantAccess | None:
        return self._tenant if name == self._name else self._stored.tenant(name)

    def namespace(self, name: NamespaceName) -> NamespaceAccess | None:
        is_changed = name == self._namespace_name
        return self._namespace if is_changed else self._stored.namespace(name)


class Revocation:
    """Judges again after the changes that are noted in ``changes``. ``start`` is called once; ``close`` ends it.

    ``records`` report to ``changes``. ``loaded`` are the broker's topics.
    """

    def __init__(
        self,
        records: AccessRecords,
        changes: ChangeQueue[Recorded],
        judge: Judge,
        loaded: TopicTable[Topic],
        sessions: Sessions,
    ) -> None:
        self._records = records
        self._changes = changes
        self._judge = judge
        self._loaded = loaded
        self._sessions = sessions
        self._scope = TaskScope("revocation")
        self._turns = 0
        self._closed: dict[NamespaceName, Counter[Action]] = {}
        """Clients that were closed, by the right that they lost."""

    def start(self) -> None:
        self._scope.spawn("changes", restarting("revocation", self._apply_changes))

    async def close(self) -> None:
        await self._scope.close()

    def needs(self, name: Recorded) -> bool:
        """Return whether clients of this broker may depend on a record."""
        if isinstance(name, TenantName):
            return self._loaded.holds_tenant(name.name) or bool(self._watched(name.name))
        return self._loaded.holds_namespace(name) or bool(self._sessions.watches_of(name))

    def _watched(self, tenant: str) -> list[NamespaceName]:
        return [name for name in self._sessions.watched() if name.tenant == tenant]

    async def _apply_changes(self) -> None:
        while True:
            changed = iter(await self._changes.take())
            retry = False
            while some := list(islice(changed, PARALLEL)):
                done = await asyncio.gather(*map(self._judge_again, some))
                for name, was_known in zip(some, done, strict=True):
                    if not was_known:
                        self._changes.note(name)
                        retry = True
            if retry:
                await asyncio.sleep(RETRY_S)

    async def _judge_again(self, name: Recorded) -> bool:
        """Judge what depends on a record. Return False when that is to be tried again."""
        if not self.needs(name):
            return True
        try:
            # Explicitly: a judge that cannot read the record allows what the last known one did.
            await self._records.refresh(name)
        except MagnetarError as error:
            log.debug("record not read name=%s: %s", name, error)
            return False
        known = True
        for namespace in self._namespaces(name):
            for topic in self._loaded.sorted(namespace):
                known &= await self._judge_topic(topic)
            known &= await self._judge_watches(namespace)
        return known

    def _namespaces(self, name: Recorded) -> list[NamespaceName]:
        if isinstance(name, NamespaceName):
            return [name]
        loaded = self._loaded.namespaces_of(name.name)
        return list(dict.fromkeys([*loaded, *self._watched(name.name)]))

    async def _judge_topic(self, topic: Topic) -> bool:
        """Disconnect the clients of a topic that lost their right. Return whether all verdicts are known."""
        known = True
        for client in _clients_of(topic):
            verdict = await self._verdict(client.right)
            if verdict is None:
                known = False
            elif not verdict.allowed and client.is_open():
                self._log(client.address, client.right, verdict)
                client.close(verdict)
                closed = self._closed.setdefault(topic.name.namespace, Counter())
                closed[client.right.action] += 1
        return known

    async def losses(self, change: ChangedRecords) -> Losses:
        """Return how many open clients would be closed after a change of records (A36), and how many were closed there
        so far. Raises NotReady while a record cannot be read."""
        tenant = TenantName(change.tenant)
        changed = NamespaceName.parse(change.namespace) if change.namespace else None
        counts: Counter[Action] = Counter()
        by_proxy = 0
        if isinstance(self._judge, PolicyJudge):
            view = _Changed(change, changed, self._records.last_known)
            for namespace in [changed] if changed else self._namespaces(tenant):
                if changed is None:
                    await self._records.refresh(namespace)
                for topic in self._loaded.sorted(namespace):
                    for client in _clients_of(topic):
                        await self._take_turns()
                        if not self._judge.verdict_by(*client.right, view).allowed:
                            counts[client.right.action] += 1
                            by_proxy += client.right.identity.original is not None
        closed: Counter[Action] = Counter()
        for namespace, closings in self._closed.items():
            if namespace == changed or (changed is None and namespace.tenant == tenant.name):
                closed.update(closings)
        return {
            "producers": counts[Action.PRODUCE],
            "consumers": counts[Action.CONSUME],
            "by_proxy": by_proxy,
            "closed_producers": closed[Action.PRODUCE],
            "closed_consumers": closed[Action.CONSUME],
        }

    async def _judge_watches(self, namespace: NamespaceName) -> bool:
        """Suspend watchers of topics that lost their right, and resume those that have it again.

        No command of a broker ends a watcher, and the rest of the connection has rights of its own. The client learns
        of it when it lists the topics next, which it does periodically.
        """
        known = True
        for watch in self._sessions.watches_of(namespace):
            right = _Open(watch.identity, Action.LOOKUP, namespace)
            verdict = await self._verdict(right)
            if verdict is None:
                known = False
            elif verdict.allowed:
                watch.resume()
            else:
                watch.suspend(verdict.reason)
        return known

    async def _verdict(self, right: _Open) -> Verdict | None:
        """Return the verdict, None when it is not known now."""
        await self._take_turns()
        try:
            judgement = self._judge.judge(*right)
            return judgement if isinstance(judgement, Verdict) else await judgement
        except MagnetarError as error:
            log.debug("not known whether still allowed resource=%s: %s", right.resource, error)
            return None

    async def _take_turns(self) -> None:
        self._turns += 1
        if self._turns % TURN_CLIENTS == 0:
            await asyncio.sleep(0)

    @staticmethod
    def _log(address: str, right: _Open, verdict: Verdict) -> None:
        log.info(
            "no longer authorized client=%s role=%s: %s",
            address,
            right.identity.role,
            verdict.reason,
        )
