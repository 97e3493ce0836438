"""The table of a bench: medians, ranges, and figures that a side did not measure."""

from tests.bench.figures import medians, percentile, table


def test_percentiles_are_values_that_were_seen() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile(range(100), 0.99) == 99
    assert percentile([7.0], 0.99) == 7.0


def test_medians_are_of_figures_that_all_rounds_have() -> None:
    assert medians([{"a": 1.0, "b": 2.0}, {"a": 3.0}]) == {"a": 2.0}


def test_the_first_side_is_compared_with_each_other() -> None:
    results = {
        ("work", "ours"): {1: {"ms": 2.0}, 2: {"ms": 6.0}, 3: {"ms": 4.0}},
        ("work", "theirs"): {1: {"ms": 1.0}, 2: {"ms": 2.0}, 3: {"ms": 4.0}},
        ("only ours", "ours"): {1: {"ms": 5.0}},
        ("none", "theirs"): {1: {"ms": 5.0}},
    }
    _, _, *lines = table(["work", "only ours", "none"], ["ours"], ["theirs"], results)
    assert lines == [
        "| work | ms | 4 (2–6) | 2 (1–4) | 2 (1.00–3.00) |",
        "| only ours | ms | 5 | – | – |",
    ]


def test_nothing_is_divided_by_zero() -> None:
    results = {
        ("work", "ours"): {1: {"ms": 2.0}, 2: {"ms": 2.0}},
        ("work", "theirs"): {1: {"ms": 0.0}, 2: {"ms": 0.0}},
    }
    assert list(table(["work"], ["ours"], ["theirs"], results))[-1].endswith("| 0 (0–0) | – |")


def test_several_are_compared_and_some_only_shown() -> None:
    results = {
        ("work", "a"): {1: {"ms": 2.0}},
        ("work", "b"): {1: {"ms": 4.0}},
        ("work", "floor"): {1: {"ms": 0.5}},
        ("work", "theirs"): {1: {"ms": 8.0}},
    }
    head, _, line = table(["work"], ["a", "b"], ["theirs"], results, ["floor"])
    assert head == "| work | figure | a | b | floor | theirs | a to theirs | b to theirs |"
    assert line == "| work | ms | 2 | 4 | 0.5 | 8 | 0.25 | 0.5 |"
