"""Usage with known answers: sums by day, topic, namespace and tenant, and what they cost."""

from typing import Any

from spark_jobs.jobs.kit.cells import added
from spark_jobs.jobs.usage import USAGE
from spark_jobs.jobs.usage.counting import DAY_MS, cells_of
from spark_jobs.jobs.usage.job import result_of
from spark_jobs.pulsar_source.partitions import LedgerRange
from tests.unit.spark_jobs.jobs.packed import BEGIN_MS, HOSTILE, chunks, opened_of, single

DAY = BEGIN_MS - BEGIN_MS % DAY_MS
A0, A1, B = (f"persistent://{name}" for name in ("t/n/a-partition-0", "t/n/a-partition-1", "u/m/b"))
DEFAULTS = {
    key: value["default"]
    for key, value in USAGE.parameters["properties"].items()
    if "default" in value
}


def result(
    parts: dict[str, list[bytes]], stored: dict[str, int], from_ms: int = 0, **parameters: Any
) -> Any:
    cells = added(
        cells_of(opened, topic, from_ms)
        for topic, entries in parts.items()
        for opened in opened_of(entries, ())
    )
    return result_of(cells, stored, DEFAULTS | parameters, [LedgerRange(1, 0, 9)])


def rows(given: Any, key: str) -> list[Any]:
    return next(table["rows"] for table in given["tables"] if table["key"] == key)


def test_messages_and_bytes_are_added_up_by_day_and_owner() -> None:
    small, later, large = single(b"x"), single(b"x", DAY_MS), single(b"y" * 1000)
    parts = {A0: [small, later], A1: [small], B: [large]}
    given = result(parts, {A0: 400, A1: 100, B: 3000}, tenant="t")
    assert rows(given, "tenants") == [
        ["u", 1, len(large), 3000, None],
        ["t", 3, 2 * len(small) + len(later), 500, None],
    ]
    topic = "persistent://t/n/a"
    assert [row[:2] for row in rows(given, "topics")] == [[B, 1], [topic, 3]]
    assert [row[:6] for row in rows(given, "days")] == [
        [DAY, "t", "t/n", topic, 2, 2 * len(small)],
        [DAY, "u", "u/m", B, 1, len(large)],
        [DAY + DAY_MS, "t", "t/n", topic, 1, len(later)],
    ]
    assert given["series"][0]["points"] == [
        [DAY, 2 * len(small) + len(large)],
        [DAY + DAY_MS, len(later)],
    ]
    assert given["conclusions"][0] == (
        "Tenant u occupies 86 % of the 3.5 kB on the bookies, the most."
    )


def test_prices_make_costs_and_older_days_are_left_out() -> None:
    entry = single(b"x", DAY_MS)
    given = result(
        {B: [single(b"x"), entry]},
        {B: 2 * 10**9},
        BEGIN_MS + 1,
        price_stored=0.5,
        price_published=10**6,
    )
    assert rows(given, "topics") == [[B, 1, len(entry), 2 * 10**9, 1 + len(entry) / 1000]]
    assert any("this costs" in text for text in given["conclusions"])


def test_topics_without_messages_and_hostile_entries_have_their_rows() -> None:
    given = result({B: [*HOSTILE, *chunks(b"x" * 90, 3)]}, {A0: 7, B: 0})
    assert rows(given, "tenants")[0] == ["t", 0, 0, 7, None]
    facts = {row["key"]: row["value"] for row in given["summary"]}
    assert (facts["messages"], facts["unreadable"]) == (13, 2)
