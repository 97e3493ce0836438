"""The last message of a topic."""

from contextlib import aclosing
from typing import Protocol

from engine.base.ids import EARLIEST, Position
from engine.broker.compaction.topic_compaction import TopicCompaction
from engine.broker.dispatch.facts import MARKER, hidden_of
from engine.broker.dispatch.ports import Transactional
from engine.broker.topics.ports import ReadableLog
from engine.broker.transactions.buffer.topic_buffer import TopicBuffer
from engine.wire.batches import last_batch_index


class LastMessageHost(Transactional, Protocol):
    """Parts of a topic that decide which message is its last one."""

    @property
    def log(self) -> ReadableLog: ...

    @property
    def compaction(self) -> TopicCompaction: ...

    @property
    def transactions(self) -> TopicBuffer | None: ...


class LastMessage:
    """The last message of one topic that readers may be given."""

    __slots__ = ("_host", "_known", "_persistent")

    def __init__(self, host: LastMessageHost, *, persistent: bool) -> None:
        self._host = host
        self._persistent = persistent
        self._known = EARLIEST, (EARLIEST, -1)
        """The last readable entry at the time of the check, and the last message of that time."""

    async def read(self, *, compacted: bool = False) -> tuple[Position, int]:
        """Return the position of the last entry and the index of its last message (-1: no batch).

        The position is -1:-1 when no entry is kept. ``compacted``: of the compacted topic. Cancel-safe. Raises
        LedgerError when the entry cannot be read, ServiceNotReady while the topic's transactions are not restored.
        """
        if self._host.transactions is not None:
            await self._host.transactions.ready()
        known = self.at_hand(compacted=compacted)
        if known is not None:
            return known
        # The last entry of the topic may have been compacted away, so the compacted ledger is opened for its last one.
        if (
            compacted
            and self._host.compaction.holds_all
            and (await self._host.compaction.ledger()) is not None
        ):
            return await self.read(compacted=True)
        last = self._host.log.last_readable
        message = EARLIEST, -1
        # Markers and aborted messages are not delivered (D17): a reader would wait for them without end.
        async with aclosing(
            self._host.log.newest_first(self._host.log.next_position(last))
        ) as entries:
            async for run, i in entries:
                if i not in hidden_of(run, MARKER, self._host.aborted):
                    message = run.position(i), last_batch_index(run.entry(i))
                    break
        self._known = last, message
        return message

    def at_hand(self, *, compacted: bool = False) -> tuple[Position, int] | None:
        """Return what ``read`` returns; None when something has to be read, and of a non-persistent topic."""
        transactions = self._host.transactions
        if not self._persistent or (transactions is not None and not transactions.restored):
            return None
        if compacted and self._host.compaction.holds_all:
            ledger = self._host.compaction.at_hand
            return None if ledger is None else ledger.last
        last = self._host.log.last_readable
        if last.entry_id < 0:
            return EARLIEST, -1
        if last != self._known[0]:
            entry = self._host.log.entry_at_hand(last)
            if entry is None or hidden_of(entry, MARKER, self._host.aborted):
                return None
            self._known = last, (last, last_batch_index(entry.entry(0)))
        return self._known[1]
