"""The holdings of a topic are reported, and a deletion removes no more than was reported."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, OnTopic
from engine.admin.api.cursors import RESET_CURSOR, SKIP_MESSAGES, ResetCursor, Skip
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.admin.api.topics import HOLDINGS
from engine.base.errors import Conflict, InvalidField, NotFound
from engine.base.names import TopicName
from engine.broker.administration.previews import holdings
from gateway.services.admin import topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    await subscribe(made, "s")
    await made.publish(TOPIC, 12)
    yield made
    await made.close()


async def subscribe(bench: AdminBench, name: str) -> None:
    args = CreateSubscription(TOPIC, name, EARLIEST_MESSAGE)
    await bench.admin.call(CREATE_SUBSCRIPTION, args)


async def held(bench: AdminBench) -> dict[str, Any]:
    return await bench.engine.call(HOLDINGS, OnTopic(TOPIC))


async def test_holdings_report_stored_and_unread_entries(bench: AdminBench) -> None:
    await bench.admin.call(SKIP_MESSAGES, Skip(TOPIC, "s", 5))
    holding = await held(bench)
    assert (holding["entries"], holding["terminated"], holding["producers"]) == (12, False, [])
    assert holding["bytes"] > 0
    (subscription,) = holding["subscriptions"]
    assert subscription == {
        **{"name": "s", "durable": True, "consumers": []},
        **{"entries": 7, "messages": 7, "exact": True},
    }
    assert holding["last"].endswith(":11")


async def test_a_deletion_is_refused_when_the_holdings_grew_since_the_preview(
    bench: AdminBench,
) -> None:
    seen = (await held(bench))["seen"]
    await bench.publish(TOPIC, 1)
    with pytest.raises(Conflict, match="published since"):
        await topics.delete(bench.engine, TOPIC, force=True, seen=seen)
    seen = (await held(bench))["seen"]
    await subscribe(bench, "later")
    with pytest.raises(Conflict, match="Subscription later was made"):
        await topics.delete(bench.engine, TOPIC, force=True, seen=seen)
    await bench.admin.call(SKIP_MESSAGES, Skip(TOPIC, "s", 5))
    seen = (await held(bench))["seen"]
    await bench.admin.call(RESET_CURSOR, ResetCursor(TOPIC, "s", timestamp_ms=0))
    with pytest.raises(Conflict, match="Subscription s was moved back"):
        await topics.delete(bench.engine, TOPIC, force=True, seen=seen)
    assert (await held(bench))["entries"] == 13, "all of it is still there"


async def test_entries_acknowledged_since_the_preview_do_not_prevent_a_deletion(
    bench: AdminBench,
) -> None:
    seen = (await held(bench))["seen"]
    await bench.admin.call(SKIP_MESSAGES, Skip(TOPIC, "s", 5))
    await topics.delete(bench.engine, TOPIC, force=True, seen=seen)
    with pytest.raises(NotFound):
        await held(bench)


async def test_a_new_client_is_named_and_an_invalid_preview_is_refused(
    bench: AdminBench,
) -> None:
    topic = await bench.loaded(TOPIC)
    seen = (await held(bench))["seen"]
    holdings.check(topic, {**seen, "users": ["producer gone"]})
    topic.publishers.attached["new"] = None  # type: ignore[assignment]
    with pytest.raises(Conflict, match="producer new"):
        holdings.check(topic, seen)
    del topic.publishers.attached["new"]
    for wrong in ({}, {**seen, "last": "x"}, {**seen, "unread": 3}):
        with pytest.raises(InvalidField):
            holdings.check(topic, wrong)


async def test_a_non_persistent_topic_has_no_holdings(bench: AdminBench) -> None:
    live = TopicName.parse("non-persistent://public/default/live")
    await topics.create(bench.engine, live, {})
    holding = await bench.engine.call(HOLDINGS, OnTopic(live))
    assert (holding["bytes"], holding["entries"], holding["last"], holding["subscriptions"]) == (
        0,
        0,
        "",
        [],
    )
    await topics.delete(bench.engine, live, force=True, seen=holding["seen"])
    with pytest.raises(NotFound):
        await bench.engine.call(HOLDINGS, OnTopic(live))
