"""The number of messages that may be sent now to the consumers that share a subscription (D3)."""

from collections.abc import Sequence

from engine.broker.dispatch.consumer import UNLIMITED, Consumer
from engine.broker.dispatch.redelivery import Tally
from engine.broker.dispatch.throttle import Throttle
from engine.broker.policies import DispatchPolicies


class SendLimits:
    """The limits of unacknowledged messages of one subscription and of its consumers, and the dispatch rates.

    ``out`` counts the unacknowledged messages of all its consumers; ``each`` is the limit of each, 0 for none.
    """

    __slots__ = ("_blocked", "_held", "_max", "_stopped", "_throttle", "each", "out")

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self.out = Tally()
        self.each = 0
        self._max = 0
        """Limit of the subscription; 0 for none."""
        self._stopped: dict[Consumer, None] = {}
        """Consumers at their limit of unacknowledged messages."""
        self._blocked = False
        """True from the subscription's limit on until less than half of it is unacknowledged."""
        self._held = False
        """True while the broker's limit stops this subscription."""

    def apply(self, policies: DispatchPolicies, consumers: Sequence[Consumer]) -> None:
        self.each = policies.unacked_per_consumer
        self._max = policies.unacked_per_subscription
        self._blocked = 0 < self._max <= self.out.messages
        for consumer in consumers:
            consumer.limit(self.each)
        self._stopped = {consumer: None for consumer in consumers if consumer.blocked}

    def hold(self, on: bool) -> bool:
        """Stop the subscription, or resume it; return whether that is a change."""
        changed = on != self._held
        self._held = on
        return changed

    @property
    def reached(self) -> bool:
        """True while unacknowledged messages stop the whole subscription."""
        return self._blocked or self._held

    def room(self) -> int:
        """Return how many messages may be sent before the subscription's limit is reached.

        Once it is reached: 0 until ``unblock``. Also 0 while a dispatch rate allows none.
        """
        if self._held or (self._throttle.limits and not self._throttle.opens()):
            return 0
        if not self._max:
            return UNLIMITED
        room = self._max - self.out.messages
        if room <= 0:
            self._blocked = True
        return 0 if self._blocked else room

    def stop(self, consumer: Consumer) -> None:
        """Note that a consumer reached its limit."""
        self._stopped[consumer] = None

    def forget(self, consumer: Consumer) -> None:
        self._stopped.pop(consumer, None)

    def unblock(self) -> bool:
        """Resume consumers that are at most at half of their limit, and all of them below half of the subscription's.

        Return whether any consumer resumed. Called when fewer messages are unacknowledged (D3).
        """
        if not (self._stopped or self._blocked):
            return False
        freed = False
        for consumer in list(self._stopped):
            if consumer.unblock():
                del self._stopped[consumer]
                freed = True
        if self._blocked and self.out.messages < max(self._max // 2, 1):
            self._blocked = False
            freed = True
        return freed

    def reset(self) -> None:
        """Resume the subscription: nothing of it is out any more."""
        self._blocked = False
