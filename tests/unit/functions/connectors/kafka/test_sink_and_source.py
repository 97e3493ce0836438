"""Messages pass through Kafka's protocol once each, in the order of their keys, over kills of the instance.

The cluster is the one that the client library simulates; ``tests/integration/functions`` has Apache's own server.
"""

import asyncio
from typing import Any

import pytest

from engine.functions.connectors.connector_settings import checked
from engine.functions.connectors.kafka.kafka_sink import SINK_SETTINGS, KafkaSink
from engine.functions.connectors.kafka.kafka_source import SOURCE_SETTINGS, KafkaSource
from engine.functions.connectors.spi import ConnectorError
from tests.support.functions.connector_host import FakeContext, Settlements, read_all

kafka = pytest.importorskip("confluent_kafka", reason="needs confluent-kafka")
from confluent_kafka.admin import AdminClient  # noqa: E402


class Cluster:
    """A simulated cluster with an empty topic ``t``."""

    def __init__(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": "none:1", "test.mock.num.brokers": 1})
        (broker,) = self._admin.list_topics(timeout=30).brokers.values()
        self.servers = f"{broker.host}:{broker.port}"
        self._admin.list_topics("t", timeout=30)  # which creates it


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


async def sink_of(cluster: Cluster, **settings: object) -> KafkaSink:
    sink = KafkaSink()
    given = {"bootstrapServers": cluster.servers, "topic": "t", **settings}
    await sink.open(checked(SINK_SETTINGS, given), FakeContext())
    return sink


async def source_of(cluster: Cluster, **settings: object) -> KafkaSource:
    source = KafkaSource()
    given = {"bootstrapServers": cluster.servers, "topics": ["t"], "batch": 10, **settings}
    await source.open(checked(SOURCE_SETTINGS, given), FakeContext())
    return source


async def write(cluster: Cluster, count: int) -> Settlements:
    sink, seen = await sink_of(cluster), Settlements()
    await sink.write([seen.record(n, b"%d" % n, key=f"k{n % 5}") for n in range(count)])
    await sink.close()
    return seen


async def test_messages_are_acknowledged_when_the_cluster_has_them(cluster: Cluster) -> None:
    seen = await write(cluster, 25)
    assert len(seen.acked) == 25
    source = await source_of(cluster)
    records = await read_all(source, 25)
    await source.close()
    by_key: dict[str | None, list[int]] = {}
    for record in records:
        by_key.setdefault(record.key, []).append(int(record.value))
    assert by_key == {f"k{k}": list(range(k, 25, 5)) for k in range(5)}
    (record,) = [record for record in records if record.value == b"7"]
    assert record.properties["magnetar-message-id"] == "7:7:0:-1"
    assert record.event_time_ms == 1_700_000_000_007
    assert record.sequence == int(record.properties["kafka.offset"])


async def test_a_killed_source_reads_again_all_that_was_not_committed(cluster: Cluster) -> None:
    await write(cluster, 30)
    seen: dict[tuple[str, int | None], bytes] = {}
    source = await source_of(cluster)
    records = await read_all(source, 20)
    for record in records[:12]:
        record.ack()
    await source.commit()
    for record in records[12:]:
        record.ack()  # after the last commit
    seen |= {(record.partition, record.sequence): record.value for record in records}
    await source.close()
    source = await source_of(cluster)
    for record in await read_all(source, 18):
        assert seen.setdefault((record.partition, record.sequence), record.value) == record.value
    await source.close()
    assert sorted(map(int, seen.values())) == list(range(30))


async def test_a_cancelled_read_loses_nothing(cluster: Cluster) -> None:
    source = await source_of(cluster)
    reading = asyncio.ensure_future(source.read())
    await asyncio.sleep(0)
    reading.cancel()
    await asyncio.wait([reading])
    await write(cluster, 3)
    assert len(await read_all(source, 3)) == 3
    await source.close()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"topic": "missing"}, "no Kafka topic missing"),
    ],
)
async def test_settings_that_cannot_work_are_named(
    cluster: Cluster, settings: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConnectorError, match=text):
        await sink_of(cluster, **settings)
