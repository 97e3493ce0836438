"""Base of the connections to bookies: connecting, notification of the end, detection of silence."""

import asyncio
from collections.abc import Awaitable, Callable

from engine.base.errors import MagnetarError
from engine.ledger.cluster.start_tls import connect_in_tls
from engine.net.network import Network
from engine.net.tls import ContextSource
from engine.net.transport import Connection
from engine.wire.bookie_commands import FRAME_BYTES_MAX


class BookieLink(Connection):
    """A connection to a bookie. ``down`` is the reason once it has ended, else None; it never returns to None.
    ``last_received`` is when bytes last arrived, in loop time. ``closed_by_peer`` is True when the bookie or the
    network ended the connection."""

    def __init__(self, bookie_id: str, unsent_bytes_max: int) -> None:
        super().__init__(FRAME_BYTES_MAX, unsent_bytes_max)
        self.bookie_id = bookie_id
        self.down: str | None = None
        self.last_received = self._loop.time()
        self.closed_by_peer = False
        self._watchers: list[Callable[[BookieLink, str], None]] = []

    async def connect(
        self,
        network: Network,
        address: Callable[[], Awaitable[tuple[str, int]]],
        timeout_s: float,
        tls: ContextSource | None = None,
    ) -> None:
        """Open the connection, in TLS if ``tls`` is given. On failure and on cancellation it is taken down."""
        try:
            async with asyncio.timeout(timeout_s):
                host, port = await address()
                if tls is None:
                    await network.connect(host, port, lambda: self)
                else:
                    await connect_in_tls(network, host, port, self, tls)
        except (OSError, TimeoutError, MagnetarError) as e:
            self.take_down(f"connect failed: {type(e).__name__} {e}")
        except asyncio.CancelledError:
            self.take_down("stopped while connecting")
            raise

    def silent_since(self, moment: float) -> bool:
        """Return whether nothing arrived since ``moment``; with requests pending the bookie or the connection hangs."""
        return self.last_received <= moment

    def on_down(self, callback: Callable[["BookieLink", str], None]) -> None:
        self._watchers.append(callback)

    def take_down(self, reason: str) -> None:
        """End the connection at once and notify the callbacks and the waiting requests. Safe to repeat."""
        if self.down is not None:
            return
        self.down = reason
        self.abort()
        for callback in self._watchers:
            callback(self, reason)
        self.notify_down(reason)

    def notify_down(self, reason: str) -> None:
        """Notify the waiting requests that no answer will arrive."""
        raise NotImplementedError

    # Hooks of Connection

    def opened(self) -> None:
        self.last_received = self._loop.time()

    def data_received(self, data: bytes) -> None:
        self.last_received = self._loop.time()
        super().data_received(data)

    def flush(self) -> None:
        """Flush as Connection does, and bound the bytes that wait for a connection that is not established yet."""
        if self.transport is None and self.buffered_bytes > self.buffered_bytes_max:
            self._loop.call_soon(self.take_down, "too many bytes wait for the connection")
        super().flush()

    def closed(self, error: Exception | None) -> None:
        self.closed_by_peer = self.down is None
        self.take_down("connection closed" if error is None else f"connection lost: {error}")
