"""Mistakes in who has a topic to itself."""

import asyncio

from engine.broker.topics.publish import Producer
from engine.broker.topics.publishers import Publishers
from tests.sim.plants.planting import Patches


def epoch_is_told_and_not_stored() -> Patches:
    """The next owner of the topic begins again with the last one that was."""

    async def grow(self: Publishers, producer: Producer) -> int:
        given = producer.topic_epoch
        if given is None:
            given = 0 if self.epoch is None else self.epoch + 1
        self.epoch = given
        return given

    return [(Publishers, "_next_epoch", grow)]


def fenced_producer_publishes_on() -> Patches:
    """Who is to be sent away is not told, and what it sends is taken."""

    def disconnect(self: Producer) -> None:
        pass

    return [(Producer, "disconnect", disconnect)]


def older_epoch_may_come_back() -> Patches:
    """Who was fenced has the topic again under the epoch that it had."""

    def check(self: Publishers, producer: Producer) -> None:
        pass

    return [(Publishers, "_check_epoch", check)]


def next_in_line_does_not_wait() -> Patches:
    """Its turn comes when anybody leaves, whoever else is there."""

    async def give(self: Publishers) -> None:
        async with self._exclusive_lock:
            if self.waiting:
                producer = next(iter(self.waiting))
                future: asyncio.Future[int] = self.waiting.pop(producer)
                epoch = await self._next_epoch(producer)
                self._attach(producer)
                future.set_result(epoch)

    return [(Publishers, "_give_turn", give)]
