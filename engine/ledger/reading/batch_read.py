"""One batch read: a run of entries requested from one bookie in one request and answered in one buffer."""

import asyncio

from engine.base.slices import Slice, span_bytes
from engine.ledger.cluster.channel import BookieChannel
from engine.ledger.digest import Digest
from engine.ledger.reading.read_op import CORRUPT, DOWN, PENDING
from engine.wire.bookie_commands import EOK

ENTRY_OVERHEAD = 4
ANSWER_OVERHEAD = 36
"""Bytes that a bookie counts against the request's limit besides the stored entries: per entry and per answer."""


class BatchRead:
    """A read of entries ``first .. stop - 1``, or as many as the requested bytes hold. ``done`` completes with the
    answer.

    The entries are returned as one slice over the received buffer: only the span is stored per entry.
    """

    def __init__(self, ledger_id: int, first: int, stop: int, digest: Digest) -> None:
        self.ledger_id = ledger_id
        self.first = first
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.code = PENDING
        self.bookie_id = ""
        self.down = ""
        """Reason for the end of the connection on which the answer was due."""
        self._count = stop - first
        self._digest = digest
        self._spans: list[int] = []
        self._buf = b""
        self._intact = True
        self._channel: BookieChannel | None = None
        self._number = 0

    def request(self, channel: BookieChannel, bytes_max: int, wanted: int) -> None:
        """Request about ``bytes_max`` payload bytes, which are about ``wanted`` entries."""
        self.bookie_id = channel.bookie_id
        self._channel = channel
        if channel.down is not None:
            self.channel_down(channel, channel.down)
            return
        overhead = wanted * (self._digest.overhead + ENTRY_OVERHEAD) + ANSWER_OVERHEAD
        self._number = channel.read_batch(
            self.ledger_id, self.first, self._count, bytes_max + overhead, self
        )

    def batch_answered(
        self, channel: BookieChannel, rc: int, buf: bytes, start: int, stop: int
    ) -> None:
        if rc == EOK:
            spans, self._intact = self._digest.check_batch(
                buf, start, stop, self.ledger_id, self.first
            )
            self._spans = spans[: 2 * self._count]
            self._buf = buf
            if not spans:
                # Also for an empty answer: a bookie without the entry answers ENOENTRY.
                rc = CORRUPT
        self._settle(rc)

    def channel_down(self, channel: BookieChannel, reason: str) -> None:
        self.down = reason
        self._settle(DOWN)

    def _settle(self, code: int) -> None:
        self.code = code
        if not self.done.done():
            self.done.set_result(None)

    def close(self) -> None:
        """Cancel the request; an answer that is still due is dropped."""
        if self._channel is not None:
            self._channel.forget_batch(self._number)
        if not self.done.done():
            self.done.cancel()

    def silent_channels(self, moment: float) -> list[BookieChannel]:
        """Return the channel that owes the answer if it received nothing since ``moment``, in loop time."""
        channel = self._channel
        if self.code != PENDING or channel is None or not channel.silent_since(moment):
            return []
        return [channel]

    def intact_count(self) -> int:
        """Return the number of contiguous intact entries from the first on."""
        return len(self._spans) >> 1

    @property
    def complete(self) -> bool:
        """True when the whole answer was intact, so that the following entries may be read from the same bookie."""
        return self._intact

    def slices(self) -> list[Slice]:
        spans = self._spans
        if not spans:
            return []
        size = span_bytes(spans, 0, len(spans) >> 1)
        return [Slice(self._buf, spans, size, ledger_id=self.ledger_id, first=self.first)]
