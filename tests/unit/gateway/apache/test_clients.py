"""The addresses for clients that a cluster of Apache Pulsar states, and which of them are used."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from engine.client.errors import NoBrokerError
from gateway.apache.clients import StatedBrokers, client_of_apache, usable
from gateway.apache_settings import ApacheCluster
from gateway.services.engine_link import EngineLink
from tests.support.admin.clusters import cluster_before
from tests.support.net.recorded_apache import TOKEN

CLEAR = ApacheCluster("theirs", "http://host:8080")
IN_TLS = ApacheCluster("theirs", "https://host:8443")


@pytest.mark.parametrize(
    ("cluster", "stated", "urls"),
    [
        (CLEAR, ["pulsar://a:6650", "", "pulsar://a:6650"], ["pulsar://a:6650"]),
        (CLEAR, ["pulsar://a:6650,b:6651/"], ["pulsar://a:6650", "pulsar://b:6651"]),
        (CLEAR, ["pulsar://a:6650", "pulsar+ssl://a:6651"], ["pulsar://a:6650"]),
        (CLEAR, ["", "pulsar+ssl://a:6651"], ["pulsar+ssl://a:6651"]),
        (IN_TLS, ["pulsar://a:6650", "pulsar+ssl://a:6651"], ["pulsar+ssl://a:6651"]),
        (CLEAR, ["nonsense", "pulsar://a", "pulsar://b:1"], ["pulsar://b:1"]),
    ],
)
def test_addresses_are_used_once_and_never_in_clear_beside_tls(
    cluster: ApacheCluster, stated: list[str], urls: list[str]
) -> None:
    assert usable(cluster, stated) == urls


def test_a_cluster_without_an_address_that_is_used_says_why() -> None:
    with pytest.raises(NoBrokerError, match="states no address for clients"):
        usable(CLEAR, ["", ""])
    with pytest.raises(NoBrokerError, match=r"without TLS only \(pulsar://a:6650\)"):
        usable(IN_TLS, ["pulsar://a:6650"])


async def stated(cluster: ApacheCluster, link: EngineLink) -> list[str]:
    return list(await StatedBrokers(cluster, link)())


def test_the_address_is_that_of_the_cluster_or_the_configured_one(
    apache_cluster: ApacheCluster, link: EngineLink
) -> None:
    assert asyncio.run(stated(apache_cluster, link)) == ["pulsar://127.0.0.1:17050"]
    other: Any = {"service_url": "pulsar://proxy:6650"}
    configured = ApacheCluster("theirs", apache_cluster.url, "us", **other)
    assert asyncio.run(stated(configured, link)) == ["pulsar://proxy:6650"]


def test_the_token_is_that_of_the_file_for_each_connection(
    apache_cluster: ApacheCluster, link: EngineLink
) -> None:
    client = client_of_apache(apache_cluster, link)
    settings = client._links._settings
    assert settings.credentials is not None
    assert settings.credentials(b"") == ("token", TOKEN.encode())
    Path(apache_cluster.token_file).write_text("another\n")
    assert settings.credentials(b"") == ("token", b"another")
    assert settings.original_principal is None, "Apache's brokers know the console's role alone"


def test_one_client_acts_for_all_people(
    apache_cluster: ApacheCluster, link: EngineLink, tmp_path: Path
) -> None:
    async def used() -> list[str]:
        cluster = cluster_before(apache_cluster, link, tmp_path)
        first, second = cluster.clients.use("ann"), cluster.clients.use("bob")
        assert first is second
        assert first.client is cluster.client
        return list(cluster.clients.roles)

    assert asyncio.run(used()) == [""]


def test_recorded_data_of_a_cluster_have_the_address() -> None:
    golden = Path(__file__).parents[3] / "golden" / "apache" / "answers.json"
    record = json.loads(golden.read_text())["answers"]["/admin/v2/clusters/us"]
    assert record["brokerServiceUrl"] == "pulsar://127.0.0.1:17050"
