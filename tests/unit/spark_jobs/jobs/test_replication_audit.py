"""The result of an audit: differences and delays by the cluster that published."""

from typing import Any

from spark_jobs.jobs.lost_doubled_reordered.sides import CopyComparison
from spark_jobs.jobs.replication_audit.job import result_of
from spark_jobs.pulsar_source.partitions import LedgerRange

PARAMETERS = {"topic": "persistent://t/n/x", "other_cluster": "east", "samples": 5}


def counts(home: str, **given: Any) -> dict[str, Any]:
    none = {"missing": 0, "extra": 0, "doubled": 0, "reordered": 0, "timed": 0, "delays": None}
    return {"home": home, "first_messages": 10, "second_messages": 10} | none | given


def result(*rows: dict[str, Any]) -> Any:
    return result_of([], CopyComparison(list(rows), []), 7, PARAMETERS, [LedgerRange(1, 0, 9)])


def test_differences_and_delays_are_those_of_each_cluster_that_published() -> None:
    given = result(
        counts("here", missing=2, second_messages=8, timed=8, delays=[3, 5, 9, 12]),
        counts("there", doubled=1),
        counts("west"),
    )
    assert given["conclusions"][:4] == [
        "The copy of 10 messages published in this cluster has 2 missing.",
        "Half of the messages published in this cluster arrived within 3 ms, 99 % within 9 ms, by the clocks of"
        " producers and brokers.",
        "The copy of 10 messages published in east has 1 doubled.",
        "The copy of 10 messages published in west is complete, without doubles and in order.",
    ]
    assert given["tables"][0]["rows"][0] == ["this cluster", 10, 8, 2, 0, 0, 3, 5, 9, 12]
    facts = {row["key"]: row["value"] for row in given["summary"]}
    assert (facts["compared"], facts["from"], facts["missing"]) == (30, 7, 2)


def test_unknown_delays_and_a_missing_comparison_are_named() -> None:
    assert any(
        text.startswith("Delays are unknown") for text in result(counts("here"))["conclusions"]
    )
    alone = result_of([], None, 0, PARAMETERS, [LedgerRange(1, 0, 9)])
    assert alone["conclusions"] == [
        "No message here came from another cluster.",
        "Nothing was compared: name other_cluster to find what is missing or late there.",
    ]
