"""Replication between a cluster of ours and one of Apache Pulsar, in both directions, each with its own configuration
store; and around a circle of two of ours and Apache's."""

import asyncio
import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pulsar
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from pulsar.schema import AvroSchema, Integer, JsonSchema, Record, String

from tests.crash.load import quiet_client
from tests.geo.traffic import Traffic
from tests.oracle.client.talk import wait_for
from tests.oracle.conftest import Side
from tests.oracle.servers import (
    ApacheBookie,
    ApacheBroker,
    OurBookie,
    OurBroker,
    OurGateway,
    OurMetadata,
    make_root,
)
from tests.support.ports import free_ports

pytestmark = [pytest.mark.slow]

APACHE, OURS, OTHER = "apache", "ours", "other"
BOTH = [(OURS, APACHE), (APACHE, OURS)]
ARRIVES_MS = 75_000
KEY = "key"
QUORUMS = ("ensemble_size", "write_quorum", "ack_quorum")
FOR_EVER = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
RATE, KILLED_S = 150.0, 4.0
STARTS_S = 150.0


class OurCluster(Side):
    """A cluster of ours with one broker, bookie and gateway."""

    def __init__(self, work: Path, name: str) -> None:
        folder = work / name
        folder.mkdir()
        self.metadata = OurMetadata(folder)
        zk = self.metadata.zk
        quorums = {f"managed_ledger_default_{part}": 1 for part in QUORUMS}
        self.bookie = OurBookie(folder, "bookie", zk)
        self.broker = OurBroker(folder, "broker", zk, name, **quorums)
        self.gateway = OurGateway(folder, "gateway", zk, name)
        super().__init__(name, self.broker.url, self.gateway.http)

    def start(self) -> None:
        for part in (self.metadata, self.bookie, self.broker, self.gateway):
            part.start(STARTS_S)

    def kill(self) -> None:
        for part in (self.gateway, self.broker, self.bookie, self.metadata):
            part.kill()


class ApacheCluster(Side):
    """A cluster of Apache's with one broker and one bookie."""

    def __init__(self, work: Path, zookeeper: str) -> None:
        self.zk = f"{zookeeper}/geo"
        (port,) = free_ports(1, gap=4)
        self.bookie = ApacheBookie(work, "apache-bookie", self.zk, port)
        self.broker = ApacheBroker(
            work, "apache", self.zk, init=True, quorums="1,1,1", cluster=APACHE
        )
        super().__init__(APACHE, self.broker.url, self.broker.http)

    def start(self) -> None:
        asyncio.run(make_root(self.zk))
        self.bookie.start()
        self.broker.start()

    def stop(self) -> None:
        self.broker.stop()
        self.bookie.stop()


class Instance:
    """The three clusters by name, each of which knows the others."""

    def __init__(self, work: Path, zookeeper: str) -> None:
        self.work = work
        self.apache = ApacheCluster(work, zookeeper)
        self.ours = OurCluster(work, OURS)
        self.other = OurCluster(work, OTHER)
        self.sides: dict[str, Side] = {s.name: s for s in (self.apache, self.ours, self.other)}

    def __enter__(self) -> "Instance":
        self.apache.start()
        self.ours.start()
        self.other.start()
        names = list(self.sides)
        for side in self.sides.values():
            for other in self.sides.values():
                record = {"serviceUrl": other.http, "brokerServiceUrl": other.url}
                if other is not side:
                    assert side.put(f"/admin/v2/clusters/{other.name}", record) in (200, 204)
            assert side.post("/admin/v2/tenants/public", {"allowedClusters": names}) == 204
        return self

    def __exit__(self, *_: object) -> None:
        self.ours.kill()
        self.other.kill()
        self.apache.stop()

    def replicate(self, namespace: str, clusters: list[str]) -> None:
        """Create a namespace that is sent between ``clusters``, in each of them."""
        for name in clusters:
            side, path = self.sides[name], f"/admin/v2/namespaces/public/{namespace}"
            assert side.put(path, {"replication_clusters": clusters}) == 204
            assert side.post(f"{path}/deduplication", True) == 204
            assert side.post(f"{path}/retention", FOR_EVER) == 204

    def client(self, name: str) -> pulsar.Client:
        return quiet_client(self.sides[name].url, str(self.work / f"client-{name}.log"))

    def link(self, source: str, topic: str, target: str) -> dict[str, Any]:
        """Return what the statistics of a topic say of its replication to a cluster."""
        path = topic.replace("://", "/")
        status, body = self.sides[source].call("GET", f"/admin/v2/{path}/stats")
        links = json.loads(body)["replication"] if status == 200 else {}
        return dict(links.get(target, {}))

    def begin(self, source: str, topic: str, target: str) -> None:
        """Load the topic, and wait until its replicator is connected: it sends only what is published later."""
        with_client = self.client(source)
        with_client.create_producer(topic).close()
        with_client.close()
        wait_for(
            lambda: self.link(source, topic, target).get("connected"), f"{topic} from {source}"
        )


