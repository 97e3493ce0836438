"""Outgoing connections: one per address, dialled when somebody needs it, again with growing delays after failures."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from engine.base.backoff import Backoff
from engine.base.entropy import Entropy
from engine.base.errors import WorldError
from engine.base.tasks import TaskScope
from engine.net.network import Network
from engine.net.transport import Connection

C = TypeVar("C", bound=Connection)


class DialError(WorldError):
    """No connection to an address: refused, unreachable, or not in time. Try again, or another address."""


@dataclass(frozen=True, slots=True)
class DialSettings:
    """How connections are made."""

    connect_timeout_s: float = 10.0
    """For one attempt (``connectionTimeoutMs``)."""
    backoff_initial_s: float = 0.1
    """Delay before the attempt after a failed one; doubles up to the maximum."""
    backoff_max_s: float = 10.0


@dataclass(slots=True)
class _Line(Generic[C]):
    """What is known of one address."""

    backoff: Backoff
    connection: C | None = None
    dialling: asyncio.Task[C] | None = None
    not_before: float = field(default=0.0)


class Dialer(Generic[C]):
    """Connections by (host, port), made by ``make(host, port)``. One per address; callers share it.

    A connection that is closing or gone is replaced on the next request. Attempts to an address follow each other with
    back-off, also when different callers ask.
    """

    def __init__(
        self,
        network: Network,
        entropy: Entropy,
        make: Callable[[str, int], C],
        settings: DialSettings | None = None,
    ) -> None:
        self._network = network
        self._entropy = entropy
        self._make = make
        self._settings = settings if settings is not None else DialSettings()
        self._lines: dict[tuple[str, int], _Line[C]] = {}
        self._tasks = TaskScope("dialer", on_error=_ignore)

    async def connection(self, host: str, port: int) -> C:
        """The open connection to an address. Raises DialError; cancel-safe (others who wait are not disturbed)."""
        line = self._lines.get((host, port))
        if line is None:
            settings = self._settings
            line = _Line(Backoff(settings.backoff_initial_s, settings.backoff_max_s))
            self._lines[host, port] = line
        if line.connection is not None and not line.connection.closing:
            return line.connection
        if line.dialling is None:
            if self._tasks.closed:
                raise DialError("the dialer is closed")
            line.dialling = self._tasks.spawn(f"dial {host}:{port}", self._dial(line, host, port))
        try:
            return await asyncio.shield(line.dialling)
        except asyncio.CancelledError:
            if self._tasks.closed:
                raise DialError("the dialer was closed") from None
            raise

    def current(self, host: str, port: int) -> C | None:
        """The open connection to an address, if there is one."""
        line = self._lines.get((host, port))
        if line is None or line.connection is None or line.connection.closing:
            return None
        return line.connection

    async def _dial(self, line: _Line[C], host: str, port: int) -> C:
        loop = asyncio.get_running_loop()
        try:
            if line.not_before > loop.time():
                await asyncio.sleep(line.not_before - loop.time())
            connection = self._make(host, port)
            try:
                async with asyncio.timeout(self._settings.connect_timeout_s):
                    await self._network.connect(host, port, lambda: connection)
            except (OSError, TimeoutError) as error:
                line.not_before = loop.time() + line.backoff.next_s(self._entropy.random())
                connection.abort()
                raise DialError(
                    f"no connection to {host}:{port}: {error or 'timed out'}"
                ) from error
            except asyncio.CancelledError:
                connection.abort()
                raise
            line.backoff.reset()
            line.connection = connection
            return connection
        finally:
            line.dialling = None

    async def close(self) -> None:
        """Close every connection and stop dialling."""
        await self._tasks.close()
        for line in self._lines.values():
            if line.connection is not None:
                line.connection.close()
        self._lines.clear()


def _ignore(name: str, error: BaseException) -> None:
    """A failed attempt is told to those who wait for it; nobody waiting is no error."""
