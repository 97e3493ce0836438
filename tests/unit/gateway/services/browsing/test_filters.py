"""Conditions on messages."""

import pytest

from engine.wire import pulsar_pb2 as pb
from engine.wire.batches import Message
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.opening import BrowsedMessage, Kind

VALUE = '{"order": {"lines": [{"unit price": 12.5, "sku": "A-1"}]}, "paid": true, "by": "Ann"}'


def browsed(value: str = VALUE, kind: Kind = Kind.MESSAGE) -> BrowsedMessage:
    message = Message(value.encode(), key="k", properties={"region": "eu", "empty": ""})
    metadata = pb.MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    return BrowsedMessage(1, 2, kind, message, metadata, None, 100)


def matches(wanted: MessageFilter, value: str = VALUE) -> bool:
    return wanted.matches(browsed(value), lambda _: value)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (MessageFilter(), True),
        (MessageFilter(key="k"), True),
        (MessageFilter(key="K"), False),
        (MessageFilter(producer="p"), True),
        (MessageFilter(producer="q"), False),
        (MessageFilter(properties=(("region", "eu"),)), True),
        (MessageFilter(properties=(("region", None), ("empty", ""))), True),
        (MessageFilter(properties=(("region", "us"),)), False),
        (MessageFilter(properties=(("absent", None),)), False),
        (MessageFilter(text="a-1"), True),
        (MessageFilter(text="a-2"), False),
        (MessageFilter(path=("order", "lines", 0, "sku")), True),
        (MessageFilter(path=("order", "lines", 1)), False),
        (MessageFilter(path=("order", "lines", 0, "unit price"), equals="12.5"), True),
        (MessageFilter(path=("paid",), equals="true"), True),
        (MessageFilter(path=("by",), equals="Ann"), True),
        (MessageFilter(path=("by",), equals='"Ann"'), False),
        (MessageFilter(key="k", text="absent"), False),
    ],
)
def test_a_message_must_meet_every_condition(wanted: MessageFilter, expected: bool) -> None:
    assert matches(wanted) is expected


@pytest.mark.parametrize("value", ["no JSON", "[" * 100_000, "3"])
def test_a_value_without_the_path_does_not_match(value: str) -> None:
    assert not matches(MessageFilter(path=("a",)), value)


def test_a_marker_meets_no_condition() -> None:
    marker = BrowsedMessage(1, 2, Kind.MARKER, None, pb.MessageMetadata(), None, 10)
    assert MessageFilter().matches(marker, lambda _: "")
    assert not MessageFilter(text="a").matches(marker, lambda _: "a")
