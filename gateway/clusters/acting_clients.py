"""Pulsar clients that act for callers of the gateway: a connection to a broker names the role that it acts for.

The gateway logs in with its own credentials, whose role is among the brokers' ``proxy_roles``, and each connection
names one role as its original principal, so that brokers judge that role too (A22).
"""

import asyncio
from collections.abc import Callable, Iterable

from engine.base.tasks import TaskScope
from engine.client.client import PulsarClient
from gateway.services.publishing import Publisher

IDLE_S = 60.0
"""Time for which a client that is not used keeps its connections."""
SWEEP_AT = 16
"""Number of clients from which on those that are idle are closed."""


class ActingClient:
    """The client and the producers of one role, while they are used. ``close`` ends one use."""

    def __init__(self, client: PulsarClient, publisher: Publisher) -> None:
        self.client = client
        self.publisher = publisher
        self.users = 0
        self.used_at_s = 0.0

    def close(self) -> None:
        """End a use."""
        self.users -= 1
        self.used_at_s = asyncio.get_running_loop().time()


class ActingClients:
    """The clients of a cluster by the role that they act for, empty for the gateway itself; on one event loop.

    ``names_roles`` False: brokers do not know the gateway's roles, and one client acts for all of them.
    """

    def __init__(self, make: Callable[[str], ActingClient], *, names_roles: bool = True) -> None:
        self._make = make
        self._names_roles = names_roles
        self._clients: dict[str, ActingClient] = {}
        self._tasks = TaskScope("acting-clients")

    @property
    def roles(self) -> Iterable[str]:
        """The roles that there is a client for."""
        return self._clients

    def use(self, principal: str) -> ActingClient:
        """Return the client that acts for a role; the caller closes it after use."""
        principal = principal if self._names_roles else ""
        acting = self._clients.get(principal)
        if acting is None:
            if len(self._clients) >= SWEEP_AT:
                self._sweep()
            acting = self._clients[principal] = self._make(principal)
        acting.users += 1
        return acting

    def _sweep(self) -> None:
        idle_since = asyncio.get_running_loop().time() - IDLE_S
        for principal, acting in list(self._clients.items()):
            if principal and not acting.users and acting.used_at_s < idle_since:
                del self._clients[principal]
                self._tasks.spawn("close", self._end(acting))

    @staticmethod
    async def _end(acting: ActingClient) -> None:
        await acting.client.close()
