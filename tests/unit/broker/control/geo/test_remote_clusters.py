"""Clusters that topics are replicated to, from their records."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from engine.base.clock import LoopClock
from engine.base.entropy import RandomEntropy
from engine.base.names import TopicName
from engine.broker.control.geo.remote_clusters import (
    RemoteClusterError,
    StoredClusters,
    client_settings,
    service_urls,
)
from engine.client.settings import BrokerClientSettings
from engine.metadata import paths
from engine.metadata.memory import MemoryServer
from engine.metadata.store import MetadataStore
from engine.net.http_client import Answer, HttpClient
from tests.support.net.pipe_network import PipeNetwork

pytestmark = pytest.mark.virtual_time

OWN = BrokerClientSettings()
TOPIC = TopicName.parse("persistent://public/default/t")


class Shaped:
    """A client whose cluster has this number of partitions."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def partitions(self, topic: str) -> int:
        return self.count


@pytest.fixture
async def store() -> AsyncIterator[MetadataStore]:
    session = MemoryServer(LoopClock()).session(10.0)
    yield session
    await session.close()


@pytest.fixture
async def clusters(store: MetadataStore) -> AsyncIterator[StoredClusters]:
    unused: Any = None
    made = StoredClusters(store, PipeNetwork(), LoopClock(), RandomEntropy(), OWN, unused)
    yield made
    await made.close()


async def put(store: MetadataStore, path: str, value: object) -> None:
    data = json.dumps(value).encode()
    if await store.exists(path) is not None:
        await store.delete(path)
    await store.create(path, data, make_parents=True)


async def test_a_client_is_made_once_and_again_when_the_record_changes(
    store: MetadataStore, clusters: StoredClusters
) -> None:
    with pytest.raises(RemoteClusterError, match="Cluster eu does not exist"):
        await clusters.client("eu")
    await put(store, paths.cluster("eu"), {"brokerServiceUrl": "pulsar://eu:6650"})
    first = await clusters.client("eu")
    assert await clusters.client("eu") is first
    await put(store, paths.cluster("eu"), {"brokerServiceUrl": "pulsar://eu2:6650"})
    assert await clusters.client("eu") is not first


async def test_a_records_listener_is_that_of_its_clients_lookups(
    store: MetadataStore, clusters: StoredClusters
) -> None:
    record = {"brokerServiceUrl": "pulsar://eu:6650", "listenerName": "abroad"}
    await put(store, paths.cluster("eu"), record)
    client = await clusters.client("eu")
    assert client._links._settings.listener_name == "abroad"


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ({}, "no brokerServiceUrl"),
        ({"brokerServiceUrl": "http://eu"}, "no service URL"),
        (
            {"brokerServiceUrl": "pulsar://eu:6650", "brokerClientTlsEnabled": True},
            "brokerServiceUrlTls",
        ),
        (
            {"brokerServiceUrl": "pulsar://eu:6650", "authenticationPlugin": "kerberos"},
            "broker_client_authentication_plugin",
        ),
    ],
)
async def test_a_record_that_cannot_be_used_is_refused_with_the_field(
    store: MetadataStore, clusters: StoredClusters, record: dict[str, Any], words: str
) -> None:
    await put(store, paths.cluster("eu"), record)
    with pytest.raises(RemoteClusterError, match=words):
        await clusters.client("eu")


async def test_a_topic_with_another_number_of_partitions_is_refused(
    store: MetadataStore, clusters: StoredClusters
) -> None:
    await put(store, paths.cluster("eu"), {"brokerServiceUrl": "pulsar://eu:6650"})
    await put(store, "/admin/partitioned-topics/public/default/persistent/t", {"partitions": 4})
    there: Any = Shaped(4)
    await clusters.check_shape(there, "eu", TOPIC.partition_at(0))
    there.count = 2
    with pytest.raises(RemoteClusterError, match="4 here, 2 in eu"):
        await clusters.check_shape(there, "eu", TOPIC.partition_at(0))
    there.count = 0
    with pytest.raises(RemoteClusterError, match="no address of its administration"):
        await clusters.check_shape(there, "eu", TOPIC.partition_at(0))
    await clusters.check_shape(there, "eu", TOPIC)


@pytest.mark.parametrize(
    ("there", "status", "words"),
    [
        (4, 204, ""),
        (0, 404, ""),  # it is made with as many when replication begins
        (2, 204, "2 partitions"),
        (4, 409, ""),  # Apache's answer where the number is the same already
        (4, 403, "403 no right"),
    ],
)
async def test_a_topic_grows_where_it_is_replicated_to(
    store: MetadataStore,
    clusters: StoredClusters,
    monkeypatch: pytest.MonkeyPatch,
    there: int,
    status: int,
    words: str,
) -> None:
    record = {"brokerServiceUrl": "pulsar://eu:6650", "serviceUrl": "http://eu:8080/clusters/eu/"}
    await put(store, paths.cluster("eu"), record)
    asked: list[tuple[Any, ...]] = []

    async def request(http: HttpClient, method: str, url: str, **rest: Any) -> Answer:
        asked.append((method, url, rest["body"]))
        return Answer(status, b"no right")

    async def client_of(*_: Any) -> Shaped:
        return Shaped(there)

    monkeypatch.setattr(HttpClient, "request", request)
    monkeypatch.setattr(clusters, "_client_of", client_of)
    if words:
        with pytest.raises(RemoteClusterError, match=words):
            await clusters.grow("eu", TOPIC, 4)
    else:
        await clusters.grow("eu", TOPIC, 4)
    path = "persistent/public/default/t/partitions?updateLocalTopicOnly=true"
    assert asked == [("POST", f"http://eu:8080/clusters/eu/admin/v2/{path}", b"4")]


def test_the_record_of_a_cluster_has_its_own_credentials() -> None:
    record = {"authenticationPlugin": "token", "authenticationParameters": "token:abc"}
    credentials = client_settings(OWN, record).credentials()
    assert credentials is not None
    assert credentials(b"") == ("token", b"abc")
    assert client_settings(OWN, {}) == OWN


def test_a_service_url_names_several_brokers() -> None:
    assert service_urls("pulsar://a:1,b:2") == ["pulsar://a:1", "pulsar://b:2"]
    assert service_urls("pulsar+ssl://a:1") == ["pulsar+ssl://a:1"]
