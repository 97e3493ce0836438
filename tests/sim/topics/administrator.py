"""An administrator of a simulated cluster, as the gateway is one: metadata and the brokers' private port, over the same
network as all clients. It keeps what was confirmed to it, so that the end of a run can check the cluster against it."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from engine.admin import partitions
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    CreateSubscription,
    DeleteSubscription,
)
from engine.admin.api.topics import DELETE_TOPIC, DeleteTopic
from engine.admin.client import AdminClient
from engine.base.errors import AlreadyExists, MagnetarError, NotFound
from engine.base.names import TopicName
from engine.metadata import paths
from engine.metadata.store import MetadataStore
from engine.tenancy import topics
from tests.sim.kit.cluster import TOKEN
from tests.sim.kit.loop import Node
from tests.sim.kit.network import SimNetwork
from tests.sim.topics.observer import Observer

PATIENCE_S = 5.0
"""Time allowed for one answer."""
VISITS_RATE = 0.5
VISITOR = "visitor-"


class Administrator:
    """An administrator that creates and deletes unused subscriptions, grows topics, and deletes everything at the
    end."""

    def __init__(
        self, observer: Observer, visits: bool = False, name: str = "administrator"
    ) -> None:
        self.name = name
        self.observer = observer
        cluster = self.cluster = observer.cluster
        cluster.clients.append(self.name)
        self.loop = cluster.loop
        self.rng = random.Random(f"{cluster.loop.seed}/{self.name}")
        self.node = Node(self.name)
        self.calm = False
        self.visits = visits
        self._visitors: dict[tuple[str, str], float | None] = {}
        """Subscriptions that may exist, and since when they certainly do; None: that is unknown."""
        self._gone: list[tuple[str, str]] = []
        """Subscriptions whose deletion was confirmed."""
        self._living: asyncio.Task[None] | None = None
        self._store: MetadataStore | None = None
        self._brokers: AdminClient | None = None

    def start(self) -> None:
        self._living = self.work(self._live())

    def work(self, what: Awaitable[Any]) -> "asyncio.Task[Any]":
        """Run ``what`` on this node."""

        async def do() -> Any:
            if self._store is None:
                session = self.cluster.metadata.session(self.cluster.shape.session_s)
                self._store = self.cluster.routed(session)
                self._brokers = AdminClient(
                    self._store, SimNetwork(self.cluster.world), TOKEN, timeout_s=PATIENCE_S
                )
            return await what

        return self.loop.spawn(self.node, do())

    @property
    def store(self) -> MetadataStore:
        assert self._store is not None
        return self._store

    @property
    def brokers(self) -> AdminClient:
        assert self._brokers is not None
        return self._brokers

    async def insist(self, what: Callable[[], Awaitable[Any]]) -> None:
        """Call ``what`` until it returns or raises NotFound."""
        while True:
            try:
                await what()
                return
            except NotFound:
                return
            except MagnetarError as error:
                self._refused(error)
            await asyncio.sleep(0.2)

    def _refused(self, error: MagnetarError) -> None:
        self.loop.note(self.name, type(error).__name__)
        self.cluster.count("verbs refused")

    # -- unused subscriptions

    async def _live(self) -> None:
        while self.visits and not self.calm:
            await asyncio.sleep(self.rng.expovariate(VISITS_RATE))
            if self.calm:
                return
            known = [v for v, since in self._visitors.items() if since is not None]
            try:
                if known and self.rng.random() < 0.6:
                    await self._leave(self.rng.choice(known))
                else:
                    await self._visit()
            except MagnetarError as error:
                self._refused(error)

    async def _visit(self) -> None:
        topic = str(self.rng.choice(self.observer.topics))
        visitor = topic, f"{VISITOR}{len(self._visitors) + len(self._gone)}"
        self._visitors[visitor] = None
        args = CreateSubscription(TopicName.parse(topic), visitor[1])
        await self.brokers.call(CREATE_SUBSCRIPTION, args)
        self._visitors[visitor] = self.loop.now
        self.cluster.count("subscriptions made")

    async def _leave(self, visitor: tuple[str, str]) -> None:
        topic, name = visitor
        self._visitors[visitor] = None
        args = DeleteSubscription(TopicName.parse(topic), name, force=True)
        await self.brokers.call(DELETE_SUBSCRIPTION, args)
        del self._visitors[visitor]
        self._gone.append(visitor)
        self.cluster.count("subscriptions deleted")

    async def end_visits(self) -> None:
        """Check, after the last fault, that every confirmed subscription exists with its backlog and can be deleted."""
        if self._living is not None:
            await self._living
        for (topic, name), since in self._visitors.items():
            if since is not None:
                self._check_kept(topic, name, since)
        for parsed in self.observer.topics:  # growth took them along to new partitions
            for name in self._stored_visitors(parsed):
                args = DeleteSubscription(parsed, name, force=True)
                await self.insist(partial(self.brokers.call, DELETE_SUBSCRIPTION, args))
                self._gone.append((str(parsed), name))
        for topic, name in self._gone:
            if self._is_stored(topic, name):
                self.observer.wrong(f"{topic}/{name} was deleted and is stored")

    def _check_kept(self, topic: str, name: str, since: float) -> None:
        if not self._is_stored(topic, name):
            self.observer.wrong(f"{topic}/{name} was made at {since:.3f} and is not stored")
        backlog = (self.observer.backlogs(TopicName.parse(topic)) or {}).get(name)
        history = self.observer.history
        later = {(send.producer, send.number) for send in history.sent if send.at > since}
        outlived = history.cleared_to(f"{topic}/{name}")
        sent = sum(
            history.topics.get(r.producer) == topic
            and (r.producer, r.number) in later
            and r.position > outlived
            for r in history.receipts
        )
        if backlog is not None and backlog < sent:
            self.observer.wrong(
                f"{topic}/{name} made at {since:.3f} has a backlog of {backlog}, not {sent}"
            )

    def _stored_visitors(self, topic: TopicName) -> list[str]:
        node = paths.managed_ledger(topic.managed_ledger_name)
        return [c for c in self.cluster.tree.children(node) if c.startswith(VISITOR)]

    def _is_stored(self, topic: str, subscription: str) -> bool:
        ledger = TopicName.parse(topic).managed_ledger_name
        return self.cluster.tree.exists(paths.cursor(ledger, subscription)) is not None

    # -- topics

    async def create_partitioned(self, topic: TopicName, count: int) -> None:
        async def create() -> None:
            try:
                await topics.create_partitioned(self.store, topic, count)
            except AlreadyExists:
                return

        while await topics.find_partitions(self.store, topic) is None:
            await self.insist(create)
            await asyncio.sleep(0.1)

    async def grow(self, topic: TopicName, count: int) -> None:
        await self.insist(lambda: partitions.grow(self.store, self.brokers, topic, count))
        self.cluster.count("topics grown")

    async def delete(self, topic: TopicName) -> None:
        args = DeleteTopic(topic, force=True)
        await self.insist(lambda: self.brokers.call(DELETE_TOPIC, args))
        self.cluster.count("topics deleted")
