"""Offsets of streams: under every order of growth, rollover and trims each entry is read once or reported as lost."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engine.base.ids import Position
from spark_jobs.pulsar_source.offsets import (
    StoredLedger,
    TopicLedgers,
    TopicOffset,
    advanced,
    ahead,
    batch_ranges,
    entries_within,
    of_json,
    shares,
    to_json,
)
from spark_jobs.pulsar_source.partitions import LedgerRange

TOPIC = "persistent://a/b/c"
Entry = tuple[int, int]


def entries_of(ranges: list[LedgerRange]) -> list[Entry]:
    return [(r.ledger_id, entry) for r in ranges for entry in range(r.first, r.last + 1)]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 6)),
        st.tuples(st.just("roll"), st.just(0)),
        st.tuples(st.just("trim"), st.integers(0, 2)),
        st.tuples(st.just("look"), st.integers(1, 8)),
    ),
    max_size=30,
)


def known(ledgers: list[list[int]], creation: int = 1) -> TopicLedgers:
    last = len(ledgers) - 1
    stored = (
        StoredLedger(number, entries, entries * 10, closed_ms=int(i < last))
        for i, (number, entries) in enumerate(ledgers)
    )
    return TopicLedgers(TOPIC, -1, creation, tuple(stored))


@given(STEPS)
def test_each_entry_is_read_once_or_its_loss_is_reported(steps: list[tuple[str, int]]) -> None:
    ledgers = [[0, 0]]
    written: list[Entry] = []
    trimmed: set[Entry] = set()
    read: list[Entry] = []
    offset: TopicOffset | None = None
    known_entries: set[Entry] = set()
    lost = False
    for what, count in [*steps, ("look", 1000)]:
        if what == "write":
            number, first = ledgers[-1]
            written += [(number, first + i) for i in range(count)]
            ledgers[-1][1] += count
        elif what == "roll":
            ledgers.append([ledgers[-1][0] + 3, 0])
        elif what == "trim":
            for number, entries in ledgers[: min(count, len(ledgers) - 1)]:
                trimmed |= {(number, i) for i in range(entries)}
            del ledgers[: min(count, len(ledgers) - 1)]
        else:
            now = known(ledgers)
            coming = ahead(offset, now)
            missed = {entry for entry in known_entries - set(read) if entry in trimmed}
            assert bool(coming.lost) == bool(missed)
            lost = lost or bool(missed)
            taken = min(count, coming.entries)
            after = advanced(coming, taken)
            ranges, reason = batch_ranges(coming.offset, after, now)
            assert reason == ""
            assert len(entries_of(ranges)) == taken
            read += entries_of(ranges)
            known_entries = set(written) - trimmed
            offset = TopicOffset.of_json(after.to_json())
    assert len(set(read)) == len(read)
    assert read == sorted(read)
    assert set(written) - trimmed <= set(read)
    assert lost or not (known_entries - set(read))


def test_a_batch_is_the_same_later_and_names_what_is_missing() -> None:
    start, end = TopicOffset(Position(0, 2), 2, 0, 1), TopicOffset(Position(6, 1), 9, 0, 1)
    later = known([[0, 5], [3, 3], [6, 9], [9, 9]])
    entries = [(0, 2), (0, 3), (0, 4), (3, 0), (3, 1), (3, 2), (6, 0)]
    ranges, reason = batch_ranges(start, end, later)
    assert (entries_of(ranges), reason) == (entries, "")
    ranges, reason = batch_ranges(start, end, known([[3, 3], [6, 9]]))
    assert entries_of(ranges) == entries[3:]
    assert reason == (
        "3 of the 7 entries from 2 of ledger 0 to before entry 1 of ledger 6 were trimmed before they were read; of"
        " their ledgers the topic still has: 3, 6"
    )
    at_end = TopicOffset(Position(0, 5), 2, 0, 1)
    assert batch_ranges(at_end, replace(end, read=6), known([[3, 3], [6, 9]]))[1] == ""
    _, reason = batch_ranges(start, end, None)
    assert reason == "the topic was deleted before 7 of its entries were read"


def test_a_recreated_topic_is_read_from_its_beginning() -> None:
    again = known([[30, 4]], creation=2)
    coming = ahead(TopicOffset(Position(0, 2), 2, 3, 1), again)
    assert (coming.lost, coming.entries) == ("", 4)
    after = advanced(coming, 4)
    ranges, reason = batch_ranges(TopicOffset(Position(0, 2), 2, 3, 1), after, again)
    assert (len(entries_of(ranges)), reason) == (4, "")


def test_a_ledger_that_ends_before_what_was_read_is_reported() -> None:
    coming = ahead(TopicOffset(Position(0, 9), 9, 0, 1), known([[0, 5], [3, 2]]))
    assert coming.lost == "ledger 0 ends with entry 4, but entries up to 8 of it were read"
    assert entries_of(coming.ranges) == [(3, 0), (3, 1)]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(1, 60))
def test_a_limit_is_never_exceeded_and_always_makes_progress(sizes: list[int], most: int) -> None:
    topics = [
        ahead(
            TopicOffset(Position(0, 0), creation=1), known([[0, size // 2], [3, size - size // 2]])
        )
        for size in sizes
    ]
    counts = shares(topics, most, None)
    assert sum(counts) <= most
    assert all(count <= coming.entries for count, coming in zip(counts, topics, strict=True))
    assert any(counts) == any(coming.entries for coming in topics)
    by_bytes = shares(topics, None, most * 10)
    assert sum(by_bytes) <= max(most, 1)
    if sum(sizes) <= most:
        assert counts == by_bytes == sizes


def test_bytes_of_an_open_ledger_are_estimated() -> None:
    ranges = known([[0, 10]]).between(Position(0, 0))
    assert entries_within(ranges, 35) == 3
    unknown = [replace(ranges[0], size=0)]
    assert entries_within(unknown, 3 * 1024) == 3


def test_json_of_an_offset_is_plain_and_complete() -> None:
    offsets = {TOPIC: TopicOffset(Position(5, 17), 100, 3, 7)}
    stored: Any = to_json(offsets)
    assert stored == {TOPIC: {"at": "5:17", "read": 100, "unread": 3, "creation": 7}}
    assert of_json(stored) == offsets
