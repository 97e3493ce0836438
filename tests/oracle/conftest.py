"""Two servers side by side: Apache Pulsar as published, and an instance of ours."""

import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.bench.contenders import apache, apache_missing
from tests.oracle.ledgers_java import JavaLedgers, compile_driver
from tests.oracle.servers import LEAN_PEER, ApacheBookies, OurBookies, peer
from tests.support.instance import running_instance
from tests.support.ports import free_ports

SETTINGS = {  # both look every second; only what policies say goes within a test
    "brokerDeleteInactiveTopicsFrequencySeconds": "1",
    "brokerDeleteInactiveTopicsMaxInactiveDurationSeconds": "600",
    "backlogQuotaCheckIntervalInSeconds": "1",
}
THEIRS = {"preciseTimeBasedBacklogQuotaCheck": "true"}
OURS = {
    "MAGNETAR_" + re.sub("([A-Z])", r"_\1", name).upper(): value for name, value in SETTINGS.items()
}

NO_BROKER = {"bookies", "test_bookie_frames.py", "test_ledgers_both_sides.py", "test_znodes.py"}
"""Apache's bookies, shell and ledger client answer what they are asked, when they are asked."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests beside Apache's broker as long: decision 0024."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and item.path.relative_to(here).parts[0] not in NO_BROKER:
            item.add_marker(pytest.mark.long)


class Side:
    """Addresses of one of the two instances."""

    def __init__(self, name: str, url: str, http: str) -> None:
        self.name = name
        self.url = url
        self.http = http

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Status and body of a REST call. Apache's sometimes stands still for half a minute when namespaces are new."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if data is not None else {}
        request = urllib.request.Request(self.http + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=75) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def put(self, path: str, body: Any = None) -> int:
        return self.call("PUT", path, body)[0]

    def post(self, path: str, body: Any = None) -> int:
        return self.call("POST", path, body)[0]


@pytest.fixture(scope="session")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Side, Side]]:
    """(Apache's, ours); skipped where Apache cannot be had."""
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache Pulsar is not at hand: {reason}")
    work = tmp_path_factory.mktemp("oracle")
    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:  # its start costs half of the CPU then
            for name, value in LEAN_PEER.items():
                patch.setenv(name, value)
            theirs = stack.enter_context(apache(work, SETTINGS | THEIRS))
        instance = stack.enter_context(running_instance(work / "ours", **OURS))
        yield Side("apache", theirs.url, theirs.http), Side("ours", instance.url, instance.http)


@pytest.fixture(scope="session")
def apache_at_hand() -> None:
    """Skips, saying why, where Apache's distribution, Java or Maven are not to be had."""
    reason = apache_missing()
    if reason is None and shutil.which("javac") is None:
        reason = "no javac on PATH"
    if reason is not None:
        pytest.skip(f"Apache BookKeeper is not at hand: {reason}")


@pytest.fixture(scope="session")
def zookeeper(apache_at_hand: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of Apache's ZooKeeper; use a chroot of your own."""
    folder = tmp_path_factory.mktemp("oracle-zookeeper")
    (port,) = free_ports(1)
    try:
        yield peer("zookeeper", "--dir", folder, "--port", port)["zk"]
    finally:
        peer("stop", "--dir", folder)


@pytest.fixture(scope="session")
def driver_classes(apache_at_hand: None, tmp_path_factory: pytest.TempPathFactory) -> str:
    return compile_driver(tmp_path_factory.mktemp("driver"))


@pytest.fixture(scope="session")
def java(driver_classes: str) -> Iterator[JavaLedgers]:
    """Apache's ledger client; handles of the tests share one name space."""
    driver = JavaLedgers(driver_classes)
    yield driver
    driver.close()


@pytest.fixture(scope="session")
def apache_bookies(
    zookeeper: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ApacheBookies]:
    """Three of Apache's; who stops one starts it again."""
    work = tmp_path_factory.mktemp("apache-bookies")
    with ApacheBookies(work, f"{zookeeper}/apache") as made:
        yield made


@pytest.fixture(scope="session")
def our_bookies(zookeeper: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBookies]:
    """Three of ours; who stops one starts it again."""
    with OurBookies(tmp_path_factory.mktemp("our-bookies"), f"{zookeeper}/ours") as made:
        yield made
