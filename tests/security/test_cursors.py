"""Cursors: a peek leaves nothing behind, and a confirmed change is made once however often it is sent."""

import asyncio

import pytest

from admin_ui.subscriptions import services, tokens
from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.admin.api.cursors import RESET_CURSOR, ResetCursor
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.base.errors import NotFound, Refusal
from engine.base.names import TopicName
from engine.metadata.store import NoNodeError
from gateway.services.admin import messages, topics
from tests.support.admin.bench import AdminBench, bench

__all__ = ["bench"]
pytestmark = pytest.mark.virtual_time

TOPIC = TopicName.parse("persistent://public/default/t")


async def test_a_peek_creates_no_subscription(bench: AdminBench) -> None:
    await topics.create(bench.engine, TOPIC, {})
    await bench.publish(TOPIC, 2)
    with pytest.raises(NotFound):
        await messages.peek(bench.engine, TOPIC, "new", 1)
    assert (await bench.loaded(TOPIC)).subscriptions == {}


async def test_a_peek_creates_no_topic(bench: AdminBench) -> None:
    with pytest.raises(NotFound):
        await messages.peek(bench.engine, TOPIC, "new", 1)
    with pytest.raises(NoNodeError):
        await bench.store.children("/managed-ledgers/public/default/persistent")


async def test_a_confirmed_change_is_made_once(bench: AdminBench) -> None:
    await bench.admin.call(CREATE_SUBSCRIPTION, CreateSubscription(TOPIC, "s", EARLIEST_MESSAGE))
    await bench.publish(TOPIC, 10)
    shown = await services.preview(bench.engine, TOPIC, "s", "skip", "ann", count=4)

    async def confirm() -> int:
        """Send the confirmation, and return the status of its answer."""
        change = tokens.read("standalone", shown["token"], str(TOPIC), "s", "skip", "ann")
        try:
            return (await services.apply(bench.engine, TOPIC, change)).status
        except Refusal:
            return 409

    async def backlog() -> int:
        return (await bench.loaded(TOPIC)).subscriptions["s"].cursor.backlog_entries()

    statuses = await asyncio.gather(*(confirm() for _ in range(3)))
    assert await backlog() == 6, statuses
    assert 200 in statuses
    await confirm()
    assert await backlog() == 6
    # The state is again the one of the preview.
    await bench.admin.call(RESET_CURSOR, ResetCursor(TOPIC, "s", timestamp_ms=0))
    assert (await backlog(), await confirm()) == (10, 409)
    assert await backlog() == 10
