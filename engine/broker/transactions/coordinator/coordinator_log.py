"""The log of one transaction coordinator: a managed ledger in Apache's layout, and the cursor that is behind it.

Entries of a transaction are acknowledged together when it has ended, so that the log is trimmed up to the oldest
transaction that has not. A property keeps ids from repeating when all of it was trimmed (X7).
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import aclosing

from engine.base.ids import Position
from engine.broker.settings import BatchedWrites
from engine.broker.transactions.coordinator.transaction_table import Entry, TransactionTable
from engine.broker.transactions.log_batches import coordinator_records
from engine.broker.transactions.ports import LogPlace
from engine.broker.transactions.record_writer import RecordOutcome, RecordWriter
from engine.managed.cursors.cursor import Cursor
from engine.managed.factory import ManagedLedgerFactory
from engine.managed.ledger import InitialPosition, ManagedLedger
from engine.managed.settings import LedgerConfig

CURSOR = "transaction.subscription"
NEWEST = "max_local_txn_id"
"""Property of the managed ledger: an id that no transaction's id exceeds. It counts when the log has no entry."""
RESERVED = 1000
"""Ids that one write of the property covers."""
REREAD = 2000
"""Records at the end of the log from which is learned what ended lately."""
READ_ENTRIES, READ_BYTES = 1000, 1 << 20
"""Entries and bytes of one read of those that are needed."""


def log_name(coordinator: int) -> str:
    """Return the name of a coordinator's managed ledger."""
    return f"pulsar/system/persistent/__transaction_log_{coordinator}"


class CoordinatorLog:
    """The open log of one coordinator. Methods raise the managed ledger's errors and those of the store."""

    def __init__(
        self, ledger: ManagedLedger, cursor: Cursor, batched: BatchedWrites | None = None
    ) -> None:
        self.ledger = ledger
        self.cursor = cursor
        self._writer = RecordWriter(ledger, batched)
        self.appended = 0
        """Records appended since it was opened."""
        self.on_failed: Callable[[Exception], None] | None = None
        """Called when an entry may not be durable."""
        self._shared: dict[Position, int] = {}
        """Records of transactions that are not done with, by entry, of entries with several."""
        self._reserved = -1
        self._reserving = asyncio.Lock()

    @classmethod
    async def open(
        cls,
        factory: ManagedLedgerFactory,
        coordinator: int,
        config: LedgerConfig,
        batched: BatchedWrites | None = None,
    ) -> "CoordinatorLog":
        """Open the log and fence its previous owner."""
        ledger = await factory.open(log_name(coordinator), config)
        return cls(ledger, await ledger.open_cursor(CURSOR, InitialPosition.EARLIEST), batched)

    async def replay(self, table: TransactionTable) -> None:
        """Apply what is stored to ``table``, once. Raises StoredRecordError for an entry that cannot be read.

        Entries of ended transactions are not read: behind one that is open for a day they may be very many.
        """
        await self._replay_newest(table)
        self.cursor.rewind()
        while views := await self.cursor.read(READ_ENTRIES, READ_BYTES):
            for view in views:
                for i in view.indexes:
                    self._replay_entry(table, view.run.position(i), view.run.entry(i))

    def _replay_entry(self, table: TransactionTable, position: Position, entry: bytes) -> None:
        records = coordinator_records(entry)
        if len(records) > 1:
            self._shared[position] = len(records)
        for record in records:
            self.release(table.replay(record, position))

    async def _replay_newest(self, table: TransactionTable) -> None:
        """Set the highest id in use, by the last entry, which has that of its time, and what ended lately.

        The entries of ended transactions are read as far as they are not trimmed: their clients may ask again.
        """
        records: list[Entry] = []
        async with aclosing(self.ledger.newest_first()) as entries:
            async for run, i in entries:
                records += reversed(coordinator_records(run.entry(i)))
                if len(records) >= REREAD:
                    break
        if not records:
            table.newest = int(self.ledger.properties.get(NEWEST, -1))
        for record in reversed(records):
            table.recall(record)

    def covers(self, newest: int) -> bool:
        """Return whether ids up to ``newest`` cannot be used again after the log was trimmed and its owner died."""
        return newest <= self._reserved

    async def reserve(self, newest: int) -> None:
        """Make ``covers`` true for ``newest`` and some ids behind it."""
        async with self._reserving:
            if not self.covers(newest):
                await self.ledger.update_properties({NEWEST: str(newest + RESERVED)})
                self._reserved = newest + RESERVED

    def append(
        self, record: bytes, positions: list[Position], outcome: Callable[[Exception | None], None]
    ) -> None:
        """Append a record. When it is durable its position is added to ``positions`` and ``outcome`` called with None,
        else ``outcome`` is called with the error, and ``on_failed`` behind it."""

        def stored(place: LogPlace) -> None:
            # With the first record: it may be released before the others of its entry are reported.
            if place.members > 1 and not place.member:
                self._shared[place.position] = place.members
            positions.append(place.position)
            outcome(None)

        def failed(error: Exception) -> None:
            outcome(error)
            if self.on_failed is not None:
                self.on_failed(error)

        self._writer.append(record, RecordOutcome(stored, failed))
        self.appended += 1

    def release(self, positions: Iterable[Position]) -> None:
        """Acknowledge the entries of a transaction that is done with."""
        passed = []
        for position in positions:
            left = self._shared.get(position, 1) - 1
            if left:
                self._shared[position] = left
            else:
                self._shared.pop(position, None)
                passed.append(position)
        if passed:
            self.cursor.acknowledge(passed)

    async def close(self) -> None:
        """Append what waits, persist the cursor and close the log."""
        self._writer.flush()
        await self.ledger.close()
