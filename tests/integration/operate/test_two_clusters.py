"""Two clusters: clients move from one to the other, and a namespace that one of them leaves."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from engine.base.clock import SystemClock
from engine.base.entropy import RandomEntropy
from engine.client.client import PulsarClient
from engine.client.raw_producer import RawProducer
from engine.client.raw_reader import RawReader
from engine.net.network import LoopNetwork
from gateway.standalone.plan import CONFIGURATION
from spark_jobs.analysis import OTHER
from spark_jobs.catalogue import ANALYSES
from tests.crash.load import quiet_client
from tests.support.analyses.runs import Answer, Shown
from tests.support.instance import Instance, running_instance
from tests.support.waiting import until_blocking

BLUE, GREEN = "blue", "green"
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    folder = tmp_path_factory.mktemp("two")
    with running_instance(folder, clusters=(BLUE, GREEN)) as running:
        for part in running.control("status")["children"]:
            if part["cluster"] is not None:
                running.wait_running(part["name"])
        yield running


def rest(instance: Instance, cluster: str, method: str, path: str, *body: Any) -> tuple[int, Any]:
    answer: tuple[int, Any] = instance.rest(method, f"/clusters/{cluster}/admin/v2/{path}", *body)
    return answer


def make_namespace(instance: Instance, name: str, clusters: list[str]) -> None:
    assert rest(instance, BLUE, "PUT", f"namespaces/{name}")[0] == 204
    assert rest(instance, BLUE, "POST", f"namespaces/{name}/replication", clusters)[0] == 200


def test_clients_of_a_migrated_namespace_lose_nothing_and_follow(instance: Instance) -> None:
    # One client publishes and receives throughout; its producer and its consumer end up in the other cluster.
    namespace, topic = "public/moving", "persistent://public/moving/orders"
    assert rest(instance, BLUE, "PUT", f"namespaces/{namespace}")[0] == 204
    both = ["blue", "green"]
    assert rest(instance, BLUE, "POST", f"namespaces/{namespace}/allowedClusters", both)[0] == 200
    client = quiet_client(instance.url_of(BLUE))
    try:
        consumer = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
        producer = client.create_producer(topic, send_timeout_millis=PATIENCE_MS)
        for number in range(20):
            producer.send(b"%d" % number)
        target = {"brokerServiceUrl": instance.url_of(GREEN)}
        assert (
            rest(instance, BLUE, "POST", "clusters/blue/migrate?migrated=false", target)[0] == 200
        )
        assert rest(instance, BLUE, "POST", f"namespaces/{namespace}/migration", True)[0] == 204
        until_blocking(
            lambda: (
                rest(instance, GREEN, "GET", "persistent/public/moving/orders/subscriptions")
                == (200, ["s"])
            ),
            instance.logs,
        )
        for number in range(20, 40):
            producer.send(b"%d" % number)
        received = []
        while len(set(received)) < 40:
            message = consumer.receive(PATIENCE_MS)
            received.append(int(message.data()))
            consumer.acknowledge(message)
        assert sorted(set(received)) == list(range(40))
        stats = rest(instance, GREEN, "GET", "persistent/public/moving/orders/stats")[1]
        assert stats["msgInCounter"] >= 20
        assert len(stats["publishers"]) == 1
        assert len(stats["subscriptions"]["s"]["consumers"]) == 1
        old = rest(instance, BLUE, "GET", "persistent/public/moving/orders/stats")[1]
        assert old["publishers"] == []
        assert old["subscriptions"]["s"]["msgBacklog"] == 0
        fresh = client.create_producer("persistent://public/moving/late")
        fresh.send(b"x")
        assert rest(instance, GREEN, "GET", "persistent/public/moving/late/stats")[0] == 200
    finally:
        client.close()


def test_a_cluster_joins_and_leaves_a_namespace_under_load(instance: Instance) -> None:
    namespace, topic = "public/joined", "persistent://public/joined/t"
    make_namespace(instance, namespace, [BLUE])
    client = quiet_client(instance.url_of(BLUE))
    try:
        producer = client.create_producer(topic)
        sent = 0

        def publish(count: int) -> None:
            nonlocal sent
            for _ in range(count):
                producer.send(b"%d" % sent)
                sent += 1

        publish(10)
        both = [BLUE, GREEN]
        assert rest(instance, BLUE, "POST", f"namespaces/{namespace}/replication", both)[0] == 200
        publish(10)
        until_blocking(lambda: _links(instance).get(GREEN, {}).get("connected"), instance.logs)
        first = sent
        publish(50)
        until_blocking(lambda: not _links(instance)[GREEN]["replicationBacklog"], instance.logs)
        there = quiet_client(instance.url_of(GREEN))
        reader = there.create_reader(topic, pulsar.MessageId.earliest)
        numbers = [int(reader.read_next(PATIENCE_MS).data()) for _ in range(50)]
        while numbers[-1] < sent - 1:
            numbers.append(int(reader.read_next(PATIENCE_MS).data()))
        there.close()
        assert numbers == list(range(numbers[0], sent))
        assert numbers[0] <= first
        assert rest(instance, BLUE, "POST", f"namespaces/{namespace}/replication", [BLUE])[0] == 200
        until_blocking(lambda: _links(instance) == {}, instance.logs)
        publish(10)
        # The copy in the cluster that left is refused, kept and deleted by name.
        status, refusal = rest(instance, GREEN, "GET", "persistent/public/joined/t/stats")
        assert status == 412
        assert "local_cluster=green ns=public/joined clusters=[blue]" in str(refusal)
        assert rest(instance, GREEN, "GET", "persistent/public/joined") == (200, [topic])
        assert rest(instance, GREEN, "DELETE", "persistent/public/joined/t?force=true")[0] == 204
        assert rest(instance, GREEN, "GET", "persistent/public/joined") == (200, [])
        assert rest(instance, BLUE, "GET", "persistent/public/joined/t/stats")[0] == 200
    finally:
        client.close()


def _links(instance: Instance) -> dict[str, Any]:
    stats = rest(instance, BLUE, "GET", "persistent/public/joined/t/stats")[1]
    links: dict[str, Any] = stats["replication"]
    return links


def test_added_partitions_have_the_subscriptions_of_each_cluster(instance: Instance) -> None:
    make_namespace(instance, "public/grown", [BLUE, GREEN])
    path, topic = "persistent/public/grown/t", "persistent://public/grown/t"
    assert rest(instance, BLUE, "PUT", f"{path}/partitions", 1)[0] == 204
    # A subscription without a consumer: nothing there attaches to the new partition before it is published to.
    assert rest(instance, GREEN, "PUT", f"{path}/subscription/kept")[0] == 204
    assert rest(instance, BLUE, "PUT", f"{path}/subscription/local")[0] == 204
    assert rest(instance, BLUE, "POST", f"{path}/partitions", 2)[0] == 204
    assert rest(instance, GREEN, "GET", f"{path}/partitions")[1]["partitions"] == 2
    for cluster, expected in ((BLUE, ["local"]), (GREEN, ["kept"])):
        answer = rest(instance, cluster, "GET", f"{path}-partition-1/subscriptions")
        assert answer == (200, expected)
    client = quiet_client(instance.url_of(BLUE))
    try:
        client.create_producer(f"{topic}-partition-1").send(b"x")
    finally:
        client.close()
    there = quiet_client(instance.url_of(GREEN))
    try:
        consumer = there.subscribe(topic, "kept")
        assert consumer.receive(PATIENCE_MS).data() == b"x"
    finally:
        there.close()


def test_a_policy_of_a_topic_in_all_clusters_is_in_force_in_the_other_one(
    instance: Instance,
) -> None:
    make_namespace(instance, "public/ruled", [BLUE, GREEN])
    path = "persistent/public/ruled/t/maxConsumers"
    assert rest(instance, BLUE, "PUT", "persistent/public/ruled/t")[0] == 204
    until_blocking(
        lambda: rest(instance, GREEN, "PUT", "persistent/public/ruled/t")[0] in (204, 409),
        instance.logs,
    )
    assert rest(instance, BLUE, "POST", f"{path}?isGlobal=true", 7)[0] == 204
    assert rest(instance, BLUE, "POST", "persistent/public/ruled/t/maxProducers", 3)[0] == 204
    until_blocking(
        lambda: rest(instance, GREEN, "GET", f"{path}?isGlobal=true") == (200, 7), instance.logs
    )
    local = rest(instance, GREEN, "GET", "persistent/public/ruled/t/maxProducers")
    assert local[1] != 3, "a policy of one cluster stays there"


def test_a_peer_is_named_to_clients_and_by_http(instance: Instance) -> None:
    make_namespace(instance, "public/peered", [BLUE])
    assert rest(instance, GREEN, "POST", "clusters/green/peers", [BLUE])[0] == 204
    try:
        client = quiet_client(instance.url_of(GREEN))
        try:
            client.create_producer("persistent://public/peered/t").send(b"x")
        finally:
            client.close()
        stats = rest(instance, BLUE, "GET", "persistent/public/peered/t/stats")
        assert (stats[0], stats[1]["msgInCounter"]) == (200, 1)
        path = "/clusters/green/lookup/v2/topic/persistent/public/peered/t"
        status, answer = instance.rest("GET", path)
        assert (status, answer["brokerUrl"]) == (200, instance.url_of(BLUE))
    finally:
        assert rest(instance, GREEN, "POST", "clusters/green/peers", [])[0] == 204


@pytest.mark.timeout(400)
def test_an_audit_finds_what_the_other_cluster_lacks_and_has_twice(
    instance: Instance, tmp_path: Path
) -> None:
    from pyspark.sql import SparkSession

    namespace, topic = "public/audited", "persistent://public/audited/t"
    make_namespace(instance, namespace, [BLUE, GREEN])
    both = [BLUE, GREEN]
    # A cluster that leaves the list closes the topic, and would trim what no subscription needs.
    keep = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert rest(instance, BLUE, "POST", f"namespaces/{namespace}/retention", keep)[0] == 204
    client = quiet_client(instance.url_of(BLUE))
    try:
        producer = client.create_producer(topic, producer_name="till")

        def cursors() -> Any:
            path = "persistent/public/audited/t/internalStats"
            return rest(instance, BLUE, "GET", path)[1]["cursors"]

        def links() -> Any:
            return rest(instance, BLUE, "GET", "persistent/public/audited/t/stats")[1][
                "replication"
            ]

        def publish(first: int, count: int) -> None:
            for number in range(first, first + count):
                producer.send(b"%d" % number)

        until_blocking(lambda: links().get(GREEN, {}).get("connected"), instance.logs)
        publish(0, 20)
        until_blocking(lambda: not links()[GREEN]["replicationBacklog"], instance.logs)
        assert rest(instance, BLUE, "POST", f"namespaces/{namespace}/replication", [BLUE])[0] == 200
        until_blocking(lambda: cursors() == {}, instance.logs)
        publish(20, 3)  # lost in green: nothing is sent while it is not in the list
        assert rest(instance, BLUE, "POST", f"namespaces/{namespace}/replication", both)[0] == 200
        until_blocking(lambda: links().get(GREEN, {}).get("connected"), instance.logs)
        publish(23, 20)
        until_blocking(lambda: not links()[GREEN]["replicationBacklog"], instance.logs)
    finally:
        client.close()
    asyncio.run(_store_again(instance.url_of(GREEN), topic, 7))

    instance.control("start", "spark")
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{instance.ports['SPARK']}").create()
    try:
        stores = stores_of(instance, BLUE) | stores_of(instance, GREEN, OTHER)
        compared = _audit(spark, tmp_path / "compared", topic, GREEN, stores)
        assert {kind: compared.figure(kind) for kind in ("missing", "doubled", "reordered")} == {
            "missing": 3,
            "doubled": 1,
            "reordered": 0,
        }
        assert compared.figure("compared") == 43
        alone = _audit(spark, tmp_path / "alone", topic, "", stores_of(instance, GREEN))
        assert alone.figure("arrived") == 41
        faults = {row["kind"]: (row["first"], row["last"]) for row in alone.rows("faults")}
        assert faults == {"lost": (20, 22), "doubled": (7, 7)}
    finally:
        spark.stop()


def stores_of(instance: Instance, cluster: str, prefix: str = "") -> dict[str, str]:
    """Return the options by which an analysis reads a cluster, each with ``prefix`` before its name."""
    server = f"zk:127.0.0.1:{instance.ports['ZOOKEEPER']}"
    return {
        f"{prefix}metadata.url": f"{server}/clusters/{cluster}",
        f"{prefix}configuration.metadata.url": f"{server}{CONFIGURATION}",
    }


async def _store_again(url: str, topic: str, number: int) -> None:
    """Store an entry of a topic, counted from 0, once more as it is."""

    async def brokers() -> list[str]:
        return [url]

    client = PulsarClient(
        network=LoopNetwork(), clock=SystemClock(), entropy=RandomEntropy(), brokers=brokers
    )
    try:
        link = await client.owner(topic)
        reader = await RawReader.open(link, topic, name="copier")
        entries = list(await reader.rest())
        producer = await RawProducer.open(link, topic)
        producer.send([0], [entries[number].entry])
        await producer.drained()
    finally:
        await client.close()


def _audit(spark: Any, folder: Path, topic: str, other: str, context: dict[str, str]) -> Answer:
    folder.mkdir()
    result = ANALYSES["replication-audit"].load()(
        spark,
        {"topic": topic, "other_cluster": other, "samples": 5, "settle_ms": 0, "last_entries": 0},
        context,
        progress=Shown(),
        output_dir=folder,
    )
    return Answer(result, Shown(), folder)
