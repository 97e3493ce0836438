"""Durations: sums since the start, quantiles of the latest samples."""

from engine.base.measures.durations import LATEST, Durations


def test_there_are_no_quantiles_without_samples() -> None:
    none = Durations()
    assert (none.quantiles_s(), none.mean_s(), none.count) == ({}, None, 0)


def test_quantiles_are_of_the_latest_and_sums_of_all() -> None:
    durations = Durations()
    for _ in range(LATEST):
        durations.add(1000.0)
    for number in range(LATEST):
        durations.add(float(number))
    assert (durations.count, durations.total_s) == (
        2 * LATEST,
        1000.0 * LATEST + sum(range(LATEST)),
    )
    assert durations.quantiles_s()[0.5] in (499.0, 500.0)
    assert durations.quantiles_s()[0.9999] == 999.0
    assert durations.mean_s() == 499.5
