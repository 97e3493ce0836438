"""Revocation: what clients opened is judged again when the records by which it was judged change, and closed.

A client that lost its right is disconnected within a second of the confirmed change, while the store answers, and a
watcher of topics is suspended. While the store does not answer, nothing is closed (A19).
"""

import asyncio
import logging
from itertools import islice
from typing import NamedTuple

from engine.auth.actions import Action
from engine.auth.identity import Identity
from engine.auth.judge import Judge, Verdict
from engine.auth.resource_names import Resource, SubscriptionName, TenantName
from engine.base.errors import MagnetarError
from engine.base.names import NamespaceName
from engine.base.tasks import TaskScope, restarting
from engine.broker.connection.sessions import Sessions
from engine.broker.errors import NotAuthorized
from engine.broker.policy_changes import ChangeQueue
from engine.broker.topic_table import TopicTable
from engine.broker.topics.topic import Topic
from engine.tenancy.access.access_records import AccessRecords
from engine.tenancy.access.stored_access import Recorded

log = logging.getLogger(__name__)

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
        publishers = topic.publishers
        for producer in [*publishers.attached.values(), *publishers.waiting]:
            right = _Open(producer.outlet.identity, Action.PRODUCE, topic.name)
            verdict = await self._verdict(right)
            if verdict is None:
                known = False
            elif not verdict.allowed:
                self._log(producer.outlet.address, right, verdict)
                publishers.revoke(producer, NotAuthorized(verdict.reason))
        for subscription in list(topic.subscriptions.values()):
            name = SubscriptionName(topic.name, subscription.name)
            for consumer in list(subscription.consumers):
                right = _Open(consumer.outlet.identity, Action.CONSUME, name)
                verdict = await self._verdict(right)
                if verdict is None:
                    known = False
                elif not verdict.allowed and consumer.attached:
                    self._log(consumer.outlet.address, right, verdict)
                    subscription.disconnect_one(consumer)
        return known

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
        self._turns += 1
        if self._turns % TURN_CLIENTS == 0:
            await asyncio.sleep(0)
        try:
            judgement = self._judge.judge(*right)
            return judgement if isinstance(judgement, Verdict) else await judgement
        except MagnetarError as error:
            log.debug("not known whether still allowed resource=%s: %s", right.resource, error)
            return None

    @staticmethod
    def _log(address: str, right: _Open, verdict: Verdict) -> None:
        log.info(
            "no longer authorized client=%s role=%s: %s",
            address,
            right.identity.role,
            verdict.reason,
        )
