"""Single messages of a subscription are acknowledged without a consumer, and have states."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.admin.api.arguments import EARLIEST_MESSAGE, MessagePosition
from engine.admin.api.cursors import ACKNOWLEDGE_MESSAGES, AcknowledgeMessages
from engine.admin.api.subscriptions import CREATE_SUBSCRIPTION, CreateSubscription
from engine.base.errors import InvalidRequest
from engine.base.names import TopicName
from engine.wire.batches import Message, pack_entry
from gateway.services.admin import topics
from tests.support.admin.attached import attach
from tests.support.admin.bench import AdminBench
from tests.support.ledger_cluster import run_of
from tests.support.managed_cluster import Sink
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time
TOPIC = TopicName.parse("persistent://public/default/t")


@pytest.fixture
async def bench() -> AsyncIterator[AdminBench]:
    made = AdminBench()
    await made.start()
    await topics.create(made.engine, TOPIC, {})
    await made.admin.call(CREATE_SUBSCRIPTION, CreateSubscription(TOPIC, "s", EARLIEST_MESSAGE, {}))
    yield made
    await made.close()


async def acknowledge(
    bench: AdminBench, *places: tuple[int, int], dry: bool = False
) -> dict[str, Any]:
    log = (await bench.loaded(TOPIC)).log
    ledger = log.last_confirmed.ledger_id
    messages = [MessagePosition(ledger, entry, index) for entry, index in places]
    args = AcknowledgeMessages(TOPIC, "s", messages, dry=dry)
    return await bench.engine.call(ACKNOWLEDGE_MESSAGES, args)


async def test_a_dry_call_returns_states_and_changes_nothing(bench: AdminBench) -> None:
    await bench.publish(TOPIC, 3)
    await acknowledge(bench, (1, -1))
    places = [(0, -1), (1, -1), (2, -1), (3, -1), (0, 4)]
    answer = await acknowledge(bench, *places, dry=True)
    assert answer["states"] == ["held", "acknowledged", "held", "gone", "gone"]
    assert (await acknowledge(bench, *places, dry=True))["states"] == answer["states"]


async def test_an_acknowledged_message_is_never_delivered_and_others_are(bench: AdminBench) -> None:
    await bench.publish(TOPIC, 4)
    answer = await acknowledge(bench, (0, -1), (2, -1))
    assert answer["acknowledged"] == 2
    again = await acknowledge(bench, (0, -1), (2, -1))
    assert again["acknowledged"] == 0
    _, client = await attach(bench, TOPIC, "c")
    await until(lambda: len(client.received) == 2)
    await bench.restart()
    assert (await acknowledge(bench, *[(i, -1) for i in range(4)], dry=True))["states"] == [
        *("acknowledged", "held", "acknowledged", "held")
    ]


async def test_a_consumers_count_falls_when_its_message_is_acknowledged_for_it(
    bench: AdminBench,
) -> None:
    await bench.publish(TOPIC, 3)
    consumer, client = await attach(bench, TOPIC, "c")
    await until(lambda: len(client.received) == 3)
    assert consumer.unacked == 3
    await acknowledge(bench, (1, -1))
    assert consumer.unacked == 2


async def test_one_message_of_a_batch_is_acknowledged_and_the_last_one_ends_the_batch(
    bench: AdminBench,
) -> None:
    batch = pack_entry([Message(b"%d" % i) for i in range(3)], producer_name="p", publish_ms=1)
    sink = Sink()
    (await bench.loaded(TOPIC)).log.append(run_of(batch), sink)
    await sink.settle(1)
    assert (await acknowledge(bench, (0, 1)))["states"] == ["held"]
    places = [(0, 0), (0, 1), (0, 2), (0, -1)]
    states = (await acknowledge(bench, *places, dry=True))["states"]
    assert states == ["held", "acknowledged", "held", "held"]
    await acknowledge(bench, (0, 0), (0, 2))
    states = (await acknowledge(bench, *places, dry=True))["states"]
    assert states == ["acknowledged"] * 4


async def test_more_messages_than_the_bound_are_refused(bench: AdminBench) -> None:
    await bench.publish(TOPIC, 1)
    with pytest.raises((InvalidRequest, ValueError), match="length of messages"):
        await acknowledge(bench, *[(0, -1)] * 1_001)
