"""Mistakes of replicated subscriptions."""

from typing import Any
from weakref import WeakKeyDictionary

from engine.base.ids import Position
from engine.broker.topics.geo import replicated_subscriptions
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


def one_round_is_enough_for_three_clusters() -> Patches:
    """Make a snapshot of one round, whatever the number of clusters."""
    pending = replicated_subscriptions._Pending

    class OneRound(pending):  # type: ignore[misc, valid-type]
        __slots__ = ()

        def __init__(self, *values: Any) -> None:
            super().__init__(*values)
            self.second = True

    return [(replicated_subscriptions, "_Pending", OneRound)]


def newest_answer_counts() -> Patches:
    """Take the positions of the last round for a snapshot, not those of the first one."""
    answered = ReplicatedSubscriptions._answered

    def answering(
        self: ReplicatedSubscriptions, position: Position, response: SnapshotResponse
    ) -> None:
        pending = self._pending
        if pending is not None and response.snapshot_id == pending.request_id:
            pending.positions.pop(response.cluster, None)
        answered(self, position, response)

    return [(ReplicatedSubscriptions, "_answered", answering)]


def loaded_topic_waits_for_a_message() -> Patches:
    """Make the first snapshot of a loaded topic only once another message is stored."""
    create = ReplicatedSubscriptions.__init__

    def creating(self: ReplicatedSubscriptions, *values: Any) -> None:
        create(self, *values)
        self._covered = self._messages

    return [(ReplicatedSubscriptions, "__init__", creating)]


def missing_subscription_stays_missing() -> Patches:
    """Ignore another cluster's update of a subscription that does not exist here."""
    apply = ReplicatedSubscriptions._apply

    async def applying(
        self: ReplicatedSubscriptions, remote: str, name: str, position: Position
    ) -> None:
        if self._host.subscriptions.get(name) is not None:
            await apply(self, remote, name, position)

    return [(ReplicatedSubscriptions, "_apply", applying)]
