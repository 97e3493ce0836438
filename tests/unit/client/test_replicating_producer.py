"""A producer of another cluster's entries: receipts name positions there."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.client.broker_link import BrokerLink
from engine.client.raw_producer import ReceiptOrderError
from engine.client.replicating_producer import NotStoredError, ReplicatingProducer
from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message, pack_entry
from engine.wire.commands import NOWHERE
from engine.wire.errors import ServerError
from engine.wire.events import Receipt
from engine.wire.states import CommandType


class Link:
    """A link that keeps what is sent."""

    max_message_size = 1000
    closing = False

    def __init__(self) -> None:
        self.producers: dict[int, Any] = {}
        self.sent: list[bytes] = []

    def new_id(self) -> int:
        return 1

    def send_parts(self, parts: Sequence[bytes]) -> None:
        self.sent += parts

    async def request(self, request_id: int, frame: bytes, undo: bytes = b"") -> Any:
        class Answer:
            producer_name = "pulsar.repl.us-->eu"
            last_sequence_id = -1
            schema_version = b""

        return Answer


async def attached(stored: list[Position], lost: Position | None = None) -> ReplicatingProducer:
    return await ReplicatingProducer.attach(
        cast(BrokerLink, Link()),
        "persistent://public/default/t",
        origin="us",
        destination="eu",
        on_stored=lambda sent, count: stored.extend(
            Position(sent.ledger_id, sent.first + sent.done - count + k) for k in range(count)
        ),
        on_end=lambda error: None,
        lost=lost,
    )


def send(producer: ReplicatingProducer, positions: Sequence[Position]) -> None:
    """Send an entry of each position."""
    entry = pack_entry([Message(b"v")], producer_name="p", publish_ms=7)
    for position in positions:
        run = Slice(entry, [0, len(entry)], len(entry))
        run.ledger_id, run.first = position
        producer.send_from(run, range(1), b"", {}, 0.0)


def refuse(producer: ReplicatingProducer, sequence_id: int) -> None:
    body = pb.CommandSendError(
        producer_id=1, sequence_id=sequence_id, error=ServerError.ChecksumError, message="no"
    )
    producer.on_command(CommandType.SEND_ERROR, body)


def receipt(ledger: int, entry: int) -> Receipt:
    return Receipt(1, ledger, NOWHERE, entry)


async def test_receipts_are_passed_on_by_position_and_repeated_ones_are_ignored() -> None:
    stored: list[Position] = []
    producer = await attached(stored)
    send(producer, [Position(3, 0), Position(3, 1), Position(5, 0)])
    assert producer.unanswered == 3
    producer.receipts([receipt(3, 0)])
    producer.receipts([receipt(3, 0), receipt(3, 1), receipt(5, 0)])
    assert stored == [(3, 0), (3, 1), (5, 0)]
    assert producer.unanswered == 0


@pytest.mark.parametrize("position", [(3, 1), (4, 0), (3, 9)])
async def test_a_receipt_of_another_position_ends_the_connection(position: tuple[int, int]) -> None:
    stored: list[Position] = []
    producer = await attached(stored)
    send(producer, [Position(3, 0), Position(3, 1)])
    with pytest.raises(ReceiptOrderError):
        producer.receipts([receipt(*position)])
    assert stored == []


SENT = [Position(3, 0), Position(3, 1), Position(3, 2)]
STORED = Position(9, 0)
"""A position in the other cluster."""


async def test_g2_a_refused_entry_that_is_overtaken_and_then_repeated_is_not_stored() -> None:
    stored: list[Position] = []
    first = await attached(stored)
    send(first, SENT)
    refuse(first, 1)
    first.receipts([Receipt(1, 3, STORED, 0), Receipt(1, 3, STORED, 2)])
    assert (stored, first.overtaken) == (SENT[:1], SENT[1])
    await first.close()
    assert first.link.producers == {}
    second = await attached(stored, first.overtaken)
    send(second, SENT[1:])
    second.receipts([receipt(3, 1), receipt(3, 2)])
    assert stored == SENT[:1]
    assert isinstance(second.error, NotStoredError)
    assert str(second.error).startswith("3:1 was refused there")


async def test_a_refused_entry_that_is_stored_later_is_passed() -> None:
    stored: list[Position] = []
    producer = await attached(stored, SENT[0])
    send(producer, SENT[:1])
    producer.receipts([Receipt(1, 3, STORED, 0)])
    assert stored == SENT[:1]


async def test_a_refused_entry_behind_which_nothing_is_stored_is_not_overtaken() -> None:
    stored: list[Position] = []
    producer = await attached(stored)
    send(producer, SENT)
    refuse(producer, 1)
    producer.receipts([Receipt(1, 3, STORED, 0)])
    assert (stored, producer.overtaken) == (SENT[:1], None)


def run_of(count: int) -> Slice:
    """Return a run of entries from 3:7 on."""
    entry = pack_entry([Message(b"v")], producer_name="p", publish_ms=7)
    spans = [k * len(entry) for k in range(count + 1) for _ in range(2)][1:-1]
    run = Slice(entry * count, spans, len(entry) * count)
    run.ledger_id, run.first = 3, 7
    return run


async def test_one_receipt_stands_for_entries_of_several_runs() -> None:
    stored: list[Position] = []
    producer = await attached(stored)
    producer.send_from(run_of(4), range(1, 3), b"", {}, 1.0)
    producer.send_from(run_of(4), range(3, 4), b"", {}, 2.0)
    producer.receipts([Receipt(1, 3, STORED, 8, 2)])
    assert (producer.unanswered, producer.oldest_s) == (1, 2.0)
    producer.receipts([Receipt(1, 3, STORED, 8, 3)])
    assert stored == [(3, 8), (3, 9), (3, 10)]
    assert (producer.unanswered, producer.oldest_s) == (0, None)


async def test_a_receipt_for_more_than_was_sent_ends_the_connection() -> None:
    stored: list[Position] = []
    producer = await attached(stored)
    producer.send_from(run_of(4), range(2), b"", {}, 1.0)
    with pytest.raises(ReceiptOrderError, match="3:9"):
        producer.receipts([Receipt(1, 3, STORED, 7, 3)])


async def test_g2_what_precedes_a_refused_entry_is_passed_when_all_is_repeated() -> None:
    stored: list[Position] = []
    producer = await attached(stored, Position(3, 9))
    producer.send_from(run_of(4), range(4), b"", {}, 1.0)
    producer.receipts([Receipt(1, 3, NOWHERE, 7, 4)])
    assert stored == [(3, 7), (3, 8)]
    assert isinstance(producer.error, NotStoredError)
