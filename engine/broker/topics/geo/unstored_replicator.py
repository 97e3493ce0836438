"""Replication of a non-persistent topic to one cluster: entries are sent as they arrive, or dropped and counted.

Nothing is stored, so nothing is sent again: what the other cluster cannot receive now is lost to it, as to a consumer
without permits.
"""

from collections.abc import Sequence

from engine.base.backoff import Backoff
from engine.base.errors import MagnetarError
from engine.base.slices import Pick, Slice, View
from engine.broker.control.counters import Rate
from engine.broker.dispatch.consumer import UNLIMITED
from engine.broker.dispatch.facts import ORIGIN, facts_of
from engine.broker.topics.geo.replicator import (
    UNANSWERED_BYTES_MAX,
    UNANSWERED_MAX,
    ReplicatedHost,
    Replicator,
    cause_of,
)
from engine.broker.topics.ports import SubscriptionCursor
from engine.client.broker_link import BrokerLink
from engine.client.errors import MessageTooLargeError
from engine.client.replicating_producer import ReplicatingProducer


class UnstoredReplicator(Replicator):
    """Sends the entries of a non-persistent topic to the cluster ``remote``, until ``stop``."""

    def __init__(self, host: ReplicatedHost, remote: str, cursor: SubscriptionCursor) -> None:
        super().__init__(host, remote, cursor)
        self.dropped = Rate()
        """Messages that the other cluster could not receive when they were published."""
        self._registering: set[bytes] = set()
        """Versions of schemas here that are being registered there."""

    def tick(self, elapsed_s: float) -> bool:
        is_active = super().tick(elapsed_s)
        return self.dropped.tick(elapsed_s) or is_active

    def wake(self) -> None:
        """Send what was just appended, or drop it."""
        while (view := self._source.next(UNLIMITED)) is not None:
            self._send_or_drop(view)

    async def _attach(self, link: BrokerLink) -> ReplicatingProducer:
        return await self._open(link, stores=False)

    async def _send_all(self, producer: ReplicatingProducer, backoff: Backoff) -> None:
        backoff.reset()
        while producer.error is None:
            self._wake.clear()
            await self._wake.wait()
        raise producer.error

    def _send_or_drop(self, view: View) -> None:
        run, special = view.run, facts_of(view.run, ORIGIN).special
        indexes = [i for i in view.indexes if i not in special or self._is_for(special[i])]
        if not indexes:
            return
        chosen, producer = Pick(run, indexes), self._producer
        due = [range(i, i + 1) for i in indexes] if special else [range(view.start, view.stop)]
        versions = None if producer is None else self._versions_at_hand(producer, run, due)
        if producer is None or versions is None or not self._has_room(producer, chosen):
            self.dropped.total += chosen.messages
            return
        for part in due:
            try:
                self._send_part(producer, run, part, versions)
            except MessageTooLargeError:
                self.dropped.total += View(run, part.start, part.stop).messages

    def _has_room(self, producer: ReplicatingProducer, view: View) -> bool:
        """Return whether the other broker receives as fast as it is sent to, and the rate permits more."""
        return (
            not producer.link.paused
            and producer.unanswered + view.count <= UNANSWERED_MAX
            and self._bytes < UNANSWERED_BYTES_MAX
            and self._throttle.opens()
        )

    def _versions_at_hand(
        self, producer: ReplicatingProducer, run: Slice, due: Sequence[range]
    ) -> dict[int, bytes] | None:
        """Return versions as ``_versions_of``; None, and register them, while one is not registered there."""
        named = self._versions_named(run, due)
        missing = {here for here in named.values() if here not in self._versions}
        for here in missing - self._registering:
            self._registering.add(here)
            self._scope.spawn("schema", self._register(producer, here))
        return None if missing else {i: self._versions[here] for i, here in named.items()}

    async def _register(self, producer: ReplicatingProducer, here: bytes) -> None:
        try:
            there = await self._remotes.register_schema(producer.link, self._host.name, here)
        except MagnetarError as error:
            self._note(str(error), cause_of(error))
        else:
            self._versions[here] = there
            self.error = ""
        finally:
            self._registering.discard(here)
