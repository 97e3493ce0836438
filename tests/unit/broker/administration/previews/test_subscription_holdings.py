"""The holdings of a subscription are reported, a deletion removes no more of it, one consumer can be disconnected."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, OnSubscription
from engine.admin.api.cursors import RESET_CURSOR, SKIP_MESSAGES, ResetCursor, Skip
from engine.admin.api.subscriptions import (
    CREATE_SUBSCRIPTION,
    DELETE_SUBSCRIPTION,
    DISCONNECT_CONSUMER,
    SUBSCRIPTION_HOLDINGS,
    CreateSubscription,
    DeleteSubscription,
    DisconnectConsumer,
)
from engine.base.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from engine.base.names import TopicName
from engine.metadata import account
from gateway.services.admin import topics
from tests.support.admin.attached import attach
from tests.support.admin.bench import AdminBench
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")
S = OnSubscription(TOPIC, "s")


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    args = CreateSubscription(TOPIC, "s", EARLIEST_MESSAGE, {"team": "a"})
    await made.admin.call(CREATE_SUBSCRIPTION, args)
    await made.publish(TOPIC, 12)
    yield made
    await made.close()


async def held(bench: AdminBench) -> dict[str, Any]:
    return await bench.engine.call(SUBSCRIPTION_HOLDINGS, S)


async def delete(bench: AdminBench, seen: Any, **how: bool) -> dict[str, Any]:
    args = DeleteSubscription(TOPIC, "s", seen=seen, **how)
    return await bench.engine.call(DELETE_SUBSCRIPTION, args)


async def test_holdings_report_the_backlog_and_the_connected_consumers(bench: AdminBench) -> None:
    await bench.admin.call(SKIP_MESSAGES, Skip(TOPIC, "s", 5))
    holding = await held(bench)
    assert (holding["entries"], holding["messages"], holding["exact"], holding["unread"]) == (
        7,
        7,
        True,
        "",
    )
    assert (holding["durable"], holding["type"], holding["consumers"]) == (True, "", [])
    _, client = await attach(bench, TOPIC, "c", permits=3)
    await until(lambda: len(client.received) == 3)
    holding = await held(bench)
    assert holding["type"] == "Shared"
    assert holding["consumers"] == [
        {"name": "c", "address": "/c:1", "id": 1, "connected_ms": 1_000, "unacked": 3}
    ]


async def test_a_deletion_counts_entries_published_after_the_preview(bench: AdminBench) -> None:
    seen = (await held(bench))["seen"]
    await bench.admin.call(SKIP_MESSAGES, Skip(TOPIC, "s", 2))
    await bench.publish(TOPIC, 3)
    with account.opened() as accounted:
        assert await delete(bench, seen, dry=True) == {}
        done = await delete(bench, seen)
    assert (done["before"]["entries"], done["later"]) == (13, 3)
    (entry,) = accounted.changes
    assert (entry.where, entry.before["properties"]) == ("delete_subscription", {"team": "a"})
    with pytest.raises(NotFound):
        await held(bench)


async def test_a_subscription_that_was_moved_back_is_not_deleted(bench: AdminBench) -> None:
    await bench.admin.call(SKIP_MESSAGES, Skip(TOPIC, "s", 5))
    seen = (await held(bench))["seen"]
    await bench.publish(TOPIC, 3)
    await bench.admin.call(RESET_CURSOR, ResetCursor(TOPIC, "s", timestamp_ms=0))
    for dry in (True, False):
        with pytest.raises(Conflict, match="was moved back since the preview; nothing was deleted"):
            await delete(bench, seen, dry=dry)
    assert (await held(bench))["entries"] == 15


async def test_consumers_keep_a_subscription_unless_it_is_forced(bench: AdminBench) -> None:
    _, client = await attach(bench, TOPIC, "c")
    seen = (await held(bench))["seen"]
    with pytest.raises(Conflict, match="1 consumer is connected"):
        await delete(bench, seen)
    with pytest.raises(PreconditionFailed, match="active connected consumers"):
        await delete(bench, None)
    assert client.dropped == []
    _, other = await attach(bench, TOPIC, "later", id=2)
    with pytest.raises(Conflict, match="connected since the preview: later at /later:1"):
        await delete(bench, seen, force=True)
    assert other.dropped == []
    done = await delete(bench, (await held(bench))["seen"], force=True)
    assert done["before"]["consumers"] == ["c at /c:1", "later at /later:1"]
    assert (client.dropped, other.dropped) == ([1], [2])


async def test_an_invalid_preview_is_refused(bench: AdminBench) -> None:
    seen = (await held(bench))["seen"]
    for wrong in ({}, {**seen, "last": "x"}, {**seen, "unread": "many"}, 3):
        with pytest.raises(InvalidRequest, match="seen"):
            await delete(bench, wrong)
    assert (await held(bench))["entries"] == 12


async def test_an_unreadable_subscription_is_deleted_only_if_previewed_as_unreadable(
    bench: AdminBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = await bench.loaded(TOPIC)
    readable = (await held(bench))["seen"]
    with monkeypatch.context() as patch:
        patch.delitem(topic.subscriptions, "s")
        patch.setattr(type(topic.subscriptions), "unread", {"s": "a bookie is away"})
        holding = await held(bench)
        assert (holding["unread"], holding["entries"], holding["messages"]) == (
            *("a bookie is away", None, None),
        )
        with pytest.raises(Conflict, match="cannot be read now"):
            await delete(bench, readable, dry=True)
        assert await delete(bench, holding["seen"], dry=True) == {}
    with pytest.raises(Conflict, match="can be read again"):
        await delete(bench, holding["seen"])


async def disconnect(bench: AdminBench, consumer: dict[str, Any]) -> dict[str, Any]:
    who = {name: consumer[name] for name in ("name", "address", "id", "connected_ms")}
    args = DisconnectConsumer(TOPIC, "s", **who)
    return await bench.engine.call(DISCONNECT_CONSUMER, args)


async def test_a_disconnected_consumers_messages_go_to_another(bench: AdminBench) -> None:
    _, first = await attach(bench, TOPIC, "a", permits=12)
    await until(lambda: len(first.received) == 12)
    _, second = await attach(bench, TOPIC, "b", id=2)
    consumers = {consumer["name"]: consumer for consumer in (await held(bench))["consumers"]}
    done = await disconnect(bench, consumers["a"])
    assert done == {"before": {"unacked": 12}}
    await until(lambda: len(second.received) == 12)
    assert (first.dropped, second.dropped) == ([1], [])
    with pytest.raises(NotFound, match="not connected to s any more"):
        await disconnect(bench, consumers["a"])
    await attach(bench, TOPIC, "a", connected_ms=2_000)
    with pytest.raises(Conflict, match="reconnected since the preview"):
        await disconnect(bench, consumers["a"])


async def test_a_disconnected_client_finds_its_subscription_again(bench: AdminBench) -> None:
    await attach(bench, TOPIC, "a", permits=0)
    await disconnect(bench, (await held(bench))["consumers"][0])
    _, client = await attach(bench, TOPIC, "a")
    await until(lambda: len(client.received) == 12)
