"""The supervisor on a real instance: stops, starts, recoveries, and one line of output for each refusal."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gateway.standalone.control import NotRunningError
from gateway.standalone.demo import NAMESPACE, RETENTION, TOPICS
from tests.crash.load import quiet_client
from tests.support.instance import PORTS, ROOT, Instance, running_instance
from tests.support.instances.history import history
from tests.support.ports import free_ports
from tests.support.waiting import stays_blocking, until_blocking

TOPIC = "persistent://public/default/manners"
COMPLAINT = re.compile(r"Traceback|\bERROR\b|\bCRITICAL\b|\bWARN(ING)?\b")
# Redis warns of a setting of the machine, the Java runtime warns at every start, and ZooKeeper logs an error when its
# health is requested in the moment before it has a database.
OF_THE_MACHINE = (
    "WARNING Memory overcommit",
    "WARNING: Using incubator modules",
    "ServerCnxn Error closing a command socket",
)


def alive(data_dir: Path) -> list[int]:
    """Return the processes that were started for an instance's data, the supervisor among them."""
    mark = f"MAGNETAR_DATA_DIR={data_dir}".encode()
    pids = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if mark in environment.split(b"\0"):
                pids.append(int(entry.name))
    return pids


def publish_and_consume(instance: Instance, subscription: str) -> None:
    client = quiet_client(instance.url)
    try:
        consumer = client.subscribe(TOPIC, subscription)
        sent = client.create_producer(TOPIC).send(subscription.encode())
        while (message := consumer.receive(10_000)).message_id() != sent:
            consumer.acknowledge(message)
        consumer.acknowledge(message)
    finally:
        client.close()


def publish_unread(instance: Instance, count: int) -> None:
    """Publish messages for the subscription ``moved``, which has no consumer yet."""
    client = quiet_client(instance.url)
    try:
        client.subscribe(TOPIC, "moved").close()
        producer = client.create_producer(TOPIC)
        for number in range(count):
            producer.send(b"%d" % number)
    finally:
        client.close()


def complaints(instance: Instance) -> list[str]:
    return [
        f"{log.name}: {line}"
        for log in sorted((instance.data_dir / "logs").glob("*.log"))
        for line in log.read_text(errors="replace").splitlines()
        if COMPLAINT.search(line) and not any(text in line for text in OF_THE_MACHINE)
    ]


# Refusals: one line, and exit status 1, or 78 where a restart cannot help


