"""Appends of records to a transaction log, each in an entry of its own or several together."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from engine.base.slices import Slice
from engine.broker.settings import BatchedWrites
from engine.broker.transactions.log_batches import batch_of
from engine.broker.transactions.ports import LogPlace
from engine.managed.writing.appends import AppendSink


class RecordLog(Protocol):
    """Part of ``ManagedLedger``, which documents it."""

    def append(self, run: Slice, sink: AppendSink, /) -> None: ...


class RecordOutcome(NamedTuple):
    """Callbacks for the outcome of a record: its place, or that it is not known whether it is stored. They must not
    raise."""

    stored: Callable[[LogPlace], None]
    failed: Callable[[Exception], None]


class _Entry:
    """The append of an entry. An ``AppendSink``."""

    __slots__ = ("_receivers",)

    def __init__(self, receivers: list[RecordOutcome]) -> None:
        self._receivers = receivers

    def appended(self, run: Slice, start: int, stop: int) -> None:
        position, count = run.position(0), len(self._receivers)
        for member, receiver in enumerate(self._receivers):
            receiver.stored(LogPlace(position, member, count))

    def append_failed(self, run: Slice, start: int, error: Exception) -> None:
        for receiver in self._receivers:
            receiver.failed(error)


class RecordWriter:
    """Records are stored in the order of ``append``. ``batched``: they wait for others up to its limits."""

    __slots__ = ("_bytes", "_log", "_receivers", "_records", "_timer", "batched")

    def __init__(self, log: RecordLog, batched: BatchedWrites | None) -> None:
        self._log = log
        self.batched = batched
        self._records: list[bytes] = []
        self._receivers: list[RecordOutcome] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def append(self, record: bytes, written: RecordOutcome) -> None:
        """Append a record, at once or with those that follow within the delay."""
        limits = self.batched
        if limits is None:
            self._store(record, [written])
            return
        if self._bytes + len(record) > limits.bytes_max:
            self.flush()
        self._records.append(record)
        self._receivers.append(written)
        self._bytes += len(record)
        if len(self._records) >= limits.records_max or self._bytes >= limits.bytes_max:
            self.flush()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(limits.delay_max_ms / 1000, self.flush)

    def flush(self) -> None:
        """Append what waits, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._records:
            return
        records, receivers = self._records, self._receivers
        self._records, self._receivers, self._bytes = [], [], 0
        # A single record is stored as without batches: readers distinguish the forms.
        self._store(records[0] if len(records) == 1 else batch_of(records), receivers)

    def _store(self, entry: bytes, receivers: list[RecordOutcome]) -> None:
        self._log.append(Slice(entry, [0, len(entry)], len(entry)), _Entry(receivers))
