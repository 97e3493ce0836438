"""Access of the client of an open socket while tenants and policies change."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from engine.auth.identity import UNAUTHENTICATED, Identity
from engine.auth.rights import Right
from engine.auth.viewer import Viewer
from engine.base.errors import MagnetarError
from engine.base.loop import from_any_thread
from gateway.clusters.cluster import Cluster
from gateway.http.auth.access import authorize, rights_are_judged, viewer_of
from gateway.http.auth.viewers import Viewers

T = TypeVar("T")
AGAIN_S = 1.0
"""Delay after which rights are renewed again that could not be judged, since the store was away."""


class OpenAccess:
    """The access of one socket, on its event loop. ``lock`` is held while something is judged and begun, so that no
    change of rights comes between."""

    def __init__(self) -> None:
        self.identity: Identity = UNAUTHENTICATED
        self.lock = asyncio.Lock()
        self._changed = asyncio.Event()
        self._notify = from_any_thread(asyncio.get_running_loop(), self._changed.set)
        self._stops: dict[Cluster, Callable[[], None]] = {}

    async def follow(self, cluster: Cluster) -> None:
        """Follow the policies of a cluster. Raises the errors of its store, and TimeoutError."""
        if cluster in self._stops or not rights_are_judged():
            return
        viewers = cluster.part(Viewers)
        if not viewers.sees_all(self.identity):
            self._stops[cluster] = await viewers.watch(self._notify)

    async def viewer(self, rights: Iterable[Right[T]], call: T, cluster: Cluster) -> Viewer:
        """Return what the client may see of a cluster. Raises as ``authorize`` for a call that it may not make (A3)."""
        await authorize(rights, call, self.identity, cluster)
        return await viewer_of(self.identity, cluster)

    async def run(self, renew: Callable[[], Awaitable[None]]) -> None:
        """Call ``renew`` after each change of policies; it judges again what is open."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                async with self.lock:
                    await renew()
            except (MagnetarError, TimeoutError):
                await asyncio.sleep(AGAIN_S)
                self._changed.set()

    def close(self) -> None:
        """Stop following the settings."""
        for stop in self._stops.values():
            stop()
        self._stops.clear()
