"""One batch read: a run of entries asked of one bookie in one request, answered in one buffer."""

import asyncio

from engine.base.slices import Slice, span_bytes
from engine.ledger.cluster.channel import BookieChannel
from engine.ledger.digest import Digest
from engine.ledger.reading.read_op import CORRUPT, DOWN, PENDING
from engine.wire.bookie_commands import EOK

ENTRY_OVERHEAD = 4
ANSWER_OVERHEAD = 36
"""What a bookie counts against the bytes asked for, per entry and per answer, beside the stored entries."""


class BatchRead:
    """Entries ``first .. stop - 1``, or as many as the bytes asked for hold. ``done`` completes with the answer.

    The entries come as one slice over the received buffer: nothing is kept per entry but its span.
    """

    def __init__(self, ledger_id: int, first: int, stop: int, digest: Digest) -> None:
        self.ledger_id = ledger_id
        self.first = first
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.code = PENDING
        self.bookie_id = ""
        self._count = stop - first
        self._digest = digest
        self._spans: list[int] = []
        self._buf = b""
        self._intact = True
        self._channel: BookieChannel | None = None
        self._number = 0

    def ask(self, channel: BookieChannel, bytes_max: int, wanted: int) -> None:
        """Ask for about ``bytes_max`` payload bytes, which are about ``wanted`` entries."""
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
            spans, self._intact = self._digest.take_batch(
                buf, start, stop, self.ledger_id, self.first
            )
            self._spans = spans[: 2 * self._count]
            self._buf = buf
            if not spans:
                rc = CORRUPT  # also an empty answer: a bookie that has nothing says ENOENTRY
        self._settle(rc)

    def channel_down(self, channel: BookieChannel, reason: str) -> None:
        self._settle(DOWN)

    def _settle(self, code: int) -> None:
        self.code = code
        if not self.done.done():
            self.done.set_result(None)

    def close(self) -> None:
        """Stop listening; an answer still due is dropped."""
        if self._channel is not None:
            self._channel.forget_batch(self._number)
        if not self.done.done():
            self.done.cancel()

    def silent(self, moment: float) -> list[BookieChannel]:
        """The channel that owes the answer, when it said nothing at all since ``moment``."""
        channel = self._channel
        if self.code != PENDING or channel is None or not channel.silent_since(moment):
            return []
        return [channel]

    def good(self) -> int:
        """How many entries from the first on are there, intact."""
        return len(self._spans) >> 1

    @property
    def complete(self) -> bool:
        """Whether nothing speaks against asking the same bookie for what follows."""
        return self._intact

    def slices(self) -> list[Slice]:
        spans = self._spans
        if not spans:
            return []
        size = span_bytes(spans, 0, len(spans) >> 1)
        return [Slice(self._buf, spans, size, ledger_id=self.ledger_id, first=self.first)]
