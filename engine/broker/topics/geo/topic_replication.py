"""The replicators of one topic, as its policies require."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from engine.base.backoff import Backoff
from engine.base.errors import WorldError
from engine.base.tasks import contained
from engine.broker.errors import ServiceNotReady
from engine.broker.topics.geo.replicated_subscriptions import (
    ReplicatedSubscriptions,
    ReplicatedTopic,
)
from engine.broker.topics.geo.replicator import CURSOR_PREFIX, ReplicatedHost, Replicator
from engine.broker.topics.geo.unstored_replicator import UnstoredReplicator
from engine.broker.topics.limits import LimitedHost, MarkersRefused
from engine.broker.topics.ports import SubscriptionCursor
from engine.broker.topics.publish import Stage
from engine.ledger.errors import LedgerError
from engine.managed.errors import CursorNotFoundError, ManagedLedgerError
from engine.managed.ledger import InitialPosition
from engine.wire.geo.markers import ClusterSnapshot

log = logging.getLogger(__name__)

RETRY_MAX_S = 30.0
READY_WAIT_S = 5.0
"""Seconds for which a new producer waits for positions, before it is refused and tries again."""


class ReplicationHost(ReplicatedHost, ReplicatedTopic, LimitedHost, Protocol):
    """Parts of a topic that its replication uses."""

    def arrange_stages(self) -> None: ...


class TopicReplication:
    """Replication of one topic. ``replicators`` are those of the clusters that it is sent to, by name."""

    __slots__ = ("_clusters", "_host", "_subscriptions", "_work", "replicators")

    def __init__(self, host: ReplicationHost) -> None:
        self.replicators: dict[str, Replicator] = {}
        self._subscriptions: ReplicatedSubscriptions | None = None
        """Replication of its subscriptions; None before the first replicator."""
        self._host = host
        self._clusters: frozenset[str] = frozenset()
        self._work: asyncio.Task[None] | None = None

    def apply(self, clusters: Iterable[str]) -> None:
        """Send the topic to ``clusters``, this one left out. Of others replication ends, and its position is lost.

        A list without this cluster is none that an administrator can set, so it changes nothing.
        """
        named, here = frozenset(clusters), self._host.context.identity.cluster
        if here not in named:
            return
        self._clusters = named - {here}
        self._host.arrange_stages()
        if self._work is None and not self._settled:
            self._work = self._host.scope.spawn("replication", self._follow())

    async def ready(self) -> None:
        """Wait until a position is stored for each cluster, so that a new producer's entries are sent to all of them
        (G2).

        Raises ServiceNotReady when that takes longer than READY_WAIT_S.
        """
        if self._work is not None and self._host.name.persistent and not self._all_stored:
            await asyncio.wait([self._work], timeout=READY_WAIT_S)
            if not self._all_stored:
                raise ServiceNotReady(
                    f"Positions of {self._host.name} in other clusters are not stored yet"
                )

    @property
    def _all_stored(self) -> bool:
        managed = self._host.log
        stored = {*managed.cursors, *managed.unread_cursors}
        return all(CURSOR_PREFIX + cluster in stored for cluster in self._clusters)

    @property
    def backlog(self) -> int:
        """Number of entries that some cluster is not known to have."""
        return max((replicator.backlog for replicator in self.replicators.values()), default=0)

    @property
    def wanted(self) -> list[Stage]:
        """The stages that it needs."""
        return [MarkersRefused(self._host)] if self._clusters else []

    def wake(self) -> None:
        """Continue after entries were appended."""
        for replicator in self.replicators.values():
            replicator.wake()
        self.wake_snapshots()

    def wake_snapshots(self) -> None:
        """Make a snapshot for the replicated subscriptions if one is due."""
        if self._subscriptions is not None:
            self._subscriptions.wake()

    def markers_stored(self, count: int) -> None:
        """Note that ``count`` markers of other clusters were stored."""
        if self._subscriptions is not None:
            self._subscriptions.markers_stored(count)

    def update(self, subscription: str, snapshot: ClusterSnapshot) -> None:
        """Notify the other clusters that a subscription passed ``snapshot``."""
        if self._subscriptions is not None and self.replicators:
            self._subscriptions.update(subscription, snapshot)

    def rest(self) -> None:
        """Disconnect the replicators that have nothing to send."""
        for replicator in self.replicators.values():
            replicator.rest()

    def apply_rates(self) -> None:
        """Apply the rates of the topic's policies, which may have changed."""
        for replicator in self.replicators.values():
            replicator.apply_rates()

    async def expire(self, before_ms: int) -> None:
        """Pass entries that were published before ``before_ms``, as subscriptions do. Raises the log's errors."""
        for replicator in list(self.replicators.values()):
            await replicator.moves.expire(before_ms)

    async def find_oldest(self) -> None:
        """Find the publish time of the oldest entry of each backlog, where it is not known. Raises the log's errors."""
        for replicator in list(self.replicators.values()):
            await replicator.find_oldest()

    def tick(self, elapsed_s: float) -> bool:
        """Compute the rates, as ``Rate.tick`` does."""
        changes = False
        for replicator in self.replicators.values():
            changes = replicator.tick(elapsed_s) or changes
        return changes

    async def close(self) -> None:
        """Stop all replicators, with the topic; their positions are kept."""
        self._clusters = frozenset(self.replicators)
        if self._subscriptions is not None:
            self._subscriptions.close()
        for replicator in self.replicators.values():
            with contained(f"end of replication to {replicator.remote}"):
                await replicator.stop()

    @property
    def _settled(self) -> bool:
        return self.replicators.keys() == self._clusters and not self._extra()

    def _extra(self) -> set[str]:
        """Return the clusters with a stored position that the topic is not sent to any more."""
        managed = self._host.log
        stored = [*managed.cursors, *managed.unread_cursors]
        named = {name[len(CURSOR_PREFIX) :] for name in stored if name.startswith(CURSOR_PREFIX)}
        return named - self._clusters

    async def _follow(self) -> None:
        """Start and end replicators, and try again after failures for as long as the topic is loaded."""
        backoff = Backoff(0.1, RETRY_MAX_S)
        try:
            while not self._settled:
                try:
                    await self._change()
                except (LedgerError, ManagedLedgerError, WorldError) as error:
                    log.warning("replication fails topic=%s: %s", self._host.name, error)
                    await asyncio.sleep(backoff.next_s(self._host.context.entropy.random()))
        finally:
            self._work = None

    def _made(self, remote: str, cursor: SubscriptionCursor) -> Replicator:
        if not self._host.name.persistent:
            return UnstoredReplicator(self._host, remote, cursor)
        if self._subscriptions is None:
            self._subscriptions = ReplicatedSubscriptions(self._host, self.replicators)
        return Replicator(self._host, remote, cursor, self._subscriptions)

    async def _change(self) -> None:
        managed = self._host.log
        for remote in sorted(self._clusters - self.replicators.keys()):
            cursor = await managed.open_cursor(
                CURSOR_PREFIX + remote, InitialPosition.LATEST, durable=True, cursor_properties={}
            )
            replicator = self.replicators[remote] = self._made(remote, cursor)
            replicator.start()
        for remote in sorted(self.replicators.keys() - self._clusters):
            await self.replicators.pop(remote).stop()
        for remote in sorted(self._extra()):
            log.info("replication ends topic=%s to=%s", self._host.name, remote)
            try:
                await managed.delete_cursor(CURSOR_PREFIX + remote)
            except CursorNotFoundError:
                log.debug("cursor was gone topic=%s to=%s", self._host.name, remote)
        self._host.touched()
