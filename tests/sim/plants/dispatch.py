"""Mistakes in who gets what."""

from typing import Any

from engine.broker.dispatch import single
from engine.broker.dispatch.choose.sticky import Sticky
from engine.broker.dispatch.single import SingleDispatcher
from engine.broker.topics.ephemeral import EphemeralSubscription
from engine.broker.topics.subscriptions.subscription import Subscription
from tests.sim.plants.planting import Patches


def moved_keys_wait_for_nobody() -> Patches:
    """A key's messages go to its new consumer while its old one still has some."""

    def must_wait(self: Any, slot: int, position: Any, owner: Any) -> bool:
        first = self.waiting.first(slot)
        return first is not None and first < position

    return [(Sticky, "_must_wait", must_wait)]


def keys_drain_for_ever() -> Patches:
    """A key that moved waits for its old consumer although that has acknowledged all of it."""
    return [(Sticky, "released", lambda self, consumer, slot: None)]


def who_comes_takes_keys_at_once() -> Patches:
    """Nobody looks which keys are out elsewhere when a consumer comes."""

    def recount(self: Any) -> None:
        self._draining = {}
        self.waiting.assign_lanes()

    return [(Sticky, "recount", recount)]


def newcomer_is_not_told() -> Patches:
    """Who comes to a Failover subscription and stands by is not told so."""
    real = SingleDispatcher._choose
    return [(SingleDispatcher, "_choose", lambda self, newcomer: real(self, None))]


def old_active_is_not_told() -> Patches:
    """Of a handover only the new active consumer is told."""
    real = SingleDispatcher._notify

    def notify(self: Any, consumer: Any) -> None:
        if consumer is self._active:
            real(self, consumer)

    return [(SingleDispatcher, "_notify", notify)]


def partition_does_not_count() -> Patches:
    """The same consumer is active on all partitions of a topic."""
    real = single.choose_active

    def choose(members: Any, partition: int, topic: str, **options: Any) -> int | None:
        return real(members, min(partition, 0), topic, **options)

    return [(single, "choose_active", choose)]


def priority_does_not_count() -> Patches:
    """A consumer of a worse level may be active while a better one is there."""
    real = single.choose_active

    def choose(members: Any, *where: Any, **options: Any) -> int | None:
        return real([(0, name) for _, name in members], *where, **options)

    return [(single, "choose_active", choose)]


def handover_is_not_waited_for() -> Patches:
    """The next active consumer is sent messages before it was told, and before the cursor was set back."""

    def wake(self: Any) -> None:
        if self._active is not None and not self._waking:
            self._waking = True
            try:
                self._send(self._active)
            finally:
                self._waking = False

    return [(SingleDispatcher, "wake", wake)]


def dropped_entries_come_later() -> Patches:
    """What nobody on a non-persistent topic could take waits until somebody can."""
    return [(EphemeralSubscription, "wake", Subscription.wake)]
