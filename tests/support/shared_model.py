"""The model of a Shared subscription, which checks every delivery, and the state when nothing moves."""

import asyncio

from engine.base.ids import Position
from engine.base.ranges import bits_of, words_of
from engine.broker.dispatch.choose.keys import KeyPolicy
from engine.broker.dispatch.consumer import Consumer
from engine.broker.outlet import Moved
from engine.broker.policies import (
    TopicPolicies,
)
from engine.broker.settings import DataPathSettings
from engine.wire import frames
from engine.wire import pulsar_pb2 as pb
from tests.support.broker_bench import Client
from tests.support.shelf import EXACT, READ_S, Reading

REST_S = 200 * READ_S
"""Seconds that are enough for everything that happens without a client's request."""


class Reader(Client):
    """A consumer as its client sees it. ``held`` has its unacknowledged messages (bits) by entry."""

    def __init__(self, model: "SharedModel") -> None:
        super().__init__()
        self.model = model
        self.permits = 0
        self.held: dict[Position, int] = {}
        self.blocked = False

    async def join(self) -> None:
        self.consumer: Consumer = await self.model.reading.join(self, keys=self.model.policy)

    def unacked(self) -> int:
        return sum(due.bit_count() for due in self.held.values())

    def send(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            stop = frames.frame_end(data, at, len(data), 1 << 24)
            command = pb.BaseCommand.FromString(data[slice(*frames.command_span(data, at, stop))])
            message_id = command.message.message_id
            ack_set = list(command.message.ack_set)
            self.model.delivered(
                self, Position(message_id.ledgerId, message_id.entryId), bits_of(ack_set)
            )
            at = stop

    def drop_consumer(self, consumer_id: int, moved: Moved | None = None) -> None:
        self.model.readers.remove(self)


class SharedModel:
    """A Shared subscription. ``due`` has the unacknowledged messages (bits) by entry, ``at_ms`` the delivery times."""

    policy: KeyPolicy | None = None

    def __init__(
        self, settings: DataPathSettings, tail_bytes: int, policies: TopicPolicies = EXACT
    ) -> None:
        self.reading = Reading(settings, tail_bytes, policies=policies)
        self.subscription = self.reading.subscription
        self.readers: list[Reader] = []
        self.due: dict[Position, int] = {}
        self.whole: dict[Position, int] = {}
        self.at_ms: dict[Position, int] = {}
        self.blocked = False
        self.moving = False
        self.unseen = 0
        """Entries acknowledged that no reader held. They may count as delayed until the dispatcher looks for them."""
        self._reader_max = policies.dispatch.unacked_per_consumer
        self._all_max = policies.dispatch.unacked_per_subscription

    @property
    def places(self) -> list[Position]:
        """All entries, in order."""
        return list(self.whole)

    def unacked(self) -> int:
        return sum(reader.unacked() for reader in self.readers)

    # --- what happens ---------------------------------------------------------------------------

    def publish(self, entries: int, messages: int, delay_ms: int | None) -> None:
        for position in self.append(entries, messages, delay_ms):
            self.due[position] = self.whole[position] = (1 << messages) - 1
            self.at_ms[position] = 0 if delay_ms is None else self.reading.now_ms + delay_ms
        self.subscription.dispatch.wake()

    def append(self, entries: int, messages: int, delay_ms: int | None) -> list[Position]:
        return self.reading.append(entries, messages, delay_ms)

    def check_order(self, reader: Reader, position: Position) -> None:
        """Check the order of an entry that ``reader`` is about to hold: any order is right here."""

    def may_wait(self, position: Position) -> bool:
        """Return whether there is a reason not to send an entry although a reader could receive one."""
        return False

    def delivered(self, reader: Reader, position: Position, ack_set: int) -> None:
        """Check and record an entry that the broker sent."""
        if self.moving:
            return  # the reader is about to be disconnected
        assert position in self.due, "acknowledged, and delivered again"
        assert self.at_ms[position] <= self.reading.now_ms, "before its time"
        assert not any(position in holder.held for holder in self.readers), "out twice"
        assert reader in self.readers, "to a reader that left"
        assert reader.permits > 0, "without a permit"
        assert not reader.blocked, "beyond what may be unacknowledged at the consumer"
        assert not self.blocked, "beyond what may be unacknowledged"
        assert (ack_set or self.whole[position]) == self.due[position], "not what is due of it"
        self.check_order(reader, position)
        reader.held[position] = self.due[position]
        reader.permits -= self.due[position].bit_count()
        self._block()

    def _block(self) -> None:
        """Block what reached its limit: a reader until it holds at most half of it, all until less than half."""
        for reader in self.readers:
            limit = self._reader_max
            reader.blocked = _still(reader.blocked, reader.unacked(), limit, limit // 2)
        limit = self._all_max
        self.blocked = _still(self.blocked, self.unacked(), limit, max(limit // 2, 1) - 1)

    async def join(self, permits: int) -> None:
        reader = Reader(self)
        self.readers.append(reader)
        await reader.join()
        self.flow(reader, permits)

    def flow(self, reader: Reader, permits: int) -> None:
        if permits:
            reader.permits += permits
            self.subscription.flow(reader.consumer, permits)

    def leave(self, reader: Reader) -> None:
        self.readers.remove(reader)
        self._block()
        self.subscription.detach(reader.consumer)

    def acknowledge(self, by: Reader, positions: list[Position]) -> None:
        for position in positions:
            self._done(position, 0)
        self._block()
        self.subscription.acknowledge(by.consumer, positions)

    def acknowledge_partly(self, by: Reader, position: Position, left: int) -> None:
        """Acknowledge the due messages of an entry except those in ``left``."""
        left &= self.due[position]
        self._done(position, left)
        self._block()
        if left:
            self.subscription.acknowledge_partly(by.consumer, position, words_of(left))
        else:
            self.subscription.acknowledge(by.consumer, [position])

    def _done(self, position: Position, left: int) -> None:
        holder = next((reader for reader in self.readers if position in reader.held), None)
        if left:
            self.due[position] = left
            if holder is not None:
                holder.held[position] = left
            return
        if self.due.pop(position, 0) and holder is None:
            self.unseen += 1
        if holder is not None:
            del holder.held[position]

    def give_back(self, reader: Reader, positions: list[Position] | None) -> None:
        for position in list(reader.held) if positions is None else positions:
            del reader.held[position]
        self._block()
        self.subscription.redeliver(reader.consumer, positions, None)

    async def skip(self, entries: int) -> None:
        self._administer(sorted(self.due)[:entries])
        await self.subscription.moves.skip(entries)

    async def clear(self) -> None:
        self._administer(list(self.due))
        await self.subscription.moves.clear()
        self.unseen = 0

    async def expire(self, position: Position) -> None:
        self._administer([p for p in self.due if p <= position])
        self.subscription.moves.pass_over(position)

    def _administer(self, positions: list[Position]) -> None:
        for position in positions:
            self._done(position, 0)
        self._block()

    async def reset(self, position: Position, left: int) -> None:
        """Move the cursor to ``position``. ``left``: the messages of its batch that are due; 0: all of them."""
        self.moving = True
        await self.subscription.moves.reset(position, words_of(left & self.whole[position]))
        self.moving = False
        assert not self.readers
        self.blocked = False
        now_ms = self.reading.now_ms
        # Stored runs are loaded again, with what lies before the new place.
        self.unseen = sum(p < position and self.at_ms[p] > now_ms for p in self.whole)
        self.due = {p: bits for p, bits in self.whole.items() if p >= position}
        self.due[position] = left & self.whole[position] or self.whole[position]

    # --- what must hold -------------------------------------------------------------------------

    def check(self) -> None:
        """Check what holds at any time."""
        for reader in self.readers:
            assert reader.consumer.permits == reader.permits
            assert reader.consumer.unacked == reader.unacked()
            assert reader.consumer.blocked == reader.blocked
        assert self.subscription.dispatch.state.blocked == self.blocked
        assert self.reading.cursor.backlog_entries() == len(self.due)

    async def rest(self) -> None:
        """Wait until nothing moves. Then check that entries wait only for a reason, and that it is the reported one."""
        await asyncio.sleep(REST_S)
        for _ in range(100 * len(self.whole)):
            since = [self.reading.now_ms - at_ms for at_ms in self.at_ms.values()]
            just_due = any(0 <= ms < 20 for ms in since)
            if not just_due and self.subscription.dispatch.state.paused_for != "read":
                break
            await asyncio.sleep(READ_S)
        self.check()
        subscription, now_ms = self.subscription, self.reading.now_ms
        if self.blocked:
            assert subscription.dispatch.state.paused_for == "acks"
        able = [reader for reader in self.readers if reader.permits > 0 and not reader.blocked]
        if not able or self.blocked:
            return
        held = {p for reader in self.readers for p in reader.held}
        waiting = [p for p in self.due if p not in held]
        ready = [p for p in waiting if self.at_ms[p] <= now_ms]
        stuck = [p for p in ready if not self.may_wait(p)]
        assert not stuck, f"{stuck} wait without a reason"
        if ready:
            return
        assert len(waiting) <= subscription.dispatch.state.delayed <= len(waiting) + self.unseen
        assert subscription.dispatch.state.replaying == 0
        if not self.unseen:
            assert subscription.dispatch.state.paused_for == ("time" if waiting else "append")

    async def finish(self) -> None:
        """Check that everything unacknowledged arrives when the readers receive and acknowledge all."""
        if not self.readers:
            await self.join(1)
        for _ in range(10 * len(self.whole) + 10):
            for reader in self.readers:
                self.flow(reader, 50)
            await self.rest()
            for reader in self.readers:
                self.acknowledge(reader, list(reader.held))
            if not self.due:
                break
            later = [self.at_ms[p] - self.reading.now_ms for p in self.due]
            await asyncio.sleep(max(min(later), 0) / 1000)
        assert not self.due, "never delivered"
        await self.rest()


def _still(blocked: bool, unacked: int, limit: int, free: int) -> bool:
    """Return whether a limit blocks. A block ends when at most ``free`` messages are held."""
    if not limit:
        return False
    return unacked > free if blocked else unacked >= limit
