"""Logs of transactional acknowledgements in memory, and a subscription over a shelf that has one."""

import asyncio
from typing import cast

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.base.ranges import words_of
from engine.base.slices import Slice
from engine.base.tasks import TaskScope
from engine.broker.dispatch.consumer import Consumer
from engine.broker.policies import TopicPolicies
from engine.broker.settings import DataPathSettings
from engine.broker.topics.subscriptions.pending_host import SubscriptionOfPending
from engine.broker.transactions.pending.pending_ack_handle import PendingAckHandle
from engine.broker.transactions.pending.pending_log import log_name
from engine.broker.transactions.ports import StatedAck
from engine.broker.transactions.txn_id import TxnId
from engine.managed.ack_state import AckState
from engine.managed.cursors.cursor import Cursor
from engine.managed.errors import AppendFailedError
from engine.managed.ledger import ManagedLedger
from engine.managed.writing.appends import AppendSink
from tests.support.shelf import READ_S, Reading, Shelf


class MemoryLedger:
    """The managed ledger of a log as one owner has it open. Appends are stored after READ_S."""

    def __init__(self, shelf: Shelf, acks: AckState) -> None:
        self._shelf = shelf
        self._acks = acks
        self.ended = False
        self.fails = ""
        """"unknown" when appends fail and are stored, "lost" when they are not; empty when they succeed."""

    def append(self, run: Slice, sink: AppendSink) -> None:
        asyncio.get_running_loop().call_later(READ_S, self._store, run, sink)

    def _store(self, run: Slice, sink: AppendSink) -> None:
        if self.ended or self.fails == "lost":
            sink.append_failed(run, 0, AppendFailedError("the log ended"))
            return
        positions = self._shelf.append([run.entry(i) for i in range(run.count)], [1] * run.count)
        run.ledger_id, run.first = positions[0]
        if self.fails:
            sink.append_failed(run, 0, AppendFailedError("outcome unknown"))
        else:
            sink.appended(run, 0, run.count)

    async def open_cursor(self, name: str, initial: object) -> Cursor:
        await asyncio.sleep(READ_S)
        return Cursor(name, self._acks, self._shelf.entries, {}, None)

    def abandon(self) -> None:
        self.ended = True

    async def close(self) -> None:
        self.ended = True


class MemoryLogs:
    """``PendingAckLogs`` in memory. Opening a log fences its previous owner."""

    def __init__(self) -> None:
        self.shelves: dict[str, tuple[Shelf, AckState]] = {}
        self.opened: dict[str, MemoryLedger] = {}
        self.deleted: list[str] = []

    async def open(
        self, topic: TopicName, subscription: str, policies: TopicPolicies, *, make: bool
    ) -> ManagedLedger | None:
        name = log_name(topic, subscription)
        await asyncio.sleep(READ_S)
        if name not in self.shelves:
            if not make:
                return None
            self.shelves[name] = Shelf(), AckState()
        if name in self.opened:
            self.opened[name].ended = True
        self.opened[name] = ledger = MemoryLedger(*self.shelves[name])
        return cast(ManagedLedger, ledger)

    async def delete(self, topic: TopicName, subscription: str) -> None:
        name = log_name(topic, subscription)
        await asyncio.sleep(READ_S)
        self.deleted.append(name)
        self.shelves.pop(name, None)
        if name in self.opened:
            self.opened.pop(name).ended = True

    @property
    def only(self) -> MemoryLedger:
        """The one open log."""
        (ledger,) = self.opened.values()
        return ledger

    def records(self) -> list[bytes]:
        """Return the entries of the one log that are still needed."""
        ((shelf, acks),) = self.shelves.values()
        return [shelf.entry(i) for i in range(len(shelf.places)) if not acks.is_acknowledged(i)]


class PendingReading(Reading):
    """A subscription with transactional acknowledgements over entries in memory."""

    def __init__(
        self,
        settings: DataPathSettings | None = None,
        tail_bytes: int = 1 << 20,
        logs: MemoryLogs | None = None,
        *,
        fresh: bool = False,
    ) -> None:
        super().__init__(settings or DataPathSettings(), tail_bytes)
        self.logs = logs or MemoryLogs()
        self.topic.scope = TaskScope("pending")
        self.topic.compaction = None
        self._fresh = fresh
        self.attach_pending()

    def attach_pending(self) -> None:
        """Give the subscription a new handle of its log, as a load of the topic does."""
        subscription = self.subscription
        host = SubscriptionOfPending(
            self.topic, self.cursor, subscription.dispatch, subscription.cursor_advanced
        )
        subscription.pending_acks = PendingAckHandle(
            host, self.logs, self.topic.context, fresh=self._fresh
        )

    @property
    def pending(self) -> PendingAckHandle:
        assert self.subscription.pending_acks is not None
        return self.subscription.pending_acks

    async def acknowledge(
        self, consumer: Consumer, txn: TxnId, *positions: Position, cumulative: bool = False
    ) -> None:
        acks = [StatedAck(position) for position in positions]
        await self.subscription.acknowledge_in(txn, consumer, acks, cumulative=cumulative)

    async def acknowledge_part(
        self, consumer: Consumer, txn: TxnId, position: Position, kept: int, batch_size: int
    ) -> None:
        ack = StatedAck(position, words_of(kept), batch_size)
        await self.subscription.acknowledge_in(txn, consumer, [ack], cumulative=False)

    async def commit(self, txn: TxnId, low_water_mark: int = -1) -> None:
        await self.pending.end(txn, commit=True, low_water_mark=low_water_mark)

    async def abort(self, txn: TxnId, low_water_mark: int = -1) -> None:
        await self.pending.end(txn, commit=False, low_water_mark=low_water_mark)
