"""Makes an archive of an instance's data by an earlier revision of this repository, for the tests of upgrades.

``python -m tests.golden.upgrade.make REVISION NAME [--killed]`` from the top folder: checks the revision out beside the
tree, runs its instance on free ports with this environment's packages, fills it, stops it (or kills it, with its last
writes unflushed), and writes ``NAME.tar.xz`` and ``NAME.json`` with what must be found after an upgrade.
"""

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path
from typing import Any

import pulsar

from tests.crash.load import quiet_client
from tests.support.instance import ROOT, Instance

HERE = Path(__file__).parent
LEFT_OUT = ("logs", "redis", "spark", "java", "supervisor.log", "control.sock", "log4j2.properties")
SCHEMA = pulsar.schema.AvroSchema
READY_S = 120.0


class Reading(pulsar.schema.Record):  # type: ignore[misc]  # the client's class has no types
    """The record of the topic with a schema."""

    place = pulsar.schema.String()
    degrees = pulsar.schema.Double()


def topic(name: str) -> str:
    return f"persistent://upgrade/ns/{name}"


def fill(instance: Instance) -> dict[str, Any]:
    """Fill the instance; return what must be found later."""
    rest = instance.rest
    for method, path, body in (
        ("PUT", "/admin/v2/tenants/upgrade", {"allowedClusters": ["standalone"]}),
        ("PUT", "/admin/v2/namespaces/upgrade/ns", {}),
        (
            "POST",
            "/admin/v2/namespaces/upgrade/ns/retention",
            {"retentionTimeInMinutes": 600_000, "retentionSizeInMB": 100},
        ),
        ("PUT", "/admin/v2/persistent/upgrade/ns/parted/partitions", 3),
    ):
        status, answer = rest(method, path, body)
        assert status < 300, (path, status, answer)
    client = quiet_client(instance.url)
    try:
        left = {
            "holes": _holes(client),
            "batches": _batches(client),
            "parted": _parted(client),
        }
        _with_schema(client)
    finally:
        client.close()
    return {"left": left, "schema": {"place": "here", "degrees": 3.5}}


def _holes(client: pulsar.Client) -> list[str]:
    """Publish twenty messages; acknowledge some in the middle. Returns the others."""
    name = topic("holes")
    consumer = client.subscribe(name, "s", consumer_type=pulsar.ConsumerType.Shared)
    producer = client.create_producer(name, batching_enabled=False)
    for number in range(20):
        producer.send(b"h%d" % number, {"number": str(number)}, partition_key=f"k{number % 3}")
    messages = [consumer.receive(20_000) for _ in range(20)]
    kept = {5, 9, 10, 17, 18, 19}
    for number, message in enumerate(messages):
        if number not in kept:
            consumer.acknowledge(message)
    time.sleep(2.0)  # positions are stored within a second
    return [f"h{number}" for number in sorted(kept)]


def _batches(client: pulsar.Client) -> list[str]:
    """Publish batches with compression; acknowledge the first ones by a cumulative acknowledgement."""
    name = topic("batches")
    consumer = client.subscribe(name, "s", consumer_type=pulsar.ConsumerType.Exclusive)
    producer = client.create_producer(
        name,
        batching_enabled=True,
        batching_max_messages=10,
        block_if_queue_full=True,
        compression_type=pulsar.CompressionType.ZSTD,
    )
    for number in range(50):
        producer.send_async(b"b%d" % number, lambda *_: None)
    producer.flush()
    messages = [consumer.receive(20_000) for _ in range(50)]
    consumer.acknowledge_cumulative(messages[29])
    time.sleep(2.0)
    return [f"b{number}" for number in range(30, 50)]


def _parted(client: pulsar.Client) -> list[str]:
    name = topic("parted")
    consumer = client.subscribe(name, "s")
    producer = client.create_producer(name)
    for number in range(9):
        producer.send(b"p%d" % number)
    consumer.close()
    return [f"p{number}" for number in range(9)]


def _with_schema(client: pulsar.Client) -> None:
    name = topic("schema")
    client.subscribe(name, "s", schema=SCHEMA(Reading)).close()
    producer = client.create_producer(name, schema=SCHEMA(Reading))
    producer.send(Reading(place="here", degrees=3.5))


def archive(data: Path, name: str) -> None:
    """Write the data folder without logs and parts that a start makes anew."""

    def kept(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        first = info.name.split("/")[0]
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        is_left_out = first in LEFT_OUT or first.endswith((".lock", ".cfg"))
        return None if is_left_out or not (info.isfile() or info.isdir()) else info

    with tarfile.open(HERE / f"{name}.tar.xz", "w:xz", preset=9) as target:
        for path in sorted(data.iterdir()):
            target.add(path, path.name, filter=kept)


def audit_entries(data: Path) -> int:
    """Return the number of entries of the console's audit log."""
    with sqlite3.connect(data / "console.sqlite3") as database:
        return int(database.execute("SELECT count(*) FROM admin_ui_auditentry").fetchone()[0])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("revision")
    parser.add_argument("name")
    parser.add_argument("--killed", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="magnetar-earlier-") as folder:
        tree, data = Path(folder, "tree"), Path(folder, "data")
        subprocess.run(
            ["git", "worktree", "add", "--detach", str(tree), options.revision],
            cwd=ROOT,
            check=True,
        )
        try:
            instance = Instance(data, root=tree)
            instance.start(READY_S)
            try:
                facts = fill(instance)
                if options.killed:
                    assert instance.process is not None
                    pids = [child["pid"] for child in instance.control("status")["children"]]
                    os.kill(instance.process.pid, signal.SIGKILL)
                    for pid in filter(None, pids):
                        os.kill(pid, signal.SIGKILL)
            finally:
                instance.stop()
            facts["audit_entries"] = audit_entries(data)
            facts["revision"] = options.revision
            archive(data, options.name)
            (HERE / f"{options.name}.json").write_text(json.dumps(facts, indent=1) + "\n")
        finally:
            subprocess.run(
                ["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True
            )


if __name__ == "__main__":
    main()
