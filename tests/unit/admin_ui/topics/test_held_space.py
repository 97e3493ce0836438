"""The reasons that keep a topic's ledgers are read from its broker and summed over partitions."""

from collections.abc import AsyncIterator

import pytest

from admin_ui.topics.held_space import held_space
from engine.admin.api.arguments import EARLIEST_MESSAGE
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.base.errors import Unsupported
from engine.base.names import TopicName
from gateway.services.admin import topics
from tests.support.admin.bench import AdminBench

pytestmark = pytest.mark.virtual_time
TOPIC = TopicName.parse("persistent://public/default/t")


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    yield made
    await made.close()


async def roll(bench: AdminBench) -> None:
    """Write a ledger full of one entry, and begin the next one."""
    await bench.publish(TOPIC, 1)
    await bench.restart()


async def test_a_subscription_holds_the_ledgers_that_it_has_not_acknowledged(
    bench: AdminBench,
) -> None:
    await bench.admin.call(
        CREATE_SUBSCRIPTION, CreateSubscription(TOPIC, "slow", EARLIEST_MESSAGE, {})
    )
    await roll(bench)
    await roll(bench)
    await bench.publish(TOPIC, 1)
    space = await held_space(bench.engine, TOPIC)
    assert [(held["holder"], held["ledgers"]) for held in space["held"]] == [
        ("a subscription", 2),
        ("the current ledger", 1),
    ]
    (slow,) = space["subscriptions"]
    assert (slow["name"], slow["ledgers"], slow["alone_bytes"]) == ("slow", 2, slow["bytes"])
    assert space["held"][0]["next"].startswith("let its consumers acknowledge")
    assert space["ledgers"] == len(space["largest"]) == 3


async def test_a_non_persistent_topic_has_no_ledgers(bench: AdminBench) -> None:
    with pytest.raises(Unsupported):
        await held_space(bench.engine, TopicName.parse("non-persistent://public/default/t"))
