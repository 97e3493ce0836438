"""Mistakes in the exclusive use of a topic."""

import asyncio

from engine.broker.topics.publish import Producer
from engine.broker.topics.publishers import Publishers
from tests.sim.plants.planting import Patches


def epoch_is_told_and_not_stored() -> Patches:
    """Report a new epoch without storing it: the next owner of the topic starts again with the last stored one."""

    async def grow(self: Publishers, producer: Producer) -> int:
        epoch = producer.topic_epoch
        if epoch is None:
            epoch = 0 if self.epoch is None else self.epoch + 1
        self.epoch = epoch
        return epoch

    return [(Publishers, "_next_epoch", grow)]


def fenced_producer_publishes_on() -> Patches:
    """Do not notify a producer that is to be disconnected, and accept its messages."""

    def disconnect(self: Producer) -> None:
        pass

    return [(Producer, "disconnect", disconnect)]


def older_epoch_may_come_back() -> Patches:
    """Give a fenced producer the topic again under its earlier epoch."""

    def check(self: Publishers, producer: Producer) -> None:
        pass

    return [(Publishers, "_check_epoch", check)]


def next_in_line_does_not_wait() -> Patches:
    """Give the topic to the next waiting producer when any producer leaves, whichever others are attached."""

    async def give(self: Publishers) -> None:
        async with self._exclusive_lock:
            if self.waiting:
                producer = next(iter(self.waiting))
                future: asyncio.Future[int] = self.waiting.pop(producer)
                epoch = await self._next_epoch(producer)
                self._attach(producer)
                future.set_result(epoch)

    return [(Publishers, "_give_turn", give)]
