"""Transactions of Apache's own Java and Go clients, and ``pulsar-admin transactions``, on two brokers of ours."""

import json
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bench.contenders import apache_missing
from tests.interop.schemas.programs import UnavailableError, build_go
from tests.oracle.ledgers_java import LEAN, OPEN, SOURCE, compile_driver
from tests.oracle.servers import PEER
from tests.support.instance import Instance, running_instance

GO = SOURCE.parent / "go" / "transactions" / "main.go"
BROKERS = ("broker-1", "broker-2")
COORDINATOR = "pulsar/system/transaction_coordinator_assign-partition-0"
RUN_S_MAX = 240.0
JAVA_SAW = """
commit open [before] []
commit done [one, after] [two] COMMITTED
abort done [plain] ABORTED
abort late ExecutionException
acks pending []
acks aborted [m0, m1, m2]
acks committed []
batch sent [b0, b1, b2, b3]
batch left [b1, b2, b3]
cumulative left [c3]
conflict TransactionConflictException
conflict COMMITTED ABORTED
timeout [plain] TIME_OUT
timeout InvalidTxnStatusException
pipeline [v00, v01, v02, v03, v04, v05, v06, v07, v08, v09, v10, v11]
"""
"""Observations with Apache Pulsar 4.0.8."""
GO_SAW = """
commit open []
commit done [one plain] true
abort [plain] true
acks aborted [m0 m1 m2]
acks committed []
timeout [plain] true
"""
"""Observations here. With Apache Pulsar 4.0.8 messages of aborted transactions are delivered too, because the Go client
does not name the transaction in the message."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with running_instance(
        tmp_path_factory.mktemp("ours"),
        brokers=2,
        MAGNETAR_TRANSACTION_COORDINATOR_ENABLED="true",
    ) as made:
        yield made


def driver(instance: Instance, work: Path, *steps: str) -> list[str]:
    """Return the command line of the Java client's steps; skip the test where it is not at hand."""
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache's Java client is not at hand: {reason}")
    return [
        *("java", *LEAN.split(), *(f"--add-opens={package}=ALL-UNNAMED" for package in OPEN)),
        f"-Dlog4j2.configurationFile={SOURCE / 'log4j2.properties'}",
        *("-Dlog.target=SYSTEM_ERR", "-cp"),
        *(compile_driver(work, SOURCE / "TransactionsDriver.java"), "TransactionsDriver"),
        *(instance.url, "persistent://public/default/java", *steps),
    ]


def test_the_java_client_sees_what_apaches_broker_shows(instance: Instance, tmp_path: Path) -> None:
    steps = ("commit", "abort", "acks", "batch", "cumulative", "conflict", "timeout", "pipeline")
    done = subprocess.run(
        driver(instance, tmp_path, *steps), capture_output=True, text=True, timeout=RUN_S_MAX
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == JAVA_SAW.strip()
    stats = rest(instance, "coordinatorStats?coordinatorId=0")
    assert (stats["state"], stats["ongoingTxnSize"]) == ("Ready", 0)
    buffer = rest(instance, "transactionBufferStats/public/default/java-abort?lowWaterMarks=true")
    assert (buffer["ongoingTxnSize"], buffer["totalAbortedTransactions"]) == (0, 1)
    pending = rest(instance, "pendingAckInternalStats/public/default/java-acks/s")
    name = pending["pendingAckLogStats"]["managedLedgerName"]
    assert name == "public/default/persistent/java-acks-s__transaction_pending_ack"


def test_the_java_client_commits_what_it_did_before_all_brokers_were_killed(
    instance: Instance, tmp_path: Path
) -> None:
    command = driver(instance, tmp_path, "restart")
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == "restart sent"
            kill_all(instance)
            output, _ = process.communicate("\n", timeout=RUN_S_MAX)
        finally:
            process.kill()
    assert output.strip() == "restart done [one, two] COMMITTED", (tmp_path / "errors").read_text()


@pytest.fixture(scope="module")
def go_program(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Go client's steps; the test is skipped where Go is absent."""
    work = tmp_path_factory.mktemp("go")
    shutil.copy(GO, work)
    try:
        return str(build_go(work, work))
    except UnavailableError as error:
        pytest.skip(str(error))


def test_the_go_client_sees_no_aborted_message(instance: Instance, go_program: str) -> None:
    steps = ("commit", "abort", "acks", "timeout")
    words = [go_program, instance.url, "persistent://public/default/go", *steps]
    done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S_MAX)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == GO_SAW.strip()


def kill_all(instance: Instance) -> None:
    for broker in BROKERS:
        instance.kill(broker)
    for broker in BROKERS:
        instance.wait_running(broker)


def unload_topic(instance: Instance) -> None:
    """Unload the topic. Not the coordinator: the client looks up its broker again only when its connection ends."""
    status, answer = instance.rest("PUT", "/admin/v2/namespaces/public/default/unload")
    assert status == 204, answer


@pytest.mark.parametrize("disturb", [kill_all, unload_topic])
def test_the_go_client_commits_what_it_did_before_its_brokers_changed(
    instance: Instance, go_program: str, tmp_path: Path, disturb: Callable[[Instance], None]
) -> None:
    step = f"restart-{disturb.__name__}"
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(
            [go_program, instance.url, "persistent://public/default/go", step],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == "restart sent 1"
            disturb(instance)
            output, _ = process.communicate("\n", timeout=RUN_S_MAX)
        finally:
            process.kill()
    # What was acknowledged in the transaction does not come again.
    assert output.strip() == "restart done [one two] true", (tmp_path / "errors").read_text()


def test_apaches_tool_reads_the_coordinators(instance: Instance) -> None:
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache's tools are not at hand: {reason}")

    def tool(*words: str) -> str:
        command = [sys.executable, str(PEER), "admin", "--http", instance.http, "transactions"]
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=120)
        return done.stdout + done.stderr

    status, owner = instance.rest("GET", f"/lookup/v2/topic/persistent/{COORDINATOR}")
    assert status == 200
    assert tool("coordinators-list").split() == ["0", owner["brokerUrl"]]
    assert json.loads(tool("coordinator-stats", "-c", "0"))["state"] == "Ready"
    assert "coordinator id : 77" in tool("coordinator-stats", "-c", "77")
    assert "should be more than the current" in tool("scale-transactionCoordinators", "-r", "1")


def rest(instance: Instance, path: str) -> dict[str, object]:
    url = f"{instance.http}/admin/v3/transactions/{path}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return dict(json.load(answer))
