"""Mistakes in the decision that no client uses a topic."""

import asyncio

from engine.broker.topics.lifecycle.topic_deletions import TopicDeletions
from engine.broker.topics.topic import Topic
from tests.sim.plants.planting import Patches


def backlogs_do_not_count() -> Patches:
    """Let a subscription without consumers hold no topic, whatever its backlog."""

    def is_unused(self: Topic, *, caught_up: bool) -> bool:
        attached = any(subscription.consumers for subscription in self.subscriptions.values())
        return not (self.closing or self.publishers.busy or self.subscriptions.busy or attached)

    return [(Topic, "is_unused", is_unused)]


def decided_before_it_is_done() -> Patches:
    """Delete a topic a second after it was found unused, even if a client attached since."""
    delete_unused = TopicDeletions.delete_unused

    async def delete(self: TopicDeletions, topic: Topic, *, caught_up: bool) -> bool:
        if not topic.is_unused(caught_up=caught_up):
            return False
        await asyncio.sleep(1.0)
        topic.__dict__["close_unused"] = lambda caught_up: True
        return await delete_unused(self, topic, caught_up=caught_up)

    return [(TopicDeletions, "delete_unused", delete)]


def caught_up_for_all() -> Patches:
    """Let a subscription that is caught up hold no topic, also where every subscription should."""
    is_unused = Topic.is_unused

    def unused(self: Topic, *, caught_up: bool) -> bool:
        return is_unused(self, caught_up=True)

    return [(Topic, "is_unused", unused)]
