"""Apache's own Java tools against a real instance: pulsar-admin, pulsar-client and pulsar-perf, as published."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.contenders import apache_missing
from tests.support.instance import Instance, running_instance

PEER = Path(__file__).parents[1] / "oracle" / "peer.py"
# the lean settings of tests/oracle/peer.py: half the CPU of a start
LEAN = {"PEER_GC": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1", "PEER_MEM": "-Xms32m -Xmx512m"}
TOPIC = "persistent://java/ns/one"
PARTED = "persistent://java/ns/parts"

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache's tools are not at hand: {reason}")
    subprocess.run([sys.executable, str(PEER), "fetch"], check=True, capture_output=True)
    with running_instance(tmp_path_factory.mktemp("java")) as made:
        yield made


def begin(instance: Instance, tool: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, str(PEER), tool, "--http", instance.http]
    if tool != "admin":
        command += ["--url", instance.url]
    return subprocess.Popen(
        [*command, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **LEAN},
    )


def said(process: "subprocess.Popen[str]", timeout_s: float = 90.0) -> str:
    try:
        return process.communicate(timeout=timeout_s)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def run(instance: Instance, tool: str, *arguments: str) -> str:
    return said(begin(instance, tool, *arguments))


class Shell:
    """Commands for pulsar-shell, which runs them all in one JVM: starting one each would take minutes."""

    def __init__(self, instance: Instance, folder: Path) -> None:
        self._folder = folder
        self._target = f"webServiceUrl={instance.http}\nbrokerServiceUrl={instance.url}\n"

    def run(self, commands: list[str]) -> dict[str, str]:
        """What each command printed."""
        script, conf = self._folder / "commands", self._folder / "client.conf"
        script.write_text("\n".join(commands) + "\n")
        conf.write_text(self._target)
        home = Path(os.environ.get("PEER_HOME", "~/.cache/magnetar-peer")).expanduser()
        (binary,) = home.glob("apache-pulsar-*/bin/pulsar-shell")
        memory = f"{LEAN['PEER_MEM']} {LEAN['PEER_GC']}"
        done = subprocess.run(
            [str(binary), "-c", str(conf), "-np", "-f", str(script)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=150,
            env={**os.environ, "PULSAR_MEM": memory, "HOME": str(self._folder)},
        )
        parts = re.split(r"^\[\d+/\d+\] Executing (.*)$", done.stdout, flags=re.MULTILINE)
        found = {
            name.strip(): text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)
        }
        assert list(found) == commands, done.stdout[-3000:]
        return found


ADMIN: list[tuple[str, str]] = [  # a command and a pattern of what it prints
    ("admin clusters list", r"standalone"),
    ("admin clusters get standalone", r'"brokerServiceUrl" : "pulsar://'),
    ("admin brokers list standalone", r"127\.0\.0\.1:\d+"),
    ("admin brokers healthcheck", r"ok"),
    ("admin brokers leader-broker", r'"brokerId"'),
    ("admin brokers version", r"\d+\.\d+"),
    ("admin tenants create java -r admin -c standalone", r"\Z"),
    ("admin tenants get java", r'"adminRoles" : \[ "admin" \]'),
    ("admin tenants update java -r other -c standalone", r"\Z"),
    ("admin tenants list", r"(?m)^java$"),
    ("admin namespaces create java/ns", r"\Z"),
    ("admin namespaces list java", r"java/ns"),
    ("admin namespaces policies java/ns", r'"numBundles" : \d'),
    ("admin namespaces bundles java/ns", r"0x00000000"),
    (f"admin topics create {TOPIC}", r"\Z"),
    (f"admin topics create-partitioned-topic {PARTED} -p 3", r"\Z"),
    ("admin topics list java/ns", rf"{TOPIC}"),
    ("admin namespaces topics java/ns", rf"{PARTED}-partition-2"),
    ("admin topics list-partitioned-topics java/ns", rf"{PARTED}"),
    (f"admin topics update-partitioned-topic {PARTED} -p 4", r"\Z"),
    (f"admin topics get-partitioned-topic-metadata {PARTED}", r'"partitions" : 4'),
    (f"admin topics lookup {TOPIC}", r"pulsar://127\.0\.0\.1:\d+"),
    (f"admin topics partitioned-lookup {PARTED}", rf"{PARTED}-partition-3"),
    (f"admin topics bundle-range {TOPIC}", r"0x[0-9a-f]{8}_0x[0-9a-f]{8}"),
    (f"admin topics create-subscription {TOPIC} -s s1", r"\Z"),
    (f"admin topics create-subscription {PARTED} -s s2", r"\Z"),
    (f"admin topics subscriptions {TOPIC}", r"\As1\Z"),
    (f"admin topics subscriptions {PARTED}", r"\As2\Z"),
    (f"client produce -m hello -n 5 {TOPIC}", r"5 messages successfully produced"),
    (f"admin topics stats {TOPIC}", r'"msgBacklog" : 5'),
    (f"admin topics partitioned-stats {PARTED}", r'"partitions" : 4'),
    (f"admin topics stats-internal {TOPIC}", r'"numberOfEntries" : 5'),
    (f"admin topics last-message-id {TOPIC}", r'"entryId" : 4'),
    (f"admin topics peek-messages {TOPIC} -s s1 -n 2", r"(?s)Message ID: \d+:0.*hello.*:1"),
    (f"admin topics examine-messages {TOPIC} -i earliest -m 1", r"hello"),
    (f"admin topics skip {TOPIC} -s s1 -n 2", r"\Z"),
    (f"admin topics reset-cursor {TOPIC} -s s1 -t 1h", r"\Z"),
    (f"admin topics clear-backlog {TOPIC} -s s1", r"\Z"),
    (f"admin topics unload {TOPIC}", r"\Z"),
    (f"admin topics terminate {TOPIC}", r"Topic successfully terminated at \d+:4"),
    (f"client produce -m late {TOPIC}", r"0 messages successfully produced"),
    (f"admin topics unsubscribe {TOPIC} -s s1", r"\Z"),
    (f"admin topics delete {TOPIC}", r"\Z"),
    (f"admin topics delete-partitioned-topic {PARTED}", r"\Z"),
    (f"admin topics stats {TOPIC}", r"not found"),
    ("admin namespaces delete java/ns", r"\Z"),
    ("admin tenants delete java", r"\Z"),
    ("admin tenants get java", r"Tenant does not exist"),
    ("admin namespaces get-dispatch-rate public/default", r"is not built yet"),
]


def test_the_admin_tool_finds_what_it_expects(instance: Instance, tmp_path: Path) -> None:
    shell = Shell(instance, tmp_path)
    # in two goes, for commands that come twice
    half = next(i for i, row in enumerate(ADMIN) if row[0].startswith("admin topics delete-part"))
    wrong = []
    for rows in (ADMIN[: half + 1], ADMIN[half + 1 :]):
        printed = shell.run([command for command, _ in rows])
        for command, pattern in rows:
            text = printed[command].removesuffix("Goodbye!").strip()
            found = re.fullmatch(r"", text) if pattern == r"\Z" else re.search(pattern, text)
            if found is None:
                wrong.append(f"{command}\n  expected {pattern}\n  printed {text[:400]}")
    assert not wrong, "\n".join(wrong)


def test_the_java_client_produces_and_consumes(instance: Instance) -> None:
    topic = "persistent://public/default/java-client"
    produced = run(
        instance, "client", "produce", "-m", "hallo", "-n", "20", "-k", "kk", "-p", "a=b", topic
    )
    assert "20 messages successfully produced" in produced, produced[-2000:]
    consumed = run(instance, "client", "consume", "-s", "s", "-n", "20", "-p", "Earliest", topic)
    assert "20 messages successfully consumed" in consumed, consumed[-2000:]
    assert len(re.findall(r"key:\[kk\], properties:\[a=b\], content:hallo", consumed)) == 20


@pytest.mark.parametrize("batching", [[], ["-db"]], ids=["batched", "single"])
def test_pulsar_perf_produces_and_consumes(instance: Instance, batching: list[str]) -> None:
    topic = f"persistent://public/default/perf-{len(batching)}"
    count = 4000
    status, _ = instance.rest("PUT", f"/admin/v2/{topic.replace('://', '/')}/subscription/sub")
    assert status == 204
    size = ["-s", "1024", "-m", str(count), "-r", "2000"]
    produced = run(instance, "perf", "produce", *size, *batching, topic)
    sent = re.search(r"(\d+) records sent", produced)
    assert sent is not None, produced[-2000:]
    assert int(sent[1]) >= count  # the tool sends one more at times
    consumed = run(instance, "perf", "consume", "-ss", "sub", "-m", str(count), topic)
    received = re.search(r"(\d+) records received", consumed)
    assert received is not None, consumed[-2000:]
    assert int(received[1]) >= count
    _, found = instance.rest("GET", f"/admin/v2/{topic.replace('://', '/')}/stats")
    assert found["msgInCounter"] == int(sent[1]), json.dumps(found)


BOOKKEEPER: list[
    tuple[str, str]
] = [  # a command of bookkeeper shell and a pattern of what it prints
    ("listbookies -rw", r"BookieID:bookie-1, IP:127\.0\.0\.1, Port:\d+"),
    (
        "simpletest -ensemble 1 -writeQuorum 1 -ackQuorum 1 -numEntries 50",
        r"50 entries written to ledger \d+",
    ),
]


@pytest.mark.parametrize(("command", "pattern"), BOOKKEEPER, ids=["listbookies", "simpletest"])
def test_bookkeeper_shell_finds_bookies_by_names(
    instance: Instance, command: str, pattern: str
) -> None:
    """Bookies of an instance have names for ids; the tool resolves them. More of it: ``tests/oracle``."""
    zk = f"127.0.0.1:{instance.ports['ZOOKEEPER']}"
    done = subprocess.run(
        [sys.executable, str(PEER), "bk", "--zk", zk, "shell", *command.split()],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=90,
        env={**os.environ, **LEAN},
    )
    assert done.returncode == 0, done.stdout[-3000:]
    assert re.search(pattern, done.stdout), done.stdout[-3000:]
