"""``magnetar backup``, ``restore`` and ``wipe`` on an instance of processes."""

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pulsar
import pytest

from tests.crash.load import quiet_client
from tests.support.instance import ROOT, Instance, running_instance
from tests.support.instances.operated import environment, magnetar

pytestmark = pytest.mark.slow
TOPIC = "persistent://public/default/kept"
ACKNOWLEDGED = (0, 1, 2, 4)


def fill(instance: Instance) -> None:
    """Publish ten messages, acknowledge some of them, and change the console's database."""
    client = quiet_client(instance.url)
    try:
        consumer = client.subscribe(TOPIC, "s", consumer_type=pulsar.ConsumerType.Shared)
        producer = client.create_producer(TOPIC)
        for number in range(10):
            producer.send(b"m%d" % number)
        messages = [consumer.receive(10_000) for _ in range(10)]
        for number in ACKNOWLEDGED:
            consumer.acknowledge(messages[number])
    finally:
        client.close()
    instance.rest("PUT", "/admin/v2/tenants/kept", {"allowedClusters": ["standalone"]})


def check_support(instance: Instance, folder: Path) -> None:
    """Plant canaries in payloads, properties, names and secrets; check the bundles of the running instance."""
    topic = "persistent://public/default/zqxname"
    client = quiet_client(instance.url)
    try:
        client.subscribe(topic, "zqxsub", properties={"p": "zqxproperty"})
        producer = client.create_producer(topic, properties={"p": "zqxproperty"})
        producer.send(b"zqxpayload", {"p": "zqxproperty"}, partition_key="zqxkey")
    finally:
        client.close()
    path = "/admin/v2/persistent/public/default/zqxname/properties"
    assert instance.rest("PUT", path, {"p": "zqxproperty"})[0] < 300
    token = (instance.data_dir / "internal-token").read_text().strip()
    plain = bundle_of(instance, folder / "plain.zip")
    assert {"about.json", "metadata.txt", "logs/broker-1.log", "metrics/broker-1.txt"} <= set(plain)
    assert "/managed-ledgers/public/default/persistent/zqxname" in plain["metadata.txt"]
    hidden = bundle_of(instance, folder / "hidden.zip", "--hash-names")
    for name, text in (*plain.items(), *hidden.items()):
        for secret in (token, "zqxproperty", "zqxpayload", "zqxkey"):
            assert secret not in text, (name, secret)
    assert not [name for name, text in hidden.items() if "zqx" in text]


def bundle_of(instance: Instance, target: Path, *options: str) -> dict[str, str]:
    """Return the texts of a new support bundle by their names."""
    magnetar(instance, "support", target, *options)
    with zipfile.ZipFile(target) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


def left(instance: Instance) -> list[bytes]:
    """Return the messages that the subscription has not acknowledged, in order."""
    client = quiet_client(instance.url)
    try:
        consumer = client.subscribe(TOPIC, "s", consumer_type=pulsar.ConsumerType.Shared)
        return [consumer.receive(20_000).data() for _ in range(10 - len(ACKNOWLEDGED))]
    finally:
        client.close()


def test_a_running_instance_is_saved_and_restored_elsewhere(tmp_path: Path) -> None:
    target, restored = tmp_path / "saved", tmp_path / "restored"
    with running_instance(tmp_path / "data") as instance:
        fill(instance)
        manifest = json.loads(magnetar(instance, "backup", target, "--json"))
        assert manifest["counts"]["topics"] >= 1
        assert manifest["missing"] == []
        assert {"console.sqlite3", "internal-token"} <= set(manifest["secrets"])
        check_support(instance, tmp_path)
        assert magnetar(instance, "wipe", "--yes", code=1).endswith("stop it before\n")
        magnetar(instance, "backup", target, code=1)  # it exists
    for path in (target, *target.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
    # Killed while it restores: no instance starts, and the same command continues.
    process = subprocess.Popen(
        [sys.executable, "-m", "magnetar", "restore", str(target)],
        cwd=ROOT,
        env=environment(instance, restored),
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    while "restoring" not in process.stderr.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    second = Instance(restored)
    second.ports = instance.ports
    with pytest.raises(RuntimeError, match="has a part of backup"):
        second.start()
    report = magnetar(instance, "restore", target, data_dir=restored)
    assert "were read back and compared" in report
    second.start()
    try:
        assert sorted(left(second)) == [
            b"m%d" % number for number in range(10) if number not in ACKNOWLEDGED
        ]
        assert "kept" in second.rest("GET", "/admin/v2/tenants")[1]
    finally:
        second.stop()
    with sqlite3.connect(restored / "console.sqlite3") as database:
        assert database.execute("SELECT count(*) FROM admin_ui_auditentry").fetchone()[0]
    # A stopped instance is saved, too.
    assert "10 entries" in magnetar(instance, "backup", tmp_path / "again", data_dir=restored)
    assert "restored" in magnetar(instance, "restore", target, data_dir=restored, code=1)
    (restored / "of-another-program").touch()
    magnetar(instance, "wipe", "--yes", data_dir=restored)
    assert {path.name for path in restored.iterdir()} <= {"of-another-program", "supervisor.log"}
