"""Brokers start and end under load, ledgers roll and are trimmed: the promises of delivery hold."""

import asyncio
import random

import pytest

from engine.base.ids import Position
from engine.managed.ledger import InitialPosition
from engine.managed.settings import ManagedSettings
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import LAZY, NAME, Brokers, Sink, rolling, texts

pytestmark = pytest.mark.virtual_time

SMALL = ManagedSettings(cache_bytes_max=60, cursor_persist_interval_s=3600, retry_initial_s=0.02)


@pytest.mark.parametrize("seed", range(6))
async def test_confirmed_is_delivered_until_its_acknowledgement_is_confirmed(
    brokers: Brokers, seed: int
) -> None:
    chance = random.Random(seed)
    confirmed: dict[Position, bytes] = {}
    acknowledged: set[Position] = set()  # confirmed to the consumer
    attempted: set[Position] = set()  # acknowledged at all: may or may not be delivered again
    number = 0
    for _ in range(5):
        factory = brokers.broker(chance.choice((LAZY, SMALL)))
        ledger = await factory.open(NAME, rolling(chance.randint(2, 9)))
        cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
        sink = Sink()
        for _ in range(chance.randint(1, 12)):
            count = chance.randint(1, 4)
            ledger.append(run_of(*[b"m%d" % (number + i) for i in range(count)]), sink)
            number += count
            if chance.random() < 0.4:
                await asyncio.sleep(0.002)  # time: drawn; some appends are stored before the next
        if chance.random() < 0.5:
            await sink.settle(1)
        delivered: dict[Position, bytes] = {}
        while views := await cursor.read(chance.randint(1, 9), chance.choice((1, 1000))):
            places = [Position(v.ledger_id, v.first + i) for v in views for i in range(v.count)]
            delivered.update(zip(places, texts(views), strict=True))
        noted = dict(
            zip((Position(*place) for place in sink.positions), sink.payloads, strict=True)
        )
        confirmed.update(noted)
        assert list(delivered) == sorted(delivered)
        assert not acknowledged & delivered.keys()
        missing = confirmed.keys() - attempted - delivered.keys() - noted.keys()
        assert not missing
        assert all(
            delivered[place] == confirmed[place] for place in delivered.keys() & confirmed.keys()
        )
        batch = [place for place in delivered if chance.random() < 0.7]
        chance.shuffle(batch)
        cursor.acknowledge(batch)
        if chance.random() < 0.7:
            await cursor.persisted()
            acknowledged |= set(batch)
        more = [place for place in delivered if chance.random() < 0.2]
        cursor.acknowledge(more)
        attempted |= {*batch, *more}
        if chance.random() < 0.6:
            brokers.crash(factory)
        elif chance.random() < 0.5:
            await factory.close()
    ledger = await brokers.broker().open(NAME, rolling(5))
    left = []
    while views := await ledger.cursors["s"].read(100, 10_000):
        left += [Position(v.ledger_id, v.first + i) for v in views for i in range(v.count)]
    assert not acknowledged & set(left)
    assert not confirmed.keys() - attempted - set(left)
    await ledger.cursors["s"].clear()
    await ledger.trim()
    assert len(ledger.stats().ledgers) == 1


async def test_deleting_a_cursor_under_write_leaves_the_topic_alone(brokers: Brokers) -> None:
    ledger = await brokers.broker().open(NAME, rolling(100))
    for i in range(20):
        cursor = await ledger.open_cursor("s", InitialPosition.EARLIEST)
        sink = Sink()
        ledger.append(run_of(b"a", b"b"), sink)
        await sink.settle(2)
        cursor.acknowledge([Position(*sink.positions[0])])
        waiting = asyncio.get_running_loop().create_task(cursor.persisted())
        await asyncio.sleep(0.0003 * i)  # time: the deletion comes at each moment of the write
        await ledger.delete_cursor("s")
        await asyncio.gather(waiting, return_exceptions=True)
    assert not ledger.ended
    assert ledger.cursors == {}
