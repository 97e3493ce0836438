"""Sockets of the console, which are closed when the credentials of their clients end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import ClassVar

from channels.generic.websocket import AsyncWebsocketConsumer

from engine.auth.identity import Identity
from engine.base.loop import from_any_thread
from engine.base.tasks import TaskScope
from gateway.http.auth.handshakes import watch_credentials
from gateway.http.auth.open_access import OpenAccess
from gateway.services.clock import now_ms

CLOSE_EXPIRED = 4001
"""The credentials of the socket's client have ended."""


class OpenSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A socket with ``tasks`` that end with it, and the ``access`` of its client."""

    channel_layer_alias: ClassVar[str] = ""
    """No channel layer: nothing sends to a socket by name, and a subscription in Redis per socket would cost more than
    what it sends."""

    def begin(self, name: str) -> None:
        """Set up the parts, before the client is known. ``name``: of the tasks."""
        self.tasks = TaskScope(name)
        self.access = OpenAccess()
        self.unwatch: Callable[[], None] | None = None

    def follow(self, identity: Identity, renew: Callable[[], Awaitable[None]]) -> None:
        """Call ``renew`` after each change of policies, and close the accepted socket when its credentials end."""
        self.tasks.spawn("rights", self.access.run(renew))
        if identity.expires_at is not None:
            self.tasks.spawn("expire", self._expire(identity.expires_at))
        withdrawn = from_any_thread(asyncio.get_running_loop(), self._withdraw)
        self.unwatch = watch_credentials(self.scope, identity, withdrawn)

    async def _expire(self, at_s: float) -> None:
        """Close the socket when its credentials end."""
        await asyncio.sleep(max(at_s - now_ms() / 1000, 0))
        await self.close(code=CLOSE_EXPIRED)

    def _withdraw(self) -> None:
        """Close the socket of a client whose credentials count no more."""
        if not self.tasks.closed:
            self.tasks.spawn("withdraw", self.close(code=CLOSE_EXPIRED))

    async def end(self) -> None:
        """End the tasks and what is watched of a socket that is closed."""
        if self.unwatch is not None:
            self.unwatch()
        await self.tasks.close()
        self.access.close()
