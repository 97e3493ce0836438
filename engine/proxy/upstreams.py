"""Clients of the brokers, which answer requests of lookup connections: one for each role, or for each connection where
credentials are forwarded."""

import asyncio
from collections.abc import Callable, Hashable

from engine.base.tasks import TaskScope
from engine.client.broker_link import OriginalCredentials
from engine.client.client import PulsarClient

IDLE_S = 60.0
"""Time for which a client that no connection uses is kept."""

MakeClient = Callable[[str | None, OriginalCredentials | None], PulsarClient]
"""Makes a client that acts for a role (None: for no one), with that role's own credentials."""


class _Upstream:
    __slots__ = ("client", "timer", "users")

    def __init__(self, client: PulsarClient) -> None:
        self.client = client
        self.users = 0
        self.timer: asyncio.TimerHandle | None = None


class Upstreams:
    """Clients by key, made on first use and closed IDLE_S after their last one."""

    def __init__(self, make: MakeClient) -> None:
        self._make = make
        self._upstreams: dict[Hashable, _Upstream] = {}
        self._tasks = TaskScope("upstreams")

    def take(
        self, key: Hashable, role: str | None, original: OriginalCredentials | None
    ) -> PulsarClient:
        """Return the client of ``key``. Each call needs a ``give`` of the key later."""
        upstream = self._upstreams.get(key)
        if upstream is None:
            upstream = self._upstreams[key] = _Upstream(self._make(role, original))
        upstream.users += 1
        if upstream.timer is not None:
            upstream.timer.cancel()
            upstream.timer = None
        return upstream.client

    def give(self, key: Hashable, *, keep: bool) -> None:
        """Undo one ``take``. The last one closes the client, after a while if ``keep``."""
        upstream = self._upstreams[key]
        upstream.users -= 1
        if upstream.users:
            return
        if keep and not self._tasks.closed:
            loop = asyncio.get_running_loop()
            upstream.timer = loop.call_later(IDLE_S, self._close, key)
        else:
            self._close(key)

    def _close(self, key: Hashable) -> None:
        upstream = self._upstreams.pop(key)
        if not self._tasks.closed:
            self._tasks.spawn("close", upstream.client.close())

    async def close(self) -> None:
        """Close all clients."""
        await self._tasks.close()
        for upstream in self._upstreams.values():
            if upstream.timer is not None:
                upstream.timer.cancel()
            await upstream.client.close()
