"""Persistent topics of a namespace, whose changes are reported to its followers by the store's watches.

A namespace is listed again when the store reports a change of its topics, once for all followers, after a pause that
grows with the cost of a list: a thousand new topics cause a few lists, and no change is reported a second late.
"""

import asyncio
import logging
from collections.abc import Callable, Set
from functools import partial
from typing import Protocol

from engine.auth.identity import Identity
from engine.base.names import NamespaceName
from engine.base.tasks import TaskScope, restarting
from engine.broker.errors import BrokerError
from engine.broker.ports import Namespaces, TopicMode

log = logging.getLogger(__name__)

PAUSE_S = 0.1
PAUSE_MAX_S = 0.5
"""Longest pause between two lists of a namespace."""
RETRY_S = 1.0


class Follower(Protocol):
    """Receiver of the changes of a namespace's topics since ``TopicLists.follow`` returned, for a client."""

    @property
    def identity(self) -> Identity:
        """The identity of the client."""
        ...

    def suspend(self, reason: str) -> None:
        """Send nothing more, because the client lost the right to list the namespace. Safe to repeat."""
        ...

    def resume(self) -> None:
        """Send what changed since ``suspend``, because the client has the right again. Safe to repeat."""
        ...

    async def changed(self, new: Set[str], gone: Set[str]) -> None:
        """Handle a change, given by full names. The next change follows when it returns. Must not raise."""
        ...


class _Followed:
    """A followed namespace. ``joining``: callers that are becoming followers. ``changed``: set by the store's watch."""

    def __init__(self) -> None:
        self.names: frozenset[str] = frozenset()
        self.followers: dict[Follower, None] = {}
        self.joining = 0
        self.changed = asyncio.Event()
        self.lock = asyncio.Lock()
        self.stop: Callable[[], None] = lambda: None
        self.task: asyncio.Task[None] | None = None
        self.notifying: asyncio.Task[None] | None = None


class TopicLists:
    """Topic lists of the namespaces that are followed on one broker."""

    def __init__(self, namespaces: Namespaces) -> None:
        self._namespaces = namespaces
        self._scope = TaskScope("topic lists")
        self._followed: dict[NamespaceName, _Followed] = {}

    async def follow(self, namespace: NamespaceName, follower: Follower) -> Set[str]:
        """Return the names of a namespace's topics and partitions; report later changes to ``follower``.

        The set is empty without the namespace, which may be created later. Raises ServiceNotReady when the names are
        not known now. Cancel-safe.
        """
        followed = self._followed.get(namespace)
        if followed is None:
            followed = self._followed[namespace] = _Followed()
            followed.stop = self._namespaces.watch_topics(namespace, followed.changed.set)
            keep = partial(self._keep, namespace, followed)
            work = restarting(f"topic list of {namespace}", keep)
            followed.task = self._scope.spawn(str(namespace), work)
        followed.joining += 1
        try:
            async with followed.lock:
                await self._refresh(namespace, followed)
                followed.followers[follower] = None
                return followed.names
        finally:
            followed.joining -= 1
            self._end_unused(namespace, followed)

    def leave(self, namespace: NamespaceName, follower: Follower) -> None:
        """Stop reporting to ``follower``. Safe to call twice."""
        followed = self._followed.get(namespace)
        if followed is not None:
            followed.followers.pop(follower, None)
            self._end_unused(namespace, followed)

    def followers(self, namespace: NamespaceName) -> list[Follower]:
        """Return the followers of a namespace."""
        followed = self._followed.get(namespace)
        return [] if followed is None else list(followed.followers)

    def followed(self) -> list[NamespaceName]:
        """Return the namespaces that are followed."""
        return list(self._followed)

    async def close(self) -> None:
        """Stop following all namespaces."""
        await self._scope.close()
        for followed in self._followed.values():
            followed.stop()
        self._followed.clear()

    def _end_unused(self, namespace: NamespaceName, followed: _Followed) -> None:
        if not followed.followers and not followed.joining and followed.task is not None:
            followed.stop()
            followed.task.cancel()
            self._followed.pop(namespace, None)

    async def _keep(self, namespace: NamespaceName, followed: _Followed) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await followed.changed.wait()
            began = loop.time()
            try:
                async with followed.lock:
                    await self._refresh(namespace, followed)
            except BrokerError as error:
                log.debug("topics not listed, tried again namespace=%s: %s", namespace, error)
                await asyncio.sleep(RETRY_S)
                continue
            await asyncio.sleep(min(PAUSE_MAX_S, PAUSE_S + 4 * (loop.time() - began)))

    async def _refresh(self, namespace: NamespaceName, followed: _Followed) -> None:
        # A cancelled caller may have left its notification under way: changes are reported in order.
        if followed.notifying is not None:
            await asyncio.wait([followed.notifying])
        followed.changed.clear()  # before the list: a change that the watch reports from now on may not be in it
        try:
            listed = await self._namespaces.topics_of_namespace(namespace, TopicMode.PERSISTENT)
        except BaseException:
            followed.changed.set()
            raise
        names = frozenset(listed)
        new, gone = names - followed.names, followed.names - names
        followed.names = names
        if (new or gone) and followed.followers:
            # A task of its own: the caller may be cancelled, and no follower may miss a change because of that.
            work = self._notify(followed, new, gone)
            followed.notifying = self._scope.spawn(f"{namespace} changes", work)
            await asyncio.shield(followed.notifying)

    async def _notify(self, followed: _Followed, new: Set[str], gone: Set[str]) -> None:
        for follower in list(followed.followers):
            if follower in followed.followers:  # it may have left during the loop
                await follower.changed(new, gone)
                await asyncio.sleep(0)  # each follower hashes all its names
        followed.notifying = None
