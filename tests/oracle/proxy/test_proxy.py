"""Combinations of proxies and brokers of both kinds, with the official Python client and Apache's Java client."""

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import pulsar
import pytest

from tests.oracle.conftest import Side
from tests.oracle.proxy.apache_proxy import apache_proxy
from tests.oracle.servers import LEAN_PEER, PEER
from tests.support.proxy.process import ProxyProcess

ROUTES = ("ours to ours", "ours to apache", "apache to ours")
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
RECEIVE_MS = 20_000
COUNTERS = (
    *("new_connections", "rejected_connections", "binary_ops", "binary_bytes"),
    *("lookup_requests", "partitions_metadata_requests"),
)


class Routes:
    """The URLs of the proxies by route."""

    def __init__(self, urls: dict[str, str], pages: dict[str, str]) -> None:
        self.urls = urls
        self.pages = pages


@pytest.fixture(scope="module")
def routes(sides: tuple[Side, Side], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Routes]:
    theirs, ours = sides
    work = tmp_path_factory.mktemp("proxies")
    with ExitStack() as stack:
        urls, pages = {}, {}
        for name, broker in (("ours to ours", ours), ("ours to apache", theirs)):
            folder = work / name.replace(" ", "-")
            folder.mkdir()
            made = ProxyProcess(folder, {"MAGNETAR_PROXY_BROKER_SERVICE_URL": broker.url})
            made.start()
            stack.callback(made.stop)
            urls[name], pages[name] = made.url, f"http://127.0.0.1:{made.web_port}"
        proxy = stack.enter_context(apache_proxy(work / "apache", ours.url, ours.http))
        urls["apache to ours"], pages["apache to ours"] = proxy.url, proxy.http
        for side in sides:
            assert side.put("/admin/v2/namespaces/public/proxied") in (204, 409)
            partitioned = "/admin/v2/persistent/public/proxied/partitioned/partitions"
            assert side.put(partitioned, 3) in (204, 409)
        yield Routes(urls, pages)


def topic(route: str, what: str) -> str:
    return f"persistent://public/proxied/{what}-{route.replace(' ', '-')}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("route", ROUTES)
def test_the_official_client_works_by_each_route(routes: Routes, route: str) -> None:
    client = pulsar.Client(routes.urls[route], logger=QUIET, operation_timeout_seconds=30)
    for name in (topic(route, "plain"), "persistent://public/proxied/partitioned"):
        consumer = client.subscribe(name, f"s-{route}".replace(" ", "-"))
        producer = client.create_producer(name)
        sent = {f"{route} {number}".encode() for number in range(30)}
        for value in sorted(sent):
            producer.send(value)
        received = set()
        while received < sent:
            message = consumer.receive(RECEIVE_MS)
            received.add(message.data())
            consumer.acknowledge(message)
        consumer.close()
    assert len(client.get_topic_partitions("persistent://public/proxied/partitioned")) == 3
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("persistent://public/no-such-namespace/t")
    client.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("route", ROUTES[:2])
def test_apaches_client_works_through_our_proxy(routes: Routes, route: str) -> None:
    name, url = topic(route, "java"), routes.urls[route]
    with pulsar_client(url, "consume", "-s", "sub", "-n", "5", "-p", "Earliest", name) as consumer:
        with pulsar_client(url, "produce", "-m", "hello", "-n", "5", name) as producer:
            out, _ = producer.communicate(timeout=120)
        assert "5 messages successfully produced" in out
        out, _ = consumer.communicate(timeout=120)
    assert out.count("content:hello") == 5


def pulsar_client(url: str, *words: str) -> "subprocess.Popen[str]":
    """Start Apache's command line client."""
    return subprocess.Popen(
        [sys.executable, str(PEER), "client", "--url", url, *words],
        env=os.environ | LEAN_PEER,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_counters_have_apaches_names(routes: Routes) -> None:
    names = {}
    for route in ("ours to ours", "apache to ours"):
        with urllib.request.urlopen(f"{routes.pages[route]}/metrics/", timeout=20) as page:
            text = page.read().decode()
        names[route] = {
            line.partition("{")[0].partition(" ")[0]
            for line in text.splitlines()
            if line.startswith("pulsar_proxy_") and "_created" not in line
        }
    assert {f"pulsar_proxy_{name}_total" for name in COUNTERS} <= names["apache to ours"]
    assert names["apache to ours"] - names["ours to ours"] == set()


def test_statistics_of_connections_have_apaches_form(routes: Routes) -> None:
    forms = []
    for route in ("ours to ours", "apache to ours"):
        client = pulsar.Client(routes.urls[route], logger=QUIET, operation_timeout_seconds=30)
        client.create_producer(topic(route, "plain"))
        url = f"{routes.pages[route]}/proxy-stats/connections"
        with urllib.request.urlopen(url, timeout=20) as page:
            rows = json.load(page)
        client.close()
        assert rows
        forms.append(
            {
                name: re.sub("[0-9]+$", "0", value) if isinstance(value, str) else type(value)
                for name, value in rows[0].items()
            }
        )
    assert forms[0] == forms[1]
