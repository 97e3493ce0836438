"""The connections of one process to the bookies, created on request, and what they showed about each bookie."""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from engine.base.entropy import Entropy
from engine.base.tasks import TaskScope
from engine.ledger.cluster.channel import BookieChannel
from engine.ledger.cluster.choice import BookieChoice
from engine.ledger.cluster.link import BookieLink
from engine.ledger.cluster.registrations import Registrations
from engine.ledger.cluster.start_tls import tls_of
from engine.ledger.cluster.v3_channel import V3Channel
from engine.ledger.settings import LedgerSettings
from engine.net.network import Network

log = logging.getLogger(__name__)

C = TypeVar("C", bound=BookieLink)
BACKOFF_STEPS = 32
"""Divisor of the longest pause: the first pause after a failed connect is that part of it."""
BATCH_RETRY_S = 600.0
"""Time for which a bookie that refused a batch read is sent no other."""


class BookieLinks:
    """Connections to bookies, at most one of each kind to a bookie."""

    def __init__(
        self,
        network: Network,
        registrations: Registrations,
        choice: BookieChoice,
        entropy: Entropy,
        settings: LedgerSettings,
    ) -> None:
        """Create without connections. Raises TlsFileError."""
        self._network = network
        self._registrations = registrations
        self._choice = choice
        self._entropy = entropy
        self._settings = settings
        self._tls = tls_of(settings)
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskScope("bookie connections")
        self._channels: dict[str, BookieChannel] = {}
        self._reading: dict[str, BookieChannel] = {}
        self._v3: dict[str, V3Channel] = {}
        self._no_batches: dict[str, float] = {}
        self._no_v3: dict[str, None] = {}
        self._no_lists: dict[str, float] = {}
        self._batches_known: dict[str, None] = {}
        self._backoff: dict[str, tuple[float, float]] = {}  # pause, end of the pause in loop time
        registrations.on_back(self._forget_bookie)

    def _forget_bookie(self, bookie_id: str) -> None:
        """Forget what is known about a bookie that registered, because another process may answer now."""
        self._backoff.pop(bookie_id, None)
        self._no_batches.pop(bookie_id, None)
        self._batches_known.pop(bookie_id, None)
        self._no_v3.pop(bookie_id, None)
        self._no_lists.pop(bookie_id, None)

    async def close(self) -> None:
        await self._tasks.close()
        for channels in (self._channels, self._reading, self._v3):
            for channel in list(channels.values()):
                channel.take_down("client closed")
        await asyncio.sleep(0)  # transports close their sockets in the loop's next turn

    def channel(self, bookie_id: str) -> BookieChannel:
        """Return the channel for adds, fencing and recovery, connecting when there is none.

        It may go down at any time, and is returned already down while the bookie cannot be connected to.
        """
        return self._get_or_connect(self._channels, bookie_id, BookieChannel)

    def reading(self, bookie_id: str) -> BookieChannel:
        """Return the channel for plain reads, as ``channel`` does.

        On a connection of their own, answers to plain reads cannot be taken for those to fencing reads (C10), and large
        answers do not delay acknowledgements.
        """
        return self._get_or_connect(self._reading, bookie_id, BookieChannel)

    def v3(self, bookie_id: str) -> V3Channel:
        """Return the connection for requests that only V3 has.

        A bookie that closed such a connection without any answer does not support V3: the channel is returned down
        until the bookie registers again.
        """
        if bookie_id in self._no_v3:
            channel = V3Channel(bookie_id, self._settings.unsent_bytes_max)
            channel.take_down("no support for V3")
            return channel
        return self._get_or_connect(self._v3, bookie_id, V3Channel)

    def supports_batches(self, bookie_id: str) -> bool:
        """Return whether to send batch reads to a bookie; False for ``BATCH_RETRY_S`` after it refused one, or until it
        registers again."""
        until = self._no_batches.get(bookie_id, 0.0)
        return self._settings.batch_read and until <= self._loop.time()

    def mark_batches_refused(self, bookie_id: str) -> None:
        if self.supports_batches(bookie_id):
            log.info("bookie does not support batch reads bookie=%s", bookie_id)
        self._no_batches[bookie_id] = self._loop.time() + BATCH_RETRY_S

    def supports_lists(self, bookie_id: str) -> bool:
        """Return whether to ask a bookie for the list of a ledger's entries; False for ``BATCH_RETRY_S`` after it did
        not answer, as Apache's with its default storage, or until it registers again."""
        return self._no_lists.get(bookie_id, 0.0) <= self._loop.time()

    def mark_lists_unanswered(self, bookie_id: str) -> None:
        self._no_lists[bookie_id] = self._loop.time() + BATCH_RETRY_S

    def _get_or_connect(
        self, channels: dict[str, C], bookie_id: str, make: Callable[[str, int], C]
    ) -> C:
        channel = channels.get(bookie_id)
        if channel is not None and channel.down is None:
            return channel
        channel = make(bookie_id, self._settings.unsent_bytes_max)
        _, until = self._backoff.get(bookie_id, (0.0, 0.0))
        if self._tasks.closed:
            channel.take_down("client closed")
            return channel
        if until > self._loop.time():
            channel.take_down("cannot be connected to")
            return channel
        channel.on_down(self._channel_down)
        channels[bookie_id] = channel
        self._tasks.spawn(f"connect {bookie_id}", self._connect(channel))
        return channel

    async def _connect(self, channel: BookieLink) -> None:
        bookie_id = channel.bookie_id
        await channel.connect(
            self._network,
            lambda: self._registrations.address(bookie_id),
            self._settings.connect_timeout_s,
            self._tls,
        )
        if channel.transport is not None:
            self._backoff.pop(bookie_id, None)

    def _channel_down(self, channel: BookieLink, reason: str) -> None:
        bookie_id = channel.bookie_id
        for channels in (self._channels, self._reading, self._v3):
            if channels.get(bookie_id) is channel:
                del channels[bookie_id]
        self._registrations.forget_address(bookie_id)
        if self._tasks.closed:
            return
        log.info("bookie connection down bookie=%s reason=%s", bookie_id, reason)
        if channel.transport is None:  # never established
            self._extend_backoff(bookie_id)
            self._choice.unreachable(bookie_id)
            return
        if isinstance(channel, BookieChannel) and self._refused_batch(channel):
            return
        if isinstance(channel, V3Channel) and channel.closed_by_peer and not channel.answered:
            self._no_v3[bookie_id] = None
            return
        self._choice.failed(bookie_id)

    def _refused_batch(self, channel: BookieChannel) -> bool:
        """Return whether the bookie closed the connection instead of answering a batch read, as bookies without support
        for it do. A bookie that crashed looks the same, and is then read from without batches for a while."""
        if channel.batches:
            self._batches_known[channel.bookie_id] = None
        unanswered = channel.batches is False and channel.closed_by_peer
        if not unanswered or channel.bookie_id in self._batches_known:
            return False
        self.mark_batches_refused(channel.bookie_id)
        return True

    def _extend_backoff(self, bookie_id: str) -> None:
        pause_max = self._settings.reconnect_backoff_max_s
        pause, _ = self._backoff.get(bookie_id, (pause_max / BACKOFF_STEPS / 2, 0.0))
        pause = min(pause * 2, pause_max)
        jittered = pause * (0.5 + self._entropy.random() / 2)
        self._backoff[bookie_id] = pause, self._loop.time() + jittered
