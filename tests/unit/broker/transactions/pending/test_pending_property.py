"""Random transactional acknowledgements, ends, hand-backs and reads: nothing pending is delivered, nothing is lost."""

import asyncio
from random import Random

import pytest

from engine.base.ids import Position
from engine.broker.dispatch.consumer import Consumer, SubscriptionType
from engine.broker.errors import ServiceNotReady, TransactionConflict
from engine.broker.settings import DataPathSettings
from engine.broker.transactions.txn_id import TxnId
from tests.support.broker_bench import Client
from tests.support.shelf import READ_S, simulated
from tests.support.transactions.pending_logs import PendingReading

pytestmark = pytest.mark.virtual_time

SETTINGS = DataPathSettings(dispatcher_max_read_batch_size=4)
STEPS = 120


class Walk:
    """One random run, and what has to hold of it."""

    def __init__(self, seed: int, kind: SubscriptionType, tail_bytes: int) -> None:
        self.random = Random(seed)
        self.kind = kind
        self.reading = PendingReading(SETTINGS, tail_bytes)
        self.attached: list[tuple[Consumer, Client]] = []
        self.pending: dict[TxnId, set[Position]] = {}
        self.acknowledged: set[Position] = set()
        self.next_txn = 0

    @property
    def hidden(self) -> set[Position]:
        return self.acknowledged.union(*self.pending.values())

    async def step(self) -> None:
        what = self.random.choices(
            (self.publish, self.join, self.leave, self.ack, self.end, self.back, self.plain_ack),
            (3, 1, 1, 6, 4, 1, 1),
        )[0]
        for _, client in self.attached:
            client.fresh.clear()
        hidden = self.hidden
        await what()
        for _, client in self.attached:
            # What became pending in this step may have been sent in it before.
            assert not (hidden & self.hidden).intersection(client.fresh), what.__name__
        if self.random.random() < 0.5:
            await asyncio.sleep(self.random.choice((0, READ_S / 2, READ_S * 3)))

    async def publish(self) -> None:
        keys = [self.random.choice("abcd") for _ in range(self.random.randint(1, 4))]
        self.reading.append(len(keys), keys=keys)
        self.reading.subscription.dispatch.wake()

    async def join(self) -> None:
        room = 1 if self.kind == SubscriptionType.EXCLUSIVE else 3
        if len(self.attached) < room:
            client = Client()
            consumer = await self.reading.join(client, self.random.choice((2, 1000)), self.kind)
            self.attached.append((consumer, client))

    async def leave(self) -> None:
        if len(self.attached) > 1 or (self.attached and self.random.random() < 0.3):
            consumer, _ = self.attached.pop(self.random.randrange(len(self.attached)))
            self.reading.subscription.detach(consumer)

    async def ack(self) -> None:
        places = self.reading.shelf.places
        if not self.attached or not places:
            return
        txn = self.random.choice([*self.pending, TxnId(0, self.next_txn)])
        self.next_txn += txn.least == self.next_txn
        chosen = set(self.random.sample(places, min(len(places), self.random.randint(1, 3))))
        consumer, _ = self.random.choice(self.attached)
        try:
            await self.reading.acknowledge(consumer, txn, *chosen)
        except TransactionConflict:
            assert chosen & self.hidden
        except ServiceNotReady:
            # Whether it was stored decides the replay.
            await self.reading.pending.ready()
            if self.lost(chosen):
                return
            self.pending.setdefault(txn, set()).update(chosen)
        else:
            assert not chosen & self.hidden
            self.pending.setdefault(txn, set()).update(chosen)

    def lost(self, chosen: set[Position]) -> bool:
        state = self.reading.pending.position_state
        return all(state(place, None) == "NotInPendingAck" for place in chosen)

    async def end(self) -> None:
        if not self.pending:
            return
        txn = self.random.choice([*self.pending])
        commit = self.random.random() < 0.5
        if self.random.random() < 0.2:
            self.reading.logs.only.fails = self.random.choice(("unknown", "lost"))
        while True:
            try:
                await (self.reading.commit(txn) if commit else self.reading.abort(txn))
                break
            except ServiceNotReady:
                continue
        positions = self.pending.pop(txn)
        if commit:
            self.acknowledged |= positions

    async def back(self) -> None:
        if self.attached:
            consumer, _ = self.random.choice(self.attached)
            self.reading.subscription.redeliver(consumer, None, None)

    async def plain_ack(self) -> None:
        if self.attached:
            consumer, client = self.random.choice(self.attached)
            if client.received:
                place = self.random.choice(client.received)
                self.reading.subscription.acknowledge(consumer, [place])
                self.acknowledged.add(place)

    async def finish(self) -> None:
        """End all transactions and check that a consumer receives exactly what is not acknowledged."""
        while self.pending:
            await self.end()
        await self.join()
        for _ in range(2):
            for _, client in self.attached:
                client.fresh.clear()
            for consumer, _ in self.attached:
                self.reading.subscription.flow(consumer, 1000)
                self.reading.subscription.redeliver(consumer, None, None)
            await asyncio.sleep(1)
        got = [place for _, client in self.attached for place in client.fresh]
        due = [place for place in self.reading.shelf.places if place not in self.acknowledged]
        assert set(got) <= set(due)
        for place in due:
            held = [place in consumer.pending for consumer, _ in self.attached if consumer.pending]
            assert place in got or any(held)


@pytest.mark.parametrize("tail_bytes", [1 << 20, 1], ids=["tail", "storage"])
@pytest.mark.parametrize(
    "kind",
    [SubscriptionType.SHARED, SubscriptionType.KEY_SHARED, SubscriptionType.EXCLUSIVE],
    ids=["shared", "key_shared", "exclusive"],
)
@pytest.mark.parametrize("seed", range(8))
@simulated
async def test_random_steps(kind: SubscriptionType, tail_bytes: int, seed: int) -> None:
    walk = Walk(seed, kind, tail_bytes)
    await walk.publish()
    await walk.join()
    for _ in range(STEPS):
        await walk.step()
    await walk.finish()
