"""An instance of three clusters: a message reaches all of them, and the harm of one is no harm to the others."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests.crash.load import quiet_client
from tests.support.instance import ROOT, Instance
from tests.support.instances.moving_consumer import Endpoint, move_there_and_back
from tests.support.instances.three_clusters import (
    CLUSTERS,
    NAMESPACE,
    linked,
    path_of,
    replicate,
    three_clusters,
)
from tests.support.ports import free_ports

FIRST, SECOND, THIRD = CLUSTERS


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with three_clusters(tmp_path_factory.mktemp("three")) as running:
        replicate(running)
        yield running


def status(instance: Instance, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", "standalone", *arguments],
        cwd=ROOT,
        env={**os.environ, "MAGNETAR_DATA_DIR": str(instance.data_dir)},
        capture_output=True,
        text=True,
        check=False,
    )


def publish(instance: Instance, cluster: str, topic: str, *values: bytes) -> None:
    client = quiet_client(instance.url_of(cluster))
    try:
        producer = client.create_producer(f"persistent://{topic}")
        for value in values:
            producer.send(value)
    finally:
        client.close()


def received(instance: Instance, cluster: str, topic: str, count: int) -> set[bytes]:
    """Return the first ``count`` messages of a topic in a cluster."""
    client = quiet_client(instance.url_of(cluster))
    try:
        reader = client.create_reader(f"persistent://{topic}", pulsar.MessageId.earliest)
        return {reader.read_next(60_000).data() for _ in range(count)}
    finally:
        client.close()


def test_the_status_states_of_each_process_the_cluster_and_the_ports(instance: Instance) -> None:
    parts = {part["name"]: part for part in json.loads(status(instance, "status", "--json").stdout)}
    for cluster in CLUSTERS:
        broker = parts[f"{cluster}.broker-1"]
        assert broker["cluster"] == cluster
        assert broker["ports"].keys() == {"pulsar", "http"}
        assert parts[f"{cluster}.bookie-1"]["cluster"] == cluster
    assert parts["gateway"]["cluster"] is None
    assert parts["zookeeper"]["cluster"] is None


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_gateway_serves_each_cluster_by_its_name(instance: Instance, cluster: str) -> None:
    broker = instance.child(f"{cluster}.broker-1")["ports"]
    assert instance.rest("GET", f"{path_of(cluster)}/brokers/{cluster}") == (
        200,
        [f"127.0.0.1:{broker['http']}"],
    )
    code, record = instance.rest("GET", f"{path_of(FIRST)}/clusters/{cluster}")
    assert code == 200
    assert record["brokerServiceUrl"] == f"pulsar://127.0.0.1:{broker['pulsar']}"
    assert instance.rest("GET", f"/api/v1/clusters/{cluster}/overview")[0] == 200


def test_a_message_of_a_replicated_namespace_arrives_in_the_other_clusters(
    instance: Instance,
) -> None:
    topic = f"{NAMESPACE}/orders"
    for cluster in CLUSTERS:
        publish(instance, cluster, topic)  # so that it is loaded
        linked(instance, topic, (cluster, *(set(CLUSTERS) - {cluster})))
    for cluster in CLUSTERS:
        publish(instance, cluster, topic, cluster.encode())
    for cluster in CLUSTERS:
        assert received(instance, cluster, topic, 3) == {name.encode() for name in CLUSTERS}


def test_a_topic_of_another_namespace_stays_in_its_cluster(instance: Instance) -> None:
    for cluster in CLUSTERS:
        namespace = f"public/of-{cluster}"
        assert instance.rest("PUT", f"{path_of(cluster)}/namespaces/{namespace}")[0] == 204
        topic = f"{namespace}/local"
        publish(instance, cluster, topic, cluster.encode())
        code, stats = instance.rest("GET", f"{path_of(cluster)}/persistent/{topic}/stats")
        assert (code, stats["msgInCounter"], stats["replication"]) == (200, 1, {})


def test_a_consumer_of_a_replicated_subscription_moves_there_and_back(instance: Instance) -> None:
    def endpoint(cluster: str) -> Endpoint:
        def stats(topic: str) -> dict[str, Any]:
            code, answer = instance.rest("GET", f"{path_of(cluster)}/persistent/{topic}/stats")
            return dict(answer) if code == 200 else {}

        return Endpoint(cluster, instance.url_of(cluster), stats)

    topic = f"{NAMESPACE}/moving"
    move_there_and_back(endpoint(FIRST), endpoint(SECOND), topic, instance.logs)


def test_messages_for_a_cluster_that_is_down_arrive_once_it_is_back(
    instance: Instance,
) -> None:
    topic = f"{NAMESPACE}/away"
    publish(instance, FIRST, topic)
    linked(instance, topic)
    name = f"{SECOND}.broker-1"
    assert status(instance, "stop", name).returncode == 0
    publish(instance, FIRST, topic, b"while it is stopped")
    assert received(instance, THIRD, topic, 1) == {b"while it is stopped"}
    assert status(instance, "start", name).returncode == 0
    assert received(instance, SECOND, topic, 1) == {b"while it is stopped"}

    for part in (name, f"{SECOND}.bookie-1"):
        instance.kill(part)
    publish(instance, FIRST, topic, b"while it starts")
    assert received(instance, THIRD, topic, 2) >= {b"while it starts"}
    for part in (name, f"{SECOND}.bookie-1"):
        instance.wait_running(part)
    assert received(instance, SECOND, topic, 2) >= {b"while it starts"}


def test_an_unknown_process_is_refused_with_the_names(instance: Instance) -> None:
    answer = status(instance, "stop", "broker-1")
    assert answer.returncode == 1
    assert "no child named 'broker-1'" in answer.stderr
    assert f"{SECOND}.broker-1" in answer.stderr


def test_another_list_of_clusters_is_refused_with_the_one_that_the_folder_has(
    tmp_path: Path,
) -> None:
    (tmp_path / "clusters.json").write_text(json.dumps(CLUSTERS))
    refused = subprocess.run(
        [sys.executable, "manage.py", "standalone", "run", "--clusters", f"{FIRST},{THIRD}"],
        cwd=ROOT,
        env={**os.environ, "MAGNETAR_DATA_DIR": str(tmp_path), "MAGNETAR_PORT_OFFSET": "4000"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert f"has the clusters {','.join(CLUSTERS)}" in refused.stderr


def test_a_restart_on_other_ports_keeps_messages_and_links(instance: Instance) -> None:
    topic = f"{NAMESPACE}/kept"
    forever = {"retentionTimeInMinutes": -1, "retentionSizeInMB": -1}
    assert instance.rest("POST", f"/admin/v2/namespaces/{NAMESPACE}/retention", forever)[0] == 204
    publish(instance, FIRST, topic)
    linked(instance, topic)
    publish(instance, FIRST, topic, b"before")
    for cluster in CLUSTERS:
        assert received(instance, cluster, topic, 1) == {b"before"}
    instance.stop()
    instance.ports["BROKER"] = free_ports(1, gap=50)[0]
    instance.start()
    for cluster in CLUSTERS:
        instance.wait_running(f"{cluster}.broker-1")
    publish(instance, FIRST, topic, b"after")
    for cluster in CLUSTERS:
        assert received(instance, cluster, topic, 2) == {b"before", b"after"}
    code, record = instance.rest("GET", f"{path_of(FIRST)}/clusters/{SECOND}")
    assert (code, record["brokerServiceUrl"]) == (200, instance.url_of(SECOND))
