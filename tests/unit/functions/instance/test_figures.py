"""IntervalCounts, minutes, latencies and exceptions, and their texts for Prometheus."""

from prometheus_client.parser import text_string_to_metric_families

from engine.functions.instance.figures import TROUBLES_KEPT, USER_METRICS_MAX, InstanceFigures

LABELS = {"tenant": "t", "namespace": "t/n", "name": 'a"b'}


def test_a_whole_minute_is_shown_after_it_is_over() -> None:
    figures = InstanceFigures(LABELS)
    figures.received(3, 60_000)
    figures.processed([0.002, 0.004], 60_500)
    before = figures.stats(119_999)["last_minute"]
    after = figures.stats(120_000)["last_minute"]
    later = figures.stats(240_000)["last_minute"]
    assert (before["received"], after["received"], later["received"]) == (0, 3, 0)
    assert after["average_latency_ms"] == 3.0
    assert figures.stats(240_000)["total"]["processed"] == 2


def test_nothing_processed_has_no_average() -> None:
    shown = InstanceFigures(LABELS).stats(0)
    assert shown["total"]["average_latency_ms"] is None
    assert shown["last_invocation_ms"] is None


def test_latencies_are_counted_in_cumulative_buckets() -> None:
    figures = InstanceFigures(LABELS)
    figures.processed([0.00005, 0.002, 100.0], 0)
    buckets = figures.stats(0)["latency_buckets"]
    assert (buckets["0.1"], buckets["3"], buckets["30000"], buckets["+Inf"]) == (1, 2, 2, 3)


def test_the_newest_exceptions_are_first_and_bounded() -> None:
    figures = InstanceFigures(LABELS)
    for number in range(TROUBLES_KEPT + 5):
        figures.trouble("user", f"Traceback {number}", number)
    kept = figures.status()["latest_user_exceptions"]
    assert len(kept) == TROUBLES_KEPT
    assert kept[0] == {"text": f"Traceback {TROUBLES_KEPT + 4}", "at_ms": TROUBLES_KEPT + 4}
    assert figures.status()["user_exceptions"] == TROUBLES_KEPT + 5


def test_a_long_traceback_keeps_its_end() -> None:
    figures = InstanceFigures(LABELS)
    figures.trouble("user", "x" * 100_000 + "ValueError: the reason", 0)
    text = figures.status()["latest_user_exceptions"][0]["text"]
    assert text.endswith("ValueError: the reason")
    assert len(text) < 20_000


def test_user_metrics_are_count_and_sum_and_bounded() -> None:
    figures = InstanceFigures(LABELS)
    for number in range(USER_METRICS_MAX + 10):
        figures.user_metric(f"m{number}", 1.0)
    figures.user_metric("m0", 2.5)
    shown = figures.user_metrics()
    assert (shown["user_metric_m0_count"], shown["user_metric_m0_sum"]) == (2, 3.5)
    assert len(shown) == 2 * USER_METRICS_MAX


def test_the_page_is_of_prometheus_under_apaches_names() -> None:
    figures = InstanceFigures(LABELS)
    figures.received(2, 0)
    figures.processed([0.002], 0)
    figures.user_metric("m", 4)
    samples = {
        sample.name: sample
        for family in text_string_to_metric_families(figures.prometheus(0))
        for sample in family.samples
    }
    assert samples["pulsar_function_received_total"].value == 2
    assert samples["pulsar_function_processed_successfully_total"].value == 1
    assert samples["pulsar_function_process_latency_ms_sum"].value == 2
    assert samples["pulsar_function_user_metric_sum"].labels == {**LABELS, "metric": "m"}
    assert "pulsar_function_sink_exceptions_total" not in samples


def test_a_sink_counts_what_it_wrote() -> None:
    page = InstanceFigures(LABELS, "sink").prometheus(0)
    assert "pulsar_sink_written_total{" in page
    assert "pulsar_sink_sink_exceptions_total{" in page
    assert "source_exceptions" not in page
