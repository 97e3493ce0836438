"""Sequence ids of effectively-once results, and which of them are sent where."""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as some

from engine.base.budget import Budget
from engine.base.ids import Position
from engine.client.client import PulsarClient
from engine.client.consuming.attachment import Attachment
from engine.client.consuming.incoming import Batch, Incoming
from engine.client.producing.outgoing import OutgoingMessage
from engine.client.producing.partition_producer import PartitionProducer, ProducerSettings
from engine.functions.instance.lanes import (
    BATCH_BITS,
    ENTRY_BITS,
    LEDGER_BITS,
    PartitionLane,
    PartitionLanes,
    PositionTooLargeError,
    sequence_of,
)
from engine.functions.instance.user.processing import MessageRun, PartitionTenure
from engine.functions.instance.user.value_codecs import codec_of
from engine.wire import pulsar_pb2 as pb


class Source:
    topic = "persistent://t/n/in"


def message(ledger: int, entry: int, index: int = -1) -> Incoming:
    metadata = pb.MessageMetadata()
    batch = None if index < 0 else Batch(index + 1, 1)
    return Incoming(Source(), Position(ledger, entry), 0, metadata, metadata, b"", batch, index)


POSITIONS = some.tuples(
    some.integers(0, (1 << LEDGER_BITS) - 1),
    some.integers(0, (1 << ENTRY_BITS) - 1),
    some.integers(0, (1 << BATCH_BITS) - 1),
)


@given(POSITIONS, POSITIONS)
def test_sequence_ids_have_the_order_of_positions(
    first: tuple[int, int, int], second: tuple[int, int, int]
) -> None:
    ids = sequence_of(message(*first)), sequence_of(message(*second))
    assert (first < second) == (ids[0] < ids[1])
    assert (first == second) == (ids[0] == ids[1])
    assert 0 <= max(ids) < 1 << 63


@pytest.mark.parametrize(
    "position", [(1 << LEDGER_BITS, 0, 0), (0, 1 << ENTRY_BITS, 0), (0, 0, 1 << BATCH_BITS)]
)
def test_a_position_that_does_not_fit_is_refused_and_named(position: tuple[int, int, int]) -> None:
    ledger, entry, index = position
    with pytest.raises(PositionTooLargeError, match=f"in at {ledger}:{entry}:{index}"):
        sequence_of(message(*position))


class Producer:
    """A producer that keeps what it is given, by sequence id."""

    def __init__(self, stored: int = -1) -> None:
        self.stored_sequence_id = stored
        self.sent: dict[int, bytes] = {}
        self._next = 0

    def resume_at(self, sequence_id: int) -> None:
        assert sequence_id > max(self.sent, default=-1)
        self._next = sequence_id

    def send(self, messages: list[OutgoingMessage]) -> None:
        for outgoing in messages:
            self.sent[self._next] = outgoing.payload
            self._next += 1

    def flush(self) -> None:
        pass


def lane(*producers: Producer, spread: int = 0) -> PartitionLane:
    made = cast("list[PartitionProducer]", list(producers))
    return PartitionLane(PartitionTenure(), made, spread)


def results(*sequences: int, key: str | None = None) -> list[tuple[int, OutgoingMessage]]:
    return [(n, OutgoingMessage(b"%d" % n, ("token", n), key=key)) for n in sequences]


def test_each_result_is_sent_under_its_own_sequence_id() -> None:
    producer = Producer()
    sender = lane(producer)
    sender.send(results(5, 6, 7, 100, 4096))
    sender.send(results(4097, 5000))
    assert producer.sent == {n: b"%d" % n for n in (5, 6, 7, 100, 4096, 4097, 5000)}


def test_a_result_that_is_stored_is_reported_and_not_sent_again() -> None:
    producer = Producer(stored=6)
    stored = lane(producer).send(results(5, 6, 7))
    assert [result.token for result in stored] == [("token", 5), ("token", 6)]
    assert [result.error for result in stored] == [None, None]
    assert producer.sent == {7: b"7"}


def test_a_result_goes_to_the_same_partition_each_time() -> None:
    for spread, key in ((0, None), (1, None), (0, "a"), (1, "b")):
        sent: list[Any] = []
        for _ in range(2):
            producers = Producer(), Producer()
            lane(*producers, spread=spread).send(results(1, 2, key=key))
            sent.append([producer.sent for producer in producers])
        assert sent[0] == sent[1]
        assert sorted(map(len, sent[0])) == [0, 2]


def test_a_lane_with_a_remembered_result_needs_no_check_of_deduplication() -> None:
    assert lane(Producer(), Producer(stored=3)).checked
    assert not lane(Producer(), Producer()).checked


class SilentClient:
    """A client whose brokers do not answer."""

    operation_timeout_s = 60.0

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        self.tasks.append(asyncio.get_running_loop().create_task(work))
        return self.tasks[-1]

    async def patiently(self, attempt: Any, *, timeout_s: float) -> Any:
        await asyncio.Event().wait()


async def test_messages_that_wait_for_a_lane_are_counted_when_it_is_lost() -> None:
    async def nothing(*_: Any) -> None:
        pass

    client, given = SilentClient(), list[MessageRun]()
    lanes = PartitionLanes(
        *(cast("PulsarClient", client), "t/n/f", "persistent://t/n/out", ProducerSettings()),
        *(Budget(1 << 20), given.append, lambda results: None, lambda error: None),
        *(nothing, nothing),
    )
    attachment = cast("Attachment", Source())
    for size in (3, 4):
        messages = [message(1, number) for number in range(size)]
        lanes.receive(attachment, MessageRun(codec_of("", "", {}), messages))
    await asyncio.sleep(0)
    assert lanes.lost(attachment) == 7
    assert lanes.lost(attachment) == 0
    assert given == []
    for task in client.tasks:
        task.cancel()
