"""Entries sent in runs are stored in order, each with one receipt; a producer that ended has a reason."""

import asyncio
from collections.abc import Sequence

import pytest

from engine.base.errors import MagnetarError
from engine.base.ids import Position
from engine.client.broker_link import BrokerLink
from engine.client.errors import LostError, MessageTooLargeError, SentAwayError
from engine.client.raw_producer import RawProducer, ReceiptOrderError
from engine.wire.batches import Message, pack_entry
from engine.wire.errors import REFUSALS, ServerError
from engine.wire.events import Receipt
from tests.support.broker_bench import NAME, Bench, until

pytestmark = pytest.mark.virtual_time


def entry(value: bytes, messages: int = 1) -> bytes:
    return pack_entry([Message(value)] * messages, producer_name="p", publish_ms=1)


async def test_runs_are_stored_in_order_and_answered_one_by_one(
    broker: tuple[Bench, BrokerLink],
) -> None:
    bench, link = broker
    receipts: list[Receipt] = []
    producer = await RawProducer.open(link, NAME.full, name="mine", on_receipts=receipts.extend)
    assert producer.name == "mine"
    for first in range(0, 500, 50):
        numbers = range(first, first + 50)
        producer.send(numbers, [entry(b"%d" % i) for i in numbers])
    producer.send([500], [entry(b"batch", 3)], [3])
    producer.send_chunk(501, entry(b"chunk"))
    assert producer.unanswered == 502
    await producer.drained()
    assert [receipt.sequence_id for receipt in receipts] == list(range(502))
    positions = [receipt.position for receipt in receipts]
    assert positions == sorted(set(positions))
    assert positions[-1] == bench.topic.log.last_confirmed
    [attached] = bench.topic.producers.values()
    assert attached.published.messages.total == 504
    await producer.close()
    assert bench.topic.producers == {}


async def test_entries_too_large_for_the_broker_are_not_sent(
    broker: tuple[Bench, BrokerLink],
) -> None:
    _, link = broker
    producer = await RawProducer.open(link, NAME.full)
    large = bytes(link.max_message_size + 1)
    with pytest.raises(MessageTooLargeError, match=f"{len(large)} bytes is bigger than"):
        producer.send([0, 1], [entry(b"a"), large])
    with pytest.raises(MessageTooLargeError):
        producer.send_chunk(0, large)
    assert producer.unanswered == 0
    producer.send([0], [entry(b"a")])
    await producer.drained()


async def test_producers_of_a_link_receive_their_own_receipts(
    broker: tuple[Bench, BrokerLink],
) -> None:
    _, link = broker
    received: list[list[int]] = [[] for _ in range(3)]

    def into(number: int) -> list[int]:
        return received[number]

    producers = [
        await RawProducer.open(
            link,
            NAME.full,
            on_receipts=lambda receipts, n=i: into(n).extend(r.sequence_id for r in receipts),
        )
        for i in range(3)
    ]
    assert len({producer.name for producer in producers}) == 3
    for number in range(20):
        for producer in producers:
            producer.send([number], [entry(b"x")])
    await asyncio.gather(*(producer.drained() for producer in producers))
    assert received == [list(range(20))] * 3


async def test_a_refused_producer_leaves_nothing_behind(broker: tuple[Bench, BrokerLink]) -> None:
    _, link = broker
    with pytest.raises(REFUSALS[ServerError.InvalidTopicName]):
        await RawProducer.open(link, "bogus://topic")
    assert link.producers == {}


async def test_a_producer_closed_by_the_broker_reports_it_once(
    broker: tuple[Bench, BrokerLink],
) -> None:
    bench, link = broker
    ends: list[MagnetarError] = []
    producer = await RawProducer.open(link, NAME.full, on_end=ends.append)
    await bench.registry.unload(NAME)
    await until(lambda: ends)
    assert isinstance(ends[0], SentAwayError)
    assert ends[0].retriable
    producer.send([1], [entry(b"x")])
    assert producer.unanswered == 0
    with pytest.raises(SentAwayError):
        await producer.drained()
    link.abort()
    await until(lambda: link.closing)
    assert len(ends) == 1


async def test_a_lost_link_ends_its_producers(broker: tuple[Bench, BrokerLink]) -> None:
    _, link = broker
    ends: list[MagnetarError] = []
    producer = await RawProducer.open(link, NAME.full, on_end=ends.append)
    producer.send([1], [entry(b"x")])
    link.abort()
    with pytest.raises(LostError):
        await producer.drained()
    assert [type(end) for end in ends] == [LostError]


@pytest.mark.parametrize("numbers", [[2], [1, 1], [1, 3]])
async def test_a_receipt_out_of_order_is_the_broker_s_fault(
    broker: tuple[Bench, BrokerLink], numbers: Sequence[int]
) -> None:
    _, link = broker
    producer = await RawProducer.open(link, NAME.full)
    producer._unanswered += [1, 2]
    with pytest.raises(ReceiptOrderError):
        producer.receipts([Receipt(producer.producer_id, n, Position(1, n)) for n in numbers])
