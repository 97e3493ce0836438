"""The console's live tail and publishing in front of Apache's broker, by the broker's port for clients."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest

from admin_ui.messages import publishing
from admin_ui.messages.tail import tails
from engine.base.errors import MagnetarError
from engine.base.names import TopicName
from gateway.apache_settings import ApacheCluster
from gateway.clusters.cluster import Cluster
from gateway.services.browsing.filters import MessageFilter
from gateway.services.browsing.tailing import TailWatch
from gateway.services.engine_link import EngineLink
from tests.oracle.conftest import Side
from tests.support.admin.clusters import cluster_before
from tests.support.waiting import until

PLACE = "public/followed"
TOPICS = {"parted": 2, "burst": 0, "unreached": 0, "published": 2}
"""Partitions of each topic. They exist before a console reads the cluster."""
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
DEFINITION = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
LinkTo = Callable[[ApacheCluster], EngineLink]


def topic_of(name: str) -> TopicName:
    return TopicName.parse(f"persistent://{PLACE}/{name}")


@pytest.fixture(scope="module")
def theirs(sides: tuple[Side, Side]) -> Side:
    side, _ = sides
    assert side.put(f"/admin/v2/namespaces/{PLACE}") in (204, 409)
    for name, partitions in TOPICS.items():
        path = f"/admin/v2/persistent/{PLACE}/{name}"
        created = side.put(f"{path}/partitions", partitions) if partitions else side.put(path)
        assert created == 204
    return side


@pytest.fixture
async def cluster(
    theirs: Side, apache_cluster: ApacheCluster, link: EngineLink, tmp_path: Path
) -> AsyncIterator[Cluster]:
    made = cluster_before(apache_cluster, link, tmp_path)
    yield made
    await made.publisher.close()
    await made.client.close()


def texts(watch: TailWatch) -> list[str]:
    rows = [browsed.message for _, browsed in watch.take()]
    return [(row.value or b"").decode() for row in rows if row is not None]


async def test_a_tail_shows_each_message_once_across_an_unload_and_leaves_no_subscription(
    theirs: Side, cluster: Cluster
) -> None:
    topic = topic_of("parted")
    client = pulsar.Client(theirs.url, logger=QUIET)
    watch = None
    try:
        producer = client.create_producer(
            str(topic),
            compression_type=pulsar.CompressionType.LZ4,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
        )
        await asyncio.to_thread(producer.send, b"before")
        watch = cluster.part(tails).watch(topic, MessageFilter(), 100)
        only = cluster.part(tails).watch(topic, MessageFilter(text="a9"), 100)
        await until(lambda: watch.tail.since_ms is not None)
        shown: list[str] = []

        def publish(mark: str, count: int) -> None:
            for number in range(count):
                producer.send_async(f"{mark}{number}".encode(), lambda *_: None)
            producer.flush()

        def received(count: int) -> bool:
            shown.extend(texts(watch))
            return watch.received >= count

        # Slower than the rate of the watch, so that each message is shown.
        for begin in range(0, 100, 20):
            await asyncio.to_thread(publish, f"{begin}-", 20)
            await until(lambda begin=begin: received(begin + 20), lambda: watch.tail.problem)
        held = json.loads(
            theirs.call("GET", f"/admin/v2/persistent/{PLACE}/parted-partition-0/stats")[1]
        )
        assert [item["durable"] for item in held["subscriptions"].values()] == [False]
        assert theirs.put(f"/admin/v2/persistent/{PLACE}/parted/unload") == 204
        await asyncio.to_thread(publish, "a", 50)
        await until(lambda: received(150), lambda: watch.tail.problem)
        assert sorted(shown) == sorted(
            [f"{begin}-{number}" for begin in range(0, 100, 20) for number in range(20)]
            + [f"a{number}" for number in range(50)]
        )
        assert (watch.received, watch.shown, watch.passed_over) == (150, 150, 0)
        assert watch.tail.problem == ""
        await until(lambda: only.received == 150)  # filtered by a thread, behind the first
        assert (only.filtered, texts(only)) == (149, ["a9"])
        await only.end()
    finally:
        if watch is not None:
            await watch.end()
        client.close()

    def left() -> bool:
        answers = [
            theirs.call("GET", f"/admin/v2/persistent/{PLACE}/parted-partition-{i}/stats")[1]
            for i in range(2)
        ]
        return not any(json.loads(answer)["subscriptions"] for answer in answers)

    await until(left)


async def test_messages_beyond_the_rate_and_large_ones_are_counted(
    theirs: Side, cluster: Cluster
) -> None:
    topic = topic_of("burst")
    watch = cluster.part(tails).watch(topic, MessageFilter(), 5)
    client = pulsar.Client(theirs.url, logger=QUIET)
    try:
        await until(lambda: watch.tail.since_ms is not None)
        producer = client.create_producer(str(topic), block_if_queue_full=True)

        def publish() -> None:
            for number in range(5_000):
                producer.send_async(b"x" * (number % 500), lambda *_: None)
            for _ in range(12):
                producer.send(bytes(4 << 20))

        await asyncio.to_thread(publish)
        await until(
            lambda: watch.received == 5_012, lambda: f"{watch.received} {watch.tail.problem}"
        )
        watch.take()
        assert watch.shown + watch.passed_over == 5_012
        assert watch.shown <= 300
    finally:
        client.close()
        await watch.end()


async def test_a_port_for_clients_that_cannot_be_reached_is_named(
    theirs: Side, apache_cluster: ApacheCluster, link_to: LinkTo, tmp_path: Path
) -> None:
    elsewhere = ApacheCluster(
        "theirs", apache_cluster.url, apache_cluster.remote, service_url="pulsar://127.0.0.1:1"
    )
    link = link_to(elsewhere)
    cluster = cluster_before(elsewhere, link, tmp_path)
    topic = topic_of("unreached")
    watch = cluster.part(tails).watch(topic, MessageFilter(), 5)
    await until(lambda: "127.0.0.1:1" in watch.tail.problem)
    assert watch.wake.is_set(), "the page shows it at once"
    await watch.end()
    body = {"messages": [{"value": "x"}]}
    prepared = await link.arun(lambda engine: publishing.prepare(engine, topic, body))
    with pytest.raises(MagnetarError, match=r"127\.0\.0\.1:1"):
        await publishing.publish(cluster.publisher, prepared)
    await cluster.publisher.close()
    await cluster.client.close()


async def test_published_messages_are_those_that_a_consumer_receives(
    theirs: Side, cluster: Cluster
) -> None:
    topic = topic_of("published")
    schema = {"type": "AVRO", "schema": json.dumps(DEFINITION), "properties": {}}
    assert theirs.post(f"/admin/v2/schemas/{PLACE}/published/schema", schema) == 200
    given = [
        {"value": {"n": number}, "key": f"k{number % 3}", "properties": {"i": str(number)}}
        for number in range(20)
    ]
    link = cluster.link
    wrong = await link.arun(
        lambda engine: publishing.prepare(engine, topic, {"messages": [{"value": {"n": "x"}}]})
    )
    assert wrong.answer["wrong"] == 1
    prepared = await link.arun(
        lambda engine: publishing.prepare(engine, topic, {"messages": given})
    )
    assert (prepared.answer["wrong"], prepared.answer["schema_version"]) == (0, 0)
    receipt: dict[str, Any] = await publishing.publish(cluster.publisher, prepared)
    assert receipt["stored"] == 20

    def received() -> list[tuple[int, str, str]]:
        client = pulsar.Client(theirs.url, logger=QUIET)
        reader = client.create_reader(
            str(topic),
            pulsar.MessageId.earliest,
            schema=pulsar.schema.AvroSchema(None, schema_definition=DEFINITION),
        )
        rows = []
        while reader.has_message_available():
            message = reader.read_next(30_000)
            properties = message.properties()
            rows.append((message.value()["n"], message.partition_key(), properties["i"]))
        client.close()
        return sorted(rows)

    expected = sorted((number, f"k{number % 3}", str(number)) for number in range(20))
    assert await asyncio.to_thread(received) == expected
    status, body = theirs.call("GET", f"/admin/v2/schemas/{PLACE}/published/schemas")
    assert status == 200
    assert len(json.loads(body)["getSchemaResponses"]) == 1, "no version is added"
