"""One attempt to read a run of entries: who was asked for which, what came, and the slices it makes."""

import asyncio
from collections.abc import Iterable

from engine.base.slices import Slice
from engine.ledger.cluster.channel import BookieChannel
from engine.ledger.digest import HEADER_BYTES, Digest, header_of
from engine.wire.bookie_commands import ENOENTRY, ENOLEDGER, EOK, LAST_ENTRY, read_request

PENDING, CORRUPT, DOWN = -1, -2, -3
"""Codes beside those of the wire: no answer yet, a damaged copy, the connection went."""

MISSING = (ENOENTRY, ENOLEDGER)


class RangeRead:
    """Entries ``first .. stop - 1``. ``done`` completes when every entry asked for is answered or cannot be any more.

    Per entry only list cells are kept; the payload stays in the received buffers.
    """

    def __init__(self, ledger_id: int, first: int, stop: int, digest: Digest) -> None:
        self.ledger_id = ledger_id
        self.first = first
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._digest = digest
        count = stop - first
        self.codes = [PENDING] * count
        self._bufs: list[bytes] = [b""] * count
        self._starts = [0] * count
        self._stops = [0] * count
        self._asked: list[BookieChannel | None] = [None] * count
        self._channels: list[BookieChannel] = []
        self._left = 0

    def ask(
        self,
        channel: BookieChannel,
        entries: Iterable[int],
        flags: int = 0,
        key: bytes | None = None,
    ) -> None:
        """Request ``entries`` from a bookie, each entry of at most one."""
        if channel not in self._channels:
            self._channels.append(channel)
            channel.add_reader(self.ledger_id, self)
        frames = []
        for entry in entries:
            self._asked[entry - self.first] = channel
            self._left += 1
            frames.append(read_request(self.ledger_id, entry, flags=flags, master_key=key))
        if channel.down is not None:
            self.channel_down(channel, channel.down)
        else:
            channel.send(b"".join(frames))

    def awaits(self, channel: BookieChannel, entry_id: int) -> bool:
        i = entry_id - self.first
        return 0 <= i < len(self.codes) and self.codes[i] == PENDING and self._asked[i] is channel

    def read_answered(
        self, channel: BookieChannel, rc: int, entry_id: int, buf: bytes, start: int, stop: int
    ) -> None:
        i = entry_id - self.first
        if rc == EOK:
            self._bufs[i] = buf
            self._starts[i] = start
            self._stops[i] = stop
            if entry_id == LAST_ENTRY and stop - start >= HEADER_BYTES:
                entry_id = header_of(buf, start).entry_id
            if not self._digest.check(buf, start, stop, self.ledger_id, entry_id):
                rc = CORRUPT
        self._settle(i, rc)

    def channel_down(self, channel: BookieChannel, reason: str) -> None:
        for i, asked in enumerate(self._asked):
            if asked is channel and self.codes[i] == PENDING:
                self._settle(i, DOWN)

    def _settle(self, i: int, code: int) -> None:
        self.codes[i] = code
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)

    def close(self) -> None:
        """Stop listening; answers still due are dropped."""
        for channel in self._channels:
            channel.remove_reader(self.ledger_id, self)
        if not self.done.done():
            self.done.cancel()

    def silent(self, moment: float) -> list[BookieChannel]:
        """The channels that owe answers and said nothing at all since ``moment``."""
        owing = [
            asked for asked, code in zip(self._asked, self.codes, strict=True) if code == PENDING
        ]
        return [c for c in self._channels if c in owing and c.silent_since(moment)]

    @property
    def code(self) -> int:
        """Of the first entry."""
        return self.codes[0]

    @property
    def complete(self) -> bool:
        """Whether every entry asked for came."""
        return self.good() == len(self.codes)

    def good(self) -> int:
        """How many entries from the first on are there, intact."""
        for i, code in enumerate(self.codes):
            if code != EOK:
                return i
        return len(self.codes)

    def stored(self, i: int = 0) -> bytes:
        """A copy of the stored bytes of entry ``i``, header and digest included."""
        return self._bufs[i][self._starts[i] : self._stops[i]]

    def slices(self) -> list[Slice]:
        """The intact entries from the first on, one slice per received buffer."""
        overhead = self._digest.overhead
        out: list[Slice] = []
        spans: list[int] = []
        at = size = 0
        count = self.good()
        for i in range(count):
            if i > at and self._bufs[i] is not self._bufs[at]:
                out.append(self._slice(at, spans, size))
                at, spans, size = i, [], 0
            start, stop = self._starts[i] + overhead, self._stops[i]
            spans += (start, stop)
            size += stop - start
        if count:
            out.append(self._slice(at, spans, size))
        return out

    def _slice(self, at: int, spans: list[int], size: int) -> Slice:
        return Slice(self._bufs[at], spans, size, ledger_id=self.ledger_id, first=self.first + at)
