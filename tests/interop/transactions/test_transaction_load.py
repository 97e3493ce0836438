"""Apache's ``pulsar-perf`` as published, with transactions that it commits and aborts, on two brokers of ours."""

import re
import subprocess
import sys
from collections.abc import Iterator

import pulsar
import pytest

from tests.bench.contenders import apache_missing
from tests.interop.test_java_tools import PEER, begin, output
from tests.support.instance import Instance, running_instance

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HEAP = "-Xms32m -Xmx768m"
"""The tool's histograms take more than 256 MiB."""
RUN_S_MAX = 180.0
QUIET_MS = 5_000
"""Time without a message after which no more are expected, with everything ended."""


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache's tools are not at hand: {reason}")
    subprocess.run([sys.executable, str(PEER), "fetch"], check=True, capture_output=True)
    with running_instance(
        tmp_path_factory.mktemp("ours"),
        brokers=2,
        MAGNETAR_TRANSACTION_COORDINATOR_ENABLED="true",
    ) as made:
        yield made


@pytest.fixture(autouse=True)
def heap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(begin.__globals__["LEAN"], "PEER_MEM", HEAP)


def topic_of(name: str) -> str:
    return f"persistent://public/default/{name}"


def load(instance: Instance, *arguments: str) -> str:
    """Run the tool to its end and return what it printed."""
    printed = output(begin(instance, "perf", *arguments), RUN_S_MAX)
    assert "Exception" not in printed or "InterruptedException" in printed, printed[-4000:]
    return printed


def visible(instance: Instance, topic: str, subscription: str) -> int:
    """Return the number of messages that a subscription has left for its consumer."""
    client = pulsar.Client(instance.url)
    try:
        consumer = client.subscribe(
            topic, subscription, initial_position=pulsar.InitialPosition.Earliest
        )
        count = 0
        while True:
            try:
                consumer.acknowledge(consumer.receive(QUIET_MS))
            except pulsar.Timeout:
                return count
            count += 1
    finally:
        client.close()


def ended(instance: Instance, topic: str) -> tuple[int, int, int]:
    """Return the transactions of a topic: open, committed, aborted."""
    path = topic.replace("://", "/")
    status, stats = instance.rest("GET", f"/admin/v2/{path}/stats")
    assert status == 200
    return stats["ongoingTxnCount"], stats["committedTxnCount"], stats["abortedTxnCount"]


@pytest.mark.parametrize(("words", "share"), [((), 1), (("-abort",), 0)], ids=["commit", "abort"])
def test_pulsar_perf_produces_in_transactions(
    instance: Instance, words: tuple[str, ...], share: int
) -> None:
    topic = topic_of(f"perf-produced-{share}")
    size = ("-s", "100", "-m", "500", "-r", "500", "-db")
    load(instance, "produce", *size, "-txn", "-nmt", "25", *words, topic)
    ongoing, committed, aborted = ended(instance, topic)
    assert ongoing <= 1, "the tool leaves its last transaction open"
    assert (committed, aborted)[1 - share] >= 19
    assert (committed, aborted)[share] == 0
    assert visible(instance, topic, "s") == 25 * committed


@pytest.mark.parametrize(("words", "share"), [((), 1), (("-abort",), 0)], ids=["commit", "abort"])
def test_pulsar_perf_consumes_and_produces_in_transactions(
    instance: Instance, words: tuple[str, ...], share: int
) -> None:
    source, target = topic_of(f"perf-in-{share}"), topic_of(f"perf-out-{share}")
    status, _ = instance.rest("PUT", f"/admin/v2/{source.replace('://', '/')}/subscription/sub")
    assert status == 204
    sent = load(instance, "produce", "-s", "100", "-m", "400", "-r", "400", "-db", source)
    match = re.search(r"(\d+) records sent", sent)
    assert match is not None, sent[-2000:]
    flags = ("-threads", "1", "-ntxn", "20", "-nmc", "5", "-nmp", "3", "-ss", "sub")
    places = ("--topics-c", source, "--topics-p", target, "-sp", "Earliest", "-st", "Shared")
    load(instance, "transaction", *flags, *places, *words)
    ongoing, committed, aborted = ended(instance, target)
    assert ongoing <= 1, "the tool leaves its last transaction open"
    assert (committed, aborted)[1 - share] >= 19
    assert (committed, aborted)[share] == 0
    assert visible(instance, target, "s") == 3 * committed
    assert visible(instance, source, "sub") == int(match[1]) - 5 * committed
