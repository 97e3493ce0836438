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
from tests.interop.pulsar_shell import LEAN, Shell
from tests.support.instance import Instance
from tests.support.instances.shared import SharedInstance

PEER = Path(__file__).parents[1] / "oracle" / "peer.py"
TOPIC = "persistent://java/ns/one"
PARTED = "persistent://java/ns/parts"

pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def instance(shared_instance: SharedInstance) -> Iterator[Instance]:
    reason = apache_missing()
    if reason is not None:
        pytest.skip(f"Apache's tools are not at hand: {reason}")
    subprocess.run([sys.executable, str(PEER), "fetch"], check=True, capture_output=True)
    with shared_instance.used() as made:
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


def output(process: "subprocess.Popen[str]", timeout_s: float = 90.0) -> str:
    try:
        return process.communicate(timeout=timeout_s)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def run(instance: Instance, tool: str, *arguments: str) -> str:
    return output(begin(instance, tool, *arguments))


ISOLATION = "admin ns-isolation-policy"
FAILOVER = (
    "--auto-failover-policy-type min_available "
    "--auto-failover-policy-params min_limit=1,usage_threshold=80"
)
BUNDLE = "--namespace java/ns --bundle 0xc0000000_0xffffffff"
MACHINES: list[tuple[str, str]] = [
    (
        "admin clusters create-failure-domain standalone --domain-name d1 --broker-list b1:8080",
        r"\Z",
    ),
    ("admin clusters list-failure-domains standalone", r"b1:8080"),
    ("admin clusters get-failure-domain standalone --domain-name d1", r"b1:8080"),
    ("admin clusters delete-failure-domain standalone --domain-name d1", r"\Z"),
    (
        f"{ISOLATION} set standalone p1 --namespaces java/iso.* --primary nobody.* {FAILOVER}",
        r"\Z",
    ),
    (f"{ISOLATION} list standalone", r"java/iso"),
    (f"{ISOLATION} get standalone p1", r"nobody"),
    (f"{ISOLATION} brokers standalone", r"127\.0\.0\.1:\d+"),
    (f"{ISOLATION} broker standalone --broker nobody:1", r"java/iso"),
    (f"{ISOLATION} delete standalone p1", r"\Z"),
    ("admin resource-quotas get", r"120"),
    (f"admin resource-quotas set {BUNDLE} -mi 5 -mo 6 -bi 7 -bo 8 -mem 9", r"\Z"),
    (f"admin resource-quotas get {BUNDLE}", r"9\.0"),
    (f"admin resource-quotas reset-namespace-bundle-quota {BUNDLE}", r"\Z"),
    ("admin resourcegroups create g --msg-publish-rate 1000", r"\Z"),
    ("admin resourcegroups update g --msg-dispatch-rate 2000", r"\Z"),
    ("admin resourcegroups get g", r"(?s)1000.*2000"),
    ("admin resourcegroups list", r"g"),
    ("admin namespaces set-resource-group java/ns -rgn g", r"\Z"),
    ("admin namespaces get-resource-group java/ns", r"g"),
    ("admin resourcegroups delete g", r"ResourceGroup is in use"),
    ("admin namespaces remove-resource-group java/ns", r"\Z"),
    ("admin resourcegroups delete g", r"\Z"),
    ("admin bookies list-bookies", r"bookie-1"),
    ("admin bookies set-bookie-rack -b b:3181 -r /r1 -g g1 --hostname h", r"\Z"),
    ("admin bookies racks-placement", r"/r1"),
    ("admin bookies get-bookie-rack -b b:3181", r"/r1"),
    ("admin bookies delete-bookie-rack -b b:3181", r"\Z"),
    ("admin brokers list-dynamic-config", r"maxTopicsPerNamespace"),
    ("admin brokers update-dynamic-config --config maxTopicsPerNamespace --value 900", r"\Z"),
    ("admin brokers get-all-dynamic-config", r"900"),
    ("admin brokers get-runtime-config", r"maxTopicsPerNamespace\W+900"),
    ("admin brokers delete-dynamic-config --config maxTopicsPerNamespace", r"\Z"),
    ("admin brokers update-dynamic-config --config nosuch --value 1", r"non-dynamic"),
    ("admin broker-stats load-report", r"webServiceUrl"),
]

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
    ("admin namespaces grant-permission java/ns --role app --actions produce", r"\Z"),
    ("admin namespaces permissions java/ns", r"app +\[produce\]"),
    (f"admin topics grant-permission {TOPIC} --role r --actions consume", r"\Z"),
    (f"admin topics permissions {TOPIC}", r"(?s)app +\[produce\].*r +\[consume\]"),
    (f"admin topics revoke-permission {TOPIC} --role r", r"\Z"),
    ("admin namespaces revoke-permission java/ns --role app", r"\Z"),
    (
        "admin namespaces grant-subscription-permission java/ns --subscription s1 --roles a,b",
        r"\Z",
    ),
    ("admin namespaces subscription-permission java/ns", r"s1 +\[a, b\]"),
    (
        "admin namespaces revoke-subscription-permission java/ns --subscription s1 --role a",
        r"\Z",
    ),
    ("admin namespaces set-properties java/ns -p a=b", r"\Z"),
    ("admin namespaces get-properties java/ns", r'"a" : "b"'),
    ("admin namespaces set-property java/ns -k c -v d", r"\Z"),
    ("admin namespaces get-property java/ns -k c", r"\Ad\Z"),
    ("admin namespaces clear-properties java/ns", r"\Z"),
    ("admin namespaces split-bundle java/ns -b 0x00000000_0x40000000", r"\Z"),
    (
        "admin namespaces split-bundle java/ns -b 0x40000000_0x80000000 -u"
        " -san specified_positions_divide -sb 1500000000",
        r"\Z",
    ),
    ("admin namespaces bundles java/ns", r'(?s)"0x20000000".*"0x59682f00".*"numBundles" : 6'),
    ("admin namespaces clear-backlog java/ns --force", r"\Z"),
    ("admin namespaces clear-backlog java/ns -s s1 --force", r"\Z"),
    ("admin namespaces set-encryption-required java/ns -e", r"\Z"),
    ("admin namespaces get-encryption-required java/ns", r"true"),
    ("admin namespaces set-encryption-required java/ns -d", r"\Z"),
    ("admin namespaces set-subscription-auth-mode java/ns -m Prefix", r"\Z"),
    ("admin namespaces get-subscription-auth-mode java/ns", r"Prefix"),
    ("admin namespaces set-clusters java/ns -c standalone", r"\Z"),
    ("admin namespaces get-clusters java/ns", r"standalone"),
    ("admin namespaces set-allowed-clusters java/ns -c standalone", r"\Z"),
    ("admin namespaces get-allowed-clusters java/ns", r"standalone"),
    ("admin namespaces set-anti-affinity-group java/ns -g grp", r"\Z"),
    ("admin namespaces get-anti-affinity-group java/ns", r"grp"),
    (
        "admin namespaces get-anti-affinity-namespaces -p java -c standalone -g grp",
        r"\Ajava/ns\Z",
    ),
    ("admin namespaces delete-anti-affinity-group java/ns", r"\Z"),
    ("admin namespaces set-replicator-dispatch-rate java/ns -md 100", r"\Z"),
    ("admin namespaces get-replicator-dispatch-rate java/ns", r'RateInMsg" : 100'),
    ("admin namespaces set-offload-threshold java/ns -s 10M", r"\Z"),
    ("admin namespaces get-offload-threshold java/ns", r"ThresholdInBytes: 10485760"),
    ("admin namespaces remove-offload-policies java/ns", r"\Z"),
    (f"admin topics get-backlog-size {TOPIC} -m -1:-1", r"\A\d+\Z"),
    (f"admin topics offload-status {TOPIC}", r"Offload has not been run"),
    ("admin functions list --tenant java --namespace ns", r"Function Worker is not enabled"),
    ("admin packages list --type function java/ns", r"\A\s*\Z"),
    ("admin transactions coordinators-list", r"transactionCoordinatorEnabled=true"),
    (f"admin topics reset-cursor {TOPIC} -s s1 -t 1h", r"\Z"),
    (f"admin topics clear-backlog {TOPIC} -s s1", r"\Z"),
    (f"admin topics unload {TOPIC}", r"\Z"),
    (f"admin topics terminate {TOPIC}", r"Topic successfully terminated at \d+:4"),
    (f"client produce -m late {TOPIC}", r"0 messages successfully produced"),
    (f"admin topics unsubscribe {TOPIC} -s s1", r"\Z"),
    (f"admin topics delete {TOPIC}", r"\Z"),
    (f"admin topics delete-partitioned-topic {PARTED}", r"\Z"),
    (f"admin topics stats {TOPIC}", r"not found"),
    *MACHINES,
    ("admin namespaces delete java/ns", r"\Z"),
    ("admin tenants delete java", r"\Z"),
    ("admin tenants get java", r"Tenant does not exist"),
    (
        "admin namespaces set-bookie-affinity-group public/default -pg g1",
        r"ledgers are not placed by groups of bookies yet",
    ),
]


def test_the_admin_tool_prints_the_expected_output(instance: Instance, tmp_path: Path) -> None:
    printed = Shell(instance.url, instance.http, tmp_path).run([command for command, _ in ADMIN])
    wrong = []
    for (command, pattern), text in zip(ADMIN, printed, strict=True):
        match = re.fullmatch(r"", text) if pattern == r"\Z" else re.search(pattern, text)
        if match is None:
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
    _, stats = instance.rest("GET", f"/admin/v2/{topic.replace('://', '/')}/stats")
    assert stats["msgInCounter"] == int(sent[1]), json.dumps(stats)


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
def test_bookkeeper_shell_resolves_bookies_by_name(
    instance: Instance, command: str, pattern: str
) -> None:
    """Run a command of the tool, which resolves bookie ids that are names. More of it: ``tests/oracle``."""
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
