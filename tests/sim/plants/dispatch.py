"""Mistakes in who gets what."""

from typing import Any

from engine.broker.dispatch.choose.sticky import Sticky
from engine.broker.topics.ephemeral import EphemeralSubscription
from engine.broker.topics.subscription import Subscription
from tests.sim.plants.planting import Patches


def moved_keys_wait_for_nobody() -> Patches:
    """A key's messages go to its new consumer while its old one still has some."""

    def must_wait(self: Any, slot: int, position: Any, owner: Any) -> bool:
        first = self.waiting.first(slot)
        return first is not None and first < position

    return [(Sticky, "_must_wait", must_wait)]


def dropped_entries_come_later() -> Patches:
    """What nobody on a non-persistent topic could take waits until somebody can."""
    return [(EphemeralSubscription, "wake", Subscription.wake)]
