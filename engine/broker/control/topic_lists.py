"""Which persistent topics a namespace has, told to whoever follows it when that changes: by the store's watches.

A namespace that somebody follows is listed anew when the store tells of a change of its topics, however many follow it,
and after a pause that grows with what a list costs: a thousand new topics are a few lists, none is a second late.
"""

import asyncio
import logging
from collections.abc import Callable, Set
from functools import partial
from typing import Protocol

from engine.base.names import NamespaceName
from engine.base.tasks import TaskScope, restarting
from engine.broker.errors import BrokerError
from engine.broker.ports import Namespaces, TopicMode

log = logging.getLogger(__name__)

PAUSE_S = 0.1
PAUSE_MAX_S = 0.5
"""Between two lists of a namespace."""
RETRY_S = 1.0


class Follower(Protocol):
    """Who is told what changed since it was given the names."""

    async def changed(self, new: Set[str], gone: Set[str]) -> None:
        """Full names; the next change follows when this returns. Must not raise."""
        ...


class _Followed:
    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        self.followers: dict[Follower, None] = {}
        self.coming = 0
        self.told = asyncio.Event()
        self.lock = asyncio.Lock()
        self.stop: Callable[[], None] = lambda: None
        self.task: asyncio.Task[None] | None = None
        self.notifying: asyncio.Task[None] | None = None


class TopicLists:
    """Of one broker."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._scope = TaskScope("topic lists")
        self._followed: dict[NamespaceName, _Followed] = {}

    async def follow(self, namespace: NamespaceName, follower: Follower) -> Set[str]:
        """The names of its topics and partitions now; what changes from then on ``follower`` is told. None without the
        namespace, which may come. Cancel-safe. Raises ServiceNotReady when they are not known now."""
        followed = self._followed.get(namespace)
        if followed is None:
            followed = self._followed[namespace] = _Followed()
            followed.stop = self._namespaces.watch_topics(namespace, followed.told.set)
            keep = partial(self._keep, namespace, followed)
            work = restarting(f"topic list of {namespace}", keep)
            followed.task = self._scope.spawn(str(namespace), work)
        followed.coming += 1
        try:
            async with followed.lock:
                await self._look(namespace, followed)
                followed.followers[follower] = None
                return followed.names
        finally:
            followed.coming -= 1
            self._end_unused(namespace, followed)

    def leave(self, namespace: NamespaceName, follower: Follower) -> None:
        """It is told nothing more. Safe to call twice."""
        followed = self._followed.get(namespace)
        if followed is not None:
            followed.followers.pop(follower, None)
            self._end_unused(namespace, followed)

    async def close(self) -> None:
        """Follow nothing any more."""
        await self._scope.close()
        for followed in self._followed.values():
            followed.stop()
        self._followed.clear()

    def _end_unused(self, namespace: NamespaceName, followed: _Followed) -> None:
        if not followed.followers and not followed.coming and followed.task is not None:
            followed.stop()
            followed.task.cancel()
            self._followed.pop(namespace, None)

    async def _keep(self, namespace: NamespaceName, followed: _Followed) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await followed.told.wait()
            began = loop.time()
            try:
                async with followed.lock:
                    await self._look(namespace, followed)
            except BrokerError as error:
                log.debug("topics not listed, tried again namespace=%s: %s", namespace, error)
                await asyncio.sleep(RETRY_S)
                continue
            await asyncio.sleep(min(PAUSE_MAX_S, PAUSE_S + 4 * (loop.time() - began)))

    async def _look(self, namespace: NamespaceName, followed: _Followed) -> None:
        if (
            followed.notifying is not None
        ):  # left by a caller that was cancelled: changes keep their order
            await asyncio.wait([followed.notifying])
        followed.told.clear()  # what is told from here on may not be in the list
        try:
            listed = await self._namespaces.topics_of_namespace(namespace, TopicMode.PERSISTENT)
        except BaseException:
            followed.told.set()
            raise
        names = frozenset(listed)
        new, gone = names - followed.names, followed.names - names
        followed.names = names
        if (new or gone) and followed.followers:
            # A task of its own: whoever asked may be cancelled, and no follower may miss a change for that.
            work = self._notify(followed, new, gone)
            followed.notifying = self._scope.spawn(f"{namespace} changes", work)
            await asyncio.shield(followed.notifying)

    async def _notify(self, followed: _Followed, new: Set[str], gone: Set[str]) -> None:
        for follower in list(followed.followers):
            if follower in followed.followers:  # else it left meanwhile
                await follower.changed(new, gone)
                await asyncio.sleep(0)  # each of them hashes all its names
        followed.notifying = None
