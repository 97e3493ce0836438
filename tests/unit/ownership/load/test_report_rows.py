"""Load reports as they are shown: what is not known is null, with the reason."""

from engine.ownership.load.planned import DEFAULT_LIMITS
from engine.ownership.load.report import LoadReport, ResourceUsage
from engine.ownership.load.report_rows import report_rows

NOW_MS = 10_000_000


def test_a_load_that_cannot_be_used_is_unknown_and_says_why() -> None:
    busy = ResourceUsage(50.0, 100.0)
    rows = report_rows(
        {
            "b:1": LoadReport("b:1", updated_ms=NOW_MS - 1_000, cpu=busy, owned_count=3),
            "a:1": LoadReport("a:1"),
            "c:1": LoadReport("c:1", updated_ms=NOW_MS - 3_600_000, cpu=busy),
        },
        NOW_MS,
        DEFAULT_LIMITS,
    )
    assert [(row["broker"], row["load"], row["bundles"]) for row in rows] == [
        ("a:1", None, None),
        ("b:1", 0.5, 3),
        ("c:1", None, None),
    ]
    assert [bool(row["why"]) for row in rows] == [True, False, True]
    assert [row["gains"] for row in rows] == [None, 0, 0]
