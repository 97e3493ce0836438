"""Two runs of an analysis side by side. Pure."""

from typing import Any

Json = dict[str, Any]


def compared(first: Json, second: Json) -> list[Json]:
    """Return the figures of two results: the values of both, and the difference where both are numbers.

    A figure that only one of them has has None for the other. ``ratio`` is the second in terms of the first.
    """
    rows = {row["key"]: row for row in (*second["summary"], *first["summary"])}
    order = [row["key"] for row in first["summary"]]
    order += [row["key"] for row in second["summary"] if row["key"] not in order]
    return [_figure(rows[key], _value(first, key), _value(second, key)) for key in order]


def _value(result: Json, key: str) -> Any:
    return next((row["value"] for row in result["summary"] if row["key"] == key), None)


def _figure(row: Json, before: Any, after: Any) -> Json:
    numbers = all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in (before, after)
    )
    return {
        "key": row["key"],
        "label": row["label"],
        "unit": row.get("unit") or "",
        "values": [before, after],
        "difference": after - before if numbers else None,
        # Times have no meaningful ratio.
        "ratio": after / before if numbers and before and row.get("unit") != "ms" else None,
    }


def compared_parameters(first: Json, second: Json) -> list[Json]:
    """Return the parameters of two runs, with None for one that a run does not have."""
    return [
        {"name": name, "values": [first.get(name), second.get(name)]}
        for name in dict.fromkeys((*first, *second))
    ]
