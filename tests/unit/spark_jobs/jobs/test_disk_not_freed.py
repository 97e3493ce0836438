"""The holder of each ledger, on topics with known answers."""

from typing import Any

import pytest

from engine.base.ids import Position
from engine.ledger.ledger_metadata import LedgerMetadata, LedgerState, Segment
from engine.managed.stored.records import CursorState
from engine.managed.writing.ledger_holders import Holder
from spark_jobs.jobs.disk_not_freed.holding import held_ledgers, holds_of
from spark_jobs.jobs.disk_not_freed.job import result_of
from spark_jobs.jobs.kit.retention import Retention
from spark_jobs.jobs.kit.stored import StoredLedger, StoredSubscription, StoredTopic

NOW_MS = 1_750_000_000_000
HOUR_MS = 3_600_000


def ledger(
    ledger_id: int,
    *,
    hours: int = 1,
    entries: int = 10,
    size: int = 1000,
    offloaded: bool = False,
    segments: tuple[Segment, ...] = (Segment(0, ("b1", "b2")),),
) -> StoredLedger:
    metadata = LedgerMetadata(2, 2, 1, segments, LedgerState.CLOSED, entries - 1, size)
    closed_ms = NOW_MS - hours * HOUR_MS if hours else 0
    return StoredLedger(ledger_id, entries, size, closed_ms, offloaded, True, metadata)


def subscription(name: str, at: tuple[int, int] | None) -> StoredSubscription:
    state = None if at is None else CursorState(Position(*at), [], {}, {})
    return StoredSubscription(name, state, 0, "" if at else "its ledger is lost")


def topic(*subscriptions: StoredSubscription, **more: Any) -> StoredTopic:
    """Return a topic of ledgers 1 to 4, closed 4 to 2 hours ago, and the current ledger 4."""
    ledgers = (ledger(1, hours=4), ledger(2, hours=3), ledger(3, hours=2), ledger(4, hours=0))
    return StoredTopic(**{"name": "t", "ledgers": ledgers, "subscriptions": subscriptions} | more)


def holders(stored: StoredTopic, retention: Retention) -> list[Holder]:
    return [item.holder for item in held_ledgers(stored, retention, NOW_MS)]


FREE, SUB, KEPT, CURRENT = Holder.NOTHING, Holder.SUBSCRIPTION, Holder.RETENTION, Holder.CURRENT


@pytest.mark.parametrize(
    ("stored", "retention", "expected"),
    [
        (topic(), Retention(), [FREE, FREE, FREE, CURRENT]),
        (topic(), Retention(-1, -1), [KEPT, KEPT, KEPT, CURRENT]),
        (topic(), Retention(150, -1), [FREE, FREE, KEPT, CURRENT]),
        (topic(subscription("a", (1, 9))), Retention(), [FREE, SUB, SUB, CURRENT]),
        (topic(subscription("a", (1, 8))), Retention(), [SUB, SUB, SUB, CURRENT]),
        (topic(subscription("a", (3, 9))), Retention(), [FREE, FREE, FREE, CURRENT]),
        (
            topic(subscription("a", (4, 9)), subscription("lost", None)),
            Retention(),
            [Holder.UNKNOWN, Holder.UNKNOWN, Holder.UNKNOWN, CURRENT],
        ),
        (
            topic(ledgers=(ledger(1, offloaded=True), ledger(4, hours=0)), doomed=(ledger(9),)),
            Retention(-1, -1),
            [Holder.OFFLOADED, CURRENT, Holder.DELETED],
        ),
    ],
)
def test_each_ledger_is_held_by_the_first_reason(
    stored: StoredTopic, retention: Retention, expected: list[Holder]
) -> None:
    assert holders(stored, retention) == expected


def test_retention_by_time_says_until_when() -> None:
    held = held_ledgers(topic(), Retention(600, -1, "topic"), NOW_MS)
    assert [item.until_ms for item in held] == [
        NOW_MS + (10 - age) * HOUR_MS for age in (4, 3, 2)
    ] + [None]


def test_a_subscription_frees_alone_what_no_other_needs() -> None:
    stored = topic(
        subscription("slow", (1, 3)), subscription("slower", (1, -1)), subscription("ok", (2, 9))
    )
    held = held_ledgers(stored, Retention(), NOW_MS)
    assert [item.subscriptions for item in held[:3]] == [
        ("slower", "slow"),
        ("slower", "slow"),
        ("slower", "slow", "ok"),
    ]
    [hold] = holds_of(held_ledgers(topic(subscription("only", (1, 3))), Retention(), NOW_MS))
    assert (hold.ledgers, hold.held_bytes, hold.alone_bytes) == (3, 6000, 6000)
    assert [hold.alone_bytes for hold in holds_of(held)] == [0, 0, 0]


def test_bytes_are_those_of_each_bookies_copies() -> None:
    segments = (Segment(0, ("b1", "b2", "b3")), Segment(5, ("b1", "b2", "b4")))
    changed = ledger(1, segments=segments)
    assert changed.bytes_by_bookie() == {"b1": 667, "b2": 667, "b3": 333, "b4": 333}
    assert ledger(1).stored_bytes == 2000
    assert ledger(1, entries=0, size=0).bytes_by_bookie() == {}


def test_the_result_adds_up_by_holder_topic_and_bookie() -> None:
    stored = topic(subscription("slow", (1, 9)))
    result = result_of(held_ledgers(stored, Retention(), NOW_MS), {"topic": "t"}, 10)
    facts = {item["key"]: item["value"] for item in result["summary"]}
    assert facts["stored_bytes"] == 8000 == result["input"]["bytes"]
    assert facts["reclaimable_bytes"] == facts["current_bytes"] == 2000
    assert facts["subscription_bytes"] == 4000
    tables = {item["key"]: item["rows"] for item in result["tables"]}
    assert tables["subscriptions"] == [["t", "slow", 4000, 4000, 2, NOW_MS - 3 * HOUR_MS]]
    assert tables["topics"] == [["t", 8000, 2000, 4000, 0, 2000, 0]]
    assert tables["bookies"] == [
        ["b1", 4000, 1000, 2000, 0, 1000, 0],
        ["b2", 4000, 1000, 2000, 0, 1000, 0],
    ]
    assert [row[1] for row in tables["ledgers"]] == [1, 2, 3, 4]
    assert result["conclusions"][0].startswith("4 kB (50 %) are held by a subscription")
    assert "If subscription slow of t acknowledged all" in result["conclusions"][1]
    empty = result_of([], {"topic": "t"}, 10)
    assert empty["conclusions"] == ["No ledger is stored."]
