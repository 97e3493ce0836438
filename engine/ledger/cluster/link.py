"""What every connection to a bookie has: how it is made, who is told of its end, how long it has been silent."""

import asyncio
from collections.abc import Awaitable, Callable

from engine.base.errors import MagnetarError
from engine.net.network import Network
from engine.net.transport import Connection
from engine.wire.bookie_commands import FRAME_BYTES_MAX


class BookieLink(Connection):
    """``down`` is the reason once it is over, else None; then it stays down. ``heard_at`` is when the bookie last said
    anything, in loop time. ``closed_by_peer`` tells whether the other side or the network ended it."""

    def __init__(self, bookie_id: str, unsent_bytes_max: int) -> None:
        super().__init__(FRAME_BYTES_MAX, unsent_bytes_max)
        self.bookie_id = bookie_id
        self.down: str | None = None
        self.heard_at = self._loop.time()
        self.closed_by_peer = False
        self._watchers: list[Callable[[BookieLink, str], None]] = []

    async def connect(
        self,
        network: Network,
        address: Callable[[], Awaitable[tuple[str, int]]],
        timeout_s: float,
    ) -> None:
        """Open the connection; on failure it goes down. Cancelled it goes down too."""
        try:
            async with asyncio.timeout(timeout_s):
                host, port = await address()
                await network.connect(host, port, lambda: self)
        except (OSError, TimeoutError, MagnetarError) as e:
            self.take_down(f"connect failed: {type(e).__name__} {e}")
        except asyncio.CancelledError:
            self.take_down("stopped while connecting")
            raise

    def silent_since(self, moment: float) -> bool:
        """Whether nothing was heard since ``moment``: with requests under way the bookie or the link hangs."""
        return self.heard_at <= moment

    def on_down(self, callback: Callable[["BookieLink", str], None]) -> None:
        self._watchers.append(callback)

    def take_down(self, reason: str) -> None:
        """End the connection at once and tell everybody who waits."""
        if self.down is not None:
            return
        self.down = reason
        self.abort()
        for callback in self._watchers:
            callback(self, reason)
        self.tell_down(reason)

    def tell_down(self, reason: str) -> None:
        """Tell those who wait for answers that none will come."""
        raise NotImplementedError

    # Hooks of Connection

    def opened(self) -> None:
        self.heard_at = self._loop.time()

    def data_received(self, data: bytes) -> None:
        self.heard_at = self._loop.time()
        super().data_received(data)

    def flush(self) -> None:
        """As in Connection; also bounds what waits for a connection that does not come to stand."""
        if self.transport is None and self.buffered_bytes > self.buffered_bytes_max:
            self._loop.call_soon(self.take_down, "too much waits for the connection")
        super().flush()

    def closed(self, error: Exception | None) -> None:
        self.closed_by_peer = self.down is None
        self.take_down("connection closed" if error is None else f"connection lost: {error}")
