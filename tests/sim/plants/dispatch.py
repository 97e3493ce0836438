"""Mistakes in the choice of consumers and in dispatch."""

from typing import Any

from engine.broker.dispatch import single
from engine.broker.dispatch.choose.sticky import Sticky
from engine.broker.dispatch.single import SingleDispatcher
from engine.broker.topics.ephemeral import EphemeralDispatch
from engine.broker.topics.subscriptions.subscription_dispatch import SubscriptionDispatch
from tests.sim.plants.planting import Patches


def moved_keys_wait_for_nobody() -> Patches:
    """Send a key's messages to its new consumer while its old one still has some."""

    def must_wait(self: Any, slot: int, position: Any, owner: Any) -> bool:
        first = self.waiting.first(slot)
        return first is not None and first < position

    return [(Sticky, "_must_wait", must_wait)]


def keys_drain_for_ever() -> Patches:
    """Withhold a key that moved for its old consumer although that has acknowledged all of it."""
    return [(Sticky, "released", lambda self, consumer, slot: None)]


def who_comes_takes_keys_at_once() -> Patches:
    """Leave unchecked which keys other consumers still hold when a consumer attaches."""

    def recount(self: Any) -> None:
        self._draining = {}
        self.waiting.assign_lanes()

    return [(Sticky, "recount", recount)]


def newcomer_is_not_told() -> Patches:
    """Do not notify a consumer that attaches to a Failover subscription as a standby."""
    real = SingleDispatcher._choose
    return [(SingleDispatcher, "_choose", lambda self, newcomer: real(self, None))]


def old_active_is_not_told() -> Patches:
    """Notify only the new active consumer of a handover."""
    real = SingleDispatcher._notify

    def notify(self: Any, consumer: Any) -> None:
        if consumer is self._active:
            real(self, consumer)

    return [(SingleDispatcher, "_notify", notify)]


def partition_does_not_count() -> Patches:
    """Choose the same active consumer on all partitions of a topic."""
    real = single.choose_active

    def choose(members: Any, partition: int, topic: str, **options: Any) -> int | None:
        return real(members, min(partition, 0), topic, **options)

    return [(single, "choose_active", choose)]


def priority_does_not_count() -> Patches:
    """Choose an active consumer of a worse level while a better one is there."""
    real = single.choose_active

    def choose(members: Any, *where: Any, **options: Any) -> int | None:
        return real([(0, name) for _, name in members], *where, **options)

    return [(single, "choose_active", choose)]


def handover_is_not_waited_for() -> Patches:
    """Send messages to the next active consumer before it was notified, and before the cursor was set back."""

    def wake(self: Any) -> None:
        if self._active is not None and not self._waking:
            self._waking = True
            try:
                self._send(self._active)
            finally:
                self._waking = False

    return [(SingleDispatcher, "wake", wake)]


def dropped_entries_come_later() -> Patches:
    """Keep entries for which a non-persistent topic had no permits, and send them when there are some."""
    return [(EphemeralDispatch, "wake", SubscriptionDispatch.wake)]
