"""The state of each key in a change log: the last event counts, and an unreadable event is not treated as absent."""

from typing import Any

import pytest

from engine.base.ids import Position
from engine.base.names import TopicName
from engine.broker.control.change_log import Events
from engine.broker.control.event_schemas import EventSchemas
from engine.tenancy.change_events import SCHEMA, new_event, policies_of, with_policies
from engine.wire.batches import Message, pack_entry
from engine.wire.events import Delivered

EMPTY = new_event(TopicName.parse("a"), "c")
ONE, TWO = (SCHEMA.encode(with_policies(EMPTY, {"maxMessageSize": n})) for n in (1, 2))


def entry(at: int, *messages: tuple[str | None, bytes | None], compression: int = 0) -> Delivered:
    packed = pack_entry(
        [Message(value, key, sequence_id=at) for key, value in messages],
        producer_name="p",
        publish_ms=1,
        compression=compression,
    )
    return Delivered(1, Position(3, at), 0, [], packed)


def empty() -> Events:
    """Return the events of a log without a registered schema: neither the store nor ledgers are read."""
    unused: Any = None
    name = TopicName.parse("public/default/__change_events")
    return Events(EventSchemas(name, unused))


def sizes(events: Events) -> dict[str, int]:
    return {
        key: policies_of(latest.event)["maxMessageSize"] for key, latest in events.latest.items()
    }


def test_the_last_event_of_each_key_counts() -> None:
    events = empty()
    applied = events.take(
        [entry(0, ("a", ONE)), entry(1, ("b", ONE), ("a", TWO)), entry(2, ("b", None))]
    )
    assert sizes(events) == {"a": 2}
    assert [change.key for change in applied] == ["a", "b", "a", "b"]
    assert [change.origin for change in applied] == [("p", 0), ("p", 1), ("p", 1), ("p", 2)]
    first, _, second, gone = applied
    assert (first.before, second.before, second.after) == (None, first.after, events.latest["a"])
    assert second.after is not None
    assert second.after.position == Position(3, 1)
    assert gone.after is None


@pytest.mark.parametrize("compression", range(5))
def test_packed_entries_are_read(compression: int) -> None:
    events = empty()
    events.take([entry(0, ("a", ONE), compression=compression)])
    assert sizes(events) == {"a": 1}


def test_an_unreadable_event_marks_its_key_until_the_next_one() -> None:
    events = empty()
    events.take([entry(0, ("a", ONE)), entry(1, ("a", ONE[:-1]))])
    assert events.latest["a"].unread
    events.take([entry(2, ("a", TWO))])
    assert sizes(events) == {"a": 2}


def test_a_damaged_entry_and_messages_without_key_are_passed_over() -> None:
    events = empty()
    damaged = entry(0, ("a", ONE))
    assert events.take([damaged._replace(entry=damaged.entry[:-1] + b"?")]) == []
    assert events.take([entry(1, (None, ONE))]) == []
    events.take([entry(2, ("a", TWO))])
    assert sizes(events) == {"a": 2}
