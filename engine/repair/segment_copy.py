"""Copying of a segment's entries to bookies that lack them: read in runs from any good copy, verified, and written as
they were stored. Every entry is durable at its new place before the copy counts as done (I33)."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from struct import Struct

from engine.base.measures.byte_rate import ByteRate
from engine.base.slices import Slice
from engine.ledger.access import LedgerAccess
from engine.ledger.cluster.channel import BookieChannel
from engine.ledger.digest import Digest, DigestType, master_key
from engine.ledger.errors import LedgerError, NoSuchEntryError, ReadError, WriteError
from engine.ledger.ledger_metadata import LedgerMetadata
from engine.ledger.quorum import holds
from engine.ledger.reading.reader import LedgerReader
from engine.wire import bookie_commands as wire

_FRAME = Struct(">II20s")
_WORD = wire.header(wire.ADD, wire.RECOVERY_ADD)
ON_THE_WAY = 2
"""Batches that are on their way to the new bookies."""


class CopyCounts:
    """Entries and bytes that the copies of a process have read and written. Make it inside a running event loop."""

    def __init__(self) -> None:
        self.entries_read = 0
        self.bytes_read = 0
        self.entries_written = 0
        self.bytes_written = 0
        self.unreadable = 0
        self.progressed_at = asyncio.get_running_loop().time()
        """Time of the last batch that was read, in the loop's time."""


class SegmentCopy:
    """A copy of the entries ``first`` to ``last`` of one segment; ``targets`` are the new bookies by position."""

    def __init__(
        self,
        access: LedgerAccess,
        metadata: LedgerMetadata,
        span: tuple[int, int],
        targets: Mapping[int, str],
        *,
        batch_bytes: int,
        rate: ByteRate,
        counts: CopyCounts,
    ) -> None:
        self._access = access
        self._metadata = metadata
        self._first, self._last = span
        self._targets = targets
        self._batch_bytes = batch_bytes
        self._rate = rate
        self._counts = counts
        self._digest = Digest(metadata.digest or DigestType.CRC32, access.password)
        self._key = master_key(access.password)

    async def run(self) -> None:
        """Copy. After the return every new bookie holds all its entries durably.

        Raises NoSuchEntryError and ReadError where an entry that is due cannot be read, WriteError where a new bookie
        fails. What was copied until then is harmless: no metadata names it. Cancel-safe.
        """
        reader = LedgerReader(self._access, self._metadata)
        reader.confirm(self._last)
        writes = _Writes(self._access, self._targets.values())
        at = self._first
        try:
            while at <= self._last:
                async with reader.scan(at, self._last, self._batch_bytes, ON_THE_WAY) as scan:
                    try:
                        async for slices in scan:
                            for run in slices:
                                await self._send(run, writes)
                                at = run.first + run.count
                    except (NoSuchEntryError, ReadError):
                        # An entry of another write set is no reason to stop.
                        if any(self._due(position, at) for position in self._targets):
                            self._counts.unreadable += 1
                            raise
                        at += 1
            await writes.wait(0)
        finally:
            writes.close()

    def _due(self, position: int, entry: int) -> bool:
        metadata = self._metadata
        return holds(position, entry, metadata.ensemble_size, metadata.write_quorum)

    async def _send(self, run: Slice, writes: "_Writes") -> None:
        self._counts.progressed_at = asyncio.get_running_loop().time()
        self._counts.entries_read += run.count
        self._counts.bytes_read += run.size
        for position, bookie in self._targets.items():
            entries: Sequence[int] = range(run.first, run.first + run.count)
            if self._metadata.ensemble_size > self._metadata.write_quorum:
                entries = [entry for entry in entries if self._due(position, entry)]
            if not entries:
                continue
            frames = list(self._frames(run, entries))
            size = sum(map(len, frames))
            await self._rate.take(size)
            writes.send(bookie, entries, frames, size)
            self._counts.entries_written += len(entries)
            self._counts.bytes_written += size
        await writes.wait((ON_THE_WAY - 1) * self._batch_bytes)

    def _frames(self, run: Slice, entries: Sequence[int]) -> Iterator[bytes | memoryview]:
        """Yield the recovery adds of ``entries`` of a run, as parts to be joined."""
        view = memoryview(run.buf)
        overhead = self._digest.overhead
        for entry in entries:
            i = 2 * (entry - run.first)
            start, stop = run.spans[i] - overhead, run.spans[i + 1]
            yield _FRAME.pack(_FRAME.size - 4 + stop - start, _WORD, self._key)
            yield view[start:stop]


class _Writes:
    """Adds on their way to the new bookies. Implements AddSink."""

    def __init__(self, access: LedgerAccess, bookies: Iterable[str]) -> None:
        self._ledger_id = access.ledger_id
        self._timeout_s = access.settings.add_entry_timeout_s
        self._choice = access.bookies.choice
        self._loop = asyncio.get_running_loop()
        self._channels: dict[str, BookieChannel] = {}
        self._pending: dict[BookieChannel, dict[int, int]] = {}  # by entry: bytes that wait with it
        self._bytes: dict[BookieChannel, int] = {}
        self._received = self._loop.time()
        self._error: LedgerError | None = None
        self._wake = asyncio.Event()
        for bookie in bookies:
            channel = access.bookies.links.channel(bookie)
            self._channels[bookie] = channel
            self._pending[channel] = {}
            self._bytes[channel] = 0
            if channel.down is not None:
                self.channel_down(channel, channel.down)
            else:
                channel.add_writer(self._ledger_id, self)

    def send(
        self,
        bookie: str,
        entries: Sequence[int],
        frames: Sequence[bytes | memoryview],
        size: int,
    ) -> None:
        channel = self._channels[bookie]
        pending = self._pending[channel]
        if not pending:
            self._received = self._loop.time()
        share = size // len(entries)
        for entry in entries:
            pending[entry] = share
        self._bytes[channel] += share * len(entries)
        if channel.down is None:
            channel.send(b"".join(frames))

    async def wait(self, left_bytes: int) -> None:
        """Wait until at most ``left_bytes`` are without an answer at each bookie. Raises WriteError."""
        while self._error is None and any(
            size > left_bytes or (not left_bytes and self._pending[channel])
            for channel, size in self._bytes.items()
        ):
            self._wake.clear()
            try:
                async with asyncio.timeout_at(self._received + self._timeout_s):
                    await self._wake.wait()
            except TimeoutError:
                for bookie, channel in self._channels.items():
                    if self._pending[channel]:
                        self._fail(bookie, "answers nothing")
        if self._error is not None:
            raise self._error

    def _fail(self, bookie: str, reason: str) -> None:
        self._choice.failed(bookie)
        self._error = WriteError(f"copy of ledger {self._ledger_id} to {bookie}: {reason}")
        self._wake.set()

    def add_answered(self, channel: BookieChannel, rc: int, first: int, count: int) -> None:
        pending = self._pending.get(channel)
        if pending is None:
            return
        self._received = self._loop.time()
        if rc != wire.EOK:
            self._fail(channel.bookie_id, wire.code_name(rc))
            return
        for entry in range(first, first + count):
            self._bytes[channel] -= pending.pop(entry, 0)
        self._wake.set()

    def channel_down(self, channel: BookieChannel, reason: str) -> None:
        self._fail(channel.bookie_id, reason)

    def close(self) -> None:
        for channel in self._channels.values():
            channel.remove_writer(self._ledger_id, self)
