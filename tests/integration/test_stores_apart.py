"""Bookie, broker and gateway with three metadata stores apart: served while the configuration store is killed."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest

from tests.support.ports import free_ports
from tests.support.waiting import until_blocking

TOKEN = "a" * 32
SESSION_MS = 4_000
TENANT, NAMESPACE = "/admin/v2/tenants/t", "/admin/v2/namespaces/t/n"
TOPIC = "persistent://t/n/orders"
STORES = ("local", "configuration", "bookkeeper")


class Apart:
    """The processes of a cluster whose stores are apart, each ``python -m`` with the shipped programs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        ports = free_ports(8)
        self.stores = dict(zip(STORES, ports[:3], strict=True))
        self.bookie, self.bookie_status, self.broker, self.broker_http, self.gateway = ports[3:]
        self._environment = {
            **{key: value for key, value in os.environ.items() if "MAGNETAR_" not in key},
            "MAGNETAR_METADATA_URL": self.url("local"),
            "MAGNETAR_CONFIGURATION_METADATA_STORE_URL": self.url("configuration"),
            "MAGNETAR_BOOKKEEPER_METADATA_SERVICE_URI": self.service_uri,
            "MAGNETAR_INTERNAL_TOKEN": TOKEN,
            "MAGNETAR_DATA_DIR": str(folder),
            "MAGNETAR_CLUSTER_NAME": "c3",
            "MAGNETAR_BROKER_PORT": str(self.broker),
            "MAGNETAR_BROKER_HTTP_PORT": str(self.broker_http),
            "MAGNETAR_HTTP_PORT": str(self.gateway),
            "MAGNETAR_METADATA_STORE_SESSION_TIMEOUT_MILLIS": str(SESSION_MS),
            **{
                f"MAGNETAR_MANAGED_LEDGER_DEFAULT_{name}": "1"
                for name in ("ENSEMBLE_SIZE", "WRITE_QUORUM", "ACK_QUORUM")
            },
        }

    def url(self, store: str) -> str:
        return f"zk:127.0.0.1:{self.stores[store]}"

    @property
    def service_uri(self) -> str:
        return f"zk+hierarchical://127.0.0.1:{self.stores['bookkeeper']}/ledgers"

    def log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def start(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", *arguments], env=self._environment, stdout=log, stderr=log
            )

    def start_store(self, name: str) -> None:
        folder, port = str(self._folder / name), str(self.stores[name])
        self.start(name, "engine", "metadata", "--data-dir", folder, "--port", port)

    def start_all(self) -> None:
        for name in STORES:
            self.start_store(name)
        arguments = ["-c", "c3", "-uw", f"http://127.0.0.1:{self.gateway}"]
        arguments += ["-ub", f"pulsar://127.0.0.1:{self.broker}"]
        arguments += ["-md", self.url("local"), "-cms", self.url("configuration")]
        initialized = self.run("engine", "initialize-cluster-metadata", *arguments)
        assert initialized.returncode == 0, initialized.stderr
        status = str(self.bookie_status)
        bookie = ["--data-dir", str(self._folder / "data"), "--port", str(self.bookie)]
        self.start("bookie", "bookie", *bookie, "--status-port", status)
        self._wait("bookie", f"http://127.0.0.1:{status}/ready")
        self.start("broker", "engine", "broker")
        self._wait("broker", f"http://127.0.0.1:{self.broker_http}/ready")
        self.start("gateway", "gateway.serve", "--port", str(self.gateway))
        self._wait("gateway", f"http://127.0.0.1:{self.gateway}/admin/v2/brokers/ready")

    def _wait(self, name: str, url: str) -> None:
        def ready() -> bool:
            assert self._processes[name].poll() is None, self.log(name)
            return answered(url)[0] == 200

        until_blocking(ready, lambda: self.log(name))

    def kill(self, name: str) -> None:
        process = self._processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait(60)

    def stop(self) -> None:
        for name in reversed([*self._processes]):
            self.kill(name)

    def rest(self, method: str, path: str, body: object = None) -> tuple[int, str]:
        data = None if body is None else json.dumps(body).encode()
        return answered(f"http://127.0.0.1:{self.gateway}{path}", method, data)

    def answers(self, store: str) -> bool:
        """Return what the broker reports of its session with a store."""
        _, page = answered(f"http://127.0.0.1:{self.broker_http}/metrics")
        line = f'magnetar_metadata_store_connected{{cluster="c3",store="{store}"}} '
        return page.partition(line)[2].startswith("1")

    def hop(self, id: str) -> str:
        """Return the reason why a store does not answer the gateway, empty while it does."""
        _, page = self.rest("GET", "/api/v1/health")
        hops = [hop for hop in json.loads(page)["hops"] if (hop["hop"], hop["id"]) == ("store", id)]
        return str(hops[0]["reason"])


def answered(url: str, method: str = "GET", body: bytes | None = None) -> tuple[int, str]:
    """Return the status and the text of an answer; status 0 without one."""
    request = urllib.request.Request(url, body, {"content-type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Apart]:
    cluster = Apart(tmp_path)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.stop()


def test_a_cluster_serves_while_its_configuration_store_is_killed(apart: Apart) -> None:
    assert apart.rest("PUT", TENANT, {"allowedClusters": ["c3"]})[0] == 204
    assert apart.rest("PUT", NAMESPACE)[0] == 204
    assert apart.rest("PUT", "/admin/v2/persistent/t/n/parted/partitions", 2)[0] == 204
    assert apart.rest("POST", f"{NAMESPACE}/messageTTL", 3600)[0] == 204
    status, text = apart.rest("GET", "/admin/v2/brokers/internal-configuration")
    assert status == 200
    assert json.loads(text)["configurationMetadataStoreUrl"] == apart.url("configuration")
    client = pulsar.Client(f"pulsar://127.0.0.1:{apart.broker}")
    try:
        consumer = client.subscribe(TOPIC, "s")
        producer = client.create_producer(TOPIC)
        parted = client.create_producer("persistent://t/n/parted")
        producer.send(b"before")
        parted.send(b"before")
        assert consumer.receive(60_000).data() == b"before"
        assert apart.answers("configuration")

        apart.kill("configuration")
        until_blocking(lambda: not apart.answers("configuration"))
        assert apart.answers("metadata")
        assert apart.answers("bookkeeper")
        producer.send(b"away")
        parted.send(b"away")
        assert consumer.receive(60_000).data() == b"away"
        status, text = apart.rest("POST", f"{NAMESPACE}/messageTTL", 60)
        assert status == 503
        assert "The configuration store" in text
        until_blocking(lambda: "The configuration store" in apart.hop("configuration"))
        assert apart.hop("") == ""
        lost = "the configuration store does not answer: what needs it is refused"
        assert apart.log("broker").count(lost) == 1

        apart.start_store("configuration")
        until_blocking(lambda: apart.answers("configuration"))
        until_blocking(lambda: apart.hop("configuration") == "")
        until_blocking(lambda: apart.rest("POST", f"{NAMESPACE}/messageTTL", 60)[0] == 204)
        assert json.loads(apart.rest("GET", f"{NAMESPACE}/messageTTL")[1]) == 60
        producer.send(b"after")
        assert consumer.receive(60_000).data() == b"after"
        new = client.create_producer("persistent://t/n/new")
        new.send(b"x")
        assert "the configuration store is back" in apart.log("broker")
        assert "bundle lost" not in apart.log("broker")
    finally:
        client.close()
