"""The cluster of the Compose file, as processes: each service with its settings and its ports on a loopback address of
its own, the secrets made by the script of the image. PostgreSQL, Redis, Spark and Grafana are left out."""

import os
import re
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pulsar
import pytest
import yaml

from engine.base.entropy import RandomEntropy
from tests.crash.load import quiet_client
from tests.support.import_graph import ROOT
from tests.support.waiting import until_blocking
from tests.support.zookeeper.process import find_java, jars, zookeeper_missing

DEPLOY = ROOT / "deploy"
STORES = ("metadata-1", "metadata-2", "metadata-3")
PROGRAMS = (
    *("bookie-1", "bookie-2", "bookie-3", "broker-1", "broker-2"),
    *("proxy", "functions-worker", "gateway"),
)
READY = {
    **dict.fromkeys(("bookie-1", "bookie-2", "bookie-3"), "http://{}:8000/ready"),
    **dict.fromkeys(("broker-1", "broker-2"), "https://{}:8444/ready"),
    **{"proxy": "https://{}:8444/ready", "functions-worker": "https://{}:6751/ready"},
    "gateway": "https://{}:8443/",
}
HOST = re.compile(
    r"(?<![\w.-])((?:metadata|bookie|broker)-\d|proxy|functions-worker|gateway)(?=:\d)"
)
# Other users may be unable to read the Python of a checkout.
LEFT_OUT = ("MAGNETAR_DATABASE_", "MAGNETAR_REDIS_", "MAGNETAR_FUNCTIONS_WORKER_RUN_AS_USER")
TOPIC = "persistent://public/default/composed"


class Cluster:
    """The services of the file, each at its address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.services: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())[
            "services"
        ]
        network = f"127.{RandomEntropy().bits(8) % 200 + 20}.{RandomEntropy().bits(8) % 250}"
        names = (*STORES, *PROGRAMS)
        self.address = {name: f"{network}.{number}" for number, name in enumerate(names, 1)}
        self.secrets = folder / "secrets" / "magnetar"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}

    def make_secrets(self) -> None:
        """Run the image's script with a command ``magnetar`` of this checkout."""
        command = self.folder / "bin" / "magnetar"
        command.parent.mkdir(exist_ok=True)
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m magnetar "$@"\n')
        command.chmod(0o755)
        hosts = [*self.address.values(), *self.services["secrets"]["command"][:-1], "*.pods.local"]
        subprocess.run(
            ["sh", str(DEPLOY / "image" / "secrets.sh"), str(self.folder / "secrets"), *hosts],
            env=self.environment,
            check=True,
            cwd=self.folder,
        )

    def local(self, text: str, service: str) -> str:
        """Return a text of the file with the paths and addresses of this machine."""
        text = text.replace("/run/secrets/", f"{self.folder}/secrets/")
        text = text.replace("/var/lib/magnetar", f"{self.folder}/{service}")
        text = text.replace("0.0.0.0", self.address.get(service, ""))
        return HOST.sub(lambda match: self.address[match[1]], text)

    def settings(self, service: str) -> dict[str, str]:
        """Return the variables of a service."""
        variables = {
            name: self.local(str(text), service)
            for name, text in self.services[service]["environment"].items()
            if not name.startswith(LEFT_OUT)
        }
        for name in variables:
            if name.endswith(("ADVERTISED_ADDRESS", "WORKER_HOSTNAME", "ALLOWED_HOSTS")):
                variables[name] = self.address[service]
        return {**self.environment, **variables}

    def arguments(self, service: str) -> list[str]:
        return [self.local(word, service) for word in self.services[service]["command"]]

    def start(self, service: str) -> None:
        """Start a program of ours."""
        folder = self.folder / service
        folder.mkdir()
        with (self.folder / f"{service}.log").open("wb") as log:
            self._processes[service] = subprocess.Popen(
                [sys.executable, "-m", "magnetar", *self.arguments(service)],
                env=self.settings(service),
                cwd=folder,
                stdout=log,
                stderr=log,
            )

    def start_store(self, service: str) -> None:
        """Start Apache ZooKeeper with the configuration that its image would make of the variables."""
        folder, variables = self.folder / service, self.settings(service)
        folder.mkdir()
        (folder / "myid").write_text(variables["ZOO_MY_ID"])
        extra = [
            line for line in variables["ZOO_CFG_EXTRA"].split() if "metricsProvider" not in line
        ]
        lines = [f"dataDir={folder}", "tickTime=500", "initLimit=20", "syncLimit=8", *extra]
        lines += ["admin.enableServer=false", f"secureClientPortAddress={self.address[service]}"]
        config = folder / "zoo.cfg"
        config.write_text("\n".join([*lines, *variables["ZOO_SERVERS"].split()]) + "\n")
        java = find_java()
        assert java is not None
        options = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars()]
        with (self.folder / f"{service}.log").open("wb") as log:
            self._processes[service] = subprocess.Popen(
                [java, *options, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)],
                stdout=log,
                stderr=log,
            )

    def get(self, url: str, token: str = "") -> int:
        """Return the status of a page; 0 while nothing answers."""
        headers = (
            {"Authorization": f"Bearer {(self.secrets / token).read_text().strip()}"}
            if token
            else {}
        )
        trust = ssl.create_default_context(cafile=str(self.secrets / "ca.pem"))
        try:
            request = urllib.request.Request(url, headers=headers)
            with urllib.request.urlopen(request, timeout=10, context=trust) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def wait_ready(self, service: str) -> None:
        url = READY[service].format(self.address[service])
        process = self._processes[service]
        until_blocking(
            lambda: process.poll() is not None or self.get(url) == 200, lambda: self.log(service)
        )
        assert process.poll() is None, self.log(service)

    def log(self, service: str) -> str:
        return f"{service}:\n{(self.folder / f'{service}.log').read_text()[-3000:]}"

    def stop(self) -> None:
        """End the programs as an operator does, then the stores, which they need until then."""
        ours = [process for name, process in self._processes.items() if name not in STORES]
        for process in ours:
            process.terminate()
        for process in ours:
            process.wait(60)
        for store in self._processes.values():
            store.kill()
            store.wait(60)


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    cluster = Cluster(folder)
    try:
        cluster.make_secrets()
        for store in STORES:
            cluster.start_store(store)
        initialize(cluster)
        for program in PROGRAMS:
            cluster.start(program)
        for program in PROGRAMS:
            cluster.wait_ready(program)
        yield cluster
    finally:
        cluster.stop()


