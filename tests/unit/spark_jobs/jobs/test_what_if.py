"""Storage with other codecs, batches and retention, on messages whose answers are known."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from engine.ledger.ledger_metadata import LedgerMetadata, Segment
from engine.wire.batches import pack_entry
from spark_jobs.jobs.kit.stored import StoredLedger, StoredTopic
from spark_jobs.jobs.what_if import WHAT_IF
from spark_jobs.jobs.what_if.job import DAY_MS, Growth, chosen, growth_of, result_of
from spark_jobs.jobs.what_if.packing import COLUMNS, batches_of, cells_of, messages_of, spread
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.unit.spark_jobs.jobs.packed import BEGIN_MS, HIDDEN, HOSTILE, opened_of, single

DEFAULTS = {
    key: value["default"]
    for key, value in WHAT_IF.parameters["properties"].items()
    if "default" in value
}
TOPIC = "persistent://t/n/x"
GROWTH = Growth(stored=10_000, copies=20_000, daily=1e9, span_ms=10 * DAY_MS)


def result(parts: Sequence[bytes], growth: Growth = GROWTH, **parameters: Any) -> Any:
    cells = cells_of(opened_of(parts, COLUMNS), TOPIC)
    given = DEFAULTS | {"topic": TOPIC} | parameters
    return result_of(cells, growth, given, [LedgerRange(1, 0, len(parts) - 1)], BEGIN_MS)


def rows(given: Any, key: str) -> list[Any]:
    return next(table["rows"] for table in given["tables"] if table["key"] == key)


def facts(given: Any) -> dict[str, Any]:
    return {row["key"]: row["value"] for row in given["summary"]}


def test_each_codec_and_batch_size_stores_what_packing_makes() -> None:
    parts = [
        single(json.dumps({"id": i, "text": "lorem ipsum " * 5}).encode(), key=f"k{i}")
        for i in range(300)
    ]
    given = result(parts)
    sizes = {(row[0], row[1]): row[2] for row in rows(given, "packing")}
    assert len(sizes) == 20
    [opened] = opened_of(parts, COLUMNS)
    messages = [message for message, _ in messages_of(opened)]
    for batch in (1, 10):
        expected = sum(
            len(
                pack_entry(
                    part,
                    producer_name="cluster-1-100",
                    publish_ms=BEGIN_MS,
                    batched=batch > 1,
                    compression=3,
                )
            )
            for part in batches_of(messages, batch)
        )
        assert sizes["ZSTD", batch] == pytest.approx(expected / 300)
    assert sizes["ZSTD", 1000] < sizes["ZSTD", 10] < sizes["NONE", 1]
    now = facts(given)["stored_per_message"]
    assert now == pytest.approx(sum(map(len, parts)) / 300, abs=0.1)
    assert sizes["NONE", 1] == pytest.approx(now, rel=0.15)
    assert "would store" in given["conclusions"][0]


def test_retention_and_the_full_disk_follow_from_the_growth() -> None:
    given = result([single(b"x" * 100)], disk_free_gb=20)
    assert [row[:2] for row in rows(given, "retention")] == [
        [7, 14 * 10**9],
        [30, 60 * 10**9],
        [90, 180 * 10**9],
    ]
    assert [row[3] for row in rows(given, "retention")] == ["yes", "no", "no"]
    assert facts(given)["full"] == BEGIN_MS + 10 * DAY_MS
    assert any(
        text.startswith("The free 20 GB are used in 10 days") for text in given["conclusions"]
    )
    unknown = result([single(b"x")])
    assert facts(unknown)["full"] is None
    assert any("set disk_free_gb" in text for text in unknown["conclusions"])


def test_growth_is_the_size_by_the_age_of_the_oldest_message() -> None:
    def topic(name: str, *sizes: int) -> StoredTopic:
        metadata = LedgerMetadata(3, 2, 2, (Segment(0, ("a", "b", "c")),))
        ledgers = (StoredLedger(i, 10, n, 0, False, True, metadata) for i, n in enumerate(sizes))
        return StoredTopic(name, tuple(ledgers), ())

    sampled = cells_of(opened_of([single(b"x")], COLUMNS), TOPIC)
    now_ms = BEGIN_MS + 2 * DAY_MS
    growth = growth_of([topic(TOPIC, 300, 90)], sampled, now_ms)
    assert growth == Growth(390, 780, 195.0, 2 * DAY_MS)
    assert growth.factor == 2
    assert growth_of([topic(TOPIC, 300), topic("other", 300)], sampled, now_ms).daily == 300
    assert growth_of([], sampled, now_ms) == Growth(0, 0, 0.0, 0)


def test_the_first_range_of_each_topic_is_sampled() -> None:
    planned = [LedgerRange(i, 0, 9, topic=f"t{i % 3}") for i in range(90)]
    given = chosen(planned, 4)
    assert {r.ledger_id for r in given} >= {0, 1, 2, 89}
    assert len(given) <= 8


def test_hostile_and_encrypted_entries_break_nothing() -> None:
    assert facts(result(HOSTILE))["samples"] == 7
    hidden = result([single(b"secret", extra=HIDDEN)])
    assert hidden["conclusions"][0].startswith("No message could be packed again")
    assert rows(hidden, "packing") == []


def test_samples_are_spread_with_the_first_and_the_last() -> None:
    assert spread(range(100), 4) == [0, 33, 66, 99]
    assert spread(range(3), 24) == [0, 1, 2]
    assert spread(range(9), 1) == [0]
