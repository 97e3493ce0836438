"""Prometheus' text format: descriptions, labels, values."""

from engine.base.metrics import described, labels_of


def test_a_family_is_described_and_its_unknown_values_are_left_out() -> None:
    samples = [(labels_of(a="1"), 2), (labels_of(a="2"), None), (labels_of(a="3"), 0.5)]
    assert described("n", "gauge", "What it is.", samples) == (
        '# HELP n What it is.\n# TYPE n gauge\nn{a="1"} 2\nn{a="3"} 0.5\n'
    )


def test_values_of_labels_are_escaped() -> None:
    assert labels_of(topic='a"b\\c\nd', other="plain") == 'topic="a\\"b\\\\c\\nd",other="plain"'
