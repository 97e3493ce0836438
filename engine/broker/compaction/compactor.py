"""One compaction of a topic, in two phases: find the last value of each key, then write these values to a new ledger.

Both phases read the entries that the last compaction kept, then those behind its horizon: the same entries in the same
order, since neither changes. In memory are a place for each key and the entries of a few reads. The event loop runs
other tasks after every ``STEP`` entries.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.slices import Slice
from engine.broker.compaction.compacted_ledger import CompactedLedger
from engine.broker.compaction.kept_entries import kept_entries, pack_kept
from engine.broker.compaction.last_values import LastValues
from engine.broker.compaction.ports import CompactedLog, CompactionCursor
from engine.broker.dispatch.facts import MARKER, hidden_of
from engine.ledger.errors import LedgerError
from engine.ledger.writing.writer import LedgerWriter
from engine.wire import pulsar_pb2 as pb

log = logging.getLogger(__name__)

STEP = 500
"""Entries processed between two pauses: a few milliseconds of work."""
SCAN_BYTES = 1 << 20
"""Bytes of one read of a compacted ledger."""
WRITE_BYTES = 1 << 18
"""Bytes from which entries are appended to the new ledger."""
PENDING_BYTES_MAX = 4 << 20
"""Unconfirmed bytes above which writing waits."""


class CompactionSource:
    """Entries to compact: those of the ``previous`` compaction, and the log's up to ``last``, without markers and the
    messages of ``aborted`` transactions."""

    def __init__(
        self,
        log: CompactedLog,
        cursor: CompactionCursor,
        previous: CompactedLedger | None,
        last: Position,
        aborted: Collection[tuple[int, int]],
    ) -> None:
        self.last = last
        # A copy: both phases must read the same entries, and transactions are aborted meanwhile.
        self._aborted = frozenset(aborted)
        self._previous = previous
        self._cursor = cursor
        self._start = cursor.mark
        first = log.next_position(cursor.mark_delete)
        self._stop = self._start + log.entries_between(first, log.next_position(last))

    @property
    def empty(self) -> bool:
        """True when nothing was published since the previous compaction."""
        return self._start == self._stop

    async def entries(self) -> AsyncIterator[list[tuple[Position, bytes]]]:
        """Yield the entries with their positions in the topic, some at a time.

        Raises LedgerError, CompactedFormatError.
        """
        if self._previous is not None and self._previous.entries:
            reader = self._previous.reader
            async with reader.scan(0, reader.last_confirmed, SCAN_BYTES) as scan:
                async for slices in scan:
                    for run in slices:
                        buf = run.buf
                        kept = kept_entries(run)
                        for i in range(0, len(kept), STEP):
                            yield [(place, buf[a:b]) for place, a, b in kept[i : i + STEP]]
        async for base, run in self._cursor.entries_of(self._start, self._stop):
            start, stop = max(self._start - base, 0), min(self._stop - base, run.count)
            hidden = set(hidden_of(run, MARKER, self._aborted))
            for i in range(start, stop, STEP):
                indexes = range(i, min(i + STEP, stop))
                yield [(run.position(k), run.entry(k)) for k in indexes if k not in hidden]


class Sink:
    """Writer of the new ledger, which waits while too many bytes are unconfirmed."""

    def __init__(self) -> None:
        self.writer: LedgerWriter
        self._moved = asyncio.Event()
        self._parts: list[bytes] = []
        self._size = 0

    async def add(self, entry: bytes) -> None:
        """Add an entry. Raises LedgerError."""
        self._parts.append(entry)
        self._size += len(entry)
        if self._size >= WRITE_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        spans: list[int] = []
        size = 0
        for part in self._parts:
            spans += (size, size + len(part))
            size += len(part)
        self.writer.append(Slice(b"".join(self._parts), spans, size))
        self._parts, self._size = [], 0
        while self.writer.pending_bytes > PENDING_BYTES_MAX and self.writer.error is None:
            self._moved.clear()
            await self._moved.wait()

    async def close(self) -> None:
        """Write the remaining entries, wait until all are stored, and close the ledger. Raises LedgerError."""
        if self._parts:
            await self._flush()
        await self.writer.close()
        if self.writer.error is not None:
            raise self.writer.error

    def abandon(self) -> None:
        """Stop writing. Safe at any time."""
        self.writer.abandon(LedgerError("its compaction ended"))

    def confirmed(self, below: int) -> None:
        self._moved.set()

    def failed(self, error: LedgerError) -> None:
        self._moved.set()


async def find_last_values(source: CompactionSource, *, retain_null_key: bool) -> LastValues:
    """Run the first phase. Raises LedgerError, CompactedFormatError."""
    values = LastValues(retain_null_key=retain_null_key)
    number = 0
    async for entries in source.entries():
        for _, entry in entries:
            values.take(number, entry)
            number += 1
        await asyncio.sleep(0)
    return values


async def write_kept(
    source: CompactionSource, values: LastValues, sink: Sink, partition: int
) -> None:
    """Run the second phase and close the ledger. Raises LedgerError, CompactedFormatError."""
    selection = values.selection()
    number = 0
    async for entries in source.entries():
        for position, entry in entries:
            kept = selection.kept(number, entry)
            number += 1
            if kept is not None:
                await sink.add(pack_kept(position, partition, kept))
        await asyncio.sleep(0)
    await sink.close()


def custom_metadata(topic: TopicName, last: Position) -> dict[str, bytes]:
    """Return the custom metadata of a compacted ledger, which Apache's brokers write as well."""
    place = pb.MessageIdData(
        ledgerId=last.ledger_id, entryId=last.entry_id, partition=topic.partition
    )
    return {
        "component": b"compacted-ledger",
        "pulsar/compactedTopic": topic.full.encode(),
        "pulsar/compactedTo": place.SerializeToString(),
    }
