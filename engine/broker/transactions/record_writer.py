"""Appends of records to a transaction log, each in an entry of its own or several together."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from engine.base.ids import Position
from engine.broker.settings import BatchedWrites
from engine.broker.transactions.entry_runs import EntryRuns
from engine.broker.transactions.log_batches import batch_of
from engine.broker.transactions.ports import LogPlace
from engine.managed.writing.appends import Appendable


class RecordOutcome(NamedTuple):
    """Callbacks for the outcome of a record: its place, or that it is not known whether it is stored. They must not
    raise."""

    stored: Callable[[LogPlace], None]
    failed: Callable[[Exception], None]


class _Records:
    """The entry of one or several records. An ``EntryReceiver``."""

    __slots__ = ("_receivers",)

    def __init__(self, receivers: list[RecordOutcome]) -> None:
        self._receivers = receivers

    def stored(self, position: Position) -> None:
        count = len(self._receivers)
        for member, receiver in enumerate(self._receivers):
            receiver.stored(LogPlace(position, member, count))

    def failed(self, error: Exception) -> None:
        for receiver in self._receivers:
            receiver.failed(error)


class RecordWriter:
    """Records are stored in the order of ``append``. ``batched``: they wait for others up to its limits, and share an
    entry. Created inside a running loop."""

    __slots__ = ("_bytes", "_entries", "_receivers", "_records", "_timer", "batched")

    def __init__(self, log: Appendable, batched: BatchedWrites | None) -> None:
        self._entries = EntryRuns(log)
        self.batched = batched
        self._records: list[bytes] = []
        self._receivers: list[RecordOutcome] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def append(self, record: bytes, written: RecordOutcome) -> None:
        """Append a record at the end of this turn of the loop, or with those that follow within the delay."""
        limits = self.batched
        if limits is None:
            self._entries.append(record, _Records([written]))
            return
        if self._bytes + len(record) > limits.bytes_max:
            self._close_batch()
        self._records.append(record)
        self._receivers.append(written)
        self._bytes += len(record)
        if len(self._records) >= limits.records_max or self._bytes >= limits.bytes_max:
            self._close_batch()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(limits.delay_max_ms / 1000, self._close_batch)

    def flush(self) -> None:
        """Append what waits, now."""
        self._close_batch()
        self._entries.flush()

    def _close_batch(self) -> None:
        """Append the records that wait for others, at the end of this turn of the loop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._records:
            return
        records, receivers = self._records, self._receivers
        self._records, self._receivers, self._bytes = [], [], 0
        # A single record is stored as without batches: readers distinguish the forms.
        entry = records[0] if len(records) == 1 else batch_of(records)
        self._entries.append(entry, _Records(receivers))
