"""Backlogs by age, key and hole, against a plain recount of what each subscription has not acknowledged."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from engine.base.slices import Slice
from engine.managed.stored.records import CursorState
from engine.wire.batches import Message, pack_entry
from spark_jobs.analysis import AskHolders
from spark_jobs.jobs.kit.cells import CELLS, added
from spark_jobs.jobs.kit.stored import StoredLedger, StoredSubscription, StoredTopic
from spark_jobs.jobs.who_is_behind.backlog import StoredBacklog, backlog_of
from spark_jobs.jobs.who_is_behind.consumers import asked
from spark_jobs.jobs.who_is_behind.counting import (
    COLUMNS,
    SMALL_GAP,
    cells_of,
    ranked_batches,
    tasks_of,
)
from spark_jobs.jobs.who_is_behind.job import Read, _states, behind_of, duration, result_of
from spark_jobs.pulsar_source.columns import EntryColumns

NOW_MS = 1_750_000_000_000
LEDGERS = ((1, 6), (4, 0), (5, 3), (9, 11))
"""Ids and numbers of entries."""
DEFAULTS: dict[str, Any] = {"topic": "t", "top": 50, "subscription": "", "read": True}
MESSAGES: dict[tuple[int, int], list[tuple[str, int]]] = {
    (ledger_id, entry): [(f"k{(ledger_id + entry + i) % 4}", 10 + i) for i in range(1 + entry % 3)]
    for ledger_id, entries in LEDGERS
    for entry in range(entries)
}
"""Keys and sizes of the messages of each entry."""
PLACES = sorted(MESSAGES)


def published(place: tuple[int, int]) -> int:
    """Return the publish time: the oldest entry is more than a month old."""
    return NOW_MS - 3 * 10**9 // (1 + 5 * PLACES.index(place))


def entry_of(place: tuple[int, int]) -> bytes:
    messages = [Message(b"x" * size, key=key) for key, size in MESSAGES[place]]
    return pack_entry(
        messages,
        producer_name=f"p{place[0]}",
        publish_ms=published(place),
        batched=place[1] % 3 > 0,
        compression=0,
    )


def topic(**states: CursorState | None) -> StoredTopic:
    ledgers = tuple(
        StoredLedger(ledger_id, entries, 100 * entries, 1, False, True, None)
        for ledger_id, entries in LEDGERS
    )
    subscriptions = [
        StoredSubscription(name, state, 7, "" if state else "its ledger is lost")
        for name, state in states.items()
    ]
    return StoredTopic("t", ledgers, tuple(subscriptions))


def analysed(
    stored: StoredTopic,
    entries_max: int = 100,
    read: bool = True,
    holders: AskHolders | None = None,
) -> Any:
    """Return the result as the job puts it together, with Spark's part in this process."""
    backlogs: list[StoredBacklog] = []
    states = _states(stored, "", backlogs, 50)
    cells = [CELLS.empty_table()]
    for task in tasks_of(stored, -1, states, entries_max, 1 << 30):
        span = task.ledger_range
        columns = EntryColumns(COLUMNS)
        parts = [entry_of((span.ledger_id, e)) for e in range(span.first, span.last + 1)]
        spans: list[int] = []
        for part in parts:
            start = spans[-1] if spans else 0
            spans += [start, start + len(part)]
        buf = b"".join(parts)
        run = Slice(buf, spans, len(buf), ledger_id=span.ledger_id, first=span.first)
        cells += [
            cells_of(opened, task.wanted, NOW_MS) for opened in (*columns.add(run), columns.take())
        ]
    counted = pa.Table.from_batches(ranked_batches(added(cells).to_batches(), 50), CELLS)
    known = Read(counted if read else None)
    held = asked(holders, backlogs, behind_of(backlogs, known))
    return result_of(backlogs, known, held, DEFAULTS, NOW_MS)


