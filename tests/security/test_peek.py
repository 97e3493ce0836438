"""A peek at a message reads, and leaves nothing behind."""

import pytest

from engine.base.errors import NotFound
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
