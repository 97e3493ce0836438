"""The stored state of topics, as the REST interface reports it."""

from collections.abc import Callable
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.base.errors import NotFound, Refusal, Unsupported
from engine.base.names import TopicName
from gateway.services.admin import partitioned_topics, statistics, topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

PLAIN = TopicName.parse("persistent://public/default/t")
PARENT = TopicName.parse("persistent://public/default/pt")


async def test_a_topic_is_reported_as_stored_without_loading_it(bench: AdminBench) -> None:
    await topics.create(bench.engine, PLAIN, {"p": "v"})
    args = CreateSubscription(PLAIN, "s", EARLIEST_MESSAGE)
    await bench.admin.call(CREATE_SUBSCRIPTION, args)
    await bench.publish(PLAIN, 6)
    await topics.unload(bench.engine, PLAIN)
    info = await statistics.internal_info(bench.engine, PLAIN)
    assert bench.broker.running.registry.loaded(PLAIN) is None
    (ledger,) = info["ledgers"]
    cursor = info["cursors"]["s"]
    assert info["properties"] == {"p": "v"}
    assert cursor["cursorsLedgerId"] == -1
    assert cursor["markDelete"] == {"ledgerId": ledger["ledgerId"], "entryId": -1}
    await bench.loaded(PLAIN)
    info = await statistics.internal_info(bench.engine, PLAIN)
    assert [ledger_info.get("entries") for ledger_info in info["ledgers"]] == [6, None]


async def test_each_existing_partition_of_a_partitioned_topic_is_reported(
    bench: AdminBench,
) -> None:
    await partitioned_topics.create(bench.engine, PARENT, 2, {})
    await topics.delete(bench.engine, PARENT.partition_at(1), force=True)
    info = await statistics.internal_info(bench.engine, PARENT)
    assert info["version"] == 0
    assert list(info["partitions"]) == [str(PARENT.partition_at(0))]


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("persistent://public/default/nope", NotFound, "Topic persistent://public/default/nope not found"),
        ("persistent://public/none/t", NotFound, "Namespace not found"),
        ("non-persistent://public/default/np", Unsupported, "Internal info of a non-persistent topic is not kept"),
    ],
)  # fmt: skip
async def test_topics_that_are_not_stored_are_refused(
    bench: AdminBench, name: str, kind: type[Refusal], reason: str
) -> None:
    with pytest.raises(Refusal) as caught:
        await statistics.internal_info(bench.engine, TopicName.parse(name))
    assert (type(caught.value), caught.value.reason) == (kind, reason)


def test_the_route_is_served(call: Callable[..., Any]) -> None:
    answer = call("GET", "/admin/v2/persistent/public/default/nope/internal-info")
    assert (answer.status, answer.json) == (
        404,
        {"reason": "Topic persistent://public/default/nope not found"},
    )