def rows(result: Any, key: str) -> list[dict[str, Any]]:
    table = next(item for item in result["tables"] if item["key"] == key)
    names = [column["key"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


STATES = st.builds(
    lambda mark, acked, bits: CursorState(
        Position(*PLACES[mark]) if mark >= 0 else Position(-1, -1),
        [(Position(*PLACES[i]), Position(*PLACES[i])) for i in sorted(acked)],
        {Position(*PLACES[i]): mask for i, mask in bits.items() if len(MESSAGES[PLACES[i]]) > 1},
    ),
    st.integers(-1, len(PLACES) - 1),
    st.sets(st.integers(0, len(PLACES) - 1), max_size=6),
    st.dictionaries(st.integers(0, len(PLACES) - 1), st.integers(1, 3), max_size=4),
)


def unacknowledged(state: CursorState) -> list[tuple[tuple[int, int], str, int]]:
    """Return place, key and size of each message that is not acknowledged."""
    acked = {tuple(first) for first, _ in state.ranges}
    return [
        (place, key, size)
        for place in PLACES
        if place > tuple(state.mark_delete) and place not in acked
        for index, (key, size) in enumerate(MESSAGES[place])
        if state.batches.get(Position(*place), -1) >> index & 1
    ]


@given(STATES, STATES, st.integers(1, 7))
def test_messages_not_acknowledged_are_those_of_a_plain_recount(
    first: CursorState, second: CursorState, entries_max: int
) -> None:
    states = {"a": first, "b": second}
    result = analysed(topic(**states), entries_max)
    behind = {row["subscription"]: row for row in rows(result, "subscriptions")}
    keys: dict[tuple[str, str], tuple[int, int]] = {}
    for name, state in states.items():
        left = unacknowledged(state)
        assert (name in behind) == bool(left)
        if not left:
            continue
        assert behind[name]["messages"] == len(left)
        assert behind[name]["entries"] == len({place for place, _, _ in left})
        assert behind[name]["oldest"] == min(published(place) for place, _, _ in left)
        for key, count in Counter(key for _, key, _ in left).items():
            keys[name, key] = count, sum(size for _, k, size in left if k == key)
        ages = next(row for row in rows(result, "ages") if row["subscription"] == name)
        assert sum(value for column, value in ages.items() if column.startswith("from_")) == len(
            left
        )
    listed = rows(result, "keys") if keys else []
    assert {(r["subscription"], r["key"]): (r["messages"], r["bytes"]) for r in listed} == keys
    facts = {item["key"]: item["value"] for item in result["summary"]}
    assert facts["backlog_messages"] == sum(count for count, _ in keys.values())


def test_holes_name_what_holds_the_acknowledged_entries_behind_them() -> None:
    acked = [(Position(5, 0), Position(9, 3)), (Position(9, 6), Position(9, 6))]
    state = CursorState(Position(1, 1), acked)
    result = analysed(topic(slow=state))
    assert [list(row.values())[2:] for row in rows(result, "holes")] == [
        ["1:2", "1:5", 4, 7],
        ["9:4", "9:5", 2, 1],
    ]
    [row] = rows(result, "subscriptions")
    assert (row["mark"], row["first"], row["holes"], row["acknowledged"]) == ("1:1", "1:2", 2, 8)
    assert row["bytes"] == 1000
    assert "2 holes, the first of 4 entries from 1:2 on: they keep 8" in result["conclusions"][1]


def test_without_reading_only_what_metadata_knows_is_shown() -> None:
    result = analysed(topic(slow=CursorState(Position(9, 4))), read=False)
    facts = {item["key"]: item["value"] for item in result["summary"]}
    assert (facts["backlog_entries"], facts["backlog_messages"], facts["oldest_age"]) == (
        6,
        None,
        None,
    )
    [row] = rows(result, "subscriptions")
    assert (row["entries"], row["messages"], row["oldest"]) == (6, None, None)


def test_a_subscription_that_cannot_be_read_is_named_and_not_counted_as_up_to_date() -> None:
    result = analysed(topic(ok=CursorState(Position(9, 10)), lost=None))
    [row] = rows(result, "subscriptions")
    assert (row["subscription"], row["entries"], row["problem"]) == (
        "lost",
        None,
        "its ledger is lost",
    )
    assert result["conclusions"] == [
        "The state of subscription lost of t cannot be read: its ledger is lost."
    ]
    assert analysed(topic(ok=CursorState(Position(9, 10))))["conclusions"] == [
        "No subscription of 1 is behind."
    ]


def consumer(name: str, entries: int | None, oldest: tuple[int, int] | None) -> dict[str, Any]:
    return {
        "name": name,
        "address": "/10.0.0.1:5000",
        "connected_ms": NOW_MS - 5,
        "entries": entries,
        "messages": None if entries is None else 2 * entries,
        "redelivered": 1,
        "oldest": oldest,
        "oldest_ms": oldest and NOW_MS - 9,
        "ranges": [],
    }


def test_backlogs_are_shown_by_consumer_and_what_no_broker_says_is_not_known() -> None:
    answers: dict[str, Any] = {
        "busy": {"consumers": [consumer("a", 5, (5, 2)), consumer("b", 0, None)]},
        "gone": {"consumers": []},
        "silent": "no answer in time",
        "compacted": {"consumers": [consumer("c", None, None)]},
    }

    def holders(names: Sequence[tuple[str, str]]) -> list[Any]:
        assert {topic for topic, _ in names} == {"t"}
        return [answers[subscription] for _, subscription in names]

    state = CursorState(Position(9, 4))
    result = analysed(topic(**dict.fromkeys(answers, state)), holders=holders)
    shown = {(r["subscription"], r["consumer"]): r for r in rows(result, "consumers")}
    busy = shown["busy", "a"]
    assert (busy["address"], busy["entries"], busy["messages"]) == ("10.0.0.1:5000", 5, 10)
    assert (busy["first"], busy["oldest"], busy["known"]) == ("5:2", NOW_MS - 9, "yes")
    assert (shown["busy", "b"]["entries"], shown["busy", "b"]["first"]) == (0, None)
    gone, silent = shown["gone", None], shown["silent", None]
    assert (gone["entries"], gone["known"]) == (0, "no consumer is connected")
    assert (silent["entries"], silent["known"]) == (None, "not known: no answer in time")
    compacted = shown["compacted", "c"]
    assert (compacted["entries"], compacted["messages"]) == (None, None)
    assert compacted["known"].startswith("not known")
    findings = " ".join(result["conclusions"])
    assert "5 entries were sent to its 2 consumers, most to a (5)." in findings
    assert "No consumer is connected." in findings
    assert "not known: no answer in time" in findings


def test_a_job_without_the_gateway_says_that_consumers_are_not_known() -> None:
    [row] = rows(analysed(topic(slow=CursorState(Position(9, 4)))), "consumers")
    assert (row["entries"], row["known"]) == (None, "not known: no broker can be asked here")


def test_many_holes_are_few_tasks_and_large_gaps_are_not_read() -> None:
    entries = 3 * SMALL_GAP
    ledger = StoredLedger(1, entries, entries, 1, False, True, None)
    every_second = [(Position(1, i), Position(1, i)) for i in range(1, 200, 2)]
    gap = [(Position(1, 200), Position(1, 200 + SMALL_GAP + 1))]
    stored = StoredTopic("t", (ledger,), ())
    acks = CursorState(Position(-1, -1), every_second + gap).acks(stored.line())
    tasks = tasks_of(stored, -1, [(0, acks)], 50_000, 1 << 30)
    assert [(t.ledger_range.first, t.ledger_range.last) for t in tasks] == [
        (0, 198),
        (202 + SMALL_GAP, entries - 1),
    ]
    assert len(tasks[0].wanted[0].intervals) == 100
    assert backlog_of("t", "s", stored.line(), acks, 0, 3).holes == 100


@pytest.mark.parametrize(
    ("ms", "text"), [(1500, "1 s"), (180_000, "3 min"), (7_200_000, "2 h"), (10**9, "11 d")]
)
def test_time_spans_are_in_their_largest_unit(ms: int, text: str) -> None:
    assert duration(ms) == text
