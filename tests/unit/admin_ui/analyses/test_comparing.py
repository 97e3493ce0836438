"""Two runs side by side."""

from typing import Any

from admin_ui.analyses.comparing import compared, compared_parameters


def result(**values: Any) -> dict[str, Any]:
    units = {"first": "ms", "share": "percent"}
    rows = [
        {"key": key, "label": key.title(), "value": value, "unit": units.get(key, "")}
        for key, value in values.items()
    ]
    return {"summary": rows}


def test_figures_have_the_values_of_both_and_their_difference() -> None:
    before = result(messages=100, share=None, first=1_000, codec="LZ4", gone=1)
    after = result(messages=150, share=2.5, first=3_000, codec="ZSTD", new=0)
    figures = {row["key"]: row for row in compared(before, after)}
    assert list(figures) == ["messages", "share", "first", "codec", "gone", "new"]
    shown = {key: (*row["values"], row["difference"], row["ratio"]) for key, row in figures.items()}
    assert shown == {
        "messages": (100, 150, 50, 1.5),
        "share": (None, 2.5, None, None),
        "first": (1_000, 3_000, 2_000, None),
        "codec": ("LZ4", "ZSTD", None, None),
        "gone": (1, None, None, None),
        "new": (None, 0, None, None),
    }
    assert figures["share"]["unit"] == "percent"


def test_parameters_of_both_are_shown() -> None:
    rows = compared_parameters({"topic": "a", "top": 3}, {"topic": "a", "last": 1})
    assert [(row["name"], *row["values"]) for row in rows] == [
        ("topic", "a", "a"),
        ("top", 3, None),
        ("last", None, 1),
    ]
