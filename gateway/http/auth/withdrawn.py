"""The revoked tokens of a cluster, as this process knows them, and the open sockets that end with their tokens."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from engine.base.clock import SystemClock
from engine.base.tasks import contained
from engine.tenancy.access.revoked_tokens import RevokedTokens
from gateway.clusters.cluster import Cluster
from gateway.services.engine_link import CALL_TIMEOUT_S, FAILURES

RETRY_S = 0.5
"""Pause before a list that could not be read is read again."""


class ClusterRevocations:
    """The ids of the tokens that are revoked in a cluster's store, one of its parts: a Container, for any thread.

    They are followed from ``follow`` on, for the life of the process.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._link = cluster.link
        self._tokens: RevokedTokens | None = None
        self._changed: Callable[[], None] = lambda: None
        self._reading: asyncio.Lock | None = None

    def __contains__(self, token_id: object) -> bool:
        return self._tokens is not None and token_id in self._tokens

    def follow(self, changed: Callable[[], None]) -> None:
        """Follow the list; ``changed`` is called on the link's loop when ids were added. For any thread."""
        self._changed = changed
        self._link.start(self._follow)

    async def _follow(self) -> None:
        while self._tokens is None:
            try:
                await self._load()
            except FAILURES:
                await asyncio.sleep(RETRY_S)

    async def _load(self) -> None:
        """Read the list for the first time and follow it, on the link's loop. Raises FAILURES."""
        engine = await self._link.engine()
        if self._reading is None:
            self._reading = asyncio.Lock()
        async with self._reading:
            if self._tokens is None:
                tokens = RevokedTokens(engine.store, SystemClock(), self._notify)
                await tokens.load()
                self._tokens = tokens
                tokens.start()
                self._notify()

    def _notify(self) -> None:
        with contained("the end of sockets whose tokens are revoked"):
            self._changed()

    async def renew(self) -> None:
        """Read the list again, so that a revocation by this process holds when it is answered.

        While the store does not answer, the list is read later, as changes by other processes are.
        """
        with suppress(*FAILURES):
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._link.on_loop(self._renew)

    async def _renew(self) -> None:
        if self._tokens is None:
            await self._load()
        else:
            await self._tokens.load()

    async def known(self) -> None:
        """Return once the list was read. Raises FAILURES when the store has not answered since the start."""
        if self._tokens is None:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._link.on_loop(self._load)
