"""Lost, doubled and reordered messages by sequence ids, with known answers, however ranges divide the topic."""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from engine.wire.batches import Message, pack_entry
from spark_jobs.jobs.lost_doubled_reordered import LOST_DOUBLED_REORDERED, runs
from spark_jobs.jobs.lost_doubled_reordered.comparing import (
    COLUMNS as COMPARED,
)
from spark_jobs.jobs.lost_doubled_reordered.comparing import MessageIdentity, sides_of
from spark_jobs.jobs.lost_doubled_reordered.job import result_of
from spark_jobs.jobs.lost_doubled_reordered.judging import Judged, judge
from spark_jobs.jobs.lost_doubled_reordered.runs import COLUMNS, Sequences
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.unit.spark_jobs.jobs.packed import BEGIN_MS, HIDDEN, HOSTILE, chunks, opened_of, single

TOPIC = "persistent://t/n/x"
DEFAULTS = {
    key: value["default"]
    for key, value in LOST_DOUBLED_REORDERED.parameters["properties"].items()
    if "default" in value
}


def judged_of(parts: Sequence[bytes], cuts: Sequence[int] = ()) -> list[Judged]:
    bounds = [0, *sorted(cuts), len(parts)]
    rows = []
    for task, (start, stop) in enumerate(pairwise(bounds)):
        sequences = Sequences(TOPIC, 1, task)
        for opened in opened_of(parts[start:stop], COLUMNS, first=start):
            sequences.add(opened)
        rows += sequences.table().to_pylist()
    random.Random(len(rows)).shuffle(rows)
    return list(judge(rows))


def sent(*ids: int, producer: str = "p", at_ms: int | None = None) -> list[bytes]:
    return [
        single(b"", i if at_ms is None else at_ms, producer, sequence_id=number)
        for i, number in enumerate(ids)
    ]


def faults(judged: Judged) -> list[tuple[str, int, int]]:
    return sorted((fault.kind, fault.first, fault.last) for fault in judged.faults)


def test_a_sequence_without_faults_is_one_run_in_each_task() -> None:
    parts = sent(*range(100))
    [judged] = judged_of(parts, [10, 60])
    assert (judged.messages, judged.sessions, judged.faults) == (100, 1, [])
    sequences = Sequences(TOPIC, 1, 0)
    for opened in opened_of(parts, COLUMNS):
        sequences.add(opened)
    assert sequences.table().num_rows == 1


@pytest.mark.parametrize("cuts", [[], [5], list(range(1, 30))])
def test_lost_doubled_and_late_messages_are_distinguished(cuts: list[int]) -> None:
    ids = [*range(20), *range(23, 30), 27, 28, 31, 32, 30, 33, 34]
    [judged] = judged_of(sent(*ids), cuts)
    assert faults(judged) == [("doubled", 27, 28), ("lost", 20, 22), ("reordered", 30, 30)]
    lost = next(fault for fault in judged.faults if fault.kind == "lost")
    assert (lost.position, lost.ms) == ("1:20", BEGIN_MS + 20)


def test_messages_sent_again_after_a_reconnection_are_doubled() -> None:
    [judged] = judged_of([*sent(*range(10)), *sent(*range(6, 15))])
    assert faults(judged) == [("doubled", 6, 9)]
    [same] = judged_of([*sent(0, 1, 2, at_ms=5), *sent(0, 1, 2, 3, at_ms=5)])
    assert faults(same) == [("doubled", 0, 2)]


def test_trimmed_ids_and_new_sessions_are_no_faults() -> None:
    [judged] = judged_of(
        [*sent(*range(50, 60)), *sent(*range(8), at_ms=20), *sent(*range(3), at_ms=30)]
    )
    assert (judged.sessions, judged.faults) == (3, [])


def test_two_sessions_of_one_name_may_be_mixed() -> None:
    [judged] = judged_of(sent(10, 11, 0, 12, 1, 13, 2, 14, 3))
    assert (judged.sessions, judged.faults) == (2, [])


def test_the_same_name_in_another_cluster_is_another_producer() -> None:
    copied = [single(b"", i, sequence_id=i, extra={"replicated_from": "east"}) for i in (0, 1, 3)]
    local, east = judged_of([*sent(0, 1), *copied, *sent(2)])
    assert (local.source, local.faults) == ("", [])
    assert (east.source, faults(east)) == ("east", [("lost", 2, 2)])


def test_ids_that_the_application_sets_are_not_judged() -> None:
    [times] = judged_of(sent(*range(1000, 90000, 1000)))
    assert times.unjudged == "its sequence ids are not consecutive: the application sets them"
    [constant] = judged_of(sent(0, 0, 0, 0))
    assert constant.unjudged == "all its sequence ids are the same"


def test_ids_without_order_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "RUNS_MAX", 5)
    [judged] = judged_of(sent(*(i * 7 % 97 for i in range(97))))
    assert judged.unjudged == "its sequence ids change their order too often"


def test_batches_chunks_and_encrypted_batches_count_their_ids() -> None:
    def batch(first: int, count: int, **more: Any) -> bytes:
        messages = [Message(b"v", sequence_id=first + i) for i in range(count)]
        return pack_entry(messages, producer_name="p", publish_ms=BEGIN_MS, **more)

    [judged] = judged_of([batch(0, 4), batch(4, 3, extra=HIDDEN), batch(7, 2), batch(10, 1)])
    assert (judged.messages, faults(judged)) == (10, [("lost", 9, 9)])
    [in_chunks] = judged_of(chunks(b"x" * 900, 3))
    assert (in_chunks.messages, in_chunks.faults) == (1, [])


def test_hostile_entries_break_nothing() -> None:
    judged = judged_of(HOSTILE)
    assert [j.producer for j in judged] == ["p"]
    for identity in MessageIdentity:
        sides = [
            sides_of(
                opened,
                side=0,
                identity=identity,
                partition=TOPIC,
                ledger_id=1,
                before=0,
            ).num_rows
            for opened in opened_of(HOSTILE, COMPARED[identity])
        ]
        assert sum(sides) == 10


def test_the_result_names_faults_and_places() -> None:
    judged = judged_of(sent(0, 1, 3, 4, 4))
    given = result_of(judged, None, DEFAULTS | {"topic": TOPIC}, [LedgerRange(1, 0, 4)])
    assert given["conclusions"] == [
        "1 message is missing from the sequence ids of producer p: lost, or given up by the producer.",
        "1 message is stored more than once, of producer p: deduplication would refuse them.",
    ]
    facts = {row["key"]: row["value"] for row in given["summary"]}
    assert (facts["lost"], facts["doubled"], facts["reordered"]) == (1, 1, 0)
    table = next(t for t in given["tables"] if t["key"] == "faults")["rows"]
    assert [row[:5] for row in table] == [["lost", "p", 2, 2, "1:2"], ["doubled", "p", 4, 4, "1:4"]]
