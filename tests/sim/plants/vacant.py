"""Mistakes in deciding that nobody uses a topic."""

import asyncio

from engine.broker.topics.registry import TopicRegistry
from engine.broker.topics.topic import Topic
from tests.sim.plants.planting import Patches


def backlogs_do_not_count() -> Patches:
    """Subscriptions without consumers hold no topic, whatever they have still to read."""

    def is_unused(self: Topic, *, caught_up: bool) -> bool:
        there = any(one.consumers for one in self.subscriptions.values())
        return not (self.closing or self.publishers.busy or self.subscriptions.busy or there)

    return [(Topic, "is_unused", is_unused)]


def decided_before_it_is_done() -> Patches:
    """A topic that was found unused is deleted a second later, whoever came."""
    delete_unused = TopicRegistry.delete_unused

    async def delete(self: TopicRegistry, topic: Topic, *, caught_up: bool) -> bool:
        if not topic.is_unused(caught_up=caught_up):
            return False
        await asyncio.sleep(1.0)
        topic.__dict__["close_unused"] = lambda caught_up: True
        return await delete_unused(self, topic, caught_up=caught_up)

    return [(TopicRegistry, "delete_unused", delete)]


def caught_up_for_all() -> Patches:
    """A subscription that is caught up holds no topic, also where every subscription should."""
    is_unused = Topic.is_unused

    def unused(self: Topic, *, caught_up: bool) -> bool:
        return is_unused(self, caught_up=True)

    return [(Topic, "is_unused", unused)]
