"""Every query of the dashboards and of the alerts has the series that it names on the pages of a running instance, and
Prometheus evaluates all of them; none of the alerts fires."""

import fnmatch
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gateway.alerts.definitions import FIGURES, Definition
from gateway.alerts.exports import series
from tests.crash.load import quiet_client
from tests.support.instance import ROOT, Instance
from tests.support.instances.shared import SharedInstance
from tests.support.net.promql import Selected, selectors
from tests.support.net.promtool import complaints, tool
from tests.support.ports import free_ports
from tests.support.proxy.process import ProxyProcess, variables_of
from tests.support.waiting import until_blocking

DEPLOY = ROOT / "deploy"
CLUSTER = "standalone"
TOPIC = "persistent://public/default/watched"
OF_PROMETHEUS = {"up": {"job", "instance"}}
ERRORS = 'status=~"5.."'
"""Matches answers that a healthy gateway has not given."""
TARGET_LABELS = {"job", "instance"}
NAME = "__name__"
"""Prometheus' label of the family, which stands here for a family that has samples."""


def queries() -> dict[str, str]:
    """Return all queries, with Grafana's variables replaced, by what uses them."""
    known = {}
    for path in sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")):
        document = json.loads(path.read_text())
        for panel in document["panels"]:
            for target in panel.get("targets", ()):
                known[f"{path.stem}: {panel['title']} {target['refId']}"] = target["expr"]
        for variable in document["templating"]["list"]:
            if match := re.fullmatch(
                r"label_values\((.*), (\w+)\)", variable.get("definition", "")
            ):
                known[f"{path.stem}: ${variable['name']}"] = f"count by ({match[2]}) ({match[1]})"
    for group in yaml.safe_load((DEPLOY / "prometheus/rules/magnetar.yml").read_text())["groups"]:
        for rule in group["rules"]:
            known[f"alert: {rule['alert']}"] = rule["expr"]
    for kind, figures in FIGURES.items():
        for figure in figures:
            if figure == "report_age":
                continue  # a part that does not report has no metric
            made = Definition.checked({"kind": kind, "figure": figure, "threshold": 1}, "")
            known[f"made of a rule: {kind} {figure}"] = f"topk(20, {series(made, CLUSTER)})"
    return {
        name: re.sub(r"\$(instance|namespace|topic)", ".*", query.replace("$__rate_interval", "1m"))
        for name, query in known.items()
    }


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    with shared_instance.used() as running:
        yield running


@pytest.fixture(scope="module")
def proxy(instance: Instance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxyProcess]:
    """Start a proxy, and publish through it what the series of topics need."""
    process = ProxyProcess(tmp_path_factory.mktemp("proxy"), variables_of(instance))
    process.start()
    client = quiet_client(process.url)
    consumer = client.subscribe(TOPIC, "one")
    producer = client.create_producer(TOPIC)
    producer.send(b"message")
    consumer.acknowledge(consumer.receive(10_000))
    yield process
    client.close()
    process.stop()


@pytest.fixture(scope="module")
def metadata_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """Run a metadata server with its page, and return the port of that."""
    own, pages = free_ports(2)
    folder = tmp_path_factory.mktemp("metadata")
    command = [sys.executable, "-m", "engine", "metadata", "--data-dir", str(folder), "--port"]
    variables = {"PATH": os.environ["PATH"], "MAGNETAR_METADATA_SERVER_HTTP_PORT": str(pages)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, str(own)], cwd=ROOT, env=variables, stderr=log)
    until_blocking(lambda: answers(pages), (folder / "log").read_text)
    yield pages
    process.terminate()
    process.wait(30)


def answers(port: int) -> bool:
    try:
        return "znode_count" in page_of(port)
    except OSError:
        return False


@pytest.fixture(scope="module")
def targets(instance: Instance, proxy: ProxyProcess, metadata_port: int) -> dict[str, int]:
    """Return the ports of the pages by job."""
    ports = instance.ports
    return {
        "magnetar-metadata": metadata_port,
        "magnetar-broker": ports["BROKER_HTTP"],
        "magnetar-bookie": ports["BOOKIE_HTTP"],
        "magnetar-proxy": proxy.web_port,
        "magnetar-gateway": ports["HTTP"],
    }


