"""A follower of a namespace is notified of every topic created or deleted after the list that it received."""

import asyncio
from collections.abc import Set

import pytest

from engine.base.names import NamespaceName
from engine.broker.control.topic_lists import TopicLists
from engine.broker.errors import ServiceNotReady
from engine.broker.ports import TopicMode
from tests.support.broker_bench import Everything, until

pytestmark = pytest.mark.virtual_time

NAMESPACE = NamespaceName.parse("public/default")


class Follower:
    """The list of topics that a follower's notifications add up to."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.times = 0
        self.busy: asyncio.Event | None = None
        """Event that delays the follower's next change until it is set."""

    async def changed(self, new: Set[str], gone: Set[str]) -> None:
        busy, self.busy = self.busy, None
        if busy is not None:
            await busy.wait()
        assert not new & self.names
        assert gone <= self.names
        self.names = (self.names | new) - gone
        self.times += 1


async def follow(lists: TopicLists) -> Follower:
    follower = Follower()
    follower.names = set(await lists.follow(NAMESPACE, follower))
    return follower


def change(everything: Everything, names: list[str]) -> None:
    everything.listed = names
    for callback in list(everything.watchers.values()):
        callback()


async def test_all_followers_share_one_list() -> None:
    everything = Everything()
    lists = TopicLists(everything)
    everything.listed = ["a", "b"]
    first, second = await follow(lists), await follow(lists)
    assert first.names == second.names == {"a", "b"}
    assert len(everything.watchers) == 1
    change(everything, ["b", "c"])
    await until(lambda: first.names == second.names == {"b", "c"})
    assert first.times == 1
    lists.leave(NAMESPACE, first)
    change(everything, ["d"])
    await until(lambda: second.names == {"d"})
    assert first.names == {"b", "c"}
    await lists.close()


async def test_changes_keep_their_order_when_the_caller_that_listed_is_cancelled() -> None:
    everything = Everything()
    lists = TopicLists(everything)
    everything.listed = ["a"]
    slow, other = await follow(lists), await follow(lists)
    slow.busy = busy = asyncio.Event()
    everything.listed = ["b"]
    caller = asyncio.ensure_future(follow(lists))
    (followed,) = lists._followed.values()
    await until(lambda: followed.names == {"b"})
    caller.cancel()
    change(everything, ["a"])
    await until(followed.lock.locked)
    for _ in range(10):  # as many turns of the loop as an unblocked listing needs
        await asyncio.sleep(0)
    assert slow.names == {"a"}
    busy.set()
    await until(lambda: slow.times == other.times == 2)
    assert slow.names == other.names == {"a"}
    await lists.close()


async def test_others_run_between_two_followers_of_a_change() -> None:
    everything = Everything()
    lists = TopicLists(everything)
    turns: list[int] = []

    class Turning(Follower):
        async def changed(self, new: Set[str], gone: Set[str]) -> None:
            asyncio.get_running_loop().call_soon(turns.append, len(turns))
            before.append(len(turns))
            await super().changed(new, gone)

    before: list[int] = []
    followers = [Turning() for _ in range(5)]
    for follower in followers:
        await lists.follow(NAMESPACE, follower)
    change(everything, ["a"])
    await until(lambda: all(follower.times for follower in followers))
    assert before == [0, 1, 2, 3, 4]  # a callback ran between any two of them
    await lists.close()


async def test_the_store_is_not_watched_without_followers() -> None:
    everything = Everything()
    lists = TopicLists(everything)
    follower = await follow(lists)
    lists.leave(NAMESPACE, follower)
    lists.leave(NAMESPACE, follower)
    assert everything.watchers == {}
    await lists.close()


async def test_changes_while_the_store_is_unavailable_are_reported_later() -> None:
    everything = Silent()
    lists = TopicLists(everything)
    follower = await follow(lists)
    everything.silent = True
    change(everything, ["a"])
    await until(lambda: everything.refused)
    with pytest.raises(ServiceNotReady):
        await lists.follow(NAMESPACE, Follower())
    everything.silent = False
    await until(lambda: follower.names == {"a"})
    assert everything.watchers
    await lists.close()


class Silent(Everything):
    silent = False
    refused = 0

    async def topics_of_namespace(self, namespace: NamespaceName, mode: TopicMode) -> list[str]:
        await asyncio.sleep(0)
        if self.silent:
            self.refused += 1
            raise ServiceNotReady("silent")
        return await super().topics_of_namespace(namespace, mode)
