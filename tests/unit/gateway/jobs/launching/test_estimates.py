"""Amounts of a target from the metadata of its ledgers, and time and messages by earlier runs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.base.errors import NotReady
from engine.base.names import TopicName
from gateway.jobs import estimates
from gateway.jobs.models import JobRun, RunState
from gateway.services.admin import partitioned_topics, topics
from spark_jobs.analysis import AnalysisTarget
from tests.support.admin.bench import AdminBench
from tests.unit.gateway.jobs.bench import Bench

PLAIN = TopicName.parse("persistent://public/default/t")
PARENT = TopicName.parse("persistent://public/default/pt")
TARGETS = [
    (AnalysisTarget.TOPIC, str(PLAIN), 1, 3),
    (AnalysisTarget.TOPIC, str(PARENT), 2, 4),
    (AnalysisTarget.NAMESPACE, "public/default", 3, 7),
    (AnalysisTarget.TENANT, "public", 3, 7),
    (AnalysisTarget.CLUSTER, "", 3, 7),
]


@pytest.fixture
async def bench_of_topics() -> AsyncIterator[AdminBench]:
    bench = AdminBench()
    await bench.start()
    await topics.create(bench.engine, PLAIN, {})
    await partitioned_topics.create(bench.engine, PARENT, 2, {})
    await bench.publish(PLAIN, 3)
    await bench.publish(PARENT.partition_at(1), 4)
    yield bench
    await bench.close()


@pytest.mark.virtual_time
async def test_entries_and_bytes_are_those_of_all_topics(bench_of_topics: AdminBench) -> None:
    for kind, target, number, entries in TARGETS:
        amount = await estimates.estimate(bench_of_topics.engine, kind, target)
        assert (amount["topics"], amount["entries"], amount["exact"]) == (number, entries, True)
        assert amount["bytes"] > entries


@pytest.mark.virtual_time
async def test_only_the_last_entries_of_each_topic_count(bench_of_topics: AdminBench) -> None:
    for kind, target, number, entries in TARGETS:
        whole = await estimates.estimate(bench_of_topics.engine, kind, target)
        amount = await estimates.estimate(bench_of_topics.engine, kind, target, 2)
        assert (amount["topics"], amount["entries"]) == (
            number,
            min(entries, 4 if entries == 7 else 2),
        )
        assert 0 < amount["bytes"] < whole["bytes"]
        same = await estimates.estimate(bench_of_topics.engine, kind, target, 100)
        assert same == whole


def test_the_bytes_of_the_last_entries_are_those_of_the_newest_ledgers() -> None:
    ledgers = [estimates.Amount(10, 1_000), estimates.Amount(10, 50), estimates.Amount(0, 0)]
    assert estimates._newest(ledgers, 0, True) == estimates.Amount(20, 1_050)
    assert estimates._newest(ledgers, 4, True) == estimates.Amount(4, 20)
    assert estimates._newest(ledgers, 12, False) == estimates.Amount(12, 250, False)


@pytest.mark.virtual_time
async def test_an_amount_that_no_broker_reports_is_unknown(
    bench_of_topics: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = bench_of_topics.admin.call

    async def call(operation: Any, *given: Any, **named: Any) -> Any:
        if operation.name == "internal_stats":
            raise NotReady("no broker")
        return await real(operation, *given, **named)

    monkeypatch.setattr(bench_of_topics.admin, "call", call)
    engine = bench_of_topics.engine
    open_only = await estimates.estimate(engine, AnalysisTarget.TOPIC, str(PLAIN))
    assert (open_only["topics"], open_only["entries"], open_only["exact"]) == (1, 0, False)
    monkeypatch.setattr(estimates, "TOPICS_MAX", 2)
    many = await estimates.estimate(engine, AnalysisTarget.CLUSTER, "")
    assert many == {"topics": 3, "entries": None, "bytes": None, "exact": False}


AMOUNT = {"entries": 300, "bytes": 9_000}


def earlier(seconds: int, **changes: Any) -> None:
    counted = {"entries": 100, "messages": 1_000, "bytes": 1_000}
    row = {
        "analysis": "topic-profile",
        "target": str(PLAIN),
        "parameters": {},
        "state": RunState.SUCCEEDED,
        "created_at": 1,
        "started_at": 500,
        "work_at": 1_000,
        "finished_at": 1_000 * (1 + seconds),
        "result": {"input": counted},
    }
    JobRun.objects.create(**{**row, **changes})


def known(amount: dict[str, Any] = AMOUNT, target: str = str(PLAIN)) -> tuple[Any, Any]:
    answer = estimates.from_earlier_runs(
        analysis="topic-profile", cluster="", target=target, amount=amount
    )
    return answer["messages"], answer["seconds"]


def test_time_and_messages_are_those_of_earlier_runs(bench: Bench) -> None:
    assert known() == (None, None)
    earlier(5, state=RunState.FAILED)
    earlier(5, cluster="far")
    earlier(5, result={"input": {}})
    assert known() == (None, None)
    earlier(2, created_at=2)
    assert known() == (3_000, 18.0)
    assert known({"entries": 1, "bytes": 1}) == (10, 2.0), "no run is shorter than the shortest"
    assert known(target="persistent://public/default/other") == (None, 18.0)
    assert known({"entries": None, "bytes": None}) == (None, None)


def test_a_run_that_is_unlike_the_others_does_not_change_the_time(bench: Bench) -> None:
    for _ in range(3):
        earlier(2)
    earlier(60)
    earlier(1, result={"input": {"entries": 1, "messages": 1, "bytes": 10}})
    earlier(2, started_at=1_000, work_at=None)
    assert known()[1] == 18.0
