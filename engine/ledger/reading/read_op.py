"""One attempt to read a run of entries, with one request for each entry."""

import asyncio
from collections.abc import Iterable

from engine.base.slices import Slice
from engine.ledger.cluster.channel import BookieChannel
from engine.ledger.digest import HEADER_BYTES, Digest, header_of
from engine.wire.bookie_commands import (
    ENOENTRY,
    ENOLEDGER,
    EOK,
    EUA,
    LAST_ENTRY,
    code_name,
    read_request,
)

PENDING, CORRUPT, DOWN = -1, -2, -3
"""Codes besides those of the protocol: no answer yet, a damaged copy, the connection is down."""

MISSING = (ENOENTRY, ENOLEDGER)
_NAMES = {
    CORRUPT: "corrupt",
    DOWN: "unreachable",
    PENDING: "nothing in time",
    EUA: "EUA, no access: see bookkeeper_tls_certificate_file_path",
}


def answer_text(code: int, down: str) -> str:
    """Return a replica's answer for messages. ``down``: why its connection ended, empty where it has not."""
    text = _NAMES.get(code) or code_name(code)
    return f"{text} ({down})" if code == DOWN and down else text


class RangeRead:
    """A read of entries ``first .. stop - 1``. ``done`` completes when every requested entry has an answer or can no
    longer receive one.

    Only list cells are kept per entry; the payload stays in the received buffers.
    """

    def __init__(self, ledger_id: int, first: int, stop: int, digest: Digest) -> None:
        self.ledger_id = ledger_id
        self.first = first
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.down = ""
        """Reason for the end of a connection on which an answer was due."""
        self._digest = digest
        count = stop - first
        self.codes = [PENDING] * count
        self._bufs: list[bytes] = [b""] * count
        self._starts = [0] * count
        self._stops = [0] * count
        self._requested: list[BookieChannel | None] = [None] * count
        self._channels: list[BookieChannel] = []
        self._left = 0

    def request(
        self,
        channel: BookieChannel,
        entries: Iterable[int],
        flags: int = 0,
        key: bytes | None = None,
    ) -> None:
        """Request ``entries`` from a bookie. An entry may be requested from one bookie only."""
        if channel not in self._channels:
            self._channels.append(channel)
            channel.add_reader(self.ledger_id, self)
        frames = []
        for entry in entries:
            self._requested[entry - self.first] = channel
            self._left += 1
            frames.append(read_request(self.ledger_id, entry, flags=flags, master_key=key))
        if channel.down is not None:
            self.channel_down(channel, channel.down)
        else:
            channel.send(b"".join(frames))

    def awaits(self, channel: BookieChannel, entry_id: int) -> bool:
        i = entry_id - self.first
        return (
            0 <= i < len(self.codes) and self.codes[i] == PENDING and self._requested[i] is channel
        )

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
        for i, requested in enumerate(self._requested):
            if requested is channel and self.codes[i] == PENDING:
                self.down = reason
                self._settle(i, DOWN)

    def _settle(self, i: int, code: int) -> None:
        self.codes[i] = code
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)

    def close(self) -> None:
        """Cancel the requests; answers that are still due are dropped."""
        for channel in self._channels:
            channel.remove_reader(self.ledger_id, self)
        if not self.done.done():
            self.done.cancel()

    def silent_channels(self, moment: float) -> list[BookieChannel]:
        """Return the channels that owe answers and received nothing since ``moment``, in loop time."""
        owing = [
            channel
            for channel, code in zip(self._requested, self.codes, strict=True)
            if code == PENDING
        ]
        return [
            channel
            for channel in self._channels
            if channel in owing and channel.silent_since(moment)
        ]

    @property
    def code(self) -> int:
        """The first entry's code."""
        return self.codes[0]

    @property
    def complete(self) -> bool:
        """True when every requested entry arrived intact."""
        return self.intact_count() == len(self.codes)

    def intact_count(self) -> int:
        """Return the number of contiguous intact entries from the first on."""
        for i, code in enumerate(self.codes):
            if code != EOK:
                return i
        return len(self.codes)

    def stored(self, i: int = 0) -> bytes:
        """Return a copy of the stored bytes of entry ``first + i``, header and digest included."""
        return self._bufs[i][self._starts[i] : self._stops[i]]

    def slices(self) -> list[Slice]:
        """Return the contiguous intact entries from the first on, one slice per received buffer."""
        overhead = self._digest.overhead
        out: list[Slice] = []
        spans: list[int] = []
        at = size = 0
        count = self.intact_count()
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
