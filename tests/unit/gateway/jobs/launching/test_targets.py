"""The target of an analysis is completed, and refused before a run is queued, by what brokers and metadata say."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.base.errors import InvalidField, NotReady
from engine.base.names import TopicName
from gateway.jobs import targets
from gateway.services.admin import partitioned_topics, topics
from spark_jobs.analysis import AnalysisTarget
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

PLAIN = TopicName.parse("persistent://public/default/t")
PARENT = TopicName.parse("persistent://public/default/pt")


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    yield made
    await made.close()


async def completed(
    bench: AdminBench, name: str, kind: AnalysisTarget = AnalysisTarget.TOPIC
) -> str:
    parameters = await targets.completed(bench.engine, kind, {kind.value: name, "top": 3})
    assert parameters.pop("top") == 3
    return str(parameters[kind])


async def refusal(bench: AdminBench, name: str, kind: AnalysisTarget = AnalysisTarget.TOPIC) -> str:
    with pytest.raises(InvalidField) as refused:
        await completed(bench, name, kind)
    assert refused.value.field == f"parameters.{kind}"
    return refused.value.reason.removeprefix(f"parameters.{kind}: ")


async def test_a_short_name_is_completed(bench: AdminBench) -> None:
    await topics.create(bench.engine, PLAIN, {})
    await bench.publish(PLAIN, 1)
    for name in ("t", "public/default/t", str(PLAIN)):
        assert await completed(bench, name) == str(PLAIN)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nope", "there is no topic persistent://public/default/nope"),
        ("persistent://public/none/t", "there is no topic persistent://public/none/t: Namespace not found"),
        ("non-persistent://public/default/t", "non-persistent://public/default/t is not persistent"),
        ("persistent://public/default", "Invalid topic name"),
        ("a/b", "Invalid short topic name"),
    ],
)  # fmt: skip
async def test_an_unreadable_target_is_refused_by_name(
    bench: AdminBench, name: str, reason: str
) -> None:
    assert (await refusal(bench, name)).startswith(reason)


async def test_an_empty_topic_is_refused_until_it_holds_a_message(bench: AdminBench) -> None:
    await topics.create(bench.engine, PLAIN, {})
    assert await refusal(bench, "t") == f"{PLAIN} holds no messages"
    await bench.publish(PLAIN, 1)
    assert await completed(bench, "t") == str(PLAIN)


async def test_closed_ledgers_are_known_without_loading_the_topic(bench: AdminBench) -> None:
    await topics.create(bench.engine, PLAIN, {})
    await bench.publish(PLAIN, 2)
    await topics.unload(bench.engine, PLAIN)
    await bench.loaded(PLAIN)
    await topics.unload(bench.engine, PLAIN)
    assert await completed(bench, "t") == str(PLAIN)
    assert bench.broker.running.registry.loaded(PLAIN) is None


async def test_a_partitioned_topic_is_one_topic(bench: AdminBench) -> None:
    await partitioned_topics.create(bench.engine, PARENT, 3, {})
    assert await refusal(bench, "pt") == f"{PARENT} holds no messages"
    await bench.publish(PARENT.partition_at(2), 1)
    assert await completed(bench, "pt") == str(PARENT)
    last = PARENT.partition_at(2)
    assert await completed(bench, str(last)) == str(last)
    assert "holds no messages" in await refusal(bench, str(PARENT.partition_at(0)))


@pytest.mark.parametrize("away", [NotReady("no broker"), None])
async def test_a_topic_that_no_broker_reports_is_left_to_the_run(
    bench: AdminBench, away: NotReady | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    await topics.create(bench.engine, PLAIN, {})
    monkeypatch.setattr(targets, "CHECK_S", 0.05)

    async def call(*_: Any, **__: Any) -> Any:
        if away is not None:
            raise away
        await asyncio.sleep(3600)

    monkeypatch.setattr(bench.admin, "call", call)
    assert await completed(bench, "t") == str(PLAIN)


@pytest.mark.parametrize(
    ("kind", "name", "missing", "invalid"),
    [
        (AnalysisTarget.NAMESPACE, "public/default", "public/none", "public"),
        (AnalysisTarget.TENANT, "public", "none", "a/b"),
    ],
)
async def test_a_namespace_or_tenant_must_exist(
    bench: AdminBench, kind: AnalysisTarget, name: str, missing: str, invalid: str
) -> None:
    assert await completed(bench, name, kind) == name
    assert await refusal(bench, missing, kind) == f"there is no {kind} {missing}"
    assert await refusal(bench, invalid, kind)


async def test_an_analysis_of_the_cluster_has_nothing_to_complete(bench: AdminBench) -> None:
    assert await targets.completed(bench.engine, AnalysisTarget.CLUSTER, {"other": 1}) == {
        "other": 1
    }
