"""One of the clusters of a run, with its publishers and its administrator, and what it is known to have sent."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from functools import partial
from typing import Any

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.topics.geo.replicator import Replicator
from engine.broker.topics.topic import Topic
from engine.client.client import PulsarClient, never_final
from engine.tenancy.clusters import create_cluster
from engine.tenancy.documents import Document
from engine.tenancy.namespaces import update_policies
from engine.wire import client_commands as say
from engine.wire.batches import read_metadata
from engine.wire.errors import RefusedError, ServerError
from engine.wire.geo.source_positions import source_position
from tests.sim.geo.checkers import Gap, Own, Received
from tests.sim.geo.publisher import GeoPublisher
from tests.sim.kit.cluster import BROKER_PORT, HTTP_PORT, Cluster
from tests.sim.kit.loop import Node
from tests.sim.kit.scenario import Run
from tests.sim.publishing.keeper import SETTLE_S, Keeper, client_of
from tests.sim.publishing.workload import TOPIC
from tests.sim.topics.administrator import Administrator
from tests.sim.topics.observer import Observer

RETAINED: Document = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
"""Entries stay, so that all of them can be compared in the end."""
NOTHING_PASSED = Position(-1, -1)


class Side:
    """The cluster ``cluster``, which sends its topics to the clusters ``remotes``."""

    def __init__(
        self, run: Run, cluster: Cluster, remotes: Sequence[str], topics: Sequence[TopicName]
    ) -> None:
        """``topics``: all that it ever serves, partitions one by one."""
        self.run = run
        self.cluster = cluster
        self.name = cluster.name
        self.remotes = remotes
        self.observer = Observer(cluster, [str(topic) for topic in topics])
        self.administrator = Administrator(self.observer, name=f"{cluster.name}-administrator")
        self.publishers: list[GeoPublisher] = []
        self.absent = ""
        """The cluster that an administrator took out of the list at present; empty: none."""
        self.gaps: dict[tuple[TopicName, str], list[Gap]] = {}
        self.own: dict[TopicName, list[Own]] = {}
        self.received: dict[TopicName, list[Received]] = {}
        self._keeper = Keeper(run, [], None if cluster is run.cluster else cluster)
        self._passed: dict[tuple[TopicName, str], Position] = {}
        self._works: list[asyncio.Task[None]] = []
        self._schemas: dict[tuple[TopicName, bytes], bytes] = {}

    # --- administration -------------------------------------------------------------------------

    async def begin(self, others: Sequence[Cluster], policies: Document) -> None:
        """Write the records of ``others``, and send the namespace, whose ``policies`` are given, to the remotes."""
        store = self.administrator.store
        for other in others:
            brokers = ",".join(f"{machine.name}:{BROKER_PORT}" for machine in other.brokers)
            record = {
                "brokerServiceUrl": f"pulsar://{brokers}",
                "serviceUrl": f"http://{other.brokers[0].name}:{HTTP_PORT}",
            }
            await create_cluster(store, other.name, record)

        def change(document: Document) -> None:
            document.update(policies, retention_policies=RETAINED)

        await update_policies(store, TOPIC.namespace, change)
        await self._send_to(self.remotes)

    async def _send_to(self, remotes: Sequence[str]) -> None:
        def change(document: Document) -> None:
            document["replication_clusters"] = [self.name, *remotes]

        store = self.administrator.store
        await self.administrator.insist(lambda: update_policies(store, TOPIC.namespace, change))

    def take_out(self, remote: str, for_s: float) -> None:
        """Send nothing to ``remote`` for a time; does nothing while another cluster is absent."""
        if not self.absent:
            self.absent = remote
            self.look()
            for topic in self.observer.topics:
                lower = self._passed.get((topic, remote), NOTHING_PASSED)
                self.gaps.setdefault((topic, remote), []).append(Gap(lower))
            self._work(self._take_out(remote, for_s))
            self.cluster.count("clusters taken out")

    async def _take_out(self, remote: str, for_s: float) -> None:
        await self._send_to([name for name in self.remotes if name != remote])
        await asyncio.sleep(for_s)
        await self._send_to(self.remotes)
        self.absent = ""

    def grow(self, topic: TopicName, partitions: int) -> None:
        self._work(self.administrator.grow(topic, partitions))

    def _work(self, work: "Coroutine[Any, Any, None]") -> None:
        self._works.append(self.administrator.work(work))

    @property
    def administered(self) -> bool:
        """True when all that the administrator began is done."""
        return all(task.done() for task in self._works)

    # --- what is seen while it runs -------------------------------------------------------------

    def replicators(
        self, topics: Sequence[TopicName]
    ) -> Iterator[tuple[TopicName, Topic, str, Replicator]]:
        for topic in topics:
            served = self.observer.served(topic)
            if served is not None:
                for remote, replicator in served[1].replication.replicators.items():
                    yield topic, served[1], remote, replicator

    def look(self) -> None:
        """Note what was sent, check that no backlog is hidden, and end gaps. Called repeatedly."""
        for topic, loaded, remote, replicator in self.replicators(self.observer.topics):
            log, mark = loaded.log, replicator.cursor.mark_delete
            first, stop = log.next_position(mark), log.next_position(log.last_readable)
            if log.entries_between(first, stop) and not replicator.backlog:
                self.observer.wrong(f"G8: the backlog of {topic} for {remote} is hidden")
            gaps = self.gaps.get((topic, remote))
            if gaps and gaps[-1].upper is None:
                if self._sends_again(loaded, remote):
                    gaps[-1].upper = log.last_confirmed
            else:
                passed = self._passed.get((topic, remote), NOTHING_PASSED)
                self._passed[topic, remote] = max(passed, mark)

    def _sends_again(self, loaded: Topic, remote: str) -> bool:
        # A metadata server that is behind may still return the list from before to a broker that loads the topic.
        return (
            self.absent != remote
            and not self.cluster.metadata.behind
            and remote in loaded.policies.clusters
            and loaded.replication._settled
        )

    def replicating(self, topics: Sequence[TopicName]) -> bool:
        """Return whether all ``topics`` are sent to all remotes, without an open gap."""
        running = {(topic, remote) for topic, _, remote, _ in self.replicators(topics)}
        is_open = any(gaps[-1].upper is None for key, gaps in self.gaps.items() if key[0] in topics)
        return len(running) == len(topics) * len(self.remotes) and not is_open

    def caught_up(self, topics: Sequence[TopicName]) -> bool:
        return self.replicating(topics) and not any(
            replicator.backlog for *_, replicator in self.replicators(topics)
        )

    def waits_for(self, topics: Sequence[TopicName]) -> list[str]:
        """Return the reason why something is not sent yet."""
        return [
            f"{self.name} to {remote}: {topic.local} has {replicator.backlog} entries, {replicator.error!r}"
            for topic, _, remote, replicator in self.replicators(topics)
        ]

    # --- what is stored in the end --------------------------------------------------------------

    async def keep(self, topics: Sequence[TopicName]) -> None:
        """Load ``topics`` by a subscription, if no client has."""
        self._keeper.topics = [str(topic) for topic in topics]
        await self._keeper.keep()

    async def read(self, topics: Sequence[TopicName]) -> None:
        """Read all entries of ``topics``, and their schemas."""
        self._keeper.topics = [str(topic) for topic in topics]
        await self._keeper.read()
        if len(self._keeper.stored) < len(topics):
            return  # the run was cut short, which is reported
        work = self.run.loop.spawn(Node(f"{self.name}-schemas"), self._read_schemas(topics))
        await self.run.reach("read schemas", work.done, SETTLE_S, lambda: [self.name])
        for topic in topics:
            self.own[topic], self.received[topic] = self._stored(topic)

    def _stored(self, topic: TopicName) -> tuple[list[Own], list[Received]]:
        own: list[Own] = []
        received: list[Received] = []
        for entry in self._keeper.stored[str(topic)]:
            metadata = read_metadata(entry.entry)
            assert metadata is not None
            schema = self._schemas.get((topic.partitioned, metadata.schema_version))
            if metadata.replicated_from:
                position = source_position(metadata)
                received.append(Received(metadata.replicated_from, position, schema))
            else:
                own.append(Own(entry.position, tuple(metadata.replicate_to), schema))
        return own, received

    async def _read_schemas(self, topics: Sequence[TopicName]) -> None:
        client = client_of(self.cluster, f"{self.name}-schemas")
        for topic in topics:
            entries = [read_metadata(entry.entry) for entry in self._keeper.stored[str(topic)]]
            for version in dict.fromkeys(m.schema_version for m in entries if m is not None):
                key = (topic.partitioned, version)
                if version and key not in self._schemas:
                    self._schemas[key] = await client.patiently(
                        partial(self._schema, client, topic, version),
                        timeout_s=None,
                        is_final=never_final,
                    )
        await client.close()

    @staticmethod
    async def _schema(client: PulsarClient, topic: TopicName, version: bytes) -> bytes:
        """Return the definition of a version, and a text that is none when the cluster has no such version."""
        link = await client.owner(topic.full)
        request_id = link.new_id()
        try:
            answer = await link.request(request_id, say.get_schema(topic.full, request_id, version))
        except RefusedError as error:
            if error.code == ServerError.TopicNotFound:
                return b"none of this version"
            raise
        return bytes(answer.schema.schema_data)
