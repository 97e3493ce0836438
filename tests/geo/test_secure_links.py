"""Links between two clusters with TLS, tokens and rights: each presents the credentials of the other's record."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from gateway.standalone.secure import SUPERUSER, SecureFiles
from tests.crash.load import quiet_client
from tests.support.instance import Instance
from tests.support.waiting import until_blocking

pytestmark = [pytest.mark.slow]

STARTS_S = 180.0
ARRIVES_MS = 75_000
WRONG = "token:eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzdXBlcnVzZXIifQ.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
"""A token whose signature no cluster made."""


class SecureCluster:
    """A secure instance that is the cluster ``name``."""

    def __init__(self, work: Path, name: str) -> None:
        self.name = name
        self.work = work
        self.instance = Instance(work / name, secure=True, MAGNETAR_CLUSTER_NAME=name)
        self.files = SecureFiles(work / name)

    def start(self) -> None:
        self.instance.start(STARTS_S)
        self.instance.control("stop", "redis")
        self._tls = ssl.create_default_context(cafile=str(self.files.authority))
        self._token = self.files.token(SUPERUSER).read_text().strip()

    @property
    def url(self) -> str:
        return f"pulsar+ssl://127.0.0.1:{self.instance.ports['BROKER_TLS']}"

    def record(self, parameters: str = "") -> dict[str, Any]:
        """Return the record by which another cluster reaches this one. ``parameters``: other credentials."""
        token = self.files.token(SUPERUSER).as_uri()
        return {
            "serviceUrlTls": f"https://127.0.0.1:{self.instance.ports['HTTPS']}",
            "brokerServiceUrlTls": self.url,
            "brokerClientTlsEnabled": True,
            "brokerClientTrustCertsFilePath": str(self.files.authority),
            "authenticationPlugin": "token",
            "authenticationParameters": parameters or token,
        }

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer to the superuser; None when nothing is found."""
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.instance.ports['HTTPS']}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {self._token}"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=60, context=self._tls) as answer:
                content = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return None
                error.msg += f": {error.read().decode(errors='replace')}"
            raise
        return json.loads(content) if content else None

    def client(self, token: str = "") -> pulsar.Client:
        return quiet_client(
            self.url,
            str(self.work / "clients.log"),
            authentication=pulsar.AuthenticationToken(token or self._token),
            tls_trust_certs_file_path=str(self.files.authority),
        )

    def link(self, topic: str, target: str) -> dict[str, Any]:
        """Return the statistics of a topic's replication to a cluster."""
        stats = self.call("GET", f"/admin/v2/persistent/public/default/{topic}/stats")
        return dict((stats or {}).get("replication", {}).get(target, {}))


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SecureCluster, SecureCluster]]:
    work = tmp_path_factory.mktemp("secure")
    us, eu = SecureCluster(work, "us"), SecureCluster(work, "eu")
    try:
        for cluster in (us, eu):
            cluster.start()
        for cluster, other in ((us, eu), (eu, us)):
            cluster.call("PUT", f"/admin/v2/clusters/{other.name}", other.record())
            cluster.call("POST", "/admin/v2/tenants/public", {"allowedClusters": ["us", "eu"]})
            path = "/admin/v2/namespaces/public/default"
            cluster.call("POST", f"{path}/deduplication", True)
            cluster.call("POST", f"{path}/replication", ["us", "eu"])
        yield us, eu
    finally:
        us.instance.stop()
        eu.instance.stop()


def send(cluster: SecureCluster, topic: str, *values: bytes) -> None:
    client = cluster.client()
    producer = client.create_producer(f"persistent://public/default/{topic}")
    for value in values:
        producer.send(value)
    client.close()


def received(cluster: SecureCluster, topic: str, count: int) -> list[bytes]:
    client = cluster.client()
    consumer = client.subscribe(
        f"persistent://public/default/{topic}",
        "s",
        initial_position=pulsar.InitialPosition.Earliest,
    )
    values = [consumer.receive(ARRIVES_MS).data() for _ in range(count)]
    client.close()
    return values


def test_messages_and_partitions_cross_in_both_directions(
    pair: tuple[SecureCluster, SecureCluster],
) -> None:
    for source, target in (pair, pair[::-1]):
        topic = f"of-{source.name}"
        source.call("PUT", f"/admin/v2/persistent/public/default/{topic}/partitions", 1)
        send(source, topic)
        part = f"{topic}-partition-0"
        until_blocking(
            lambda source=source, target=target, part=part: source.link(part, target.name).get(  # type: ignore[misc]
                "connected"
            )
        )
        send(source, topic, b"a", b"b")
        assert received(target, topic, 2) == [b"a", b"b"]


def test_wrong_credentials_stop_their_link_alone_and_are_named(
    pair: tuple[SecureCluster, SecureCluster],
) -> None:
    us, eu = pair
    send(us, "credentials")
    until_blocking(lambda: us.link("credentials", "eu").get("connected"))
    until_blocking(lambda: eu.link("credentials", "us").get("connected"))
    us.call("POST", "/admin/v2/clusters/eu", eu.record(WRONG))
    eu.instance.kill("broker-1")
    eu.instance.wait_running("broker-1")
    send(us, "credentials", b"from us")
    until_blocking(lambda: "uthenticat" in (us.link("credentials", "eu").get("blockedBy") or ""))
    send(eu, "credentials", b"from eu")
    assert received(us, "credentials", 2) == [b"from us", b"from eu"]
    assert us.link("credentials", "eu")["replicationBacklog"]
    us.call("POST", "/admin/v2/clusters/eu", eu.record())
    assert sorted(received(eu, "credentials", 2)) == [b"from eu", b"from us"]


def test_a_client_may_not_act_as_another_clusters_broker(
    pair: tuple[SecureCluster, SecureCluster],
) -> None:
    us, _ = pair
    path = "/admin/v2/namespaces/public/default/permissions/app"
    us.call("POST", path, ["produce", "consume"])
    token = {"name": "app", "role": "app", "level": "full", "expires_in_s": 3600}
    made = us.call("POST", "/api/v1/tokens", token)
    client = us.client(made["token"])
    topic = "persistent://public/default/forged"
    with pytest.raises(pulsar.AuthorizationError):
        client.create_producer(topic, producer_name="pulsar.repl.eu-->us")
    client.create_producer(topic).send(b"y")
    client.close()
    assert received(us, "forged", 1) == [b"y"]
