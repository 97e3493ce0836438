"""Effectively-once state: slices are logged in the order of processing, before their results leave.

The order is that of all partitions together, since what one slice has put another may have read. A slice waits for the
receipts of what the code published itself, so that an input that is logged has no effect that could be missing.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Protocol

from engine.base.errors import MagnetarError
from engine.functions.instance.lanes import sequence_of
from engine.functions.instance.state.logged_inputs import LoggedPartition, LoggedSlice
from engine.functions.instance.user.processing import PartitionTenure, WorkSlice


class SupersededError(MagnetarError):
    """Another instance processed the same inputs: the results of this one do not count."""


class LogOfInputs(Protocol):
    """The state's topic, as slices are written to it."""

    def logged(self, partition: str) -> LoggedPartition: ...

    def log(self, part: LoggedSlice, on_read: Callable[[bool], None]) -> None: ...

    def send(
        self,
        changes: Mapping[bytes, bytes | None],
        on_stored: Callable[[MagnetarError | None], None],
    ) -> None: ...


class _PartitionOrder:
    """Slices of a partition in one tenure, in the order in which they leave. ``begun``: slices whose results are not
    all stored, in order, and their last inputs. ``stored``: the last input before those; ``logged``: the last one that
    was written."""

    def __init__(self) -> None:
        self.begun: deque[tuple[WorkSlice, int]] = deque()
        self.stored = self.logged = -1


class SliceLog:
    """Logs the slices of an instance. ``on_logged`` is called with each that counts; its results may leave then.
    ``on_error``: with what ends the instance."""

    def __init__(
        self,
        log: LogOfInputs,
        on_logged: Callable[[WorkSlice], None],
        on_error: Callable[[MagnetarError], None],
    ) -> None:
        self._log = log
        self._on_logged = on_logged
        self._on_error = on_error
        self._waiting: deque[WorkSlice] = deque()
        self._unread = 0
        """Slices that were written and not read back."""
        self._claiming = False
        self._orders: dict[PartitionTenure, _PartitionOrder] = {}
        self._unlogged: Counter[PartitionTenure] = Counter()
        """Slices from before the first use of the state whose results are not stored."""
        self._of_partition: Counter[str] = Counter()
        self._settled = asyncio.Event()
        self._ended = False

    @property
    def busy(self) -> bool:
        """True while slices were not read back."""
        return bool(self._waiting or self._unread)

    def add(self, part: WorkSlice) -> None:
        """Log a slice behind those before it, as soon as its ``pending`` is 1: that stands for the log."""
        self._waiting.append(part)
        if part.done:
            self._of_partition[part.source.topic] += 1
        self.pump()

    def begun_unlogged(self, part: WorkSlice) -> None:
        """Note a slice whose results leave without the log, which are to be stored before the log begins."""
        assert part.tenure is not None
        self._unlogged[part.tenure] += 1
        part.logged = False

    def begun_again(self, part: WorkSlice) -> None:
        """Note a slice of inputs that were logged before, whose results leave again."""
        assert part.tenure is not None
        order = self._order(part.tenure)
        order.begun.append((part, sequence_of(part.done[-1])))

    def completed(self, part: WorkSlice) -> None:
        """Note that all results of a slice are stored."""
        tenure = part.tenure
        if tenure is None:
            return
        if not part.logged:
            self._unlogged[tenure] -= 1
            if not self._unlogged[tenure]:
                del self._unlogged[tenure]
            self.pump()
            return
        order = self._orders.get(tenure)
        while order is not None and order.begun and not order.begun[0][0].pending:
            order.stored = order.begun.popleft()[1]

    def pump(self) -> None:
        """Write the slices that may be written now."""
        waiting = self._waiting
        while waiting and not self._ended:
            part = waiting[0]
            tenure = part.tenure
            if tenure is not None and self._unlogged.get(tenure):
                if tenure.over:
                    # Its results before are never stored now, and what was computed since cannot be taken back.
                    self._fail(SupersededError(f"{part.source.topic} was lost"))
                return
            if part.pending > 1 or self._claiming:
                return
            if tenure is not None and part.done and not tenure.claimed:
                self._claim(part, tenure)
                return
            waiting.popleft()
            if tenure is None or not part.done:
                # A trigger's: it belongs to no input.
                self._log.send(part.changes, self._answered)
                self._settled.set()
                self._on_logged(part)
            else:
                self._write(part, tenure)

    def _write(self, part: WorkSlice, tenure: PartitionTenure) -> None:
        partition = part.source.topic
        try:
            sequences = [sequence_of(message) for message in part.done]
            results = {sequence_of(message): data for message, data in part.results}
        except MagnetarError as error:
            self._fail(error)
            return
        order, last = self._order(tenure), sequences[-1]
        if sequences[0] <= max(tenure.logged, order.logged):
            self._fail(SupersededError(f"{partition}: inputs are out of order"))
            return
        order.logged = last
        logged = LoggedSlice("", 0, partition, last, order.stored, part.changes, results)
        order.begun.append((part, last))
        self._unread += 1
        self._log.log(logged, lambda counts: self._read_back(part, counts))

    def _claim(self, part: WorkSlice, tenure: PartitionTenure) -> None:
        """Claim the partition of the first slice since the state is used."""
        self._claiming = True

        def on_read(counts: bool) -> None:
            self._claiming = False
            tenure.claimed = True
            partition = part.source.topic
            known = self._log.logged(partition).last
            if not counts or known >= sequence_of(part.done[0]):
                self._fail(SupersededError(f"another instance has processed {partition} meanwhile"))
                return
            self.pump()

        self._log.log(LoggedSlice("", 0, part.source.topic, claim=True), on_read)

    def _order(self, tenure: PartitionTenure) -> _PartitionOrder:
        order = self._orders.get(tenure)
        if order is None:
            order = _PartitionOrder()
            kept = {known: other for known, other in self._orders.items() if not known.over}
            self._orders = {**kept, tenure: order}
        return order

    def _answered(self, error: MagnetarError | None) -> None:
        if error is not None:
            self._fail(error)

    def _fail(self, error: MagnetarError) -> None:
        self._ended = True
        self._settled.set()
        self._on_error(error)

    def _read_back(self, part: WorkSlice, counts: bool) -> None:
        """Handle what became of a slice in the order of the topic."""
        self._unread -= 1
        if not counts:
            topic = part.source.topic
            self._fail(SupersededError(f"another instance has processed {topic} meanwhile"))
            return
        self._leave(part.source.topic)
        if not self._ended:
            self._on_logged(part)

    def _leave(self, partition: str) -> None:
        self._of_partition[partition] -= 1
        if not self._of_partition[partition]:
            del self._of_partition[partition]
        self._settled.set()

    async def leave(self, partition: str) -> None:
        """Wait until what was processed of a lost partition is logged. Cancel-safe."""
        self.pump()
        await self.settled(partition)

    async def settled(self, partition: str = "") -> None:
        """Wait until all slices, or those of a partition, were read back, or the instance ends. Cancel-safe."""
        while not self._ended and (self._of_partition.get(partition) if partition else self.busy):
            self._settled.clear()
            await self._settled.wait()
