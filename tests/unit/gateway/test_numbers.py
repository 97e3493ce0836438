"""Pure parts: what needs attention, drain forecasts, sums of partitions, merged metrics."""

from collections.abc import Sequence
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from admin_ui.overview.selectors import attention
from engine.admin.api import ROW_COLUMNS
from gateway.services import drain, metrics, partitioned
from gateway.services.collector import Snapshot
from gateway.services.topic_index import TopicIndex


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


def snapshot(
    *rows: list[Any],
    brokers: Sequence[dict[str, Any]] = (),
    bookies: Sequence[dict[str, Any]] = (),
) -> Snapshot:
    index = TopicIndex()
    told = {"at": 1, "whole": True, "more": False, "rows": rows, "gone": []}
    index.hear("b:1", told)
    return Snapshot(1, list(brokers), list(bookies), index)


def row(name: str, **values: int) -> list[Any]:
    return [f"persistent://t/n/{name}", *(values.get(column, 0) for column in ROW_COLUMNS)]


def test_what_needs_attention_comes_errors_first_and_leads_there() -> None:
    alone = row("a b", backlog=7)
    stuck = row("stuck", backlog=7, consumers=1)
    served = row("fine", backlog=7, consumers=1, msg_rate_out=5000)
    brokers = [{"id": "b:1", "state": "unreachable"}]
    bookies = [{"id": "k:1", "state": "writable"}, {"id": "k:2", "state": "down"}]
    found = attention(snapshot(alone, stuck, served, brokers=brokers, bookies=bookies))
    assert [item["severity"] for item in found] == ["error", "error", "warning", "warning"]
    assert found[3]["title"] == "persistent://t/n/stuck stands still"
    assert found[2]["link"] == "/c/standalone/t/t/n/a%20b/subscriptions"


def test_attention_is_bounded() -> None:
    many = [row(f"x{number}", backlog=1) for number in range(100)]
    assert len(attention(snapshot(*many))) <= 20


def test_who_is_furthest_behind_is_named_by_the_partition_where_it_is() -> None:
    name, age = "oldestBacklogMessageSubscriptionName", "oldestBacklogMessageAgeSeconds"
    parts = [{age: 5, name: "a"}, {age: 90, name: "b"}, {age: -1}]
    total = partitioned.sum_stats(parts)
    assert (total[age], total[name]) == (90, "b")