def initialize(cluster: Cluster) -> None:
    """Run the service ``init`` until the store serves."""

    def is_done() -> bool:
        done = subprocess.run(
            [sys.executable, "-m", "magnetar", *cluster.arguments("init")],
            env=cluster.settings("init"),
            cwd=cluster.folder,
            capture_output=True,
        )
        return done.returncode == 0

    until_blocking(is_done, lambda: "\n".join(map(cluster.log, STORES)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := zookeeper_missing():
        pytest.skip(reason)
    with running(tmp_path_factory.mktemp("compose")) as cluster:
        yield cluster


def test_a_client_with_a_token_publishes_and_consumes_through_the_proxy(cluster: Cluster) -> None:
    client = quiet_client(
        f"pulsar+ssl://{cluster.address['proxy']}:6651",
        authentication=pulsar.AuthenticationToken(
            (cluster.secrets / "superuser.token").read_text()
        ),
        tls_trust_certs_file_path=str(cluster.secrets / "ca.pem"),
        tls_validate_hostname=True,
    )
    try:
        consumer = client.subscribe(TOPIC, "one")
        client.create_producer(TOPIC).send(b"by all services")
        message = consumer.receive(20_000)
        assert message.data() == b"by all services"
        consumer.acknowledge(message)
    finally:
        client.close()


def test_pages_of_figures_need_the_token_that_prometheus_has(cluster: Cluster) -> None:
    config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
    for job in config["scrape_configs"]:
        if job["job_name"] == "magnetar-metadata":
            continue
        for target in job["static_configs"][0]["targets"]:
            url = f"{job.get('scheme', 'http')}://{cluster.local(target, '')}/metrics"
            secured = "authorization" in job
            assert cluster.get(url) == (401 if secured else 200), url
            assert cluster.get(url, "../prometheus/metrics_token") == 200, url


def test_callers_of_the_gateway_need_credentials(cluster: Cluster) -> None:
    url = f"https://{cluster.address['gateway']}:8443/admin/v2/clusters"
    assert cluster.get(url) == 401
    assert cluster.get(url, "superuser.token") == 200
    assert cluster.get(url.replace("clusters", "brokers/configuration"), "metrics.token") == 401


def test_secrets_stay_and_are_for_their_user(cluster: Cluster) -> None:
    before = {path: path.read_bytes() for path in cluster.secrets.iterdir()}
    cluster.make_secrets()
    assert {path: path.read_bytes() for path in cluster.secrets.iterdir()} == before
    assert {path.stat().st_mode & 0o077 for path in cluster.secrets.iterdir()} == {0}
    others = {path.name for path in (cluster.folder / "secrets").iterdir()}
    assert others == {"magnetar", "functions", "zookeeper", "redis", "postgres", "prometheus"}
    copies = (cluster.folder / "secrets").glob("[!m]*/*")  # their users differ from image to image
    assert {path.stat().st_mode & 0o777 for path in copies} == {0o644}


def test_an_existing_cluster_is_not_initialized_again(cluster: Cluster) -> None:
    initialize(cluster)
    for program in PROGRAMS:
        cluster.wait_ready(program)
