"""Mistakes of replicated subscriptions."""

from typing import Any
from weakref import WeakKeyDictionary

from engine.base.ids import Position
from engine.broker.topics.geo.replicated_position import ReplicatedPosition
from engine.broker.topics.geo.replicated_subscriptions import ReplicatedSubscriptions
from engine.broker.topics.subscriptions.subscriptions import Subscriptions
from engine.managed.ledger import InitialPosition
from engine.wire.geo.markers import ClusterSnapshot, SnapshotResponse
from tests.sim.plants.planting import Patches


def snapshots_count_before_they_are_passed() -> Patches:
    """Write an update for the newest snapshot that was read, however far behind it the subscription is."""

    def passed(self: ReplicatedPosition, mark_delete: Position) -> ClusterSnapshot | None:
        newest = self.snapshots[-1] if self.snapshots else None
        self.snapshots.clear()
        return newest

    return [(ReplicatedPosition, "passed", passed)]


def copied_subscription_begins_at_the_end() -> Patches:
    """Create the subscription of another cluster's update behind the last message."""
    create = Subscriptions.create

    async def creating(
        self: Subscriptions, name: str, initial: Any, properties: dict[str, str], **more: bool
    ) -> Any:
        return await create(self, name, InitialPosition.LATEST, properties, **more)

    return [(Subscriptions, "create", creating)]


def snapshot_is_where_it_was_requested() -> Patches:
    """Give a snapshot the position of its request here, not that of the last answer."""
    request, answered = ReplicatedSubscriptions._request, ReplicatedSubscriptions._answered
    at: WeakKeyDictionary[ReplicatedSubscriptions, Position] = WeakKeyDictionary()

    def requesting(self: ReplicatedSubscriptions, pending: Any) -> None:
        at[self] = self._host.log.last_confirmed
        request(self, pending)

    def answering(
        self: ReplicatedSubscriptions, position: Position, response: SnapshotResponse
    ) -> None:
        answered(self, at.get(self, position), response)

    return [
        (ReplicatedSubscriptions, "_request", requesting),
        (ReplicatedSubscriptions, "_answered", answering),
    ]


def missing_subscription_stays_missing() -> Patches:
    """Ignore another cluster's update of a subscription that does not exist here."""
    apply = ReplicatedSubscriptions._apply

    async def applying(
        self: ReplicatedSubscriptions, remote: str, name: str, position: Position
    ) -> None:
        if self._host.subscriptions.get(name) is not None:
            await apply(self, remote, name, position)

    return [(ReplicatedSubscriptions, "_apply", applying)]


def snapshots_of_others_change_nothing() -> Patches:
    """Let a snapshot stay the last one although another cluster received messages of a third one behind it."""
    received = ReplicatedSubscriptions.received

    async def receiving(
        self: ReplicatedSubscriptions, remote: str, position: Position, kind: int, entry: bytes
    ) -> None:
        await received(self, remote, position, kind, entry)
        self._outdated = False

    return [(ReplicatedSubscriptions, "received", receiving)]