def refused(data_dir: Path, *options: str, **settings: str) -> str:
    """Run an instance that must refuse to start; return the line that it prints."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAGNETAR_")}
    env |= {"MAGNETAR_DATA_DIR": str(data_dir), "MAGNETAR_PORT_OFFSET": "12000", **settings}
    done = subprocess.run(
        [sys.executable, "manage.py", "standalone", "run", *options],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode in (1, os.EX_CONFIG), done
    lines = (done.stdout + done.stderr).splitlines()
    assert len(lines) == 1, lines
    assert lines[0].startswith("magnetar: ")
    return lines[0]


@pytest.mark.parametrize("name", PORTS)
def test_a_port_in_use_is_named_with_a_remedy(name: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        others = dict(zip(PORTS, map(str, free_ports(len(PORTS), gap=20)), strict=True))
        ports = {
            f"MAGNETAR_{key}_PORT": value for key, value in {**others, name: str(port)}.items()
        }
        if name == "GATEWAY_HTTP":  # a single gateway has no port of its own
            ports["MAGNETAR_GATEWAYS"] = "2"
        line = refused(tmp_path, **ports)
    assert f"port {port} (" in line
    assert "Address already in use" in line
    assert "MAGNETAR_PORT_OFFSET=4000 make run" in line


@pytest.mark.parametrize(
    ("options", "settings", "text"),
    [
        (["--bookies", "0"], {}, "--bookies must be from 1 to 16, not 0"),
        (["--bookies", "99"], {}, "--bookies must be from 1 to 16, not 99"),
        (["--brokers", "17"], {}, "--brokers must be from 1 to 16, not 17"),
        (["--clusters", "us,us"], {}, "--clusters names us twice"),
        ([], {"MAGNETAR_HTTP_PORT": "http"}, "setting http_port must be a whole number"),
        ([], {"MAGNETAR_PORT_OFFSET": "-5"}, "setting port_offset must be a whole number"),
        ([], {"MAGNETAR_PORT_OFFSET": "60000"}, "MAGNETAR_PORT_OFFSET 60000 puts the"),
        (
            [],
            {"MAGNETAR_PORT_OFFSET": "1000"},
            "MAGNETAR_PORT_OFFSET 1000 puts the ZOOKEEPER port on",
        ),
    ],
)
def test_invalid_settings_are_refused_by_name(
    options: list[str], settings: dict[str, str], text: str, tmp_path: Path
) -> None:
    assert text in refused(tmp_path, *options, **settings)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = refused(tmp_path / "file" / "data")
    assert f"cannot write to {tmp_path}/file/data: Not a directory" in line
    assert "MAGNETAR_DATA_DIR=/some/folder make run" in line


def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    # Root may write everywhere but into the kernel's own tree.
    folder = Path("/sys/kernel/magnetar") if os.geteuid() == 0 else closed / "data"
    assert f"cannot write to {folder}: " in refused(folder)


def test_a_setting_that_a_child_refuses_ends_the_instance(tmp_path: Path) -> None:
    """Start an instance whose bookie refuses a setting; it starts first, and all children exit with the same status."""
    instance = Instance(tmp_path / "data", MAGNETAR_BOOKIE_FLUSH_INTERVAL_S="-1")
    with pytest.raises(RuntimeError, match="did not become healthy"):
        instance.start(40)
    assert instance.process is not None
    assert instance.process.returncode == os.EX_CONFIG
    log = (instance.data_dir / "supervisor.log").read_text()
    assert "bookie-1 refuses its settings (exit 78: " in log, log
    assert not alive(instance.data_dir)


def test_status_without_an_instance_explains_how_to_start_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "standalone", "status"],
        cwd=ROOT,
        env={**os.environ, "MAGNETAR_DATA_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 3
    assert done.stderr.startswith(
        f"magnetar: no instance runs on {tmp_path}. Start one with: make run;"
    ), done.stderr


# A running instance


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running_instance(tmp_path_factory.mktemp("manners")) as running:
        running.control("start", "worker")
        yield running


def test_a_second_instance_on_the_same_data_is_refused(instance: Instance) -> None:
    assert instance.process is not None
    line = refused(instance.data_dir)
    assert f"already runs on {instance.data_dir} (process {instance.process.pid})" in line


def test_status_lists_every_child_with_its_ports(instance: Instance) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "standalone", "status"],
        cwd=ROOT,
        env={**os.environ, "MAGNETAR_DATA_DIR": str(instance.data_dir)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    states = {row[0]: row[2] for row in rows[1:]}
    running = dict.fromkeys(
        ("zookeeper", "redis", "bookie-1", "broker-1", "gateway", "worker"), "running"
    )
    assert states == {**running, "spark": "down"}
    assert f"pulsar={instance.ports['BROKER']}" in done.stdout


def test_a_demo_fills_topics_that_retention_keeps(instance: Instance) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "standalone", "demo"],
        cwd=ROOT,
        env={**os.environ, "MAGNETAR_DATA_DIR": str(instance.data_dir)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert f"look at {instance.http}" in done.stdout
    for topic in TOPICS:
        kind = "partitioned-stats" if topic.partitions else "stats"
        _, stats = instance.rest("GET", f"/admin/v2{topic.path}/{kind}")
        assert stats["msgInCounter"] == topic.count
        assert list(stats["subscriptions"]) == ([topic.subscription] if topic.subscription else [])
    _, retention = instance.rest("GET", f"/admin/v2/namespaces/{NAMESPACE}/retention")
    assert retention == RETENTION


@pytest.mark.parametrize("name", ["worker", "gateway", "broker-1", "bookie-1"])
def test_a_stopped_child_stays_down_and_start_returns_when_it_serves(
    instance: Instance, name: str
) -> None:
    instance.control("stop", name)
    child = instance.child(name)
    assert (child["state"], child["pid"]) == ("stopped", None)
    restarts = child["restarts"]
    # Longer than the first back-off: the supervisor must not restart a child that was stopped.
    stays_blocking(lambda: instance.child(name)["state"] == "stopped", 1.5)
    answer = instance.control("start", name)
    assert answer["children"][0]["state"] == "running"
    assert answer["children"][0]["restarts"] == restarts
    publish_and_consume(instance, f"after-{name}")


@pytest.mark.parametrize("name", ["zookeeper", "redis"])
def test_the_instance_recovers_from_a_killed_dependency(instance: Instance, name: str) -> None:
    others = {c["name"]: c["pid"] for c in instance.control("status")["children"]}
    instance.control("kill", name)
    until_blocking(lambda: instance.child(name)["restarts"] > 0)
    instance.wait_running(name)
    until_blocking(instance.healthy, "the gateway is healthy again")
    publish_and_consume(instance, f"after-{name}")
    status, answer = instance.rest("GET", "/admin/v2/brokers/standalone")
    assert (status, len(answer)) == (200, 1), answer
    now = {c["name"]: c["pid"] for c in instance.control("status")["children"]}
    assert {other for other in now if now[other] != others[other]} == {name}


def test_points_of_the_charts_survive_a_killed_gateway(instance: Instance) -> None:
    before = history(instance, 1)
    instance.kill("gateway")
    instance.wait_running("gateway")
    assert history(instance, len(before))[: len(before)] == before


def test_ctrl_c_stops_the_instance_in_seconds_without_a_warning_and_its_data_can_be_moved(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    instance = Instance(tmp_path / "data")
    instance.start()
    try:
        instance.control("start", "worker")
        publish_and_consume(instance, "normal")
        publish_unread(instance, 50)
        assert json.dumps(instance.rest("GET", "/api/v1/clusters/standalone/overview"))
        assert instance.process is not None
        began = time.monotonic()
        instance.process.send_signal(signal.SIGINT)
        assert instance.process.wait(30) == 0
        took_s = time.monotonic() - began
    finally:
        instance.stop()
    with capsys.disabled():
        print(f"\nstandalone: ready in {instance.ready_after_s:.1f} s, stopped in {took_s:.1f} s")
    assert took_s < 15
    assert not alive(instance.data_dir)
    assert complaints(instance) == []
    assert "did not stop" not in (instance.data_dir / "supervisor.log").read_text()

    (tmp_path / "data").rename(tmp_path / "moved")
    with running_instance(tmp_path / "moved") as moved:  # on other ports
        client = quiet_client(moved.url)
        consumer = client.subscribe(TOPIC, "moved")
        assert [int(consumer.receive(5000).data()) for _ in range(50)] == list(range(50))
        client.close()


def test_children_end_with_a_killed_supervisor_and_the_next_instance_continues(
    instance: Instance,
) -> None:
    publish_and_consume(instance, "before")
    old = set(alive(instance.data_dir))
    assert instance.process is not None
    instance.process.send_signal(signal.SIGKILL)
    instance.process.wait(60)
    with pytest.raises(NotRunningError):
        instance.control("status")
    # At once, while children are still ending.
    instance.start()
    publish_and_consume(instance, "before")
    running = {c["name"] for c in instance.control("status")["children"] if c["pid"]}
    assert running == {"zookeeper", "bookie-1", "broker-1", "gateway"}
    until_blocking(lambda: not old & set(alive(instance.data_dir)), "nothing left behind")


def test_metadata_of_an_instance_with_zookeeper_is_taken_over_once(tmp_path: Path) -> None:
    instance = Instance(tmp_path, metadata="zookeeper")
    instance.start()
    try:
        publish_and_consume(instance, "normal")
        publish_unread(instance, 50)
    finally:
        instance.stop()
    with running_instance(tmp_path) as moved:
        assert (tmp_path / "zookeeper.backup" / "version-2").is_dir()
        assert not (tmp_path / "zookeeper").exists()
        client = quiet_client(moved.url)
        consumer = client.subscribe(TOPIC, "moved")
        assert [int(consumer.receive(5000).data()) for _ in range(50)] == list(range(50))
        client.close()
    assert "--metadata zookeeper: this instance" in refused(tmp_path, "--metadata", "zookeeper")
