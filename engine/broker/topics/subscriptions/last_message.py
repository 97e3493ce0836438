"""The last message of a topic."""

from contextlib import aclosing

from engine.base.ids import EARLIEST, Position
from engine.broker.compaction.topic_compaction import TopicCompaction
from engine.broker.dispatch.facts import MARKER, facts_of
from engine.broker.topics.ports import ReadableLog
from engine.wire.batches import last_batch_index


class LastMessage:
    """The last message of one topic that readers may be given."""

    __slots__ = ("_compaction", "_known", "_log", "_persistent")

    def __init__(self, log: ReadableLog, compaction: TopicCompaction, *, persistent: bool) -> None:
        self._log = log
        self._compaction = compaction
        self._persistent = persistent
        self._known = EARLIEST, (EARLIEST, -1)
        """The last readable entry at the time of the check, and the last message of that time."""

    async def read(self, *, compacted: bool = False) -> tuple[Position, int]:
        """Return the position of the last entry and the index of its last message (-1: no batch).

        The position is -1:-1 when no entry is kept. ``compacted``: of the compacted topic. Cancel-safe. Raises
        LedgerError when the entry cannot be read.
        """
        known = self.at_hand(compacted=compacted)
        if known is not None:
            return known
        # The last entry of the topic may have been compacted away, so the compacted ledger is opened for its last one.
        if (
            compacted
            and self._compaction.holds_all
            and (await self._compaction.ledger()) is not None
        ):
            return await self.read(compacted=True)
        last = self._log.last_readable
        message = EARLIEST, -1
        # Markers are no messages (D17): a reader would wait for it without end.
        async with aclosing(self._log.newest_first(self._log.next_position(last))) as entries:
            async for run, i in entries:
                if i not in facts_of(run, MARKER).markers:
                    message = run.position(i), last_batch_index(run.entry(i))
                    break
        self._known = last, message
        return message

    def at_hand(self, *, compacted: bool = False) -> tuple[Position, int] | None:
        """Return what ``read`` returns; None when an entry has to be read, and of a non-persistent topic."""
        if not self._persistent:
            return None
        if compacted and self._compaction.holds_all:
            ledger = self._compaction.at_hand
            return None if ledger is None else ledger.last
        last = self._log.last_readable
        if last.entry_id < 0:
            return EARLIEST, -1
        if last != self._known[0]:
            entry = self._log.entry_at_hand(last)
            if entry is None or facts_of(entry, MARKER).markers:
                return None
            self._known = last, (last, last_batch_index(entry.entry(0)))
        return self._known[1]
