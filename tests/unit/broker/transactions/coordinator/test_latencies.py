from engine.broker.transactions.coordinator.latencies import BOUNDS_MS, Latencies


def test_a_duration_counts_for_the_first_bound_that_it_does_not_exceed() -> None:
    latencies = Latencies()
    for ms in (0, 10, 11, 3_000_000, 3_000_001):
        latencies.add(ms)
    counts = dict(zip((*BOUNDS_MS, None), latencies.counts, strict=True))
    assert {bound: count for bound, count in counts.items() if count} == {
        10: 2,
        20: 1,
        3_000_000: 1,
        None: 1,
    }
