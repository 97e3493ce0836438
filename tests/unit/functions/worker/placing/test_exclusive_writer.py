"""The topics of the workers have one writer at a time."""

from collections.abc import AsyncIterator

import pytest

from engine.base.entropy import RandomEntropy
from engine.client.client import PulsarClient
from engine.functions.worker.placing.exclusive_writer import ExclusiveWriter
from engine.wire.errors import RefusedError
from tests.support.admin.several_brokers import SeveralBrokers
from tests.support.waiting import until

pytestmark = pytest.mark.virtual_time

TOPIC = "persistent://public/default/written"


@pytest.fixture
async def client() -> AsyncIterator[PulsarClient]:
    brokers = SeveralBrokers()
    await brokers.start(1)

    async def urls() -> list[str]:
        return [broker.record.service_url for broker in brokers.brokers]

    cluster = brokers.cluster
    made = PulsarClient(
        network=cluster.network, clock=cluster.clock, entropy=RandomEntropy(), brokers=urls
    )
    try:
        yield made
    finally:
        await made.close()
        await brokers.close()


async def test_a_topic_has_one_writer_at_a_time(client: PulsarClient) -> None:
    first = await ExclusiveWriter.open(client, TOPIC, "one", client.clock)
    with pytest.raises(RefusedError):
        await ExclusiveWriter.open(client, TOPIC, "other", client.clock)
    await first.close()
    second = await ExclusiveWriter.open(client, TOPIC, "other", client.clock)
    await second.close()


async def test_writes_have_rising_positions(client: PulsarClient) -> None:
    writer = await ExclusiveWriter.open(client, TOPIC, "one", client.clock)
    positions = [await writer.write(b"x", key="k") for _ in range(3)]
    assert positions == sorted(set(positions))
    await writer.close()


async def test_a_writer_that_lost_its_link_writes_nothing_more(client: PulsarClient) -> None:
    writer = await ExclusiveWriter.open(client, TOPIC, "one", client.clock)
    await client.close()
    await until(writer.ended.done)
    with pytest.raises(type(writer.ended.result())):
        await writer.write(b"x")
