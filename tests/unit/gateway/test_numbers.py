"""Pure parts: how backlogs move, sums of partitions, merged metrics."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from gateway.services import backlogs, metrics
from gateway.services.admin import summed_stats


def made(name: str, partial: bool = False) -> dict[str, Any]:
    """Return a producer's numbers of one partition."""
    rates = {"msgRateIn": 1.0, "msgThroughputIn": 10.0, "chunkedMessageRate": 0.0}
    return {**rates, "producerName": name, "producerId": 3, "supportsPartialProducer": partial}


def got(name: str, permits: int) -> dict[str, Any]:
    return {"consumerName": name, "availablePermits": permits, "address": "/a:1"}


def test_how_fast_a_backlog_moves_is_seen_of_itself() -> None:
    kept = backlogs.Backlogs()
    rate = 0.0
    for second in range(10):
        rate = kept.net_rate("t", "s", second * 1000, 1000 - 50 * second, 7.0)
    assert rate == -50.0


def test_before_there_is_history_the_brokers_rates_count() -> None:
    assert backlogs.Backlogs().net_rate("t", "s", 0, 10, -7.0) == -7.0


def test_the_history_of_backlogs_is_bounded() -> None:
    kept = backlogs.Backlogs()
    for number in range(backlogs.SUBSCRIPTIONS_MAX + 10):
        kept.net_rate("t", str(number), 0, 1, 0.0)
    assert len(kept._samples) == backlogs.SUBSCRIPTIONS_MAX


def test_partitions_stats_are_summed_by_meaning() -> None:
    first = {
        "msgRateIn": 1.0, "msgThroughputIn": 100.0, "msgChunkPublished": False, "lastPublishTimeStamp": 5,
        "publishers": [made("p")], "subscriptions": {"s": {"msgBacklog": 3, "consumers": [got("a", 2), got("a", 1)]}},
    }  # fmt: skip
    second = {
        "msgRateIn": 3.0, "msgThroughputIn": 100.0, "msgChunkPublished": True, "lastPublishTimeStamp": 9,
        "publishers": [made("q"), made("r")],
        "subscriptions": {"s": {"msgBacklog": 4, "consumers": [got("a", 5)]}, "u": {"msgBacklog": 1}},
    }  # fmt: skip
    total = summed_stats.sum_stats([first, second])
    assert total["msgRateIn"] == 4.0
    assert total["averageMsgSize"] == 50.0
    assert total["msgChunkPublished"] is True
    assert total["lastPublishTimeStamp"] == 9
    assert total["subscriptions"]["s"]["msgBacklog"] == 7
    consumers = total["subscriptions"]["s"]["consumers"]
    assert [(consumer["consumerName"], consumer["availablePermits"]) for consumer in consumers] == [
        ("a", 7),
        ("a", 1),
    ]
    assert all("address" not in consumer for consumer in consumers)
    assert total["subscriptions"]["u"] == {"msgBacklog": 1}
    assert [publisher["msgRateIn"] for publisher in total["publishers"]] == [2.0, 1.0]
    assert not any("producerName" in publisher for publisher in total["publishers"])


def test_producers_of_some_partitions_are_summed_by_name() -> None:
    parts = [{"publishers": [made("p", True)]}, {"publishers": [made("q", True), made("p", True)]}]
    publishers = summed_stats.sum_stats(parts)["publishers"]
    rates = {
        publisher["producerName"]: (publisher["msgRateIn"], publisher["averageMsgSize"])
        for publisher in publishers
    }
    assert rates == {"p": (2.0, 10.0), "q": (1.0, 10.0)}


async def test_merged_metrics_describe_each_family_once_and_keep_series_apart() -> None:
    text = '# HELP pulsar_x X.\n# TYPE pulsar_x gauge\npulsar_x{cluster="c"} 1\n'
    text += '# TYPE y histogram\ny_bucket{le="1"} 2\n# TYPE none gauge\n'
    sources = {"b1": text, "b2": text, "gateway": "# TYPE own gauge\nown 3\n"}
    pieces = await metrics.merge({name: page.encode() for name, page in sources.items()})
    merged = b"".join(pieces).decode()
    families = {family.name: family for family in text_string_to_metric_families(merged)}
    assert merged.count("# TYPE pulsar_x gauge") == 1
    nodes = {sample.labels["node"] for sample in families["pulsar_x"].samples}
    assert nodes == {"b1", "b2"}
    assert families["own"].samples[0].labels == {}
    assert families["none"].samples == []
    assert len(families["y"].samples) == 2


async def test_values_with_braces_and_samples_without_labels_keep_their_form() -> None:
    page = '# HELP x X.\n# TYPE x gauge\nx{t="a}b"} 1\n# HELP z Z.\n# TYPE z gauge\nz 2\n'
    merged = b"".join(await metrics.merge({"b1": page.encode(), "b2": page.encode()})).decode()
    families = {family.name: family for family in text_string_to_metric_families(merged)}
    assert [sample.labels for sample in families["x"].samples] == [
        {"t": "a}b", "node": "b1"},
        {"t": "a}b", "node": "b2"},
    ]
    assert [sample.labels["node"] for sample in families["z"].samples] == ["b1", "b2"]


async def test_a_carriage_return_in_a_label_ends_no_line() -> None:
    page = '# HELP x X.\n# TYPE x gauge\nx{t="a\rb"} 1\nx{t="c\r\\nd"} 2\n'
    merged = b"".join(await metrics.merge({"b1": page.encode(), "b2": page.encode()})).decode()
    (family,) = text_string_to_metric_families(merged)
    assert [(sample.labels["t"], sample.value) for sample in family.samples] == [
        ("a\rb", 1.0),
        ("c\r\nd", 2.0),
    ] * 2


def test_the_subscription_furthest_behind_is_that_of_its_partition() -> None:
    name, age = "oldestBacklogMessageSubscriptionName", "oldestBacklogMessageAgeSeconds"
    parts = [{age: 5, name: "a"}, {age: 90, name: "b"}, {age: -1}]
    total = summed_stats.sum_stats(parts)
    assert (total[age], total[name]) == (90, "b")


def of_partition(at: int, size: int = 10) -> dict[str, Any]:
    """Return the statistics of a partition whose oldest message is of ``at``; -1: not known."""
    of_one = {"oldestUnacknowledgedAt": at, "backlogSize": size, "lastSnapshotTimestamp": 7}
    compaction = {"lastCompactionSucceedTimestamp": 5, "lastCompactionRemovedEventCount": 2}
    return {**of_one, "compaction": compaction, "subscriptions": {"s": dict(of_one)}}


def test_times_of_partitions_are_not_added_and_an_unknown_one_makes_the_whole_unknown() -> None:
    total = summed_stats.sum_stats([of_partition(0), of_partition(50), of_partition(40)])
    for shown in (total, total["subscriptions"]["s"]):
        assert shown["oldestUnacknowledgedAt"] == 40
        assert shown["backlogSize"] == 30
        assert shown["lastSnapshotTimestamp"] == 7
    assert total["compaction"] == {
        "lastCompactionSucceedTimestamp": 5,
        "lastCompactionRemovedEventCount": 6,
    }
    total = summed_stats.sum_stats([of_partition(0), of_partition(-1, -1), of_partition(40)])
    assert total["subscriptions"]["s"]["oldestUnacknowledgedAt"] == -1
    assert total["subscriptions"]["s"]["backlogSize"] == -1
    assert summed_stats.sum_stats([of_partition(0)] * 2)["oldestUnacknowledgedAt"] == 0
