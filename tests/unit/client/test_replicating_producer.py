"""A producer of another cluster's entries: receipts name positions there."""

from collections.abc import Sequence
from typing import Any, cast

import pytest

from engine.base.ids import Position
from engine.client.broker_link import BrokerLink
from engine.client.raw_producer import ReceiptOrderError
from engine.client.replicating_producer import ReplicatingProducer
from engine.wire.commands import NOWHERE
from engine.wire.events import Receipt


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


async def attached(stored: list[Position]) -> ReplicatingProducer:
    return await ReplicatingProducer.attach(
        cast(BrokerLink, Link()),
        "persistent://public/default/t",
        origin="us",
        destination="eu",
        on_stored=stored.extend,
        on_end=lambda error: None,
    )


def receipt(ledger: int, entry: int) -> Receipt:
    return Receipt(1, ledger, NOWHERE, entry)


async def test_receipts_are_passed_on_by_position_and_repeated_ones_are_ignored() -> None:
    stored: list[Position] = []
    producer = await attached(stored)
    producer.send_from([Position(3, 0), Position(3, 1), Position(5, 0)], [b"a", b"b", b"c"], None)
    assert producer.unanswered == 3
    producer.receipts([receipt(3, 0)])
    producer.receipts([receipt(3, 0), receipt(3, 1), receipt(5, 0)])
    assert stored == [(3, 0), (3, 1), (5, 0)]
    assert producer.unanswered == 0


@pytest.mark.parametrize("position", [(3, 1), (4, 0), (3, 9)])
async def test_a_receipt_of_another_position_ends_the_connection(position: tuple[int, int]) -> None:
    stored: list[Position] = []
    producer = await attached(stored)
    producer.send_from([Position(3, 0), Position(3, 1)], [b"a", b"b"], None)
    with pytest.raises(ReceiptOrderError):
        producer.receipts([receipt(*position)])
    assert stored == []