@pytest.fixture(scope="module")
def instance(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with Instance(tmp_path_factory.mktemp("geo"), zookeeper) as made:
        made.replicate("both", [OURS, APACHE])
        yield made


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pulsar.CryptoKeyReader:
    folder = tmp_path_factory.mktemp("keys")
    private = rsa.generate_private_key(65537, 2048)
    (folder / "private.pem").write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    (folder / "public.pem").write_bytes(
        private.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
    )
    return pulsar.CryptoKeyReader(str(folder / "public.pem"), str(folder / "private.pem"))


def seen(message: Any) -> tuple[Any, ...]:
    """Return what a consumer sees of a message, apart from its place and Apache's property of its place of origin."""
    properties = {k: v for k, v in message.properties().items() if not k.startswith("__MSG_PROP")}
    return (
        message.producer_name(),
        message.data(),
        properties,
        message.partition_key(),
        message.ordering_key(),
        message.event_timestamp(),
        message.publish_timestamp(),
    )


def received(
    instance: Instance,
    name: str,
    topic: str,
    count: int,
    keys: pulsar.CryptoKeyReader | None = None,
) -> list[tuple[Any, ...]]:
    """Return what a cluster holds of a topic, once there are ``count`` messages."""
    client = instance.client(name)
    consumer = client.subscribe(
        topic,
        f"all-{time.monotonic_ns()}",
        consumer_type=pulsar.ConsumerType.Shared,
        initial_position=pulsar.InitialPosition.Earliest,
        crypto_key_reader=keys,
    )
    rows: list[tuple[Any, ...]] = []
    try:
        while True:
            rows.append(seen(consumer.receive(ARRIVES_MS if len(rows) < count else 1_000)))
    except pulsar.Timeout:
        client.close()
    assert len(rows) == count, "\n".join(f"{row[0]} {row[1][:20]!r}" for row in rows)
    return rows


@pytest.mark.parametrize(("source", "target"), BOTH)
def test_messages_of_every_kind_arrive_as_they_were_published(
    instance: Instance, keys: pulsar.CryptoKeyReader, source: str, target: str
) -> None:
    topic = f"persistent://public/both/kinds-of-{source}"
    instance.begin(source, topic, target)
    client = instance.client(source)

    def producer(name: str, **options: Any) -> Any:
        return client.create_producer(topic, producer_name=name, **options)

    plain = producer("plain")
    plain.send(b"plain", {"a": "1", "b": "2"}, event_timestamp=1234)
    plain.send(b"keyed", partition_key="k", ordering_key="o")
    plain.send(b"for the other", replication_clusters=[target])
    batched = producer("batched", batching_enabled=True, batching_max_publish_delay_ms=50)
    for number in range(10):
        batched.send_async(b"%d" % number, lambda *_: None, {"n": str(number)}, f"k{number}")
    batched.flush()
    producer("compressed", compression_type=pulsar.CompressionType.LZ4).send(b"z" * 10_000)
    packed = producer("both", compression_type=pulsar.CompressionType.ZLib, batching_enabled=True)
    packed.send(b"y" * 10_000)
    producer("sealed", encryption_key=KEY, crypto_key_reader=keys).send(b"secret")
    chunked = source == OURS  # Apache's replicator leaves out chunks of the greatest size
    if chunked:
        producer("chunked", chunking_enabled=True).send(bytes(range(256)) * 48_000)
    count = 16 + chunked
    here = received(instance, source, topic, count, keys)
    plain.send(b"later", deliver_at=int(time.time() * 1000) + 3_000)
    plain.send(b"for this one", replication_clusters=[source])
    plain.send(b"for none", disable_replication=True)
    plain.send(b"last")
    client.close()
    there = received(instance, target, topic, count + 2, keys)
    assert sorted(there[:count], key=repr) == sorted(here, key=repr)
    assert sorted(row[1] for row in there[count:]) == [b"last", b"later"]
    wait_for(lambda: instance.link(source, topic, target)["replicationBacklog"] == 0, "no backlog")


class One(Record):
    a = Integer()


class Two(Record):
    a = Integer()
    b = String(required_default=True)


@pytest.mark.parametrize("kind", [JsonSchema, AvroSchema])
@pytest.mark.parametrize(("source", "target"), BOTH)
def test_schemas_and_their_versions_arrive(
    instance: Instance, source: str, target: str, kind: Any
) -> None:
    topic = f"persistent://public/both/{kind.__name__}-of-{source}"
    client, there = instance.client(source), instance.client(target)
    first = client.create_producer(topic, schema=kind(One))
    wait_for(lambda: instance.link(source, topic, target).get("connected"), "a connection")
    first.send(One(a=1))
    second = client.create_producer(topic, schema=kind(Two))
    second.send(Two(a=2, b="two"))
    first.send(One(a=3))
    consumer = there.subscribe(
        topic, "typed", schema=kind(Two), initial_position=pulsar.InitialPosition.Earliest
    )
    values = [consumer.receive(ARRIVES_MS).value() for _ in range(3)]
    assert [value.a for value in values] == [1, 2, 3]
    assert values[1].b == "two"
    client.close()
    there.close()


def test_a_schema_that_the_other_cluster_refuses_pauses_and_says_why(instance: Instance) -> None:
    topic = "persistent://public/both/refused"
    instance.begin(OURS, topic, APACHE)
    policy = "/admin/v2/namespaces/public/both/schemaCompatibilityStrategy"
    client = instance.client(OURS)
    client.create_producer(topic, schema=JsonSchema(One)).send(One(a=1))
    wait_for(lambda: instance.link(OURS, topic, APACHE)["msgOutCount"] == 1, "the first")
    theirs = instance.sides[APACHE]
    assert theirs.call("PUT", policy, "ALWAYS_INCOMPATIBLE")[0] == 204
    client.create_producer(topic, schema=JsonSchema(Two)).send(Two(a=2))
    wait_for(
        lambda: "ncompatible" in (instance.link(OURS, topic, APACHE).get("blockedBy") or ""),
        "the reason",
    )
    assert instance.link(OURS, topic, APACHE)["replicationBacklog"] == 1
    assert theirs.call("PUT", policy, "UNDEFINED")[0] == 204
    wait_for(lambda: instance.link(OURS, topic, APACHE)["replicationBacklog"] == 0, "the second")
    client.close()
    assert len(received(instance, APACHE, topic, 2)) == 2


@pytest.mark.parametrize(("source", "target"), BOTH)
def test_partitions_are_created_there_and_sent_once_they_are_as_many(
    instance: Instance, source: str, target: str
) -> None:
    path = f"public/both/parts-of-{source}"
    topic, partitions = f"persistent://{path}", f"/admin/v2/persistent/{path}/partitions"
    here, there = instance.sides[source], instance.sides[target]
    assert here.put(partitions, 2) == 204
    for number in range(2):
        instance.begin(source, f"{topic}-partition-{number}", target)
    assert publish_each(instance, source, topic, 4)
    assert len(received(instance, target, topic, 4)) == 4
    assert here.post(partitions, 4) == 204
    if source == OURS:  # Apache's broker changes the other cluster first
        client = instance.client(source)
        client.create_producer(f"{topic}-partition-3").close()
        client.close()
        reason = "partitions of .* differ: 4 here, 2 in apache"
        wait_for(
            lambda: re.search(
                reason, instance.link(source, f"{topic}-partition-3", target).get("blockedBy") or ""
            ),
            "the reason",
        )
        assert there.post(partitions, 4) == 204
    for number in range(4):
        instance.begin(source, f"{topic}-partition-{number}", target)
    assert publish_each(instance, source, topic, 8)
    status, body = there.call("GET", partitions)
    assert (status, json.loads(body)["partitions"]) == (200, 4)
    assert len(received(instance, target, topic, 12)) == 12


def publish_each(instance: Instance, name: str, topic: str, count: int) -> bool:
    """Publish messages one after the other, each to the next partition; return whether all have a receipt."""
    client = instance.client(name)
    producer = client.create_producer(topic)
    places = [producer.send(b"m") for _ in range(count)]
    client.close()
    return len(places) == count


def loaded(instance: Instance, what: str, killed: Sequence[OurBroker | ApacheBroker]) -> Traffic:
    """Return traffic of both clusters, in the midst of which brokers were killed, once all of it arrived."""
    topics = [f"persistent://public/both/{what}-{number}" for number in range(4)]
    for topic in topics:
        instance.begin(OURS, topic, APACHE)
        instance.begin(APACHE, topic, OURS)
    urls = {name: instance.sides[name].url for name in (OURS, APACHE)}
    traffic = Traffic(urls, topics, RATE, str(instance.work / f"{what}.log"))
    try:
        traffic.begin()
        for broker in killed:
            time.sleep(KILLED_S)  # time: of load before each death
            broker.kill()
            time.sleep(KILLED_S)  # time: the other cluster sends into nothing meanwhile
            broker.start()
        time.sleep(KILLED_S)  # time: of load after the last one
        traffic.stop_sending(90)
        assert traffic.confirmed > 500
        traffic.wait_all(traffic.holdings, 90)
    finally:
        traffic.close()
    return traffic


def test_killing_our_broker_loses_doubles_and_reorders_nothing(instance: Instance) -> None:
    ours = instance.ours.broker
    traffic = loaded(instance, "ours-killed", [ours, ours])
    assert traffic.problems(traffic.holdings) == []


def test_killing_apaches_broker_loses_and_reorders_nothing(instance: Instance) -> None:
    """Apache's broker reads no source positions when it loads a topic: what was stored after its last snapshot, and has
    no receipt, is stored twice there."""
    traffic = loaded(instance, "apache-killed", [instance.apache.broker])
    for holding in traffic.holdings:
        if holding.cluster == APACHE:
            holding.doubled.clear()
    assert traffic.problems(traffic.holdings) == []


def test_around_a_circle_of_three_each_message_arrives_once(instance: Instance) -> None:
    names = [OURS, OTHER, APACHE]
    instance.replicate("circle", names)
    topic = "persistent://public/circle/t"
    for source in names:
        for target in names:
            if source != target:
                instance.begin(source, topic, target)
    for name in names:
        client = instance.client(name)
        producer = client.create_producer(topic, producer_name=f"of-{name}")
        for number in range(20):
            producer.send(b"%d" % number)
        client.close()
    wanted = sorted((f"of-{name}", b"%d" % number) for name in names for number in range(20))
    for name in names:
        rows = received(instance, name, topic, 60)
        assert sorted(row[:2] for row in rows) == wanted
        of_each = [[row[1] for row in rows if row[0] == f"of-{n}"] for n in names]
        assert of_each == [[b"%d" % number for number in range(20)]] * 3