def page_of(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return str(answer.read().decode())


def served(pages: list[str]) -> dict[str, set[str]]:
    """Return the labels of each family's samples by the name of the sample; of a family without samples, none."""
    names: dict[str, set[str]] = {}
    for page in pages:
        for line in page.splitlines():
            if line.startswith("# TYPE "):
                names.setdefault(line.split()[2], set())
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                names.setdefault(sample.name, set()).update(sample.labels, [NAME])
    return names


def missing(item: Selected, names: dict[str, set[str]]) -> list[str]:
    """Return what a selector names and no page has."""
    if item.family not in names:
        return [item.family]
    known = names[item.family]
    return [f"{item.family}.{label}" for label in item.labels - known - TARGET_LABELS if known]


def test_every_family_and_label_of_a_query_is_served(targets: dict[str, int]) -> None:
    names = served([page_of(port) for port in targets.values()]) | OF_PROMETHEUS
    absent = {
        name: lacking
        for name, query in queries().items()
        if (lacking := [part for item in selectors(query) for part in missing(item, names)])
    }
    assert absent == {}


def test_the_families_of_other_dashboards_are_served_or_absent_as_documented(
    targets: dict[str, int],
) -> None:
    names = served([page_of(port) for port in targets.values()])
    text = (ROOT / "docs" / "guides" / "monitor.md").read_text()
    prose, _, table = text.partition("## Dashboards made for")[2].partition("| absent |")
    bookkeeper = set(re.findall(r"`(book\w+)`", prose))
    assert len(bookkeeper) > 10
    assert bookkeeper - names.keys() == set()
    cells = [row.split("|")[1] for row in table.splitlines()[2:]]
    absent = [family for cell in cells for family in re.findall(r"`(\w[\w*]*)`", cell)]
    with_samples = [name for name, labels in names.items() if labels]
    assert [family for family in absent if fnmatch.filter(with_samples, family)] == []


def test_the_pages_are_in_the_form_that_prometheus_asks_for(targets: dict[str, int]) -> None:
    assert [line for port in targets.values() for line in complaints(page_of(port))] == []


class Prometheus:
    """A Prometheus with the shipped rules, which reads the pages of ``targets`` each second."""

    def __init__(self, folder: Path, targets: dict[str, int]) -> None:
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(DEPLOY / "prometheus" / "rules" / "*.yml")]
        jobs = [job for job in config["scrape_configs"] if job["job_name"] in targets]
        for job in jobs:
            for key in ("scheme", "authorization", "tls_config"):
                job.pop(key, None)
            port = targets[job["job_name"]]
            job["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        config["scrape_configs"] = jobs
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        (self.port,) = free_ports(1)
        self.log = folder / "prometheus.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    tool("prometheus"),
                    f"--config.file={folder}/prometheus.yml",
                    f"--storage.tsdb.path={folder}/data",
                    f"--web.listen-address=127.0.0.1:{self.port}",
                ],
                stderr=log,
            )

    def api(self, path: str, **parameters: str) -> Any:
        """Return the data of an answer. Raises AssertionError with Prometheus' reason."""
        query = urllib.parse.urlencode(parameters)
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{query}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 503:  # it is starting
                    raise ConnectionError from error
                raise AssertionError(error.read().decode()) from error

    def values(self, query: str) -> list[float]:
        return [float(row["value"][1]) for row in self.api("query", query=query)["result"]]

    def has(self, query: str, least: float) -> bool:
        """Return whether a query has a value of at least ``least``; False while it is starting."""
        try:
            return any(value >= least for value in self.values(query))
        except OSError:
            return False


@contextmanager
def running_prometheus(folder: Path, targets: dict[str, int]) -> Iterator[Prometheus]:
    prometheus = Prometheus(folder, targets)
    try:
        yield prometheus
    finally:
        prometheus.process.terminate()
        prometheus.process.wait(30)


def test_prometheus_evaluates_every_query_and_no_alert_fires(
    targets: dict[str, int], tmp_path: Path
) -> None:
    names = served([page_of(port) for port in targets.values()]) | OF_PROMETHEUS
    with running_prometheus(tmp_path, targets) as prometheus:
        reads = 'min(count_over_time(up{job=~"magnetar-.*"}[1m]))'
        until_blocking(lambda: prometheus.has(reads, 3), prometheus.log.read_text)
        assert prometheus.values("sum(up)") == [len(targets)]
        empty = []
        for name, query in queries().items():
            prometheus.api("query", query=query)
            empty += [
                (name, item.text)
                for item in selectors(query)
                # A family without samples has no series: nothing was refused yet.
                if names[item.family] and ERRORS not in item.text
                if not prometheus.values(f"count({item.text})")
            ]
        assert empty == []
        groups = prometheus.api("rules")["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        assert {rule["health"] for rule in rules} == {"ok"}
        assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
