"""Pure parts: drain forecasts, sums of partitions, merged metrics."""

from prometheus_client.parser import text_string_to_metric_families

from gateway.services import drain, metrics, partitioned


def test_a_backlog_that_falls_drains_and_one_that_rises_grows() -> None:
    backlogs = drain.Backlogs()
    rate = 0.0
    for second in range(10):
        rate = backlogs.net_rate("t", "s", second * 1000, 1000 - 50 * second, 0.0)
    assert rate == -50.0
    assert drain.forecast(550, rate) == {"state": "draining", "eta_s": 11.0}
    assert drain.forecast(550, 3.0)["state"] == "growing"
    assert drain.forecast(550, 0.1)["state"] == "stalled"
    assert drain.forecast(0, 0.0) == {"state": "empty", "eta_s": None}


def test_before_there_is_history_the_brokers_rates_count() -> None:
    assert drain.Backlogs().net_rate("t", "s", 0, 10, -7.0) == -7.0


def test_the_history_of_backlogs_is_bounded() -> None:
    backlogs = drain.Backlogs()
    for number in range(drain.SUBSCRIPTIONS_MAX + 10):
        backlogs.net_rate("t", str(number), 0, 1, 0.0)
    assert len(backlogs._samples) == drain.SUBSCRIPTIONS_MAX


def test_partitions_stats_are_summed_by_meaning() -> None:
    one = {
        "msgRateIn": 1.0, "msgThroughputIn": 100.0, "msgChunkPublished": False, "lastPublishTimeStamp": 5,
        "publishers": [{"producerId": 1}], "subscriptions": {"s": {"msgBacklog": 3, "consumers": [{}]}},
    }  # fmt: skip
    two = {
        "msgRateIn": 3.0, "msgThroughputIn": 100.0, "msgChunkPublished": True, "lastPublishTimeStamp": 9,
        "publishers": [], "subscriptions": {"s": {"msgBacklog": 4, "consumers": []}, "u": {"msgBacklog": 1}},
    }  # fmt: skip
    total = partitioned.sum_stats([one, two])
    assert total["msgRateIn"] == 4.0
    assert total["averageMsgSize"] == 50.0
    assert total["msgChunkPublished"] is True
    assert total["lastPublishTimeStamp"] == 9
    assert total["subscriptions"]["s"] == {"msgBacklog": 7, "consumers": [{}]}
    assert total["subscriptions"]["u"] == {"msgBacklog": 1}
    assert len(total["publishers"]) == 1


def test_merged_metrics_describe_each_family_once_and_keep_series_apart() -> None:
    text = '# HELP pulsar_x X.\n# TYPE pulsar_x gauge\npulsar_x{cluster="c"} 1\n'
    text += '# TYPE y histogram\ny_bucket{le="1"} 2\n# TYPE none gauge\n'
    merged = metrics.merge({"b1": text, "b2": text, "gateway": "# TYPE own gauge\nown 3\n"})
    families = {family.name: family for family in text_string_to_metric_families(merged)}
    assert merged.count("# TYPE pulsar_x gauge") == 1
    nodes = {sample.labels["node"] for sample in families["pulsar_x"].samples}
    assert nodes == {"b1", "b2"}
    assert families["own"].samples[0].labels == {}
    assert families["none"].samples == []
    assert len(families["y"].samples) == 2


def test_who_is_furthest_behind_is_named_by_the_partition_where_it_is() -> None:
    name, age = "oldestBacklogMessageSubscriptionName", "oldestBacklogMessageAgeSeconds"
    parts = [{age: 5, name: "a"}, {age: 90, name: "b"}, {age: -1}]
    total = partitioned.sum_stats(parts)
    assert (total[age], total[name]) == (90, "b")
